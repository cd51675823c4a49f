//! What a message carries, whichever operation brought it and wherever its octets stand.

use std::{borrow::Cow, fmt};

use crate::{
    pdu::{DataSm, EsmClass, ShortMessage, Tlvs},
    text::{DataCoding, DefaultAlphabet, gsm},
    udh::{self, MalformedUdh, Segment},
};

/// The text of a message as octets, without its header, and its place in a longer one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Content<'a> {
    pub data_coding: DataCoding,
    pub octets: &'a [u8],
    /// How many bits fill up the header to whole septets, where septets are packed.
    pub fill_bits: u8,
    pub segment: Option<Segment>,
    /// What was wrong with the header, if anything. The octets are then what is most likely the text.
    pub header_fault: Option<MalformedUdh>,
}

/// Tells how long the text is, never what it says.
impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("data_coding", &self.data_coding)
            .field("octets", &self.octets.len())
            .field("segment", &self.segment)
            .field("header_fault", &self.header_fault)
            .finish()
    }
}

impl Content<'_> {
    /// Reads octets with one character, or half of one, each: see [`unpacked`](Self::unpacked).
    pub fn text(&self, default: DefaultAlphabet) -> String {
        self.data_coding.coding(default).decode(self.octets)
    }
}

impl<'a> Content<'a> {
    /// The octets, with septets that are packed spread over octets of their own.
    pub fn unpacked(&self, default: DefaultAlphabet) -> Cow<'a, [u8]> {
        if default == DefaultAlphabet::Gsm0338Packed && self.data_coding == DataCoding::DEFAULT {
            gsm::unpack(self.octets, self.fill_bits).into()
        } else {
            self.octets.into()
        }
    }
}

impl ShortMessage {
    pub fn content(&self) -> Content<'_> {
        let payload = self.tlvs.message_payload().filter(|_| self.short_message.is_empty());
        content(self.esm_class, self.data_coding, payload.unwrap_or(&self.short_message), &self.tlvs)
    }
}

impl DataSm {
    pub fn content(&self) -> Content<'_> {
        content(self.esm_class, self.data_coding, self.tlvs.message_payload().unwrap_or_default(), &self.tlvs)
    }
}

fn content<'a>(esm_class: EsmClass, data_coding: DataCoding, payload: &'a [u8], tlvs: &Tlvs) -> Content<'a> {
    let whole = Content { data_coding, octets: payload, fill_bits: 0, segment: None, header_fault: None };
    let mut content = if esm_class.has_header() {
        match udh::cut(payload) {
            Ok((header, octets)) => {
                let whole = Content { octets, fill_bits: fill_bits(payload.len() - octets.len()), ..whole };
                match header.segment() {
                    Ok(segment) => Content { segment, ..whole },
                    Err(fault) => Content { header_fault: Some(fault), ..whole },
                }
            }
            Err(fault) => Content { header_fault: Some(fault), ..whole },
        }
    } else {
        whole
    };
    content.segment = content.segment.or_else(|| segment_by_tlvs(tlvs));
    content
}

/// Behind a header, packed septets begin at the next multiple of seven bits (3GPP TS 23.040, 9.2.3.24).
fn fill_bits(header_octets: usize) -> u8 {
    u8::try_from((7 - header_octets * 8 % 7) % 7).unwrap_or_default()
}

fn segment_by_tlvs(tlvs: &Tlvs) -> Option<Segment> {
    Some(Segment {
        reference: tlvs.sar_msg_ref_num()?,
        total: tlvs.sar_total_segments()?,
        sequence: tlvs.sar_segment_seqnum()?,
    })
}
