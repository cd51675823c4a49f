//! Splits a text into concatenated messages, as a handset does.
//!
//! A message holds 140 octets: 160 septets or 70 UTF-16 units. The parts of a longer text have a UDH, which counts
//! towards the 140 octets. Parts never end between an escape and its character, or between two surrogates.

use thiserror::Error;

use super::{
    DataCoding,
    gsm::{self, Septets},
};
use crate::{pdu::EsmClass, udh};

/// Reference number of a concatenated message; the sender chooses its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcatenationReference {
    EightBit(u8),
    SixteenBit(u16),
}

/// Fields of one message of a text.
#[derive(Clone, PartialEq, Eq)]
pub struct MessagePart {
    pub esm_class: EsmClass,
    pub data_coding: DataCoding,
    pub short_message: Vec<u8>,
}

impl std::fmt::Debug for MessagePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessagePart({:?}, {:?}, {} octets)", self.esm_class, self.data_coding, self.short_message.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("text needs {parts} messages, the maximum is 255")]
pub struct TextTooLong {
    pub parts: usize,
}

/// Capacity of a message in encoded octets, without and with a UDH.
struct PartCapacity {
    single: usize,
    multipart: usize,
}

/// Splits a text into the fewest messages: one without a UDH, or several with one.
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
