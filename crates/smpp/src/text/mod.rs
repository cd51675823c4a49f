//! Text encodings of messages, and splitting of long texts.
//!
//! Decoding never fails: undecodable octets become U+FFFD.
//!
//! Deliberately absent: the Cyrillic, Hebrew, Japanese and Korean codings beyond their ASCII half, and compression.

pub mod gsm;

use std::str::FromStr;

use thiserror::Error;

use self::gsm::Septets;
use crate::{
    esm_class::EsmClass,
    udh::{self, ConcatenationReference},
};

/// The `data_coding` field.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("{_0:#04x}")]
pub struct DataCoding(pub u8);

/// Meaning of `data_coding` 0, "SMSC default alphabet", which differs between peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DefaultAlphabet {
    #[default]
    Gsm0338,
    /// GSM 03.38 with eight septets in seven octets, as on the air interface.
    /// [`MessageContent`](crate::content::MessageContent) converts it to [`Gsm0338`](Self::Gsm0338).
    Gsm0338Packed,
    Latin1,
    Ascii,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unknown default alphabet; use gsm0338, gsm0338_packed, latin1 or ascii")]
pub struct InvalidDefaultAlphabet;

impl FromStr for DefaultAlphabet {
    type Err = InvalidDefaultAlphabet;

    fn from_str(name: &str) -> Result<Self, InvalidDefaultAlphabet> {
        match name {
            "gsm0338" => Ok(Self::Gsm0338),
            "gsm0338_packed" => Ok(Self::Gsm0338Packed),
            "latin1" => Ok(Self::Latin1),
            "ascii" => Ok(Self::Ascii),
            _ => Err(InvalidDefaultAlphabet),
        }
    }
}

/// Text encoding that a `data_coding` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextCoding {
    /// GSM 03.38, one septet per octet.
    Gsm,
    Ascii,
    Latin1,
    /// UCS-2, decoded as big-endian UTF-16, which handsets send.
    Ucs2,
    /// Binary data. Decoded as UTF-8 if valid, else as Latin-1.
    Octets,
    /// Unsupported coding. Decoded as ASCII, which most such codings contain.
    Other,
}

impl DataCoding {
    pub const DEFAULT: Self = Self(0x00);
    pub const ASCII: Self = Self(0x01);
    pub const LATIN1: Self = Self(0x03);
    pub const OCTETS: Self = Self(0x04);
    pub const UCS2: Self = Self(0x08);

    /// Returns the text encoding that this value selects.
    pub fn text_coding(self, default: DefaultAlphabet) -> TextCoding {
        match self.0 {
            0x00 => match default {
                DefaultAlphabet::Gsm0338 | DefaultAlphabet::Gsm0338Packed => TextCoding::Gsm,
                DefaultAlphabet::Latin1 => TextCoding::Latin1,
                DefaultAlphabet::Ascii => TextCoding::Ascii,
            },
            0x01 => TextCoding::Ascii,
            0x03 => TextCoding::Latin1,
            // 0x10 to 0x1B are reserved in SMPP, but SMSCs pass them through from GSM, where they give class and
            // alphabet. 0xC0 to 0xEF are message waiting indications: discard, store, and store in UCS-2. 0xF0 to 0xFF
            // give class and alphabet, as in GSM.
            0x10..=0x13 | 0xC0..=0xDF | 0xF0..=0xF3 | 0xF8..=0xFB => TextCoding::Gsm,
            0x02 | 0x04 | 0x14..=0x17 | 0xF4..=0xF7 | 0xFC..=0xFF => TextCoding::Octets,
            0x08 | 0x18..=0x1B | 0xE0..=0xEF => TextCoding::Ucs2,
            _ => TextCoding::Other,
        }
    }
}

impl TextCoding {
    pub fn decode(self, octets: &[u8]) -> String {
        match self {
            Self::Gsm => gsm::decode(octets),
            Self::Ascii | Self::Other => octets.iter().copied().map(decode_ascii).collect(),
            Self::Latin1 => octets.iter().copied().map(char::from).collect(),
            Self::Ucs2 => decode_utf16(octets),
            Self::Octets => match str::from_utf8(octets) {
                Ok(text) => text.to_owned(),
                Err(_) => Self::Latin1.decode(octets),
            },
        }
    }
}

fn decode_ascii(octet: u8) -> char {
    if octet.is_ascii() { char::from(octet) } else { char::REPLACEMENT_CHARACTER }
}

/// Decodes big-endian UTF-16. An odd trailing octet and unpaired surrogates become U+FFFD.
fn decode_utf16(octets: &[u8]) -> String {
    let (pairs, rest) = octets.as_chunks::<2>();
    let units = pairs.iter().copied().map(u16::from_be_bytes);
    let half = (!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER);
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).chain(half).collect()
}

/// Encodes a text in the GSM default alphabet if possible, else in UCS-2.
pub fn encode_text(text: &str) -> (DataCoding, Vec<u8>) {
    match gsm::encode(text) {
        Some(octets) => (DataCoding::DEFAULT, octets),
        None => (DataCoding::UCS2, text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
    }
}

/// Fields of one of the messages into which a text is split.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("MessagePart({esm_class:?}, {data_coding:?}, {} octets)", short_message.len())]
pub struct MessagePart {
    pub esm_class: EsmClass,
    pub data_coding: DataCoding,
    pub short_message: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("text needs {parts} messages, the maximum is 255")]
pub struct TextTooLong {
    pub parts: usize,
}

/// Maximum number of encoded octets in a message, without and with a UDH.
struct PartCapacity {
    single: usize,
    multipart: usize,
}

/// Splits a text into the fewest messages, as a handset does: one without a UDH, or several with one.
///
/// A message holds 140 octets: 160 septets or 70 UTF-16 units. A UDH counts towards the 140 octets. Parts never end
/// between an escape and its character, or between two surrogates.
pub fn split_text(text: &str, reference: ConcatenationReference) -> Result<Vec<MessagePart>, TextTooLong> {
    let is_sixteen_bit = matches!(reference, ConcatenationReference::SixteenBit(_));
    let (data_coding, parts_octets) = if let Some(characters) =
        text.chars().map(gsm::encode_char).collect::<Option<Vec<_>>>()
    {
        let characters = characters.into_iter().map(|septets| match septets {
            Septets::One(septet) => vec![septet],
            Septets::Escaped(septet) => vec![gsm::ESCAPE, septet],
        });
        (
            DataCoding::DEFAULT,
            fill_parts(characters, &PartCapacity { single: 160, multipart: if is_sixteen_bit { 152 } else { 153 } }),
        )
    } else {
        let characters = text.chars().map(|character| {
            let mut units = [0; 2];
            character.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()).collect()
        });
        (
            DataCoding::UCS2,
            fill_parts(characters, &PartCapacity { single: 140, multipart: if is_sixteen_bit { 132 } else { 134 } }),
        )
    };
    add_headers(parts_octets, data_coding, reference)
}

fn fill_parts(characters: impl Iterator<Item = Vec<u8>>, capacity: &PartCapacity) -> Vec<Vec<u8>> {
    let characters: Vec<_> = characters.collect();
    if characters.iter().map(Vec::len).sum::<usize>() <= capacity.single {
        return vec![characters.concat()];
    }
    let mut parts_octets = vec![vec![]];
    for character in characters {
        match parts_octets.last_mut() {
            Some(last) if last.len() + character.len() <= capacity.multipart => last.extend(character),
            _ => parts_octets.push(character),
        }
    }
    parts_octets
}

fn add_headers(
    parts_octets: Vec<Vec<u8>>,
    data_coding: DataCoding,
    reference: ConcatenationReference,
) -> Result<Vec<MessagePart>, TextTooLong> {
    let parts = parts_octets.len();
    if parts == 1 {
        let whole = |short_message| MessagePart { esm_class: EsmClass::default(), data_coding, short_message };
        return Ok(parts_octets.into_iter().map(whole).collect());
    }
    let total = u8::try_from(parts).map_err(|_| TextTooLong { parts })?;
    Ok((1..=total)
        .zip(parts_octets)
        .map(|(sequence, octets)| {
            let mut short_message = udh::encode_concatenation(reference, total, sequence);
            short_message.extend(octets);
            MessagePart { esm_class: EsmClass::WITH_UDH, data_coding, short_message }
        })
        .collect())
}
