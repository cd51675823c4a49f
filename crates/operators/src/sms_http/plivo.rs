//! Plivo: a form by POST, or the same fields in the query of a GET.
//!
//! Messages are signed by version 2 of Plivo's scheme, HMAC-SHA256 over the URL without its query and a nonce. That
//! covers no message: who has seen one request could write another, so the configuration insists on known addresses or
//! a path secret, and a nonce is not taken for two requests. Version 3 covers the fields too.
//!
//! The signature of the main account is accepted beside that of the subaccount whose number it is.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::Method;
use ringtrue_domain::phone::AddressKind;

use super::{
    request::{Fields, Reply, Request},
    secret::{Secret, base64},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
};

#[derive(Clone, Debug)]
pub struct Plivo {
    pub signature: Option<PlivoSignature>,
}

/// The version of the scheme, with the token of the account.
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

impl Vendor for Plivo {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let Some(signature) = &self.signature else { return Ok(Proof::default()) };
        let (token, names) = match signature {
            PlivoSignature::V2(token) => (token, ["x-plivo-signature-v2", "x-plivo-signature-ma-v2"]),
            PlivoSignature::V3(token) => (token, ["x-plivo-signature-v3", "x-plivo-signature-ma-v3"]),
        };
        let nonce = request.header(format!("{}-nonce", names[0])).ok_or(Forged)?;
        let signed = match signature {
            PlivoSignature::V2(_) => [request.url.as_str().as_bytes(), nonce.as_bytes()].concat(),
            PlivoSignature::V3(_) => [&signed_by_v3(request)?, &b"."[..], nonce.as_bytes()].concat(),
        };
        let tags = names.iter().filter_map(|name| request.header(*name)).flat_map(|list| list.split(','));
        let is_signed = tags.filter_map(|tag| base64(tag.trim())).any(|tag| token.signed(HMAC_SHA256, &signed, &tag));
        if is_signed { Ok(Proof::default().once(nonce)) } else { Err(Forged) }
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let fields = request.fields()?;
        Ok(vec![Message {
            id: Some(fields.required("MessageUUID")?.to_owned()),
            from: fields.sender("From")?,
            to: fields.required("To")?.to_owned(),
            kind: AddressKind::International,
            text: Text::Whole(fields.required("Text")?.to_owned()),
        }])
    }

    fn acknowledgement(&self) -> Reply {
        Reply::ok("application/xml", "<Response></Response>")
    }
}

/// The URL, its sorted query as `name=value`, and after a full stop the sorted fields of the form.
fn signed_by_v3(request: &Request<'_>) -> Result<Vec<u8>, Forged> {
    let query = request.query_fields().map_err(|_| Forged)?;
    let form = match *request.method {
        Method::GET => Fields::of_form(b""),
        _ if request.is_form() => Fields::of_form(request.body),
        _ => return Err(Forged),
    };
    let form = form.map_err(|_| Forged)?;

    let mut signed = request.url.as_str().as_bytes().to_vec();
    if !query.is_empty() || !form.is_empty() {
        signed.push(b'?');
    }
    signed.extend(sorted(&query, b"=").join(&b'&'));
    if !query.is_empty() && !form.is_empty() {
        signed.push(b'.');
    }
    signed.extend(sorted(&form, b"").concat());
    Ok(signed)
}

fn sorted(fields: &Fields<'_>, between: &[u8]) -> Vec<Vec<u8>> {
    let mut pairs: Vec<(&str, &[u8])> = fields.iter().collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(name, value)| [name.as_bytes(), between, value].concat()).collect()
}
