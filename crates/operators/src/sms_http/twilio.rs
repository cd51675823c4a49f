//! Twilio: a form by POST, or the same fields in the query of a GET.
//!
//! The signature is an HMAC-SHA1 over the whole URL, its query included, and the sorted fields of the form. Twilio
//! signs the URL now with its port, now without, so both are tried. A body that is no form is covered by its SHA-256
//! in the query (`bodySHA256`). There is no timestamp: an old request stays valid for ever, and has no effect, because
//! a code counts once.
//!
//! Twilio puts longer messages together by itself. It calls once, and then the fallback URL, if there is one.

use std::collections::BTreeSet;

use aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY;
use http::Method;
use ringtrue_domain::phone::AddressKind;
use url::Url;

use super::{
    request::{Fields, Reply, Request},
    secret::{Secret, base64, hex, same, sha256},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
};

#[derive(Clone, Debug)]
pub struct Twilio {
    pub auth_token: Option<Secret>,
}

impl Vendor for Twilio {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let Some(token) = &self.auth_token else { return Ok(Proof::default()) };
        let tag = request.header("x-twilio-signature").and_then(base64).ok_or(Forged)?;
        let fields = signed_fields(request)?;
        let is_signed = addresses(request).into_iter().any(|address| {
            let mut data = address.into_bytes();
            data.extend_from_slice(&fields);
            token.signed(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &data, &tag)
        });
        if is_signed { Ok(Proof::default()) } else { Err(Forged) }
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let fields = request.fields()?;
        // The states of messages that we would have sent come to the same kind of URL.
        if fields.text("SmsStatus").or(fields.text("MessageStatus")).is_some_and(|status| status != "received") {
            return Ok(vec![]);
        }
        Ok(vec![Message {
            id: Some(fields.required("MessageSid")?.to_owned()),
            from: fields.sender("From")?,
            to: fields.required("To")?.to_owned(),
            kind: AddressKind::International,
            text: Text::Whole(fields.required("Body")?.to_owned()),
        }])
    }

    fn acknowledgement(&self) -> Reply {
        Reply::ok("text/xml", "<Response></Response>")
    }
}

/// What follows the URL in the signed text: each field's name and value, sorted, equal ones once.
fn signed_fields(request: &Request<'_>) -> Result<Vec<u8>, Forged> {
    if request.method == Method::GET {
        return Ok(vec![]);
    }
    if request.is_form() {
        let fields = Fields::of_form(request.body).map_err(|_| Forged)?;
        let sorted: BTreeSet<(&str, &[u8])> = fields.iter().collect();
        return Ok(sorted.into_iter().flat_map(|(name, value)| [name.as_bytes(), value].concat()).collect());
    }
    let query = request.query_fields().map_err(|_| Forged)?;
    let said = query.text("bodySHA256").and_then(hex).ok_or(Forged)?;
    if same(&said, &sha256(request.body)) { Ok(vec![]) } else { Err(Forged) }
}

/// The URL without a port and with one.
fn addresses(request: &Request<'_>) -> [String; 2] {
    let url: &Url = request.url;
    let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    ["", &port]
        .map(|port| format!("{}://{}{port}{}{query}", url.scheme(), url.host_str().unwrap_or_default(), url.path()))
}
