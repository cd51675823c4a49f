//! URLs that clients submit: callback URLs and redirect URLs.
//!
//! The service connects to a [`CallbackUrl`], so [`AddressPolicy`] restricts its address (SSRF protection). A
//! [`RedirectUrl`] only appears in a `Location` header for a device, so its address is not restricted.
//!
//! Invalid forms are rejected, not repaired, even if browsers silently correct them: `https:example.com`, backslashes,
//! tabs and line breaks, an empty port, `..` in a path. Only the origin is converted to canonical form: scheme and host
//! in lower case, names in punycode, IPv4 addresses in dotted decimal, no default port. A host with a trailing dot is
//! rejected, because it would not match the certificate and the signed `host`.
//!
//! Path and query are kept byte for byte, because the callback signature covers them. They may only contain characters
//! that can be sent unchanged. An empty path becomes `/`.
//!
//! Names are not resolved here. The outbound client passes resolved addresses to [`AddressPolicy::permits`].

mod address_policy;
mod parts;

use std::borrow::Cow;

pub use address_policy::AddressPolicy;
pub use url::Host;

use crate::tenancy::Mode;
use parts::{Scheme, WebUrl};

/// Maximum length of a URL, both as submitted and in canonical form.
pub const MAX_CHARS: usize = 2_048;

/// Maximum number of origins in a list.
pub const MAX_ORIGINS: usize = 20;

/// Query parameters that the service appends to a redirect URL.
pub const RESULT_PARAMETERS: [&str; 6] =
    ["check_id", "verification_id", "code", "reference_id", "error", "error_description"];

/// The URLs that clients may use. The default is the strictest policy: `https` and public addresses only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    pub allow_http: bool,
    pub addresses: AddressPolicy,
}

/// The URL that receives the callback of a check.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
// Hides path and query, which may contain a token.
#[debug("CallbackUrl({}://{})", self.0.scheme(), self.0.host())]
pub struct CallbackUrl(WebUrl);

/// The client's URL to which a device is finally redirected.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
// Hides path and query, which may contain a token.
#[debug("RedirectUrl({}://{})", self.0.scheme(), self.0.host())]
pub struct RedirectUrl(WebUrl);

/// Reason why a URL is invalid. The message is shown to API clients and never contains parts of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the URL has more than {MAX_CHARS} characters")]
    TooLong,
    #[error("the URL contains whitespace or a control character")]
    Blank,
    #[error("the URL is not absolute: it must start with `https://` or `http://` and a host")]
    NotAbsolute,
    #[error("the URL is not absolute: it must start with `https://` and a host")]
    NotAbsoluteHttps,
    #[error("the URL's scheme is neither `https` nor `http`")]
    SchemeUnsupported,
    #[error("the URL's scheme is not `https`")]
    SchemeNotHttps,
    #[error("the URL's scheme is `http`; only `https` is allowed")]
    HttpNotAllowed,
    #[error("the URL contains a user name or a password")]
    UserInfo,
    #[error("the URL contains a fragment (`#`)")]
    Fragment,
    #[error("the URL has no host")]
    HostMissing,
    #[error("the URL's host is not a valid name or address")]
    HostInvalid,
    #[error("the URL's host ends in a dot")]
    HostEndsInDot,
    #[error("the URL's port is not a number from 1 to 65535")]
    PortInvalid,
    #[error("the URL's path or query contains a character that must be percent-encoded, or a `%` without two digits")]
    NotEncoded,
    #[error("the URL's path contains `.` or `..` segments")]
    DotSegment,
    #[error("the URL's host is not allowed for callbacks")]
    HostNotAllowed,
    #[error(
        "an origin is a scheme, a host and an optional port, without path and query, such as `https://shop.example`"
    )]
    NotOrigin,
    #[error("more than {MAX_ORIGINS} origins")]
    TooManyOrigins,
    #[error("the URL's origin is not among `configuration.verification.redirect_origins` of the project")]
    OriginNotAllowed,
    #[error("the URL's host must be `localhost` or a loopback address")]
    NotLoopback,
    #[error("the URL's query contains a parameter that the redirect appends: {}", RESULT_PARAMETERS.join(", "))]
    ResultParameter,
}

impl UrlPolicy {
    /// Returns the policy for a mode. Sandbox projects may use plain HTTP.
    #[must_use]
    pub fn for_mode(&self, mode: Mode) -> UrlPolicy {
        UrlPolicy { allow_http: self.allow_http || mode == Mode::Sandbox, ..self.clone() }
    }

    /// Parses a URL whose scheme the policy allows. Error messages name the allowed schemes.
    fn parse(&self, text: &str) -> Result<WebUrl, UrlError> {
        match WebUrl::parse(text) {
            Ok(url) if url.scheme() == Scheme::Http && !self.allow_http => Err(UrlError::HttpNotAllowed),
            Err(UrlError::NotAbsolute) if !self.allow_http => Err(UrlError::NotAbsoluteHttps),
            Err(UrlError::SchemeUnsupported) if !self.allow_http => Err(UrlError::SchemeNotHttps),
            parsed => parsed,
        }
    }
}

impl CallbackUrl {
    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, UrlError> {
        let url = policy.parse(text)?;
        let host_is_allowed = match url.host() {
            Host::Domain(name) => policy.addresses.permits_name_and_port(name, url.port()),
            Host::Ipv4(address) => policy.addresses.permits_endpoint((*address).into(), url.port(), &[]),
            Host::Ipv6(address) => policy.addresses.permits_endpoint((*address).into(), url.port(), &[]),
        };
        if host_is_allowed { Ok(Self(url)) } else { Err(UrlError::HostNotAllowed) }
    }

    /// Parses a stored URL without applying the policy, which may have changed since. The outbound client applies the
    /// current policy.
    pub fn from_stored(text: &str) -> Result<Self, UrlError> {
        WebUrl::parse(text).map(Self)
    }

    /// Parses the loopback URL to which a client of the callback stream forwards callbacks on its own machine. This
    /// server signs callbacks for the URL, but never connects to it. Other hosts are refused, so that nobody obtains a
    /// signed request for somebody else's host.
    pub fn parse_loopback_only(text: &str) -> Result<Self, UrlError> {
        let url = WebUrl::parse(text)?;
        let is_loopback = match url.host() {
            Host::Domain(name) => name.eq_ignore_ascii_case("localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        if is_loopback { Ok(Self(url)) } else { Err(UrlError::NotLoopback) }
    }

    /// The URL in canonical form.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub fn is_https(&self) -> bool {
        self.0.scheme() == Scheme::Https
    }

    pub fn host(&self) -> &Host {
        self.0.host()
    }

    /// The explicit port, or the default port of the scheme.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// Value of the `host` header: the host, and the port unless it is the default.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// Request target: path and query, as submitted.
    pub fn target(&self) -> &str {
        self.0.target()
    }
}

impl RedirectUrl {
    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, UrlError> {
        let url = policy.parse(text)?;
        // If the URL already had a parameter such as `code`, the result would be ambiguous.
        if query_names(url.target()).any(|name| RESULT_PARAMETERS.contains(&&*name)) {
            return Err(UrlError::ResultParameter);
        }
        Ok(Self(url))
    }

    /// Parses a stored URL without applying the policy, which may have changed since.
    pub fn from_stored(text: &str) -> Result<Self, UrlError> {
        WebUrl::parse(text).map(Self)
    }

    /// The URL in canonical form.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// The origin of a URL: scheme, host and port, in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(String);

impl WebOrigin {
    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, UrlError> {
        let url = policy.parse(text)?;
        // A slash at the end is accepted, because many people write one.
        if url.target() == "/" { Ok(Self(url.origin().to_owned())) } else { Err(UrlError::NotOrigin) }
    }

    /// Parses a stored origin without applying the policy, which may have changed since.
    pub fn from_stored(text: &str) -> Result<Self, UrlError> {
        WebUrl::parse(text).map(|url| Self(url.origin().to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn contains(&self, url: &RedirectUrl) -> bool {
        url.0.origin() == self.0
    }
}

impl RedirectUrl {
    /// Returns the URL with query parameters appended.
    pub fn with_parameters(&self, parameters: &[(&str, &str)]) -> String {
        append_parameters(self.as_str(), parameters)
    }
}

/// Appends query parameters to a URI without a fragment.
pub(crate) fn append_parameters(uri: &str, parameters: &[(&str, &str)]) -> String {
    let mut location = uri.to_owned();
    for (name, value) in parameters {
        let separator = match location.split_once('?') {
            None => "?",
            Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
            Some(_) => "&",
        };
        // Spaces are encoded as `%20`, because some apps do not decode `+` as a space.
        let value = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20");
        location.extend([separator, name, "=", &value]);
    }
    location
}

/// Returns the decoded parameter names in the query of a request target.
fn query_names(target: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name)
}
