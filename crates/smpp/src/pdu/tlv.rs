//! Optional parameters (TLVs).
//!
//! TLVs keep their order, including repeated and unknown tags. Integer getters accept a value that is shorter than
//! specified, because some peers send one octet for a small reference, but no longer one.

use std::fmt;

use bytes::{BufMut, BytesMut};

use super::{
    TlvTag,
    field::{BodyReader, EncodeError, MalformedBody},
};

#[derive(Clone, PartialEq, Eq)]
pub struct Tlv {
    pub tag: TlvTag,
    pub value: Vec<u8>,
}

impl fmt::Debug for Tlv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{} octets]", self.tag, self.value.len())
    }
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tlvs(Vec<Tlv>);

impl fmt::Debug for Tlvs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl FromIterator<(TlvTag, Vec<u8>)> for Tlvs {
    fn from_iter<I: IntoIterator<Item = (TlvTag, Vec<u8>)>>(items: I) -> Self {
        Self(items.into_iter().map(|(tag, value)| Tlv { tag, value }).collect())
    }
}

impl Tlvs {
    /// Appends a TLV.
    #[must_use]
    pub fn with(mut self, tag: TlvTag, value: impl Into<Vec<u8>>) -> Self {
        self.0.push(Tlv { tag, value: value.into() });
        self
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Tlv> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Value of the first TLV with this tag.
    pub fn get(&self, tag: TlvTag) -> Option<&[u8]> {
        self.iter().find(|tlv| tlv.tag == tag).map(|tlv| tlv.value.as_slice())
    }

    pub fn message_payload(&self) -> Option<&[u8]> {
        self.get(TlvTag::MESSAGE_PAYLOAD)
    }

    pub fn user_message_reference(&self) -> Option<u16> {
        self.get_u16(TlvTag::USER_MESSAGE_REFERENCE)
    }

    pub fn sar_msg_ref_num(&self) -> Option<u16> {
        self.get_u16(TlvTag::SAR_MSG_REF_NUM)
    }

    pub fn sar_total_segments(&self) -> Option<u8> {
        self.get_u8(TlvTag::SAR_TOTAL_SEGMENTS)
    }

    pub fn sar_segment_seqnum(&self) -> Option<u8> {
        self.get_u8(TlvTag::SAR_SEGMENT_SEQNUM)
    }

    pub fn source_network_type(&self) -> Option<u8> {
        self.get_u8(TlvTag::SOURCE_NETWORK_TYPE)
    }

    pub fn message_state(&self) -> Option<u8> {
        self.get_u8(TlvTag::MESSAGE_STATE)
    }

    pub fn sc_interface_version(&self) -> Option<u8> {
        self.get_u8(TlvTag::SC_INTERFACE_VERSION)
    }

    /// Message id in a delivery receipt; the final NUL is optional.
    pub fn receipted_message_id(&self) -> Option<String> {
        let value = self.get(TlvTag::RECEIPTED_MESSAGE_ID)?;
        Some(value.iter().copied().take_while(|&octet| octet != 0).map(char::from).collect())
    }

    fn get_u8(&self, tag: TlvTag) -> Option<u8> {
        match *self.get(tag)? {
            [value] => Some(value),
            _ => None,
        }
    }

    fn get_u16(&self, tag: TlvTag) -> Option<u16> {
        match *self.get(tag)? {
            [low] => Some(low.into()),
            [high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    /// Decodes the rest of a body.
    pub(super) fn decode(reader: &mut BodyReader<'_>) -> Result<Self, MalformedBody> {
        let mut tlvs = vec![];
        while !reader.is_empty() {
            let available = reader.remaining();
            let Some(&[tag_high, tag_low, high, low]) = reader.octets(4) else {
                return Err(MalformedBody::TrailingOctets { available });
            };
            let tag = TlvTag(u16::from_be_bytes([tag_high, tag_low]));
            let (declared, available) = (usize::from(u16::from_be_bytes([high, low])), reader.remaining());
            let value = reader.octets(declared).ok_or(MalformedBody::TlvLength { tag, declared, available })?;
            tlvs.push(Tlv { tag, value: value.to_vec() });
        }
        Ok(Self(tlvs))
    }

    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
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
