//! Sinch: the callbacks of its SMS API, JSON by POST.
//!
//! Signed, where the account has it switched on, with HMAC-SHA256 over body, nonce and timestamp. Sinch calls again
//! until it gets a 2xx.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::Method;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::text::DataCoding;
use serde::Deserialize;

use super::{
    request::Request,
    secret::{Secret, base64, hex},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor, sender},
};

#[derive(Clone, Debug)]
pub struct Sinch {
    pub secret: Option<Secret>,
}

#[derive(Deserialize)]
struct Inbound {
    id: String,
    #[serde(default, deserialize_with = "sender")]
    from: String,
    to: String,
    #[serde(default)]
    body: String,
    udh: Option<String>,
}

impl Vendor for Sinch {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let Some(secret) = &self.secret else { return Ok(Proof::default()) };
        let tag = request.header("x-sinch-webhook-signature").and_then(base64).ok_or(Forged)?;
        let nonce = request.header("x-sinch-webhook-signature-nonce").ok_or(Forged)?;
        let timestamp = request.header("x-sinch-webhook-signature-timestamp").ok_or(Forged)?;
        let algorithm = request.header("x-sinch-webhook-signature-algorithm");
        if algorithm.is_some_and(|algorithm| !algorithm.eq_ignore_ascii_case("HmacSHA256")) {
            return Err(Forged);
        }
        let signed = [request.body, b".", nonce.as_bytes(), b".", timestamp.as_bytes()].concat();
        if !secret.signed(HMAC_SHA256, &signed, &tag) {
            return Err(Forged);
        }
        Ok(Proof::at(timestamp)?.once(nonce))
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let json = request.json()?;
        let is_binary = match json.get("type").and_then(|kind| kind.as_str()) {
            Some("mo_text") => false,
            Some("mo_binary") => true,
            // Delivery reports, media.
            Some(_) => return Ok(vec![]),
            None => return Err(Unreadable),
        };
        let Inbound { id, from, to, body, udh } = serde_json::from_value(json).map_err(|_| Unreadable)?;
        let text = if is_binary {
            let header = udh.as_deref().map_or(Some(vec![]), hex).ok_or(Unreadable)?;
            Text::with_header(&header, DataCoding::OCTETS, base64(&body).ok_or(Unreadable)?)
        } else {
            Text::Whole(body)
        };
        Ok(vec![Message { id: Some(id), from, to, kind: AddressKind::International, text }])
    }
}
