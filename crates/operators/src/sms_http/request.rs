//! A webhook's request, and the pieces that vendors' documentation speaks of.

use std::{borrow::Cow, fmt, net::IpAddr};

use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use url::Url;

use super::vendor::Unreadable;

/// More than any SMS needs.
pub(super) const MAX_BODY: usize = 64 * 1024;
const MAX_FIELDS: usize = 256;

/// A request as the HTTP server has read it.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    pub method: &'a Method,
    pub path_and_query: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// Who sent it, behind any proxy that is trusted.
    pub peer: IpAddr,
}

/// Masked: the path may hold a secret, the query and the body hold a text.
impl fmt::Debug for Incoming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("method", self.method)
            .field("octets", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What the vendor is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: &'static str,
}

impl Reply {
    pub(super) const fn empty(status: StatusCode) -> Self {
        Reply { status, content_type: "text/plain", body: "" }
    }

    pub(super) const fn ok(content_type: &'static str, body: &'static str) -> Self {
        Reply { status: StatusCode::OK, content_type, body }
    }
}

/// The request as drivers see it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub method: &'a Method,
    /// What the vendor was told to call, with the path's secret, without a query.
    pub url: &'a Url,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// A header's value, if it is there once and is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// What the vendor called, with its query: the text that most vendors sign.
    pub fn signed_url(&self) -> String {
        let query = self.query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.url)
    }

    /// The media type alone, in lower case.
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

    pub fn query_fields(&self) -> Result<Fields<'a>, Unreadable> {
        Fields::of_form(self.query.unwrap_or_default().as_bytes())
    }

    /// The fields of a form, or of a JSON object whose values are scalars.
    pub fn body_fields(&self) -> Result<Fields<'a>, Unreadable> {
        if self.is_form() {
            Fields::of_form(self.body)
        } else if self.is_json() {
            Fields::of_json(self.body)
        } else {
            Err(Unreadable)
        }
    }

    /// Of the query when that is all there is, else of the body.
    pub fn fields(&self) -> Result<Fields<'a>, Unreadable> {
        if self.method == Method::GET { self.query_fields() } else { self.body_fields() }
    }

    pub fn json(&self) -> Result<Value, Unreadable> {
        if !self.is_json() {
            return Err(Unreadable);
        }
        serde_json::from_slice(self.body).map_err(|_| Unreadable)
    }
}

/// Names and values, in the order of the request.
pub(super) struct Fields<'a>(Vec<(String, Cow<'a, [u8]>)>);

impl<'a> Fields<'a> {
    /// `application/x-www-form-urlencoded`, with values as octets: some gateways put UTF-16 and headers there.
    pub fn of_form(form: &'a [u8]) -> Result<Self, Unreadable> {
        let pairs: Vec<&[u8]> = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).collect();
        if pairs.len() > MAX_FIELDS {
            return Err(Unreadable);
        }
        let read = |pair: &'a [u8]| {
            let middle = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = middle.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
            let name = String::from_utf8(unescape(name)?.into_owned()).ok()?;
            Some((name, unescape(value)?))
        };
        pairs.into_iter().map(read).collect::<Option<_>>().map(Fields).ok_or(Unreadable)
    }

    pub fn of_json(body: &[u8]) -> Result<Self, Unreadable> {
        let object: serde_json::Map<String, Value> = serde_json::from_slice(body).map_err(|_| Unreadable)?;
        if object.len() > MAX_FIELDS {
            return Err(Unreadable);
        }
        let read = |(name, value)| match value {
            Value::String(text) => Some((name, text.into_bytes().into())),
            Value::Number(number) => Some((name, number.to_string().into_bytes().into())),
            Value::Bool(truth) => Some((name, truth.to_string().into_bytes().into())),
            Value::Null => Some((name, Cow::Borrowed(&[][..]))),
            Value::Array(_) | Value::Object(_) => None,
        };
        object.into_iter().map(read).collect::<Option<_>>().map(Fields).ok_or(Unreadable)
    }

    /// A field's octets, if it is there once.
    pub fn octets(&self, name: &str) -> Option<&[u8]> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }

    /// A field as text, if it is there once and is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.octets(name)?).ok()
    }

    pub fn required(&self, name: &str) -> Result<&str, Unreadable> {
        self.text(name).ok_or(Unreadable)
    }

    /// The sender. One that is withheld may be absent, and one that is not UTF-8 is as good as withheld: both are empty.
    pub fn sender(&self, name: &str) -> Result<String, Unreadable> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let sender = found.next().and_then(|(_, value)| str::from_utf8(value).ok()).unwrap_or_default();
        if found.next().is_none() { Ok(sender.to_owned()) } else { Err(Unreadable) }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A `+` is a space, `%` and two hexadecimal digits are an octet. Anything else after a `%` is nothing.
pub(super) fn unescape(escaped: &[u8]) -> Option<Cow<'_, [u8]>> {
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
                super::secret::hex(str::from_utf8(digits).ok()?)?.pop()?
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
        let fields = Fields::of_form(text.as_bytes()).ok()?;
        Some(fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn forms_are_read_octet_by_octet() {
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
    fn a_field_that_is_there_twice_is_not_there() {
        let fields = Fields::of_form(b"a=1&a=2&b=%FF&c=3").unwrap_or_else(|_| Fields(vec![]));
        assert_eq!((fields.text("a"), fields.text("b"), fields.text("c")), (None, None, Some("3")));
    }

    #[test]
    fn objects_are_fields_when_they_are_flat() {
        assert!(Fields::of_json(br#"{"a":{}}"#).is_err());
        let fields = Fields::of_json(br#"{"a":"x","b":7,"c":true,"d":null}"#).unwrap_or_else(|_| Fields(vec![]));
        let texts = ["a", "b", "c", "d"].map(|name| fields.text(name).unwrap_or("-"));
        assert_eq!(texts, ["x", "7", "true", ""]);
    }
}
