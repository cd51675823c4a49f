//! Redirect URIs of OpenID clients.

use std::net::IpAddr;

use url::{Host, Url};

use crate::web_url::{MAX_CHARS, UrlPolicy, append_parameters};

/// A redirect URI that a project has registered. Authorization requests must repeat it character by character (RFC 9700,
/// section 2.1), so its text is stored unchanged.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("RedirectUri({})", self.0.split(':').next().unwrap_or_default())]
pub struct RedirectUri(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRedirectUri {
    #[error("a redirect URI has at most {MAX_CHARS} characters")]
    TooLong,
    #[error("a redirect URI is an absolute URI of printable ASCII characters")]
    NotAbsolute,
    #[error("a redirect URI has no fragment (`#`)")]
    Fragment,
    #[error("a redirect URI has no user name and no password")]
    UserInfo,
    #[error("`http` redirect URIs are for loopback addresses (native apps) and for sandbox projects only")]
    Http,
    #[error(
        "a redirect URI begins with `https:`, or with an app's private scheme, which contains a dot, such as \
         `com.example.app:`"
    )]
    Scheme,
    #[error("a redirect URI has no `.` or `..` segments and no `%2e`")]
    DotSegment,
    #[error("a redirect URI contains none of the parameters `code`, `state`, `iss` and `error`")]
    ResponseParameter,
}

/// Parameters that an authorization response appends to the redirect URI.
const RESPONSE_PARAMETERS: [&str; 5] = ["code", "state", "iss", "error", "error_description"];

impl RedirectUri {
    /// Parses a redirect URI that a project registers.
    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, InvalidRedirectUri> {
        let uri = Self::parse_syntax(text)?;
        match uri.scheme() {
            "https" => {}
            "http" if policy.allow_http || is_loopback(&uri) => {}
            "http" => return Err(InvalidRedirectUri::Http),
            // Private-use schemes of apps are reversed domain names (RFC 8252, section 7.1). The dot excludes schemes
            // that a browser runs or opens itself, such as `javascript` and `data`.
            scheme if scheme.contains('.') => {}
            _ => return Err(InvalidRedirectUri::Scheme),
        }
        Ok(RedirectUri(text.to_owned()))
    }

    /// Reads a stored redirect URI, without the policy, which may have changed since the URI was stored.
    pub fn from_stored(text: &str) -> Result<Self, InvalidRedirectUri> {
        Self::parse_syntax(text).map(|_| RedirectUri(text.to_owned()))
    }

    fn parse_syntax(text: &str) -> Result<Url, InvalidRedirectUri> {
        if text.len() > MAX_CHARS {
            return Err(InvalidRedirectUri::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['"', '<', '>', '\\']) {
            return Err(InvalidRedirectUri::NotAbsolute);
        }
        let uri = Url::parse(text).map_err(|_| InvalidRedirectUri::NotAbsolute)?;
        let is_web = matches!(uri.scheme(), "http" | "https");
        // `Url::parse` repairs `https:host`. The URI is compared as text, so it must be exact.
        if is_web && !text.to_ascii_lowercase().starts_with(&format!("{}://", uri.scheme())) {
            return Err(InvalidRedirectUri::NotAbsolute);
        }
        if uri.fragment().is_some() {
            return Err(InvalidRedirectUri::Fragment);
        }
        if !uri.username().is_empty() || uri.password().is_some() {
            return Err(InvalidRedirectUri::UserInfo);
        }
        let path = text.split('?').next().unwrap_or(text).to_ascii_lowercase().replace("%2e", ".");
        if path.split('/').any(|segment| segment == "." || segment == "..") {
            return Err(InvalidRedirectUri::DotSegment);
        }
        if uri.query_pairs().any(|(name, _)| RESPONSE_PARAMETERS.contains(&&*name)) {
            return Err(InvalidRedirectUri::ResponseParameter);
        }
        Ok(uri)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the redirect URI with additional query parameters.
    pub fn with_parameters(&self, parameters: &[(&str, &str)]) -> String {
        append_parameters(&self.0, parameters)
    }
}

fn is_loopback(uri: &Url) -> bool {
    match uri.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidRedirectUri as E, *};

    #[test]
    fn redirect_uris_are_exact_and_safe() {
        let strict = UrlPolicy::default();
        for valid in [
            "https://app.example/cb",
            "https://app.example",
            "https://app.example/cb?tenant=1",
            "https://app.example:8443/a/b%20c",
            "http://127.0.0.1:7777/cb",
            "http://[::1]/cb",
            "http://localhost/cb",
            "com.example.app:/oauth",
            "com.example.app://oauth/cb",
        ] {
            let parsed = RedirectUri::parse(valid, &strict).unwrap();
            assert_eq!(parsed.as_str(), valid);
            assert_eq!(RedirectUri::from_stored(valid), Ok(parsed));
        }
        for (invalid, problem) in [
            ("", E::NotAbsolute),
            ("/cb", E::NotAbsolute),
            ("https:app.example/cb", E::NotAbsolute),
            ("https:/app.example/cb", E::NotAbsolute),
            ("https://", E::NotAbsolute),
            ("https://app.example/ cb", E::NotAbsolute),
            ("https://app.example\\@evil.example/", E::NotAbsolute),
            ("https://äpp.example/", E::NotAbsolute),
            ("https://app.example/cb#", E::Fragment),
            ("https://app.example/cb#x", E::Fragment),
            ("https://user@app.example/cb", E::UserInfo),
            ("https://app.example@evil.example/cb", E::UserInfo),
            ("http://app.example/cb", E::Http),
            ("http://127.0.0.1.evil.example/", E::Http),
            ("javascript:alert(1)", E::Scheme),
            ("data:text/html,x", E::Scheme),
            ("app:/cb", E::Scheme),
            ("https://app.example/a/../b", E::DotSegment),
            ("https://app.example/a/%2E%2e/b", E::DotSegment),
            ("https://app.example/cb?code=1", E::ResponseParameter),
            ("https://app.example/cb?x=1&%73tate=1", E::ResponseParameter),
            (&format!("https://app.example/{}", "x".repeat(2_048)), E::TooLong),
        ] {
            assert_eq!(RedirectUri::parse(invalid, &strict), Err(problem), "{invalid}");
        }
        let lenient = UrlPolicy { allow_http: true, ..UrlPolicy::default() };
        assert!(RedirectUri::parse("http://app.example/cb", &lenient).is_ok());
    }

    #[test]
    fn response_parameters_are_appended() {
        let uri = |text: &str| RedirectUri::from_stored(text).unwrap();
        let parameters = [("code", "a b"), ("state", "x&y")];
        assert_eq!(
            uri("https://a.example/cb").with_parameters(&parameters),
            "https://a.example/cb?code=a%20b&state=x%26y"
        );
        assert_eq!(
            uri("https://a.example/cb?t=1").with_parameters(&parameters),
            "https://a.example/cb?t=1&code=a%20b&state=x%26y"
        );
        assert_eq!(uri("com.example.app:/cb").with_parameters(&[("error", "e")]), "com.example.app:/cb?error=e");
    }
}
