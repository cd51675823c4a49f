//! Bird: events of its Channels API, JSON by POST.
//!
//! Signed with HMAC-SHA256 over timestamp, URL and SHA-256 of the body, separated by line feeds. Bird joins the parts
//! of concatenated messages.
//!
//! An inbound SMS names its channel. Not every event contains the channel's number, so it can be configured.

use std::collections::BTreeMap;

use aws_lc_rs::hmac::HMAC_SHA256;
use http::Method;
use ringtrue_domain::phone::AddressKind;
use serde_json::Value;

use super::{
    request::VendorRequest,
    secret::{Secret, decode_base64, sha256},
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Debug)]
pub struct Bird {
    /// The signing key of the webhook subscription.
    pub secret: Option<Secret>,
    /// Numbers by channel id.
    pub channels: BTreeMap<String, String>,
}

impl WebhookVendor for Bird {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(secret) = &self.secret else { return Ok(VerifiedSignature::default()) };
        let tag = request.header("messagebird-signature").and_then(decode_base64).ok_or(InvalidSignature)?;
        let timestamp = request.header("messagebird-request-timestamp").ok_or(InvalidSignature)?;
        let url = request.signed_url();
        let signed_data = [timestamp.as_bytes(), b"\n", url.as_bytes(), b"\n", &sha256(request.body)].concat();
        if secret.verify_hmac(HMAC_SHA256, &signed_data, &tag) {
            VerifiedSignature::signed_at_second(timestamp)
        } else {
            Err(InvalidSignature)
        }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let json = request.json()?;
        if json.get("event").and_then(Value::as_str).ok_or(MalformedRequest)? != "sms.inbound" {
            return Ok(vec![]);
        }
        let payload = json.get("payload").ok_or(MalformedRequest)?;
        let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let channel = text("/channelId").and_then(|channel| self.channels.get(&channel).cloned());
        let is_number = text("/sender/contact/identifierKey").is_none_or(|key| key == "phonenumber");
        Ok(vec![VendorMessage {
            id: Some(text("/id").ok_or(MalformedRequest)?),
            from: text("/sender/contact/identifierValue").filter(|_| is_number).unwrap_or_default(),
            to: channel.or_else(|| text("/receiver/connector/identifierValue")).ok_or(MalformedRequest)?,
            kind: AddressKind::International,
            // Media messages have no text.
            text: MessageText::Complete(text("/body/text/text").unwrap_or_default()),
        }])
    }
}
