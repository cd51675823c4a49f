//! Any other gateway that posts a form or JSON: where its fields are, and how it signs.
//!
//! The signature is an HMAC-SHA256 in a header, over the body, or over timestamp, full stop and body where there is a
//! header with a timestamp. Only the body is covered, so nothing is read from the query.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::{HeaderName, Method};
use ringtrue_domain::phone::AddressKind;
use serde_json::Value;

use super::{
    request::{Fields, Request},
    secret::{Secret, base64, hex},
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
};

#[derive(Clone, Debug)]
pub struct Generic {
    pub fields: FieldMap,
    pub signature: Option<GenericSignature>,
}

/// Names of fields; in JSON, a name that begins with `/` is a JSON pointer.
#[derive(Clone, Debug)]
pub struct FieldMap {
    pub from: String,
    pub to: String,
    pub text: String,
    /// What stays the same when the gateway sends a message again.
    pub id: Option<String>,
}

#[derive(Clone, Debug)]
pub struct GenericSignature {
    pub secret: Secret,
    pub header: HeaderName,
    pub encoding: TagEncoding,
    /// What stands before the signature in its header, such as `sha256=`.
    pub prefix: String,
    /// The header with the second in which the request was signed.
    pub timestamp: Option<HeaderName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagEncoding {
    Hex,
    Base64,
}

impl Vendor for Generic {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        match &self.signature {
            None => Ok(Proof::default()),
            Some(signature) => signature.check(request),
        }
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let source = if request.is_json() {
            Source::Json(request.json()?)
        } else if request.is_form() {
            Source::Form(Fields::of_form(request.body)?)
        } else {
            return Err(Unreadable);
        };
        let required = |name: &str| source.text(name).ok_or(Unreadable);
        Ok(vec![Message {
            id: self.fields.id.as_deref().map(required).transpose()?,
            from: source.text(&self.fields.from).unwrap_or_default(),
            to: required(&self.fields.to)?,
            kind: AddressKind::Unknown,
            text: Text::Whole(required(&self.fields.text)?),
        }])
    }
}

impl GenericSignature {
    fn check(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        let written = request.header(&self.header).and_then(|value| value.strip_prefix(&*self.prefix)).ok_or(Forged)?;
        let tag = match self.encoding {
            TagEncoding::Hex => hex(written),
            TagEncoding::Base64 => base64(written),
        };
        let timestamp = match &self.timestamp {
            Some(header) => Some(request.header(header).ok_or(Forged)?),
            None => None,
        };
        let signed = match timestamp {
            Some(timestamp) => [timestamp.as_bytes(), b".", request.body].concat(),
            None => request.body.to_vec(),
        };
        if !self.secret.signed(HMAC_SHA256, &signed, &tag.ok_or(Forged)?) {
            return Err(Forged);
        }
        timestamp.map_or(Ok(Proof::default()), Proof::at)
    }
}

enum Source<'a> {
    Json(Value),
    Form(Fields<'a>),
}

impl Source<'_> {
    fn text(&self, name: &str) -> Option<String> {
        match self {
            Source::Form(fields) => fields.text(name).map(str::to_owned),
            Source::Json(json) => {
                let value = if name.starts_with('/') { json.pointer(name) } else { json.get(name) };
                match value? {
                    Value::String(text) => Some(text.clone()),
                    Value::Number(number) => Some(number.to_string()),
                    _ => None,
                }
            }
        }
    }
}
