//! Telnyx: events as JSON by POST.
//!
//! Signed with Ed25519 over timestamp and body. Telnyx retries until it gets a 2xx; events may arrive twice and out of
//! order. It joins the parts of concatenated messages.

use std::fmt;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use http::Method;
use ringtrue_domain::phone::AddressKind;
use serde::Deserialize;

use super::{
    request::VendorRequest,
    secret::{SecretError, decode_base64},
    vendor::{
        InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor,
        deserialize_sender,
    },
};

/// More than any group chat has members.
const MAX_RECIPIENTS: usize = 32;

#[derive(Clone, Debug)]
pub struct Telnyx {
    pub public_key: Option<TelnyxKey>,
}

/// Public key of the account, from Mission Control.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TelnyxKey([u8; 32]);

impl TelnyxKey {
    pub fn from_base64(text: &str) -> Result<Self, SecretError> {
        let octets = decode_base64(text).ok_or(SecretError::PublicKey)?;
        octets.try_into().map(TelnyxKey).map_err(|_| SecretError::PublicKey)
    }
}

impl fmt::Debug for TelnyxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TelnyxKey")
    }
}

#[derive(Deserialize)]
struct Event {
    data: EventData,
}

#[derive(Deserialize)]
struct EventData {
    event_type: String,
    payload: serde_json::Value,
}

#[derive(Deserialize)]
struct Payload {
    id: String,
    text: Option<String>,
    #[serde(default)]
    from: Option<SendingParty>,
    to: Vec<Party>,
}

#[derive(Deserialize)]
struct SendingParty {
    #[serde(default, deserialize_with = "deserialize_sender")]
    phone_number: String,
}

#[derive(Deserialize)]
struct Party {
    phone_number: String,
}

impl WebhookVendor for Telnyx {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(TelnyxKey(key)) = &self.public_key else { return Ok(VerifiedSignature::default()) };
        let signature = request.header("telnyx-signature-ed25519").and_then(decode_base64).ok_or(InvalidSignature)?;
        let timestamp = request.header("telnyx-timestamp").ok_or(InvalidSignature)?;
        let signed_data = [timestamp.as_bytes(), b"|", request.body].concat();
        UnparsedPublicKey::new(&ED25519, key).verify(&signed_data, &signature).map_err(|_| InvalidSignature)?;
        VerifiedSignature::signed_at_second(timestamp)
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let Event { data } = serde_json::from_value(request.json()?).map_err(|_| MalformedRequest)?;
        if data.event_type != "message.received" {
            return Ok(vec![]);
        }
        let payload: Payload = serde_json::from_value(data.payload).map_err(|_| MalformedRequest)?;
        if payload.to.is_empty() {
            return Err(MalformedRequest);
        }
        let from = payload.from.map(|party| party.phone_number).unwrap_or_default();
        let text = payload.text.unwrap_or_default();
        // In a group chat our number may be any of the recipients.
        let to_message = |to: Party| VendorMessage {
            id: Some(payload.id.clone()),
            from: from.clone(),
            to: to.phone_number,
            kind: AddressKind::International,
            text: MessageText::Complete(text.clone()),
        };
        Ok(payload.to.into_iter().take(MAX_RECIPIENTS).map(to_message).collect())
    }
}
