//! Encodes a text in a given alphabet, and splits it between characters.

use ringtrue_smpp::text::{DataCoding, gsm};

/// User data of one message on the air interface.
const MAX_MESSAGE_OCTETS: usize = 140;

const REPLACEMENT_OCTET: u8 = b'?';

/// Text encoding of an SMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// GSM 03.38, one septet per octet.
    Gsm,
    Ascii,
    Latin1,
    /// Big-endian UTF-16.
    Ucs2,
    /// UTF-8, declared as binary data.
    Octets,
}

impl Alphabet {
    /// The alphabet that a handset would choose.
    pub(super) fn for_text(text: &str) -> Self {
        if text.chars().all(|character| gsm::encode_char(character).is_some()) { Self::Gsm } else { Self::Ucs2 }
    }

    pub(super) fn data_coding(self) -> DataCoding {
        match self {
            Self::Gsm => DataCoding::DEFAULT,
            Self::Ascii => DataCoding::ASCII,
            Self::Latin1 => DataCoding::LATIN1,
            Self::Ucs2 => DataCoding::UCS2,
            Self::Octets => DataCoding::OCTETS,
        }
    }

    /// Octets of each character; parts are split between them.
    pub(super) fn encode_characters(self, text: &str) -> Vec<Vec<u8>> {
        text.chars().map(|character| self.encode_character(character)).collect()
    }

    fn encode_character(self, character: char) -> Vec<u8> {
        match self {
            Self::Gsm => gsm::encode(character.encode_utf8(&mut [0; 4])).unwrap_or_else(|| vec![REPLACEMENT_OCTET]),
            Self::Ascii if !character.is_ascii() => vec![REPLACEMENT_OCTET],
            Self::Ascii | Self::Latin1 => vec![u8::try_from(character).unwrap_or(REPLACEMENT_OCTET)],
            Self::Ucs2 => character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()).collect(),
            Self::Octets => character.encode_utf8(&mut [0; 4]).as_bytes().to_vec(),
        }
    }

    /// Maximum text octets of a message with a header of this length. Septets are packed on the air, but not in SMPP.
    fn capacity(self, header_octets: usize) -> usize {
        let octets = MAX_MESSAGE_OCTETS - header_octets;
        match self {
            Self::Gsm | Self::Ascii => octets * 8 / 7,
            Self::Latin1 | Self::Ucs2 | Self::Octets => octets,
        }
    }

    /// The text as a single message, if it fits.
    pub(super) fn fit_single(self, characters: &[Vec<u8>]) -> Option<Vec<u8>> {
        let whole = characters.concat();
        (whole.len() <= self.capacity(0)).then_some(whole)
    }

    /// Splits the text into parts of maximum length.
    pub(super) fn split_filled(self, characters: Vec<Vec<u8>>, header_octets: usize) -> Vec<Vec<u8>> {
        let capacity = self.capacity(header_octets);
        let mut parts = vec![vec![]];
        for character in characters {
            match parts.last_mut() {
                Some(last) if last.len() + character.len() <= capacity => last.extend(character),
                _ => parts.push(character),
            }
        }
        parts
    }

    /// Splits the text into at least `min_parts` parts of similar length.
    pub(super) fn split_evenly(self, characters: &[Vec<u8>], header_octets: usize, min_parts: usize) -> Vec<Vec<u8>> {
        let capacity = self.capacity(header_octets);
        let needed = characters.iter().map(Vec::len).sum::<usize>().div_ceil(capacity);
        let mut count = min_parts.max(needed).max(1);
        loop {
            let bound = |part: usize| part * characters.len() / count;
            let parts: Vec<_> = (0..count).map(|part| characters[bound(part)..bound(part + 1)].concat()).collect();
            if parts.iter().all(|part| part.len() <= capacity) {
                return parts;
            }
            count += 1;
        }
    }
}
