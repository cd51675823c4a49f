//! What happens to a request before anybody reads it: it is refused if it is too large, ambiguous (RFC 9112) or for
//! another region, and loses what it must not say.

use std::net::Ipv6Addr;

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, Version, header, uri::Authority};
use ringtrue_domain::region::Region;
use ringtrue_operators::header_enrichment::is_enrichment;

use super::{
    App,
    catalogue::Code,
    problem::{Problem, is_token_endpoint},
};

const MAX_URL: usize = 8 * 1024;
const MAX_HEADERS: usize = 8 * 1024;
/// More header fields than this are larger than [`MAX_HEADERS`]: each has a name, and four bytes around it.
pub const MAX_HEADER_COUNT: usize = MAX_HEADERS / 5;

/// What can be refused before anybody looks closer.
pub fn admit(app: &App, request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let url_length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if url_length > MAX_URL {
        return Err(Problem::uri_too_long());
    }
    if headers_length(request) > MAX_HEADERS {
        return Err(Problem::headers_too_large());
    }
    check_transfer_coding(request.headers())?;
    let host = target_host(request)?;
    if let Some(named) = host.and_then(Region::of_host)
        && named != app.engine.region()
    {
        let ours = app.engine.region();
        let detail = format!("this host name is of the region `{named}`; this deployment is of `{ours}`");
        return Err(Problem::new(Code::WrongRegion, detail));
    }
    Ok(())
}

impl Problem {
    pub fn uri_too_long() -> Self {
        Problem::new(Code::UriTooLong, format!("a URL has at most {MAX_URL} bytes"))
    }

    pub fn headers_too_large() -> Self {
        let detail = format!("the headers have at most {MAX_HEADERS} bytes together");
        Problem::new(Code::RequestHeaderFieldsTooLarge, detail)
    }

    pub fn transfer_coding_not_implemented() -> Self {
        let detail = "`Transfer-Encoding` must be a single `chunked`; no other transfer coding is implemented";
        Problem::new(Code::NotImplemented, detail).closing_connection()
    }
}

/// RFC 9112, section 6.1: hyper decodes `chunked` if it comes last, and nothing else.
fn check_transfer_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut fields = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (fields.next(), fields.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Problem::transfer_coding_not_implemented()),
    }
}

/// The host that a request is for (RFC 9112, section 3.2): of an absolute target, else of the one `Host` field. Only
/// HTTP/1.0 may leave it out.
fn target_host(request: &Request) -> Result<Option<&str>, Problem> {
    let invalid = |detail: &str| Problem::bad_request(detail).closing_connection();
    let mut fields = request.headers().get_all(header::HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(invalid("send one `Host` header, not several"));
    }
    if field.is_none() && request.version() >= Version::HTTP_11 {
        return Err(invalid("the `Host` header is missing"));
    }
    let named =
        field.map(|value| host_of(value).ok_or_else(|| invalid("the `Host` header is malformed"))).transpose()?;
    match request.uri().authority() {
        Some(authority) if is_valid_authority(authority) => Ok(request.uri().host()),
        Some(_) => Err(invalid("the host of the request target is malformed")),
        None => Ok(named),
    }
}

/// The host in the value of a `Host` header, without its port.
fn host_of(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?;
    let authority: Authority = text.parse().ok()?;
    text.get(..authority.host().len()).filter(|_| is_valid_authority(&authority))
}

/// `uri-host [ ":" port ]`: a name or an address, nobody's credentials, and a port that there can be.
fn is_valid_authority(authority: &Authority) -> bool {
    let host = authority.host();
    let Some(port) = authority.as_str().strip_prefix(host) else { return false };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok());
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']', ':', '%']),
    };
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Takes out what only gateways of operators may say, and only elsewhere.
pub fn strip_enrichment(headers: &mut HeaderMap) {
    let forged: Vec<_> = headers.keys().filter(|name| is_enrichment(name.as_str())).cloned().collect();
    for name in forged {
        headers.remove(name);
    }
}

/// At the token endpoints a credential of any length is judged as a credential.
fn headers_length(request: &Request) -> usize {
    let judges_credentials = is_token_endpoint(request.uri().path());
    request
        .headers()
        .iter()
        .filter(|(name, _)| !(judges_credentials && *name == header::AUTHORIZATION))
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for (value, host) in [
            ("eu.example.com", Some("eu.example.com")),
            ("eu.example.com:8443", Some("eu.example.com")),
            ("localhost:", Some("localhost")),
            ("my_service", Some("my_service")),
            ("192.0.2.1:80", Some("192.0.2.1")),
            ("[2001:db8::1]", Some("[2001:db8::1]")),
            ("[2001:db8::1]:80", Some("[2001:db8::1]")),
            ("", None),
            ("a b", None),
            ("a/b", None),
            ("a?b", None),
            ("http://a", None),
            ("user@a", None),
            ("user:secret@a", None),
            ("a:b", None),
            ("a:80:80", None),
            ("a:65536", None),
            ("a:+80", None),
            (":80", None),
            ("2001:db8::1", None),
            ("[2001:db8::1", None),
            ("[a]", None),
            ("[::1]a", None),
            ("a%20b", None),
            ("a\\b", None),
            ("a\tb", None),
        ] {
            assert_eq!(host_of(&HeaderValue::from_static(value)), host, "{value:?}");
        }
    }

    #[test]
    fn headers_that_only_operators_may_write_are_taken_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("Host", "example.com"),
            ("X-MSISDN", "447700900123"),
            ("x-msisdn", "447700900124"),
            ("X-UP-CALLING-LINE-ID", "447700900123"),
            ("msisdn", "447700900123"),
            ("X-Forwarded-For", "192.0.2.1"),
            ("X-Request-Id", "one"),
        ] {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value));
        }
        strip_enrichment(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "x-forwarded-for", "x-request-id"]);
    }
}
