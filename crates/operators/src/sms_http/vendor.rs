//! Interface of vendor drivers: requests, signatures, messages and responses.

use std::{borrow::Cow, net::IpAddr};

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use jiff::Timestamp;
use percent_encoding::percent_decode;
use ringtrue_domain::phone::SmsAddressKind;
use ringtrue_smpp::{
    text::{DataCoding, DefaultAlphabet},
    udh::{self, Segment},
};
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;
use url::Url;

/// Webhook format of one vendor. Drivers only translate; deduplication, routing and storage happen elsewhere.
pub(super) trait WebhookVendor {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    /// Verifies the signature of a request. This default is for vendors that do not sign, and accepts every request.
    /// The configuration then requires a path secret or known addresses.
    fn verify_signature(&self, _request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        Ok(VerifiedSignature::default())
    }

    /// Parses the messages of a verified request. Empty for status reports and other requests without a message.
    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest>;

    /// Returns the response that stops the vendor from resending.
    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::empty(StatusCode::OK)
    }

    /// Returns the response to malformed requests.
    fn malformed_response(&self) -> WebhookResponse {
        WebhookResponse::empty(StatusCode::BAD_REQUEST)
    }
}

/// Properties of a valid signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VerifiedSignature {
    pub signed_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// Digest of the single-use nonce. `None`: the signature has no nonce.
    pub nonce: Option<Digest>,
}

impl VerifiedSignature {
    /// Parses the timestamp of a request (Unix seconds).
    pub fn parse_signed_at(seconds: &str) -> Result<Self, InvalidSignature> {
        let seconds = seconds.parse().map_err(|_| InvalidSignature)?;
        let signed_at = Timestamp::from_second(seconds).map_err(|_| InvalidSignature)?;
        Ok(VerifiedSignature { signed_at: Some(signed_at), ..VerifiedSignature::default() })
    }

    pub fn with_nonce(self, nonce: &str) -> Self {
        VerifiedSignature { nonce: Some(digest_parts(&[nonce.as_bytes()])), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidSignature;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedRequest;

/// A message as received from a vendor. No `Debug`: none of it may be logged.
pub(super) struct VendorMessage {
    /// Id of the message, which stays the same when the vendor resends the message.
    pub id: Option<String>,
    /// Address of the sender. Empty if it is withheld.
    pub from: String,
    pub to: String,
    /// Format of numbers without a `+`.
    pub address_kind: SmsAddressKind,
    pub text: MessageText,
}

impl VendorMessage {
    /// Returns the key for deduplication, which stays the same when the vendor resends the message or part. `None`: a
    /// complete message without an id.
    pub fn deduplication_key(&self) -> Option<Digest> {
        match &self.text {
            // A message to several of our numbers counts once per number.
            MessageText::Complete(_) => self.id.as_deref().map(|id| digest_parts(&[id.as_bytes(), self.to.as_bytes()])),
            MessageText::Part(part) => Some(self.part_key(part)),
        }
    }

    /// Returns the key of a part. It includes the content, because some vendors use one id for all parts and some
    /// gateways use none.
    pub fn part_key(&self, MessagePart { segment, octets, .. }: &MessagePart) -> Digest {
        digest_parts(&[
            self.id.as_deref().unwrap_or_default().as_bytes(),
            self.from.as_bytes(),
            self.to.as_bytes(),
            &segment.reference.to_octets(),
            &[segment.total, segment.sequence],
            octets,
        ])
    }
}

/// Deserialises a sender; empty unless it is a string or a number.
pub(super) fn deserialize_sender<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    })
}

pub(super) enum MessageText {
    Complete(String),
    Part(MessagePart),
}

/// Part of a concatenated message.
pub(super) struct MessagePart {
    pub segment: Segment,
    pub data_coding: DataCoding,
    pub octets: Vec<u8>,
}

impl MessageText {
    /// Decodes octets with a user data header (UDH), which identifies parts of a concatenated message.
    pub fn from_user_data(header: &[u8], data_coding: DataCoding, octets: Vec<u8>) -> Self {
        let segment = udh::split_header(header).ok().and_then(|(header, _)| header.segment().ok().flatten());
        match segment {
            Some(segment) => MessageText::Part(MessagePart { segment, data_coding, octets }),
            None => MessageText::Complete(data_coding.text_coding(DefaultAlphabet::default()).decode(&octets)),
        }
    }
}

pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 256;

/// A request from the HTTP server. `Debug` omits path, query and body, which may contain secrets and texts.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("WebhookRequest({method}, {} bytes)", body.len())]
pub struct WebhookRequest<'a> {
    pub method: &'a Method,
    pub path_and_query: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// Client address. Behind a trusted proxy, the address that the proxy forwards.
    pub peer: IpAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookResponse {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: &'static str,
}

impl WebhookResponse {
    pub(super) const fn empty(status: StatusCode) -> Self {
        WebhookResponse { status, content_type: "text/plain", body: "" }
    }

    pub(super) const fn ok(content_type: &'static str, body: &'static str) -> Self {
        WebhookResponse { status: StatusCode::OK, content_type, body }
    }
}

/// The request that a driver verifies and parses. Its address and path secret have been checked.
#[derive(Clone, Copy)]
pub(super) struct VendorRequest<'a> {
    pub method: &'a Method,
    /// The URL registered with the vendor: it includes the path secret, but no query.
    pub url: &'a Url,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl<'a> VendorRequest<'a> {
    /// Returns the value of a header. `None`: the header is missing, repeated or not text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// Returns the registered URL with the query, which most vendors sign.
    pub fn signed_url(&self) -> String {
        let query = self.query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.url)
    }

    /// Returns the media type without parameters, in lower case.
    pub fn content_type(&self) -> String {
        let whole = self.header(CONTENT_TYPE).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    pub fn is_json(&self) -> bool {
        self.content_type() == "application/json"
    }

    pub fn is_form(&self) -> bool {
        self.content_type() == "application/x-www-form-urlencoded"
    }

    pub fn query_fields(&self) -> Result<Fields<'a>, MalformedRequest> {
        Fields::parse_form(self.query.unwrap_or_default().as_bytes())
    }

    /// Parses the fields of a form or of a flat JSON object.
    pub fn body_fields(&self) -> Result<Fields<'a>, MalformedRequest> {
        if self.is_form() {
            Fields::parse_form(self.body)
        } else if self.is_json() {
            Fields::parse_json(self.body)
        } else {
            Err(MalformedRequest)
        }
    }

    /// Parses the fields of the query for GET, otherwise those of the body.
    pub fn fields(&self) -> Result<Fields<'a>, MalformedRequest> {
        if self.method == Method::GET { self.query_fields() } else { self.body_fields() }
    }

    pub fn json(&self) -> Result<Value, MalformedRequest> {
        if !self.is_json() {
            return Err(MalformedRequest);
        }
        serde_json::from_slice(self.body).map_err(|_| MalformedRequest)
    }
}

/// Names and values of fields, in the order of the request.
pub(super) struct Fields<'a>(Vec<(String, Cow<'a, [u8]>)>);

impl<'a> Fields<'a> {
    /// Parses `application/x-www-form-urlencoded`. Values are octets: some gateways send UTF-16 and user data headers.
    pub fn parse_form(form: &'a [u8]) -> Result<Self, MalformedRequest> {
        let pairs: Vec<&[u8]> = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).collect();
        if pairs.len() > MAX_FIELDS {
            return Err(MalformedRequest);
        }
        let decode = |pair: &'a [u8]| {
            let middle = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = middle.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
            let name = String::from_utf8(decode_percent(name)?.into_owned()).ok()?;
            Some((name, decode_percent(value)?))
        };
        pairs.into_iter().map(decode).collect::<Option<_>>().map(Fields).ok_or(MalformedRequest)
    }

    pub fn parse_json(body: &[u8]) -> Result<Self, MalformedRequest> {
        let object: serde_json::Map<String, Value> = serde_json::from_slice(body).map_err(|_| MalformedRequest)?;
        if object.len() > MAX_FIELDS {
            return Err(MalformedRequest);
        }
        let decode = |(name, value)| match value {
            Value::String(text) => Some((name, text.into_bytes().into())),
            Value::Number(number) => Some((name, number.to_string().into_bytes().into())),
            Value::Bool(truth) => Some((name, truth.to_string().into_bytes().into())),
            Value::Null => Some((name, Cow::Borrowed(&[][..]))),
            Value::Array(_) | Value::Object(_) => None,
        };
        object.into_iter().map(decode).collect::<Option<_>>().map(Fields).ok_or(MalformedRequest)
    }

    /// Returns the octets of a field. `None`: the field is missing or repeated.
    pub fn octets(&self, name: &str) -> Option<&[u8]> {
        let mut found = self.0.iter().filter(|(field, _)| field == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }

    /// Returns the text of a field. `None`: the field is missing, repeated or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.octets(name)?).ok()
    }

    pub fn required(&self, name: &str) -> Result<&str, MalformedRequest> {
        self.text(name).ok_or(MalformedRequest)
    }

    /// Returns the sender. Empty if the field is missing or not UTF-8; an error if it is repeated.
    pub fn sender(&self, name: &str) -> Result<String, MalformedRequest> {
        let mut found = self.0.iter().filter(|(field, _)| field == name);
        let sender = found.next().and_then(|(_, value)| str::from_utf8(value).ok()).unwrap_or_default();
        if found.next().is_none() { Ok(sender.to_owned()) } else { Err(MalformedRequest) }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Decodes `+` and `%XX`. `None`: invalid escape.
pub(super) fn decode_percent(escaped: &[u8]) -> Option<Cow<'_, [u8]>> {
    let is_escape = |rest: &[u8]| rest.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    // Invalid escapes are rejected here, because `percent_decode` accepts them.
    if !escaped.split(|byte| *byte == b'%').skip(1).all(is_escape) {
        return None;
    }
    if !escaped.contains(&b'+') {
        return Some(percent_decode(escaped).into());
    }
    let spaced: Vec<u8> = escaped.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Some(percent_decode(&spaced).collect())
}

/// Compares two slices, in constant time if their lengths are equal.
pub(super) fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

pub(super) type Digest = [u8; 32];

/// Computes a digest of several parts, each prefixed with its length so that different lists never collide.
pub(super) fn digest_parts(parts: &[&[u8]]) -> Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    to_array(&context.finish())
}

pub(super) fn sha256(data: &[u8]) -> Digest {
    to_array(&digest::digest(&digest::SHA256, data))
}

fn to_array(digest: &digest::Digest) -> Digest {
    let mut octets = [0; 32];
    octets.copy_from_slice(digest.as_ref());
    octets
}

pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

pub(super) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    hex::decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<Vec<(String, Vec<u8>)>> {
        let fields = Fields::parse_form(text.as_bytes()).ok()?;
        Some(fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn forms_are_decoded_to_octets() {
        let pair = |name: &str, value: &[u8]| (name.to_owned(), value.to_owned());
        assert_eq!(
            form("a=1&b=%2B+x&&c&=d"),
            Some(vec![pair("a", b"1"), pair("b", b"+ x"), pair("c", b""), pair("", b"d"),])
        );
        assert_eq!(form("t=%FE%ff=="), Some(vec![pair("t", b"\xFE\xFF==")]));
        assert_eq!(form(""), Some(vec![]));
        for bad in ["a=%", "a=%4", "a=%4g", "a=%+1", "%FF=a", &"a&".repeat(257)] {
            assert_eq!(form(bad), None, "{bad}");
        }
    }

    #[test]
    fn repeated_field_is_ignored() {
        let fields = Fields::parse_form(b"a=1&a=2&b=%FF&c=3").unwrap_or_else(|_| Fields(vec![]));
        assert_eq!((fields.text("a"), fields.text("b"), fields.text("c")), (None, None, Some("3")));
    }

    #[test]
    fn only_flat_objects_are_fields() {
        assert!(Fields::parse_json(br#"{"a":{}}"#).is_err());
        let fields = Fields::parse_json(br#"{"a":"x","b":7,"c":true,"d":null}"#).unwrap_or_else(|_| Fields(vec![]));
        let texts = ["a", "b", "c", "d"].map(|name| fields.text(name).unwrap_or("-"));
        assert_eq!(texts, ["x", "7", "true", ""]);
    }

    #[test]
    fn digest_depends_on_part_boundaries() {
        assert_ne!(digest_parts(&[b"ab", b"c"]), digest_parts(&[b"a", b"bc"]));
        assert_ne!(digest_parts(&[b"ab"]), digest_parts(&[b"ab", b""]));
    }
}
