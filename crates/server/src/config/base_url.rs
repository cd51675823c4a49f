//! Public base URL of a deployment.

use std::{fmt, net::IpAddr, str::FromStr};

use url::{Host, Url};

/// Scheme, host and non-default port, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    host: Host,
    is_https: bool,
}

impl BaseUrl {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host name or IP address.
    pub fn host(&self) -> String {
        self.host.to_string()
    }

    pub fn is_https(&self) -> bool {
        self.is_https
    }

    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => IpAddr::from(*address).to_canonical().is_loopback(),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a scheme and a host, such as https://eu.verify.example.com")]
pub struct InvalidBaseUrl;

impl FromStr for BaseUrl {
    type Err = InvalidBaseUrl;

    fn from_str(text: &str) -> Result<Self, InvalidBaseUrl> {
        let url = Url::parse(text).map_err(|_| InvalidBaseUrl)?;
        let host = url.host().ok_or(InvalidBaseUrl)?.to_owned();
        let is_bare = url.path() == "/"
            && !text.ends_with(['/', '?', '#'])
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if !is_bare || !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidBaseUrl);
        }
        Ok(BaseUrl { text: url.origin().ascii_serialization(), host, is_https: url.scheme() == "https" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_parse() {
        for (text, expected) in [
            ("https://eu.verify.example.com", Some("https://eu.verify.example.com")),
            ("HTTPS://EU.Verify.Example.com:443", Some("https://eu.verify.example.com")),
            ("http://127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("https://[2001:db8::1]:8443", Some("https://[2001:db8::1]:8443")),
            ("https://example.com/", None),
            ("https://example.com/api", None),
            ("https://example.com?x=1", None),
            ("https://example.com?", None),
            ("https://example.com#top", None),
            ("https://user@example.com", None),
            ("https://user:secret@example.com", None),
            ("ftp://example.com", None),
            ("example.com", None),
            ("https://", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<BaseUrl>().ok().as_ref().map(BaseUrl::as_str), expected, "{text}");
        }
    }

    #[test]
    fn loopback_hosts_are_recognised() {
        for (text, loopback) in [
            ("http://localhost:8080", true),
            ("http://api.localhost", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:8080", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().is_loopback(), loopback, "{text}");
        }
    }
}
