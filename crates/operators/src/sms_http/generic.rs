//! Configurable driver for any gateway that posts a form or JSON.
//!
//! The signature is an HMAC-SHA256 in a header, over the body, or over `timestamp.body` if a timestamp header is
//! configured. It does not cover the query, which is therefore ignored.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::{HeaderName, Method};
use ringtrue_domain::phone::AddressKind;
use serde_json::Value;

use super::{
    request::{Fields, VendorRequest},
    secret::{Secret, decode_base64, decode_hex},
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Debug)]
pub struct Generic {
    pub fields: FieldMap,
    pub signature: Option<GenericSignature>,
}

/// Field names; in JSON, a name that begins with `/` is a JSON pointer.
#[derive(Clone, Debug)]
pub struct FieldMap {
    pub from: String,
    pub to: String,
    pub text: String,
    /// Stable when the gateway resends a message.
    pub id: Option<String>,
}

#[derive(Clone, Debug)]
pub struct GenericSignature {
    pub secret: Secret,
    pub header: HeaderName,
    pub encoding: TagEncoding,
    /// Text before the signature in its header, such as `sha256=`.
    pub prefix: String,
    /// Header with the signing time in Unix seconds.
    pub timestamp: Option<HeaderName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagEncoding {
    Hex,
    Base64,
}

impl WebhookVendor for Generic {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        match &self.signature {
            None => Ok(VerifiedSignature::default()),
            Some(signature) => signature.verify(request),
        }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let body_fields = if request.is_json() {
            BodyFields::Json(request.json()?)
        } else if request.is_form() {
            BodyFields::Form(Fields::parse_form(request.body)?)
        } else {
            return Err(MalformedRequest);
        };
        let required = |name: &str| body_fields.text(name).ok_or(MalformedRequest);
        Ok(vec![VendorMessage {
            id: self.fields.id.as_deref().map(required).transpose()?,
            from: body_fields.text(&self.fields.from).unwrap_or_default(),
            to: required(&self.fields.to)?,
            kind: AddressKind::Unknown,
            text: MessageText::Complete(required(&self.fields.text)?),
        }])
    }
}

impl GenericSignature {
    fn verify(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let written =
            request.header(&self.header).and_then(|value| value.strip_prefix(&*self.prefix)).ok_or(InvalidSignature)?;
        let tag = match self.encoding {
            TagEncoding::Hex => decode_hex(written),
            TagEncoding::Base64 => decode_base64(written),
        };
        let timestamp = match &self.timestamp {
            Some(header) => Some(request.header(header).ok_or(InvalidSignature)?),
            None => None,
        };
        let signed_data = match timestamp {
            Some(timestamp) => [timestamp.as_bytes(), b".", request.body].concat(),
            None => request.body.to_vec(),
        };
        if !self.secret.verify_hmac(HMAC_SHA256, &signed_data, &tag.ok_or(InvalidSignature)?) {
            return Err(InvalidSignature);
        }
        timestamp.map_or(Ok(VerifiedSignature::default()), VerifiedSignature::signed_at_second)
    }
}

enum BodyFields<'a> {
    Json(Value),
    Form(Fields<'a>),
}

impl BodyFields<'_> {
    fn text(&self, name: &str) -> Option<String> {
        match self {
            BodyFields::Form(fields) => fields.text(name).map(str::to_owned),
            BodyFields::Json(json) => {
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
