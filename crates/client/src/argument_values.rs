//! Types and parsers for the values of command-line arguments.

use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

use clap::{
    ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    product::{Product, Scope},
    timestamp,
    verification::Method,
};
use serde_json::{Map, Value, json};
use strum::{IntoStaticStr, VariantArray as _};
use url::{Host, Position, Url};

use crate::error::CommandError;

/// Returns a parser for products. It accepts their command names and their names in the API.
pub(crate) fn product_parser(products: &[Product]) -> impl TypedValueParser<Value = Product> + use<> {
    let names = products.iter().map(|product| PossibleValue::new(product.facts().command).alias(product.into_str()));
    PossibleValuesParser::new(names).try_map(|text| text.replace('-', "_").parse::<Product>())
}

/// Returns a parser for the scopes of access tokens. Error messages and shell completion list all of them.
pub(crate) fn token_scope_parser() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::of_access_tokens().map(Scope::into_str)).try_map(|text| text.parse::<Scope>())
}

/// Returns a parser for the scopes of credentials. Error messages and shell completion list all scopes.
pub(crate) fn scope_parser() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::all().map(Scope::into_str)).try_map(|text| text.parse::<Scope>())
}

pub(crate) fn http_method_parser() -> impl TypedValueParser<Value = http::Method> {
    PossibleValuesParser::new(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
        .try_map(|text| text.to_uppercase().parse::<http::Method>())
}

/// Returns a parser for verification methods, by their names in the API.
pub(crate) fn method_parser() -> impl TypedValueParser<Value = Method> {
    PossibleValuesParser::new(Method::VARIANTS.iter().map(Method::into_str)).try_map(|text| text.parse::<Method>())
}

/// Parses an HTTP status. Rejects 1xx, which are interim responses.
pub(crate) fn parse_final_http_status(text: &str) -> Result<StatusCode, &'static str> {
    let status = text.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    status.and_then(|status| StatusCode::from_u16(status).ok()).ok_or("expected a status code from 200 to 599")
}

pub(crate) fn parse_timestamp(text: &str) -> Result<Timestamp, &'static str> {
    timestamp::parse(text).ok_or(timestamp::EXPECTED_FORMAT_MESSAGE)
}

/// The name of a profile. It is valid as a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileName(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile name has 1 to 40 lower-case letters, digits, `-` and `_`")]
pub struct InvalidProfileName;

impl FromStr for ProfileName {
    type Err = InvalidProfileName;

    fn from_str(text: &str) -> Result<Self, InvalidProfileName> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        let is_valid = (1..=40).contains(&text.len()) && text.bytes().all(is_allowed);
        if is_valid { Ok(ProfileName(text.to_owned())) } else { Err(InvalidProfileName) }
    }
}

impl ProfileName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A phone number or code, which the server validates. The argument `-` means that it is read from standard input,
/// which keeps it out of the shell history.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("PrivateArgument(…)")]
pub struct PrivateArgument(String);

impl From<String> for PrivateArgument {
    fn from(text: String) -> Self {
        PrivateArgument(text)
    }
}

impl PrivateArgument {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the argument itself, or reads standard input if the argument is `-`.
    pub fn read(&self) -> Result<String, CommandError> {
        const STDIN_MARKER: &str = "-";
        const MAX_INPUT_BYTES: u64 = 64;
        if self.0 != STDIN_MARKER {
            return Ok(self.0.clone());
        }
        let text = io::read_to_string(io::stdin().lock().take(MAX_INPUT_BYTES)).map_err(|error| {
            CommandError::failed(
                format!("cannot read standard input: {error}"),
                "Example: ringtrue erase --number - < file",
            )
        })?;
        Ok(text.trim().to_owned())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum FinalStatus {
    Completed,
    Expired,
    Error,
}

/// Value of `--since`: an age or a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    Ago(SignedDuration),
    At(Timestamp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an age such as 90s, 10m, 2h or 1d, or a time such as 2026-11-14T09:30:00Z")]
pub struct InvalidSince;

impl FromStr for Since {
    type Err = InvalidSince;

    fn from_str(text: &str) -> Result<Self, InvalidSince> {
        if let Some(instant) = timestamp::parse(text) {
            return Ok(Since::At(instant));
        }
        let unit = text.chars().next_back().ok_or(InvalidSince)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(InvalidSince),
        };
        // At most a year, which exceeds every retention period of the server.
        let count: i64 = text.strip_suffix(unit).and_then(|count| count.parse().ok()).ok_or(InvalidSince)?;
        let seconds = count.checked_mul(seconds).filter(|seconds| (1..=366 * 86_400).contains(seconds));
        seconds.map(|seconds| Since::Ago(SignedDuration::from_secs(seconds))).ok_or(InvalidSince)
    }
}

impl Since {
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Since::Ago(age) => now.checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH),
            Since::At(instant) => instant,
        }
    }
}

/// A fault to inject into a sandbox SMS. Parsed from `NAME` or `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmsFault {
    /// Delivers the SMS late, by this number of seconds.
    Late(u32),
    /// Delivers this number of extra copies.
    Duplicate(u32),
    /// Forges the sender: the SMS comes from this number.
    Spoofed(PrivateArgument),
    Garbled,
    /// Splits the SMS into this number of parts.
    Split(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected late[=SECONDS] (0 to 3600), duplicate[=COPIES] (0 to 10), spoofed[=SENDER], garbled or split[=PARTS] (1 to 10)"
)]
pub struct InvalidFault;

/// Default sender of a spoofed SMS: a number that the sandbox never assigns to a simulated phone.
const DEFAULT_SPOOFED_NUMBER: &str = "+990000000002";

impl FromStr for SmsFault {
    type Err = InvalidFault;

    fn from_str(text: &str) -> Result<Self, InvalidFault> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let count = |default: u32, range: std::ops::RangeInclusive<u32>| {
            let count = value.map_or(Ok(default), str::parse).map_err(|_| InvalidFault)?;
            if range.contains(&count) { Ok(count) } else { Err(InvalidFault) }
        };
        match name {
            "late" => Ok(SmsFault::Late(count(5, 0..=3_600)?)),
            "duplicate" => Ok(SmsFault::Duplicate(count(1, 0..=10)?)),
            "spoofed" => Ok(SmsFault::Spoofed(PrivateArgument(value.unwrap_or(DEFAULT_SPOOFED_NUMBER).to_owned()))),
            "garbled" if value.is_none() => Ok(SmsFault::Garbled),
            "split" => Ok(SmsFault::Split(count(2, 1..=10)?)),
            _ => Err(InvalidFault),
        }
    }
}

/// Renders faults as the `faults` object of the sandbox API.
pub(crate) fn render_faults(faults: &[SmsFault]) -> Value {
    let member = |fault: &SmsFault| match fault {
        SmsFault::Late(seconds) => ("late_seconds", json!(seconds)),
        SmsFault::Duplicate(copies) => ("extra_copies", json!(copies)),
        SmsFault::Spoofed(number) => ("spoofed_from", json!(number.0)),
        SmsFault::Garbled => ("garbled", json!(true)),
        SmsFault::Split(parts) => ("parts", json!(parts)),
    };
    Value::Object(faults.iter().map(member).map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// A URL to which secrets may be sent: HTTPS, or plain HTTP on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureUrl(Url);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecureUrl {
    #[error("expected a URL such as http://127.0.0.1:8080/path")]
    Malformed,
    #[error("plain HTTP is allowed for this machine only, such as http://127.0.0.1:8080; use https:// for other hosts")]
    RemotePlainHttp,
    #[error("expected plain HTTP on this machine, such as http://127.0.0.1:3000/callbacks")]
    NotLocal,
    #[error("the URL must not contain a user name or password")]
    UserInfo,
}

impl FromStr for SecureUrl {
    type Err = InvalidSecureUrl;

    fn from_str(text: &str) -> Result<Self, InvalidSecureUrl> {
        text.parse::<Url>().map_err(|_| InvalidSecureUrl::Malformed)?.try_into()
    }
}

impl TryFrom<Url> for SecureUrl {
    type Error = InvalidSecureUrl;

    fn try_from(url: Url) -> Result<Self, InvalidSecureUrl> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidSecureUrl::UserInfo);
        }
        match url.scheme() {
            "https" => Ok(SecureUrl(url)),
            "http" if is_local(&url) => Ok(SecureUrl(url)),
            "http" => Err(InvalidSecureUrl::RemotePlainHttp),
            _ => Err(InvalidSecureUrl::Malformed),
        }
    }
}

impl SecureUrl {
    /// Parses a URL. Accepts only plain HTTP on this machine.
    pub fn parse_local(text: &str) -> Result<Self, InvalidSecureUrl> {
        match text.parse::<SecureUrl>() {
            Ok(parsed) if parsed.0.scheme() == "http" => Ok(parsed),
            Ok(_) | Err(InvalidSecureUrl::RemotePlainHttp) => Err(InvalidSecureUrl::NotLocal),
            Err(other) => Err(other),
        }
    }

    pub(crate) fn as_url(&self) -> &Url {
        &self.0
    }

    /// Returns the path and the query.
    pub(crate) fn request_target(&self) -> &str {
        &self.0[Position::BeforePath..Position::AfterQuery]
    }

    pub(crate) fn has_path(&self) -> bool {
        self.request_target() != "/"
    }
}

/// Whether the host of the URL is this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

impl fmt::Display for SecureUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_are_safe_file_names() {
        for (text, is_name) in [
            ("default", true),
            ("acme-eu_2", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("Acme", false),
            (&"a".repeat(41), false),
        ] {
            assert_eq!(text.parse::<ProfileName>().is_ok(), is_name, "{text}");
        }
    }

    #[test]
    fn ages_and_times_parse() {
        let ago = |seconds| Ok(Since::Ago(SignedDuration::from_secs(seconds)));
        for (text, since) in [
            ("90s", ago(90)),
            ("10m", ago(600)),
            ("2h", ago(7_200)),
            ("1d", ago(86_400)),
            ("2026-11-14T09:30:00Z", Ok(Since::At("2026-11-14T09:30:00Z".parse().unwrap()))),
            ("", Err(InvalidSince)),
            ("m", Err(InvalidSince)),
            ("10", Err(InvalidSince)),
            ("-1m", Err(InvalidSince)),
            ("0s", Err(InvalidSince)),
            ("367d", Err(InvalidSince)),
            ("99999999999999999999d", Err(InvalidSince)),
            ("10 m", Err(InvalidSince)),
            ("yesterday", Err(InvalidSince)),
            ("5ü", Err(InvalidSince)),
        ] {
            assert_eq!(text.parse(), since, "{text}");
        }
    }

    #[test]
    fn faults_parse_with_defaults_and_limits() {
        for (text, fault) in [
            ("late", Ok(SmsFault::Late(5))),
            ("late=30", Ok(SmsFault::Late(30))),
            ("duplicate", Ok(SmsFault::Duplicate(1))),
            ("spoofed", Ok(SmsFault::Spoofed(PrivateArgument(DEFAULT_SPOOFED_NUMBER.to_owned())))),
            ("spoofed=+990123456701", Ok(SmsFault::Spoofed(PrivateArgument("+990123456701".to_owned())))),
            ("garbled", Ok(SmsFault::Garbled)),
            ("split=3", Ok(SmsFault::Split(3))),
            ("split=0", Err(InvalidFault)),
            ("split=11", Err(InvalidFault)),
            ("late=3601", Err(InvalidFault)),
            ("late=soon", Err(InvalidFault)),
            ("garbled=yes", Err(InvalidFault)),
            ("lost", Err(InvalidFault)),
        ] {
            assert_eq!(text.parse(), fault, "{text}");
        }
        let both = [SmsFault::Late(1), SmsFault::Garbled];
        assert_eq!(render_faults(&both), json!({"late_seconds": 1, "garbled": true}));
    }

    #[test]
    fn plain_http_is_rejected_for_remote_hosts() {
        for (text, expected) in [
            ("http://127.0.0.1:8080/a", Ok(())),
            ("http://localhost", Ok(())),
            ("http://[::1]:1/", Ok(())),
            ("https://eu.api.example.com/.well-known/jwks.json", Ok(())),
            ("http://example.com", Err(InvalidSecureUrl::RemotePlainHttp)),
            ("http://10.0.0.1", Err(InvalidSecureUrl::RemotePlainHttp)),
            ("http://localhost.example.com", Err(InvalidSecureUrl::RemotePlainHttp)),
            ("http://u:p@127.0.0.1", Err(InvalidSecureUrl::UserInfo)),
            ("file:///etc/passwd", Err(InvalidSecureUrl::Malformed)),
            ("127.0.0.1:8080", Err(InvalidSecureUrl::Malformed)),
        ] {
            assert_eq!(text.parse::<SecureUrl>().map(drop), expected, "{text}");
        }
        assert_eq!(SecureUrl::parse_local("https://127.0.0.1/"), Err(InvalidSecureUrl::NotLocal));
        assert_eq!(SecureUrl::parse_local("http://example.com/"), Err(InvalidSecureUrl::NotLocal));
    }

    #[test]
    fn request_target_has_path_and_query() {
        for (text, target) in [
            ("http://127.0.0.1:3000/a?b=c", "/a?b=c"),
            ("http://localhost", "/"),
            ("http://localhost?a", "/?a"),
            ("https://example.com:8443/x/#y", "/x/"),
        ] {
            assert_eq!(text.parse::<SecureUrl>().unwrap().request_target(), target, "{text}");
        }
    }
}
