//! User data of a message: text octets and concatenation segment, from `short_message` or `message_payload`.

use std::borrow::Cow;

use crate::{
    esm_class::EsmClass,
    pdu::{DataSm, ShortMessage, Tlvs},
    text::{DataCoding, DefaultAlphabet, gsm},
    udh::{self, ConcatenationReference, MalformedUdh, Segment},
};

/// Text octets of a message, without the user data header (UDH), and the position of the message in a concatenated
/// message. `Debug` shows the length of the text, never the text.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
pub struct MessageContent<'a> {
    pub data_coding: DataCoding,
    #[debug("{}", octets.len())]
    pub octets: &'a [u8],
    /// Padding bits between the UDH and the first packed septet.
    pub fill_bits: u8,
    pub segment: Option<Segment>,
    /// Set if the UDH is malformed; `octets` is then a best guess at the text.
    pub udh_error: Option<MalformedUdh>,
}

impl MessageContent<'_> {
    /// Decodes the text. Packed septets must be unpacked first: see [`unpacked_octets`](Self::unpacked_octets).
    pub fn decode_text(&self, default: DefaultAlphabet) -> String {
        self.data_coding.text_coding(default).decode(self.octets)
    }
}

impl<'a> MessageContent<'a> {
    /// Returns the octets. If they are in the default alphabet, and its septets are packed, unpacks them to one septet
    /// in each octet.
    pub fn unpacked_octets(&self, default: DefaultAlphabet) -> Cow<'a, [u8]> {
        if default == DefaultAlphabet::Gsm0338Packed && self.data_coding == DataCoding::DEFAULT {
            gsm::unpack(self.octets, self.fill_bits).into()
        } else {
            self.octets.into()
        }
    }
}

impl ShortMessage {
    /// Returns the user data. `message_payload` takes precedence over `short_message` (SMPP 3.4, 5.3.2.32), unless
    /// `message_payload` is empty.
    pub fn content(&self) -> MessageContent<'_> {
        let payload = self.tlvs.message_payload().filter(|payload| !payload.is_empty());
        let payload = payload.unwrap_or(&self.short_message);
        read_content(self.esm_class, self.data_coding, payload, &self.tlvs)
    }
}

impl DataSm {
    pub fn content(&self) -> MessageContent<'_> {
        read_content(self.esm_class, self.data_coding, self.tlvs.message_payload().unwrap_or_default(), &self.tlvs)
    }
}

fn read_content<'a>(
    esm_class: EsmClass,
    data_coding: DataCoding,
    payload: &'a [u8],
    tlvs: &Tlvs,
) -> MessageContent<'a> {
    let whole = MessageContent { data_coding, octets: payload, fill_bits: 0, segment: None, udh_error: None };
    let mut content = if esm_class.has_udh() {
        match udh::split_header(payload) {
            Ok((header, octets)) => {
                let whole = MessageContent { octets, fill_bits: fill_bit_count(payload.len() - octets.len()), ..whole };
                match header.segment() {
                    Ok(segment) => MessageContent { segment, ..whole },
                    Err(error) => MessageContent { udh_error: Some(error), ..whole },
                }
            }
            Err(error) => MessageContent { udh_error: Some(error), ..whole },
        }
    } else {
        whole
    };
    content.segment = content.segment.or_else(|| segment_from_tlvs(tlvs));
    content
}

/// Returns the number of padding bits after a UDH. Packed septets begin at the next multiple of seven bits (3GPP TS
/// 23.040, 9.2.3.24).
fn fill_bit_count(header_octets: usize) -> u8 {
    u8::try_from((7 - header_octets * 8 % 7) % 7).unwrap_or_default()
}

fn segment_from_tlvs(tlvs: &Tlvs) -> Option<Segment> {
    Some(Segment {
        reference: ConcatenationReference::SixteenBit(tlvs.sar_msg_ref_num()?),
        total: tlvs.sar_total_segments()?,
        sequence: tlvs.sar_segment_seqnum()?,
    })
}
