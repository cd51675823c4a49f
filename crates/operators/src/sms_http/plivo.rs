//! Plivo: a form by POST, or the same fields in the query of a GET.
//!
//! Version 2 of Plivo's signature is an HMAC-SHA256 over the URL without its query and a nonce. It does not cover the
//! message, so anyone who has seen one request could forge another. The configuration therefore requires known
//! addresses or a path secret, and a nonce is accepted for one request only. Version 3 also covers the fields.
//!
//! The signature of the main account is accepted as well as that of the number's subaccount.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::Method;
use ringtrue_domain::phone::AddressKind;

use super::{
    request::{Fields, VendorRequest, WebhookResponse},
    secret::{Secret, decode_base64},
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Debug)]
pub struct Plivo {
    pub signature: Option<PlivoSignature>,
}

/// Signature version, with the account's auth token.
#[derive(Clone, Debug)]
pub enum PlivoSignature {
    V2(Secret),
    V3(Secret),
}

impl PlivoSignature {
    pub(super) fn covers_message(&self) -> bool {
        matches!(self, PlivoSignature::V3(_))
    }
}

impl WebhookVendor for Plivo {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(signature) = &self.signature else { return Ok(VerifiedSignature::default()) };
        let (token, names) = match signature {
            PlivoSignature::V2(token) => (token, ["x-plivo-signature-v2", "x-plivo-signature-ma-v2"]),
            PlivoSignature::V3(token) => (token, ["x-plivo-signature-v3", "x-plivo-signature-ma-v3"]),
        };
        let nonce = request.header(format!("{}-nonce", names[0])).ok_or(InvalidSignature)?;
        let signed_data = match signature {
            PlivoSignature::V2(_) => [request.url.as_str().as_bytes(), nonce.as_bytes()].concat(),
            PlivoSignature::V3(_) => [&v3_signed_data(request)?, &b"."[..], nonce.as_bytes()].concat(),
        };
        let tags = names.iter().filter_map(|name| request.header(*name)).flat_map(|list| list.split(','));
        let is_signed = tags
            .filter_map(|tag| decode_base64(tag.trim()))
            .any(|tag| token.verify_hmac(HMAC_SHA256, &signed_data, &tag));
        if is_signed { Ok(VerifiedSignature::default().with_nonce(nonce)) } else { Err(InvalidSignature) }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let fields = request.fields()?;
        Ok(vec![VendorMessage {
            id: Some(fields.required("MessageUUID")?.to_owned()),
            from: fields.sender("From")?,
            to: fields.required("To")?.to_owned(),
            kind: AddressKind::International,
            text: MessageText::Complete(fields.required("Text")?.to_owned()),
        }])
    }

    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::ok("application/xml", "<Response></Response>")
    }
}

/// URL, sorted query as `name=value`, a full stop, and the sorted form fields.
fn v3_signed_data(request: &VendorRequest<'_>) -> Result<Vec<u8>, InvalidSignature> {
    let query = request.query_fields().map_err(|_| InvalidSignature)?;
    let form = match *request.method {
        Method::GET => Fields::parse_form(b""),
        _ if request.is_form() => Fields::parse_form(request.body),
        _ => return Err(InvalidSignature),
    };
    let form = form.map_err(|_| InvalidSignature)?;

    let mut signed_data = request.url.as_str().as_bytes().to_vec();
    if !query.is_empty() || !form.is_empty() {
        signed_data.push(b'?');
    }
    signed_data.extend(sorted_pairs(&query, b"=").join(&b'&'));
    if !query.is_empty() && !form.is_empty() {
        signed_data.push(b'.');
    }
    signed_data.extend(sorted_pairs(&form, b"").concat());
    Ok(signed_data)
}

fn sorted_pairs(fields: &Fields<'_>, separator: &[u8]) -> Vec<Vec<u8>> {
    let mut pairs: Vec<(&str, &[u8])> = fields.iter().collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(name, value)| [name.as_bytes(), separator, value].concat()).collect()
}
