//! Twilio: a form by POST, or the same fields in the query of a GET.
//!
//! The signature is an HMAC-SHA1 over the URL including its query, and the sorted form fields. Twilio signs the URL
//! sometimes with and sometimes without its port, so both are tried. Other bodies are covered by their SHA-256 in the
//! query (`bodySHA256`). There is no timestamp: an old request stays valid but has no effect, because codes are
//! single-use.
//!
//! Twilio joins the parts of concatenated messages. It calls once, and then the fallback URL, if configured.

use std::collections::BTreeSet;

use aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY;
use http::Method;
use ringtrue_domain::phone::AddressKind;
use url::Url;

use super::{
    request::{Fields, VendorRequest, WebhookResponse},
    secret::{Secret, constant_time_eq, decode_base64, decode_hex, sha256},
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Debug)]
pub struct Twilio {
    pub auth_token: Option<Secret>,
}

impl WebhookVendor for Twilio {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(token) = &self.auth_token else { return Ok(VerifiedSignature::default()) };
        let tag = request.header("x-twilio-signature").and_then(decode_base64).ok_or(InvalidSignature)?;
        let fields = signed_fields(request)?;
        let is_signed = signed_url_variants(request).into_iter().any(|url| {
            let mut data = url.into_bytes();
            data.extend_from_slice(&fields);
            token.verify_hmac(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &data, &tag)
        });
        if is_signed { Ok(VerifiedSignature::default()) } else { Err(InvalidSignature) }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let fields = request.fields()?;
        // Status reports of outbound messages arrive at the same kind of URL.
        if fields.text("SmsStatus").or(fields.text("MessageStatus")).is_some_and(|status| status != "received") {
            return Ok(vec![]);
        }
        Ok(vec![VendorMessage {
            id: Some(fields.required("MessageSid")?.to_owned()),
            from: fields.sender("From")?,
            to: fields.required("To")?.to_owned(),
            kind: AddressKind::International,
            text: MessageText::Complete(fields.required("Body")?.to_owned()),
        }])
    }

    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::ok("text/xml", "<Response></Response>")
    }
}

/// Signed text after the URL: sorted names and values without duplicates.
fn signed_fields(request: &VendorRequest<'_>) -> Result<Vec<u8>, InvalidSignature> {
    if request.method == Method::GET {
        return Ok(vec![]);
    }
    if request.is_form() {
        let fields = Fields::parse_form(request.body).map_err(|_| InvalidSignature)?;
        let sorted: BTreeSet<(&str, &[u8])> = fields.iter().collect();
        return Ok(sorted.into_iter().flat_map(|(name, value)| [name.as_bytes(), value].concat()).collect());
    }
    let query = request.query_fields().map_err(|_| InvalidSignature)?;
    let body_hash = query.text("bodySHA256").and_then(decode_hex).ok_or(InvalidSignature)?;
    if constant_time_eq(&body_hash, &sha256(request.body)) { Ok(vec![]) } else { Err(InvalidSignature) }
}

fn signed_url_variants(request: &VendorRequest<'_>) -> [String; 2] {
    let url: &Url = request.url;
    let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    ["", &port]
        .map(|port| format!("{}://{}{port}{}{query}", url.scheme(), url.host_str().unwrap_or_default(), url.path()))
}
