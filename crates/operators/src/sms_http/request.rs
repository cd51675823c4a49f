//! Webhook requests and responses.

use std::{borrow::Cow, fmt, net::IpAddr};

use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use url::Url;

use super::vendor::MalformedRequest;

pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 256;

/// A request from the HTTP server.
#[derive(Clone, Copy)]
pub struct WebhookRequest<'a> {
    pub method: &'a Method,
    pub path_and_query: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// Client address, resolved through trusted proxies.
    pub peer: IpAddr,
}

/// Masked: the path may contain a secret, query and body contain texts.
impl fmt::Debug for WebhookRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookRequest")
            .field("method", self.method)
            .field("octets", &self.body.len())
            .finish_non_exhaustive()
    }
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

/// The request as passed to drivers.
#[derive(Clone, Copy)]
pub(super) struct VendorRequest<'a> {
    pub method: &'a Method,
    /// The registered URL, with the path secret, without a query.
    pub url: &'a Url,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl<'a> VendorRequest<'a> {
    /// Value of a header that occurs once and is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// Registered URL with the query: the text that most vendors sign.
    pub fn signed_url(&self) -> String {
        let query = self.query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.url)
    }

    /// Media type without parameters, in lower case.
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

    /// Fields of a form or of a flat JSON object.
    pub fn body_fields(&self) -> Result<Fields<'a>, MalformedRequest> {
        if self.is_form() {
            Fields::parse_form(self.body)
        } else if self.is_json() {
            Fields::parse_json(self.body)
        } else {
            Err(MalformedRequest)
        }
    }

    /// Fields of the query for GET, otherwise of the body.
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

/// Names and values in request order.
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

    /// Octets of a field that occurs once.
    pub fn octets(&self, name: &str) -> Option<&[u8]> {
        let mut found = self.0.iter().filter(|(field, _)| field == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }

    /// Text of a field that occurs once and is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.octets(name)?).ok()
    }

    pub fn required(&self, name: &str) -> Result<&str, MalformedRequest> {
        self.text(name).ok_or(MalformedRequest)
    }

    /// Sender; empty if missing or not UTF-8.
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
    if !escaped.iter().any(|byte| b"+%".contains(byte)) {
        return Some(escaped.into());
    }
    let mut octets = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        octets.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                super::secret::decode_hex(str::from_utf8(digits).ok()?)?.pop()?
            }
            other => other,
        });
    }
    Some(octets.into())
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
}
