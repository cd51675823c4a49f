//! Cutting a text into messages, as a handset does.
//!
//! A message holds 140 octets: 160 septets or 70 UTF-16 units. A longer text goes in parts, each with a header that
//! says which text it belongs to and where; the header takes its share of the 140. No part ends between an escape and
//! its character, or between two surrogates.

use thiserror::Error;

use super::{
    DataCoding,
    gsm::{self, Septets},
};
use crate::{pdu::EsmClass, udh};

/// What ties the parts of a text together; its width is the sender's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    Eight(u8),
    Sixteen(u16),
}

/// One message of a text: what to put into its fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Part {
    pub esm_class: EsmClass,
    pub data_coding: DataCoding,
    pub short_message: Vec<u8>,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Part({:?}, {:?}, {} octets)", self.esm_class, self.data_coding, self.short_message.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the text would need {parts} messages, 255 is the most")]
pub struct TooLong {
    pub parts: usize,
}

/// How much a message holds, in septets or UTF-16 units.
struct Room {
    whole: usize,
    part: usize,
}

/// Cuts a text into as few messages as it needs: one without a header, or several with one.
pub fn split(text: &str, reference: Reference) -> Result<Vec<Part>, TooLong> {
    let wide = matches!(reference, Reference::Sixteen(_));
    let (data_coding, pieces) = if let Some(characters) = text.chars().map(gsm::septets).collect::<Option<Vec<_>>>() {
        let characters = characters.into_iter().map(|septets| match septets {
            Septets::One(septet) => vec![septet],
            Septets::Escaped(septet) => vec![gsm::ESCAPE, septet],
        });
        (DataCoding::DEFAULT, gather(characters, &Room { whole: 160, part: if wide { 152 } else { 153 } }))
    } else {
        let characters = text.chars().map(|character| {
            let mut units = [0; 2];
            character.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()).collect()
        });
        (DataCoding::UCS2, gather(characters, &Room { whole: 140, part: if wide { 132 } else { 134 } }))
    };
    number(pieces, data_coding, reference)
}

/// Fills pieces with whole characters.
fn gather(characters: impl Iterator<Item = Vec<u8>>, room: &Room) -> Vec<Vec<u8>> {
    let characters: Vec<_> = characters.collect();
    if characters.iter().map(Vec::len).sum::<usize>() <= room.whole {
        return vec![characters.concat()];
    }
    let mut pieces = vec![vec![]];
    for character in characters {
        match pieces.last_mut() {
            Some(last) if last.len() + character.len() <= room.part => last.extend(character),
            _ => pieces.push(character),
        }
    }
    pieces
}

fn number(pieces: Vec<Vec<u8>>, data_coding: DataCoding, reference: Reference) -> Result<Vec<Part>, TooLong> {
    let parts = pieces.len();
    if parts == 1 {
        let whole = |short_message| Part { esm_class: EsmClass::default(), data_coding, short_message };
        return Ok(pieces.into_iter().map(whole).collect());
    }
    let total = u8::try_from(parts).map_err(|_| TooLong { parts })?;
    Ok((1..=total)
        .zip(pieces)
        .map(|(sequence, piece)| {
            let mut short_message = udh::concatenation(reference, total, sequence);
            short_message.extend(piece);
            Part { esm_class: EsmClass::WITH_HEADER, data_coding, short_message }
        })
        .collect())
}
