//! Parses URLs into canonical form.

use std::fmt;

use url::Host;

use super::{MAX_CHARS, UrlError};

/// An absolute `http` or `https` URL with a canonical origin.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct WebUrl {
    text: String,
    scheme: Scheme,
    host: Host,
    port: u16,
    /// Offset in `text` at which the authority ends and the request target starts.
    authority_end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

const SCHEME_SEPARATOR: &str = "://";

impl WebUrl {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        check_length(text)?;
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Blank);
        }
        let (scheme, rest) = split_scheme(text)?;
        if rest.contains('#') {
            return Err(UrlError::Fragment);
        }
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        let host = canonical_host(host)?;
        let port = port.unwrap_or(scheme.default_port());
        check_target(target)?;

        let origin = if port == scheme.default_port() {
            format!("{scheme}{SCHEME_SEPARATOR}{host}")
        } else {
            format!("{scheme}{SCHEME_SEPARATOR}{host}:{port}")
        };
        let authority_end = origin.len();
        let slash = if target.starts_with('/') { "" } else { "/" };
        let text = origin + slash + target;
        check_length(&text)?;
        Ok(Self { text, scheme, host, port, authority_end })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub const fn host(&self) -> &Host {
        &self.host
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Scheme and authority, such as `https://example.com:8443`.
    pub fn origin(&self) -> &str {
        &self.text[..self.authority_end]
    }

    pub fn authority(&self) -> &str {
        let origin = self.origin();
        origin.split_once(SCHEME_SEPARATOR).map_or(origin, |(_, authority)| authority)
    }

    pub fn target(&self) -> &str {
        &self.text[self.authority_end..]
    }
}

fn check_length(text: &str) -> Result<(), UrlError> {
    if text.chars().nth(MAX_CHARS).is_some() { Err(UrlError::TooLong) } else { Ok(()) }
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), UrlError> {
    let (name, rest) = text.split_once(':').ok_or(UrlError::NotAbsolute)?;
    let is_scheme_syntax = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let scheme = match name.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ if is_scheme_syntax => return Err(UrlError::SchemeUnsupported),
        _ => return Err(UrlError::NotAbsolute),
    };
    let rest = rest.strip_prefix("//").ok_or(UrlError::NotAbsolute)?;
    Ok((scheme, rest))
}

/// Splits an authority into host and optional port.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    // The colons of an IPv6 address are inside brackets, so the port's colon is searched after them.
    let after_brackets = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = authority[after_brackets..].find(':') else {
        return Ok((authority, None));
    };
    let (host, digits) = (&authority[..after_brackets + colon], &authority[after_brackets + colon + 1..]);
    // Rejects signs and leading zeros, and thereby also port 0.
    let is_plain_number = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    match digits.parse() {
        Ok(port) if is_plain_number => Ok((host, Some(port))),
        _ => Err(UrlError::PortInvalid),
    }
}

fn canonical_host(text: &str) -> Result<Host, UrlError> {
    if text.is_empty() {
        return Err(UrlError::HostMissing);
    }
    if text.ends_with('.') {
        return Err(UrlError::HostEndsInDot);
    }
    // `Host::parse` would percent-decode the name.
    if text.contains('%') {
        return Err(UrlError::HostInvalid);
    }
    let host = Host::parse(text).map_err(|_| UrlError::HostInvalid)?;
    if let Host::Domain(name) = &host {
        check_dns_name(name)?;
    }
    Ok(host)
}

/// Checks that a name is valid in DNS. `Host` accepts more, such as `a..b` and `{x}.example`.
fn check_dns_name(name: &str) -> Result<(), UrlError> {
    const MAX_NAME_LENGTH: usize = 253;
    const MAX_LABEL_LENGTH: usize = 63;
    if name.ends_with('.') {
        return Err(UrlError::HostEndsInDot);
    }
    let labels_are_valid = name.split('.').all(|label| {
        (1..=MAX_LABEL_LENGTH).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    });
    if labels_are_valid && name.len() <= MAX_NAME_LENGTH { Ok(()) } else { Err(UrlError::HostInvalid) }
}

/// Checks that a request target has only characters that RFC 3986 allows, because it is sent unchanged. Brackets are
/// also accepted, because `?id[]=1` is common.
fn check_target(target: &str) -> Result<(), UrlError> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%[]".contains(&b);
    let escapes_are_complete =
        target.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit()));
    if !target.bytes().all(is_allowed) || !escapes_are_complete {
        return Err(UrlError::NotEncoded);
    }
    let path = target.split('?').next().unwrap_or(target);
    // Proxies and other URL parsers treat an encoded dot as a dot.
    let has_dot_segment =
        path.to_ascii_lowercase().replace("%2e", ".").split('/').any(|part| part == "." || part == "..");
    if has_dot_segment { Err(UrlError::DotSegment) } else { Ok(()) }
}
