//! Rejects requests that are too large, ambiguous (RFC 9112) or for another region, and strips header enrichment
//! headers that a client may have forged.

use std::net::Ipv6Addr;

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, Version, header, uri::Authority};
use ringtrue_domain::region::Region;
use ringtrue_operators::header_enrichment::is_enrichment_header;

use crate::{
    app::App,
    error_catalog::ProblemCode,
    problem::Problem,
    request_context::{ClientKind, RoutePolicy},
};

const MAX_URL_BYTES: usize = 8 * 1024;
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// Maximum number of header fields, which hyper enforces. It is hyper's default: with any other limit, hyper would
/// allocate memory for the fields of every request.
const MAX_HEADER_COUNT: usize = 100;

/// Checks the head of a request before it reaches its handler.
pub fn check_request(app: &App, request: &Request, policy: RoutePolicy) -> Result<(), Problem> {
    let uri = request.uri();
    let url_length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if url_length > MAX_URL_BYTES {
        return Err(Problem::uri_too_long());
    }
    if headers_length(request.headers(), policy) > MAX_HEADER_BYTES {
        return Err(Problem::headers_too_large());
    }
    check_transfer_coding(request.headers())?;
    let host = target_host(request)?;
    if let Some(named) = host.and_then(Region::from_host)
        && named != app.engine.region()
    {
        let ours = app.engine.region();
        let detail = format!("the host name belongs to the region `{named}`, but this deployment serves `{ours}`");
        return Err(Problem::new(ProblemCode::WrongRegion, detail));
    }
    if is_ambiguous_path(uri.path()) { Err(Problem::not_found()) } else { Ok(()) }
}

impl Problem {
    pub fn uri_too_long() -> Self {
        Problem::new(ProblemCode::UriTooLong, format!("the URL exceeds the limit of {MAX_URL_BYTES} bytes"))
    }

    pub fn headers_too_large() -> Self {
        let detail =
            format!("the headers exceed the limit of {MAX_HEADER_BYTES} bytes in total or {MAX_HEADER_COUNT} fields");
        Problem::new(ProblemCode::RequestHeaderFieldsTooLarge, detail)
    }

    pub fn transfer_coding_not_implemented() -> Self {
        let detail = "unsupported `Transfer-Encoding`; only a single `chunked` is supported";
        Problem::new(ProblemCode::NotImplemented, detail).with_connection_close()
    }
}

/// Accepts only `chunked` as transfer coding. hyper decodes no others (RFC 9112, section 6.1).
fn check_transfer_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut fields = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (fields.next(), fields.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Problem::transfer_coding_not_implemented()),
    }
}

/// Returns the host of the request target, otherwise of the single `Host` field (RFC 9112, section 3.2). Only HTTP/1.0
/// requests may have neither.
fn target_host(request: &Request) -> Result<Option<&str>, Problem> {
    let invalid = |detail: &str| Problem::bad_request(detail).with_connection_close();
    let mut fields = request.headers().get_all(header::HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(invalid("repeated `Host` header"));
    }
    if field.is_none() && request.version() >= Version::HTTP_11 {
        return Err(invalid("the `Host` header is missing"));
    }
    let named =
        field.map(|value| parse_host(value).ok_or_else(|| invalid("the `Host` header is malformed"))).transpose()?;
    match request.uri().authority() {
        Some(authority) if is_valid_authority(authority) => Ok(request.uri().host()),
        Some(_) => Err(invalid("the host of the request target is malformed")),
        None => Ok(named),
    }
}

/// Parses a `Host` header and returns the host without the port.
fn parse_host(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?;
    let authority: Authority = text.parse().ok()?;
    text.get(..authority.host().len()).filter(|_| is_valid_authority(&authority))
}

/// Accepts `uri-host [ ":" port ]` without user information.
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

/// Removes header enrichment headers. Only operators' gateways may set them, and only on the enrichment listener.
pub fn strip_enrichment_headers(headers: &mut HeaderMap) {
    let forged: Vec<_> = headers.keys().filter(|name| is_enrichment_header(name.as_str())).cloned().collect();
    for name in forged {
        headers.remove(name);
    }
}

/// Returns the total length of the headers. For token endpoints it excludes `Authorization`, so that overlong
/// credentials are reported as invalid credentials, not as large headers.
fn headers_length(headers: &HeaderMap, policy: RoutePolicy) -> usize {
    headers
        .iter()
        .filter(|(name, _)| !(policy.client == ClientKind::OAuth && *name == header::AUTHORIZATION))
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}

/// Returns whether a proxy in front of this server may normalise the path to a different one. An escaped `/` or NUL is
/// not ambiguous; parameter parsers reject it.
fn is_ambiguous_path(path: &str) -> bool {
    let is_ambiguous_escape =
        |escape: &[u8]| matches!(escape, [b'2', b'e' | b'E'] | [b'5', b'c' | b'C'] | [b'3', b'b' | b'B']);
    let bytes = path.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b';' | b'\\' => true,
        b'%' => bytes.get(at + 1..at + 3).is_some_and(is_ambiguous_escape),
        b'/' => {
            matches!(&bytes[at + 1..], [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..])
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn host_header_is_a_name_or_address_with_optional_port() {
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
            assert_eq!(parse_host(&HeaderValue::from_static(value)), host, "{value:?}");
        }
    }

    #[test]
    fn enrichment_headers_are_stripped() {
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
        strip_enrichment_headers(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "x-forwarded-for", "x-request-id"]);
    }
    #[test]
    fn ambiguous_paths_are_detected() {
        for (path, is_ambiguous) in [
            ("/", false),
            ("/v1/sim-swap-checks", false),
            ("/v1/eligibility/phone-numbers/%2B447700900123", false),
            ("/v1/eligibility/device-ips/192.0.2.1", false),
            ("/v1/eligibility/device-ips/2001:db8::1", false),
            ("/.well-known/jwks.json", false),
            ("/...", false),
            ("/a..", false),
            ("/%2", false),
            ("/%", false),
            ("/a%2Fb", false),
            ("/a%00", false),
            ("*", false),
            ("//v1", true),
            ("/v1//a", true),
            ("/v1/a//", true),
            ("/./a", true),
            ("/a/.", true),
            ("/a/..", true),
            ("/a/../b", true),
            ("/a;b", true),
            ("/a\\b", true),
            ("/%2e", true),
            ("/%2E%2e/", true),
            ("/a%5cb", true),
            ("/a%3Bb", true),
        ] {
            assert_eq!(is_ambiguous_path(path), is_ambiguous, "{path}");
        }
    }
}
