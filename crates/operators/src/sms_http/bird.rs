//! Bird: events of its Channels API, JSON by POST.
//!
//! Signed with HMAC-SHA256 over the timestamp, the URL and the SHA-256 of the body, with a line feed between them. Bird
//! puts longer messages together by itself.
//!
//! An inbound SMS names the channel that it came by. Not every event has the channel's number in it, so the number of a
//! channel can be configured.

use std::collections::BTreeMap;

use aws_lc_rs::hmac::HMAC_SHA256;
use http::Method;
use ringtrue_domain::phone::AddressKind;
use serde_json::Value;

use super::{
    request::Request,
    secret::{Secret, base64, sha256},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
};

#[derive(Clone, Debug)]
pub struct Bird {
    /// The signing key of the webhook subscription.
    pub secret: Option<Secret>,
    /// The number of each channel, by the channel's id.
    pub channels: BTreeMap<String, String>,
}

impl Vendor for Bird {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let Some(secret) = &self.secret else { return Ok(Proof::default()) };
        let tag = request.header("messagebird-signature").and_then(base64).ok_or(Forged)?;
        let timestamp = request.header("messagebird-request-timestamp").ok_or(Forged)?;
        let url = request.signed_url();
        let signed = [timestamp.as_bytes(), b"\n", url.as_bytes(), b"\n", &sha256(request.body)].concat();
        if secret.signed(HMAC_SHA256, &signed, &tag) { Proof::at(timestamp) } else { Err(Forged) }
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let json = request.json()?;
        if json.get("event").and_then(Value::as_str).ok_or(Unreadable)? != "sms.inbound" {
            return Ok(vec![]);
        }
        let payload = json.get("payload").ok_or(Unreadable)?;
        let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let channel = text("/channelId").and_then(|channel| self.channels.get(&channel).cloned());
        let is_number = text("/sender/contact/identifierKey").is_none_or(|key| key == "phonenumber");
        Ok(vec![Message {
            id: Some(text("/id").ok_or(Unreadable)?),
            from: text("/sender/contact/identifierValue").filter(|_| is_number).unwrap_or_default(),
            to: channel.or_else(|| text("/receiver/connector/identifierValue")).ok_or(Unreadable)?,
            kind: AddressKind::International,
            // Media have no text.
            text: Text::Whole(text("/body/text/text").unwrap_or_default()),
        }])
    }
}
