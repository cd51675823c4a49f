//! URLs that a caller gives us: where callbacks go, and where a device is sent at the end.
//!
//! A [`CallbackUrl`] is opened by us, so it must not lead into our own network: [`AddressPolicy`] says which addresses
//! are fair game. A [`RedirectUrl`] is only ever put into a `Location` header for a device to follow, so where it leads
//! is not our concern, and addresses are not checked.
//!
//! Nothing is repaired. What browsers put right in silence (`https:example.com`, backslashes, tabs and line breaks,
//! an empty port, `..` in a path) is refused. Only the origin has a canonical form: scheme and host in lower case, names
//! in punycode, IPv4 addresses in four decimal parts however they were spelt, no default port. A host that ends in a
//! dot is refused too: the name would resolve, and then disagree with the certificate and with the signed `host`.
//!
//! Path and query are kept byte for byte, because a callback's signature covers them as they are on the wire. They are
//! therefore limited to what can be sent as it stands; the one addition is the `/` of an empty path.
//!
//! Deliberately absent: name resolution. A name that resolves to a private address passes here and is refused when the
//! outbound client asks [`AddressPolicy::permits`] about what it resolved to.

mod address;
mod parts;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt};

pub use address::AddressPolicy;
pub use url::Host;

use crate::tenancy::Mode;
use parts::{Scheme, WebUrl};

/// The longest URL that is taken, as given and in canonical form.
pub const MAX_CHARS: usize = 2_048;

/// The query parameters that a redirect URL gets at the end of a check's redirect chain.
pub const RESULT_PARAMETERS: [&str; 5] = ["check_id", "code", "reference_id", "error", "error_description"];

/// What this deployment lets callers ask for. The default is the strictest: `https` to public addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    pub allow_http: bool,
    pub addresses: AddressPolicy,
}

/// Where the outcome of a check is posted.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackUrl(WebUrl);

/// Where a device is sent at the end of a redirect chain.
#[derive(Clone, PartialEq, Eq)]
pub struct RedirectUrl(WebUrl);

/// Why a URL is not taken. The text is meant for the caller of the API and repeats nothing of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the URL has more than {MAX_CHARS} characters")]
    TooLong,
    #[error("the URL contains white space or a control character")]
    Blank,
    #[error("the URL is not absolute: it must start with `https://` and a host")]
    NotAbsolute,
    #[error("the URL's scheme is not `https`")]
    SchemeUnsupported,
    #[error("the URL's scheme is `http`, and only `https` is allowed here")]
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
    #[error("the URL's host is not one that callbacks may be sent to")]
    HostNotAllowed,
    #[error("the URL's query contains a parameter that the redirect adds: {}", RESULT_PARAMETERS.join(", "))]
    ResultParameter,
}

impl UrlPolicy {
    /// The policy for projects of a mode. Sandbox projects never reach a real operator, and may use plain HTTP.
    #[must_use]
    pub fn for_mode(&self, mode: Mode) -> UrlPolicy {
        UrlPolicy { allow_http: self.allow_http || mode == Mode::Sandbox, ..self.clone() }
    }

    fn check_scheme(&self, url: &WebUrl) -> Result<(), UrlError> {
        match url.scheme() {
            Scheme::Http if !self.allow_http => Err(UrlError::HttpNotAllowed),
            Scheme::Http | Scheme::Https => Ok(()),
        }
    }
}

impl CallbackUrl {
    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, UrlError> {
        let url = WebUrl::parse(text)?;
        policy.check_scheme(&url)?;
        let host_is_allowed = match url.host() {
            Host::Domain(name) => policy.addresses.permits_name_and_port(name, url.port()),
            Host::Ipv4(address) => policy.addresses.permits_endpoint((*address).into(), url.port(), &[]),
            Host::Ipv6(address) => policy.addresses.permits_endpoint((*address).into(), url.port(), &[]),
        };
        if host_is_allowed { Ok(Self(url)) } else { Err(UrlError::HostNotAllowed) }
    }

    /// Reads back a URL that was taken before. The policy is not asked: it may have changed since, and has its say
    /// again when the URL is opened.
    pub fn from_stored(text: &str) -> Result<Self, UrlError> {
        WebUrl::parse(text).map(Self)
    }

    /// The whole URL, in the form in which it is stored and opened.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub fn is_https(&self) -> bool {
        self.0.scheme() == Scheme::Https
    }

    pub fn host(&self) -> &Host {
        self.0.host()
    }

    /// The port to connect to, given or implied.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// The value of the `host` header: the host, and its port unless that is the default.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// What goes into the request line: the path with the query, as the caller wrote them.
    pub fn target(&self) -> &str {
        self.0.target()
    }
}

impl RedirectUrl {
    pub fn parse(text: &str, policy: &UrlPolicy) -> Result<Self, UrlError> {
        let url = WebUrl::parse(text)?;
        policy.check_scheme(&url)?;
        // Whoever reads the query could take the caller's own `code` for ours.
        if query_names(url.target()).any(|name| RESULT_PARAMETERS.contains(&&*name)) {
            return Err(UrlError::ResultParameter);
        }
        Ok(Self(url))
    }

    /// Reads back a URL that was taken before, whatever the policy has become.
    pub fn from_stored(text: &str) -> Result<Self, UrlError> {
        WebUrl::parse(text).map(Self)
    }

    /// The whole URL, in the form in which it is stored and sent.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// The decoded names of the parameters in a target's query.
fn query_names(target: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name)
}

/// Masked: path and query may carry a token.
impl fmt::Debug for CallbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallbackUrl({}://{})", self.0.scheme(), self.0.host())
    }
}

/// Masked: path and query may carry a token.
impl fmt::Debug for RedirectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedirectUrl({}://{})", self.0.scheme(), self.0.host())
    }
}
