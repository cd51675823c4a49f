//! Interface of vendor drivers.

use http::{Method, StatusCode};
use jiff::Timestamp;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::{
    text::{DataCoding, DefaultAlphabet},
    udh::{self, Segment},
};
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

use super::{
    request::{VendorRequest, WebhookResponse},
    secret::{Digest, digest_parts},
};

/// Webhook format of one vendor. Drivers only translate; deduplication, routing and storage happen elsewhere.
pub(super) trait WebhookVendor {
    fn methods(&self) -> &'static [Method];

    /// Vendors without a signature scheme accept everything; the configuration then requires a path secret or known
    /// addresses.
    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature>;

    /// Messages of a verified request; empty for status reports and the like.
    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest>;

    /// Response that stops the vendor from resending.
    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::empty(StatusCode::OK)
    }

    /// Response to malformed requests.
    fn malformed_response(&self) -> WebhookResponse {
        WebhookResponse::empty(StatusCode::BAD_REQUEST)
    }
}

/// Properties of a valid signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VerifiedSignature {
    pub signed_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// Digest of the single-use nonce.
    pub nonce: Option<Digest>,
}

impl VerifiedSignature {
    /// Parses the timestamp of a request (Unix seconds).
    pub fn signed_at_second(seconds: &str) -> Result<Self, InvalidSignature> {
        let seconds = seconds.parse().map_err(|_| InvalidSignature)?;
        let signed_at = Timestamp::from_second(seconds).map_err(|_| InvalidSignature)?;
        Ok(VerifiedSignature { signed_at: Some(signed_at), ..VerifiedSignature::default() })
    }

    pub fn with_nonce(self, nonce: &str) -> Self {
        VerifiedSignature { nonce: Some(digest_parts(&[nonce.as_bytes()])), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidSignature;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedRequest;

/// A message as received from a vendor. No `Debug`: none of it may be logged.
pub(super) struct VendorMessage {
    /// Stable when the vendor resends the message.
    pub id: Option<String>,
    /// Empty if withheld.
    pub from: String,
    pub to: String,
    /// Format of numbers without a `+`.
    pub kind: AddressKind,
    pub text: MessageText,
}

impl VendorMessage {
    /// Key for deduplication; stable when the vendor resends the message or part.
    pub fn key(&self) -> Option<Digest> {
        match &self.text {
            // A message to several of our numbers counts once per number.
            MessageText::Complete(_) => self.id.as_deref().map(|id| digest_parts(&[id.as_bytes(), self.to.as_bytes()])),
            MessageText::Part(part) => Some(self.part_key(part)),
        }
    }

    /// Includes the content: some vendors use one id for all parts, some gateways use none.
    pub fn part_key(&self, MessagePart { segment, octets, .. }: &MessagePart) -> Digest {
        digest_parts(&[
            self.id.as_deref().unwrap_or_default().as_bytes(),
            self.from.as_bytes(),
            self.to.as_bytes(),
            &segment.reference.to_be_bytes(),
            &[segment.total, segment.sequence],
            octets,
        ])
    }
}

/// Deserialises a sender; empty unless it is a string or a number.
pub(super) fn deserialize_sender<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    })
}

pub(super) enum MessageText {
    Complete(String),
    Part(MessagePart),
}

/// Part of a concatenated message.
pub(super) struct MessagePart {
    pub segment: Segment,
    pub data_coding: DataCoding,
    pub octets: Vec<u8>,
}

impl MessageText {
    /// Octets with a user data header (UDH), which identifies parts of a concatenated message.
    pub fn from_user_data(header: &[u8], data_coding: DataCoding, octets: Vec<u8>) -> Self {
        let segment = udh::split_header(header).ok().and_then(|(header, _)| header.segment().ok().flatten());
        match segment {
            Some(segment) => MessageText::Part(MessagePart { segment, data_coding, octets }),
            None => MessageText::Complete(data_coding.text_coding(DefaultAlphabet::default()).decode(&octets)),
        }
    }
}
