//! User data header (UDH): information elements before the text of a message.
//!
//! The concatenation element may be at any position. A malformed header is reported, and treated as one without a
//! concatenation element.

use thiserror::Error;

const IEI_CONCATENATION_8BIT: u8 = 0x00;
const IEI_CONCATENATION_16BIT: u8 = 0x08;

/// Reference number of a concatenated message. The sender chooses its width, which is part of the reference: two
/// messages may use the same value in different widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConcatenationReference {
    EightBit(u8),
    /// Also used for the TLV `sar_msg_ref_num`.
    SixteenBit(u16),
}

impl ConcatenationReference {
    pub fn value(self) -> u16 {
        match self {
            ConcatenationReference::EightBit(reference) => reference.into(),
            ConcatenationReference::SixteenBit(reference) => reference,
        }
    }

    /// Returns one octet or two, depending on the width.
    pub fn to_octets(self) -> Vec<u8> {
        match self {
            ConcatenationReference::EightBit(reference) => vec![reference],
            ConcatenationReference::SixteenBit(reference) => reference.to_be_bytes().to_vec(),
        }
    }
}

/// Position of a part in a concatenated message. Not validated: `sequence` may be 0 or above `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    pub reference: ConcatenationReference,
    pub total: u8,
    pub sequence: u8,
}

/// User data header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udh<'a> {
    elements: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InformationElement<'a> {
    pub id: u8,
    pub value: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MalformedUdh {
    #[error("UDH indicator is set, but there is no UDH")]
    Missing,
    #[error("UDH length is {declared}, but {available} octets remain")]
    Length { declared: usize, available: usize },
    #[error("information element {id:#04x} has an invalid length")]
    Element { id: u8 },
}

/// Splits user data into header and text.
pub fn split_header(octets: &[u8]) -> Result<(Udh<'_>, &[u8]), MalformedUdh> {
    let (&length, rest) = octets.split_first().ok_or(MalformedUdh::Missing)?;
    let declared = usize::from(length);
    let (elements, text) =
        rest.split_at_checked(declared).ok_or(MalformedUdh::Length { declared, available: rest.len() })?;
    Ok((Udh { elements }, text))
}

impl<'a> Udh<'a> {
    /// Returns the information elements in order. The last one is an error if it exceeds the header.
    pub fn elements(self) -> impl Iterator<Item = Result<InformationElement<'a>, MalformedUdh>> {
        let mut rest = self.elements;
        std::iter::from_fn(move || {
            let (&id, after) = rest.split_first()?;
            let element = after
                .split_first()
                .and_then(|(&length, after)| after.split_at_checked(length.into()))
                .map(|(value, after)| (InformationElement { id, value }, after));
            rest = element.map_or(&[], |(_, after)| after);
            Some(element.map(|(element, _)| element).ok_or(MalformedUdh::Element { id }))
        })
    }

    /// Returns the segment, if the header has a concatenation element. The last of several elements counts (3GPP TS
    /// 23.040).
    pub fn segment(self) -> Result<Option<Segment>, MalformedUdh> {
        let mut segment = None;
        for element in self.elements() {
            let InformationElement { id, value } = element?;
            match (id, value) {
                (IEI_CONCATENATION_8BIT, &[reference, total, sequence]) => {
                    let reference = ConcatenationReference::EightBit(reference);
                    segment = Some(Segment { reference, total, sequence });
                }
                (IEI_CONCATENATION_16BIT, &[high, low, total, sequence]) => {
                    let reference = ConcatenationReference::SixteenBit(u16::from_be_bytes([high, low]));
                    segment = Some(Segment { reference, total, sequence });
                }
                (IEI_CONCATENATION_8BIT | IEI_CONCATENATION_16BIT, _) => return Err(MalformedUdh::Element { id }),
                _ => {}
            }
        }
        Ok(segment)
    }
}

/// Encodes the UDH of one part of a concatenated message.
pub fn encode_concatenation(reference: ConcatenationReference, total: u8, sequence: u8) -> Vec<u8> {
    match reference {
        ConcatenationReference::EightBit(reference) => vec![5, IEI_CONCATENATION_8BIT, 3, reference, total, sequence],
        ConcatenationReference::SixteenBit(reference) => {
            let [high, low] = reference.to_be_bytes();
            vec![6, IEI_CONCATENATION_16BIT, 4, high, low, total, sequence]
        }
    }
}
