//! The user data header: information elements at the front of a message's octets.
//!
//! The element that numbers the parts of a longer message may stand anywhere among the others. A header that does not
//! add up is told, and costs the message nothing more than its number.

use thiserror::Error;

use crate::text::Reference;

const CONCATENATION_8: u8 = 0x00;
const CONCATENATION_16: u8 = 0x08;

/// Which part of which longer message a message is. Not judged here: `sequence` may be 0 or above `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    pub reference: u16,
    pub total: u8,
    pub sequence: u8,
}

/// What stands before the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udh<'a> {
    elements: &'a [u8],
}

/// One information element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    pub id: u8,
    pub value: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MalformedUdh {
    #[error("a header was announced, and there is none")]
    Missing,
    #[error("the header says {said} octets, {left} are left")]
    Length { said: usize, left: usize },
    #[error("information element {id:#04x} does not fit into the header")]
    Element { id: u8 },
}

/// Cuts the header off. Without one that adds up to its own length, everything is text.
pub fn cut(octets: &[u8]) -> Result<(Udh<'_>, &[u8]), MalformedUdh> {
    let (&length, rest) = octets.split_first().ok_or(MalformedUdh::Missing)?;
    let said = usize::from(length);
    let (elements, text) = rest.split_at_checked(said).ok_or(MalformedUdh::Length { said, left: rest.len() })?;
    Ok((Udh { elements }, text))
}

impl<'a> Udh<'a> {
    /// The elements in their order; the last one is an error when it does not fit.
    pub fn elements(self) -> impl Iterator<Item = Result<Element<'a>, MalformedUdh>> {
        let mut rest = self.elements;
        std::iter::from_fn(move || {
            let (&id, after) = rest.split_first()?;
            let element = after
                .split_first()
                .and_then(|(&length, after)| after.split_at_checked(length.into()))
                .map(|(value, after)| (Element { id, value }, after));
            rest = element.map_or(&[], |(_, after)| after);
            Some(element.map(|(element, _)| element).ok_or(MalformedUdh::Element { id }))
        })
    }

    /// Which part it is. Of several such elements the last counts, as 3GPP TS 23.040 says.
    pub fn segment(self) -> Result<Option<Segment>, MalformedUdh> {
        let mut segment = None;
        for element in self.elements() {
            let Element { id, value } = element?;
            match (id, value) {
                (CONCATENATION_8, &[reference, total, sequence]) => {
                    segment = Some(Segment { reference: reference.into(), total, sequence });
                }
                (CONCATENATION_16, &[high, low, total, sequence]) => {
                    segment = Some(Segment { reference: u16::from_be_bytes([high, low]), total, sequence });
                }
                (CONCATENATION_8 | CONCATENATION_16, _) => return Err(MalformedUdh::Element { id }),
                _ => {}
            }
        }
        Ok(segment)
    }
}

/// The header of one part of a longer message.
pub fn concatenation(reference: Reference, total: u8, sequence: u8) -> Vec<u8> {
    match reference {
        Reference::Eight(reference) => vec![5, CONCATENATION_8, 3, reference, total, sequence],
        Reference::Sixteen(reference) => {
            let [high, low] = reference.to_be_bytes();
            vec![6, CONCATENATION_16, 4, high, low, total, sequence]
        }
    }
}
