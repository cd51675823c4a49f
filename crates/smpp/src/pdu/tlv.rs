//! Optional parameters: tag, length, value.
//!
//! Kept in the order of the wire, with repeated and unknown tags as they came. A getter of a number takes a value that
//! is shorter than the specification says (some peers send one octet for a small reference), and none that is longer.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::{
    Tag,
    field::{EncodeError, Malformed, Reader},
};

#[derive(Clone, PartialEq, Eq)]
pub struct Tlv {
    pub tag: Tag,
    pub value: Vec<u8>,
}

impl fmt::Debug for Tlv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{} octets]", self.tag, self.value.len())
    }
}

/// The TLVs of a PDU.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tlvs(Vec<Tlv>);

impl fmt::Debug for Tlvs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl FromIterator<(Tag, Vec<u8>)> for Tlvs {
    fn from_iter<I: IntoIterator<Item = (Tag, Vec<u8>)>>(items: I) -> Self {
        Self(items.into_iter().map(|(tag, value)| Tlv { tag, value }).collect())
    }
}

impl Tlvs {
    /// Adds one at the end.
    #[must_use]
    pub fn with(mut self, tag: Tag, value: impl Into<Vec<u8>>) -> Self {
        self.0.push(Tlv { tag, value: value.into() });
        self
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Tlv> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first value under a tag.
    pub fn get(&self, tag: Tag) -> Option<&[u8]> {
        self.iter().find(|tlv| tlv.tag == tag).map(|tlv| tlv.value.as_slice())
    }

    pub fn message_payload(&self) -> Option<&[u8]> {
        self.get(Tag::MESSAGE_PAYLOAD)
    }

    pub fn user_message_reference(&self) -> Option<u16> {
        self.short(Tag::USER_MESSAGE_REFERENCE)
    }

    pub fn sar_msg_ref_num(&self) -> Option<u16> {
        self.short(Tag::SAR_MSG_REF_NUM)
    }

    pub fn sar_total_segments(&self) -> Option<u8> {
        self.octet(Tag::SAR_TOTAL_SEGMENTS)
    }

    pub fn sar_segment_seqnum(&self) -> Option<u8> {
        self.octet(Tag::SAR_SEGMENT_SEQNUM)
    }

    pub fn source_network_type(&self) -> Option<u8> {
        self.octet(Tag::SOURCE_NETWORK_TYPE)
    }

    pub fn message_state(&self) -> Option<u8> {
        self.octet(Tag::MESSAGE_STATE)
    }

    pub fn sc_interface_version(&self) -> Option<u8> {
        self.octet(Tag::SC_INTERFACE_VERSION)
    }

    /// The id of the message that a receipt is about, with or without its final NUL.
    pub fn receipted_message_id(&self) -> Option<String> {
        let value = self.get(Tag::RECEIPTED_MESSAGE_ID)?;
        Some(value.iter().copied().take_while(|&octet| octet != 0).map(char::from).collect())
    }

    fn octet(&self, tag: Tag) -> Option<u8> {
        match *self.get(tag)? {
            [value] => Some(value),
            _ => None,
        }
    }

    fn short(&self, tag: Tag) -> Option<u16> {
        match *self.get(tag)? {
            [low] => Some(low.into()),
            [high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    /// Reads whatever is left of a body.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut tlvs = vec![];
        while !reader.is_empty() {
            let left = reader.left();
            let Some(&[tag_high, tag_low, high, low]) = reader.octets(4) else {
                return Err(Malformed::TlvHeader { left });
            };
            let tag = Tag(u16::from_be_bytes([tag_high, tag_low]));
            let (said, left) = (usize::from(u16::from_be_bytes([high, low])), reader.left());
            let value = reader.octets(said).ok_or(Malformed::TlvLength { tag, said, left })?;
            tlvs.push(Tlv { tag, value: value.to_vec() });
        }
        Ok(Self(tlvs))
    }

    pub(super) fn put(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        for Tlv { tag, value } in &self.0 {
            let octets = value.len();
            let length = u16::try_from(octets).map_err(|_| EncodeError::TlvTooLong { tag: *tag, octets })?;
            out.put_u16(tag.0);
            out.put_u16(length);
            out.put_slice(value);
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &'a Tlvs {
    type Item = &'a Tlv;
    type IntoIter = std::slice::Iter<'a, Tlv>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
