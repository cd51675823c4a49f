//! Sinch: the callbacks of its SMS API, JSON by POST.
//!
//! Signed, if enabled for the account, with HMAC-SHA256 over body, nonce and timestamp. Sinch retries until it gets a
//! 2xx.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::Method;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::text::DataCoding;
use serde::Deserialize;

use super::{
    request::VendorRequest,
    secret::{Secret, decode_base64, decode_hex},
    vendor::{
        InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor,
        deserialize_sender,
    },
};

#[derive(Clone, Debug)]
pub struct Sinch {
    pub secret: Option<Secret>,
}

#[derive(Deserialize)]
struct Inbound {
    id: String,
    #[serde(default, deserialize_with = "deserialize_sender")]
    from: String,
    to: String,
    #[serde(default)]
    body: String,
    udh: Option<String>,
}

impl WebhookVendor for Sinch {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(secret) = &self.secret else { return Ok(VerifiedSignature::default()) };
        let tag = request.header("x-sinch-webhook-signature").and_then(decode_base64).ok_or(InvalidSignature)?;
        let nonce = request.header("x-sinch-webhook-signature-nonce").ok_or(InvalidSignature)?;
        let timestamp = request.header("x-sinch-webhook-signature-timestamp").ok_or(InvalidSignature)?;
        let algorithm = request.header("x-sinch-webhook-signature-algorithm");
        if algorithm.is_some_and(|algorithm| !algorithm.eq_ignore_ascii_case("HmacSHA256")) {
            return Err(InvalidSignature);
        }
        let signed_data = [request.body, b".", nonce.as_bytes(), b".", timestamp.as_bytes()].concat();
        if !secret.verify_hmac(HMAC_SHA256, &signed_data, &tag) {
            return Err(InvalidSignature);
        }
        Ok(VerifiedSignature::signed_at_second(timestamp)?.with_nonce(nonce))
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let json = request.json()?;
        let is_binary = match json.get("type").and_then(|kind| kind.as_str()) {
            Some("mo_text") => false,
            Some("mo_binary") => true,
            // Delivery reports and media.
            Some(_) => return Ok(vec![]),
            None => return Err(MalformedRequest),
        };
        let Inbound { id, from, to, body, udh } = serde_json::from_value(json).map_err(|_| MalformedRequest)?;
        let text = if is_binary {
            let header = udh.as_deref().map_or(Some(vec![]), decode_hex).ok_or(MalformedRequest)?;
            MessageText::from_user_data(&header, DataCoding::OCTETS, decode_base64(&body).ok_or(MalformedRequest)?)
        } else {
            MessageText::Complete(body)
        };
        Ok(vec![VendorMessage { id: Some(id), from, to, kind: AddressKind::International, text }])
    }
}
