//! What the octets of a message say.
//!
//! Decoding never fails: what cannot be read becomes U+FFFD, and who looks for a code in the text finds it or not.
//!
//! Deliberately absent: the Cyrillic, Hebrew, Japanese and Korean codings beyond their ASCII half, and compression.

pub mod gsm;
mod split;

use std::{fmt, str::FromStr};

use thiserror::Error;

pub use self::split::{Part, Reference, TooLong, split};

/// The `data_coding` field of a message.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DataCoding(pub u8);

impl fmt::Debug for DataCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)
    }
}

/// What the peer means by `data_coding` 0, "the default of the message centre".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DefaultAlphabet {
    #[default]
    Gsm0338,
    /// GSM 03.38 with eight septets in seven octets, as on the air. [`Content::unpacked`](crate::content::Content::unpacked)
    /// makes it [`Gsm0338`](Self::Gsm0338).
    Gsm0338Packed,
    Latin1,
    Ascii,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the default alphabet is one of gsm0338, gsm0338_packed, latin1, ascii")]
pub struct UnknownAlphabet;

impl FromStr for DefaultAlphabet {
    type Err = UnknownAlphabet;

    fn from_str(name: &str) -> Result<Self, UnknownAlphabet> {
        match name {
            "gsm0338" => Ok(Self::Gsm0338),
            "gsm0338_packed" => Ok(Self::Gsm0338Packed),
            "latin1" => Ok(Self::Latin1),
            "ascii" => Ok(Self::Ascii),
            _ => Err(UnknownAlphabet),
        }
    }
}

/// How octets are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// GSM 03.38, one septet per octet.
    Gsm,
    Ascii,
    Latin1,
    /// UCS-2, read as UTF-16 with the high octet first, because handsets send it so.
    Ucs2,
    /// No text by itself. Read as UTF-8 when it is, else as Latin-1.
    Octets,
    /// A coding that is not read; most of them keep ASCII where it is.
    Other,
}

impl DataCoding {
    pub const DEFAULT: Self = Self(0x00);
    pub const ASCII: Self = Self(0x01);
    pub const LATIN1: Self = Self(0x03);
    pub const OCTETS: Self = Self(0x04);
    pub const UCS2: Self = Self(0x08);

    /// How the octets of a message with this field are to be read.
    pub fn coding(self, default: DefaultAlphabet) -> Coding {
        match self.0 {
            0x00 => match default {
                DefaultAlphabet::Gsm0338 | DefaultAlphabet::Gsm0338Packed => Coding::Gsm,
                DefaultAlphabet::Latin1 => Coding::Latin1,
                DefaultAlphabet::Ascii => Coding::Ascii,
            },
            0x01 => Coding::Ascii,
            0x03 => Coding::Latin1,
            // 0x10 to 0x1B are reserved, but message centres pass them through from GSM: a class and an alphabet.
            // 0xF0 to 0xFF are the same in SMPP.
            // 0xC0 to 0xEF say that a message is waiting: to be discarded, to be stored, to be stored and in UCS-2.
            0x10..=0x13 | 0xC0..=0xDF | 0xF0..=0xF3 | 0xF8..=0xFB => Coding::Gsm,
            0x02 | 0x04 | 0x14..=0x17 | 0xF4..=0xF7 | 0xFC..=0xFF => Coding::Octets,
            0x08 | 0x18..=0x1B | 0xE0..=0xEF => Coding::Ucs2,
            _ => Coding::Other,
        }
    }
}

impl Coding {
    /// Reads octets. Never fails.
    pub fn decode(self, octets: &[u8]) -> String {
        match self {
            Self::Gsm => gsm::decode(octets),
            Self::Ascii | Self::Other => octets.iter().copied().map(ascii).collect(),
            Self::Latin1 => octets.iter().copied().map(char::from).collect(),
            Self::Ucs2 => utf16(octets),
            Self::Octets => match str::from_utf8(octets) {
                Ok(text) => text.to_owned(),
                Err(_) => Self::Latin1.decode(octets),
            },
        }
    }
}

fn ascii(octet: u8) -> char {
    if octet.is_ascii() { char::from(octet) } else { char::REPLACEMENT_CHARACTER }
}

/// Half a character at the end, and half a surrogate pair anywhere, become U+FFFD.
fn utf16(octets: &[u8]) -> String {
    let (pairs, rest) = octets.as_chunks::<2>();
    let units = pairs.iter().copied().map(u16::from_be_bytes);
    let half = (!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER);
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).chain(half).collect()
}

/// Writes a text in the default alphabet when that has all its characters, else in UCS-2.
pub fn encode(text: &str) -> (DataCoding, Vec<u8>) {
    match gsm::encode(text) {
        Some(octets) => (DataCoding::DEFAULT, octets),
        None => (DataCoding::UCS2, text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
    }
}
