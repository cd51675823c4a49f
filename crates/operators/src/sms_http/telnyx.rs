//! Telnyx: events as JSON by POST.
//!
//! Signed with Ed25519 over the timestamp and the body. Telnyx calls again until it gets a 2xx, says that events may
//! come twice and out of order, and puts longer messages together by itself.

use std::fmt;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use http::Method;
use ringtrue_domain::phone::AddressKind;
use serde::Deserialize;

use super::{
    request::Request,
    secret::{BadSecret, base64},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor, sender},
};

/// More than the members of any group chat.
const MAX_RECIPIENTS: usize = 32;

#[derive(Clone, Debug)]
pub struct Telnyx {
    pub public_key: Option<TelnyxKey>,
}

/// The public key of an account, as Mission Control shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TelnyxKey([u8; 32]);

impl TelnyxKey {
    pub fn from_base64(text: &str) -> Result<Self, BadSecret> {
        let octets = base64(text).ok_or(BadSecret::PublicKey)?;
        octets.try_into().map(TelnyxKey).map_err(|_| BadSecret::PublicKey)
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
    #[serde(default, deserialize_with = "sender")]
    phone_number: String,
}

#[derive(Deserialize)]
struct Party {
    phone_number: String,
}

impl Vendor for Telnyx {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let Some(TelnyxKey(key)) = &self.public_key else { return Ok(Proof::default()) };
        let signature = request.header("telnyx-signature-ed25519").and_then(base64).ok_or(Forged)?;
        let timestamp = request.header("telnyx-timestamp").ok_or(Forged)?;
        let signed = [timestamp.as_bytes(), b"|", request.body].concat();
        UnparsedPublicKey::new(&ED25519, key).verify(&signed, &signature).map_err(|_| Forged)?;
        Proof::at(timestamp)
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let Event { data } = serde_json::from_value(request.json()?).map_err(|_| Unreadable)?;
        if data.event_type != "message.received" {
            return Ok(vec![]);
        }
        let payload: Payload = serde_json::from_value(data.payload).map_err(|_| Unreadable)?;
        if payload.to.is_empty() {
            return Err(Unreadable);
        }
        let from = payload.from.map(|party| party.phone_number).unwrap_or_default();
        let text = payload.text.unwrap_or_default();
        // A message to several is a group chat, in which our number may stand anywhere.
        let message = |to: Party| Message {
            id: Some(payload.id.clone()),
            from: from.clone(),
            to: to.phone_number,
            kind: AddressKind::International,
            text: Text::Whole(text.clone()),
        };
        Ok(payload.to.into_iter().take(MAX_RECIPIENTS).map(message).collect())
    }
}
