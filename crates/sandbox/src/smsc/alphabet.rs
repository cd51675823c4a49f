//! Writing a text in a given alphabet, and cutting it between its characters.

use ringtrue_smpp::text::{DataCoding, gsm};

/// What the air carries of one message.
const OCTETS_OF_A_MESSAGE: usize = 140;

const NOT_IN_ALPHABET: u8 = b'?';

/// What a text is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// GSM 03.38, one septet per octet.
    Gsm,
    Ascii,
    Latin1,
    /// UTF-16 with the high octet first.
    Ucs2,
    /// UTF-8, announced as octets that are no text.
    Octets,
}

impl Alphabet {
    /// What a handset would choose.
    pub(super) fn for_text(text: &str) -> Self {
        if text.chars().all(|character| gsm::septets(character).is_some()) { Self::Gsm } else { Self::Ucs2 }
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

    /// The octets of each character. No part of a message ends within one.
    pub(super) fn characters(self, text: &str) -> Vec<Vec<u8>> {
        text.chars().map(|character| self.character(character)).collect()
    }

    fn character(self, character: char) -> Vec<u8> {
        match self {
            Self::Gsm => gsm::encode(character.encode_utf8(&mut [0; 4])).unwrap_or_else(|| vec![NOT_IN_ALPHABET]),
            Self::Ascii if !character.is_ascii() => vec![NOT_IN_ALPHABET],
            Self::Ascii | Self::Latin1 => vec![u8::try_from(character).unwrap_or(NOT_IN_ALPHABET)],
            Self::Ucs2 => character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()).collect(),
            Self::Octets => character.encode_utf8(&mut [0; 4]).as_bytes().to_vec(),
        }
    }

    /// How much of a text fits into a message beside a header of so many octets: characters of seven bits are packed
    /// on the air, though not in SMPP.
    fn room(self, header: usize) -> usize {
        let octets = OCTETS_OF_A_MESSAGE - header;
        match self {
            Self::Gsm | Self::Ascii => octets * 8 / 7,
            Self::Latin1 | Self::Ucs2 | Self::Octets => octets,
        }
    }

    /// The text in one piece, if it fits.
    pub(super) fn whole(self, characters: &[Vec<u8>]) -> Option<Vec<u8>> {
        let whole = characters.concat();
        (whole.len() <= self.room(0)).then_some(whole)
    }

    /// The text in full pieces, each to have a header of so many octets.
    pub(super) fn filled(self, characters: Vec<Vec<u8>>, header: usize) -> Vec<Vec<u8>> {
        let room = self.room(header);
        let mut pieces = vec![vec![]];
        for character in characters {
            match pieces.last_mut() {
                Some(last) if last.len() + character.len() <= room => last.extend(character),
                _ => pieces.push(character),
            }
        }
        pieces
    }

    /// The text in so many pieces of about the same length, or in more if these would be too long.
    pub(super) fn even(self, characters: &[Vec<u8>], header: usize, least: usize) -> Vec<Vec<u8>> {
        let room = self.room(header);
        let needed = characters.iter().map(Vec::len).sum::<usize>().div_ceil(room);
        let mut count = least.max(needed).max(1);
        loop {
            let bound = |piece: usize| piece * characters.len() / count;
            let pieces: Vec<_> = (0..count).map(|piece| characters[bound(piece)..bound(piece + 1)].concat()).collect();
            if pieces.iter().all(|piece| piece.len() <= room) {
                return pieces;
            }
            count += 1;
        }
    }
}
