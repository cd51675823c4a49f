//! Parsers for the values of settings. Each parser describes the values that it allows.

use std::{fmt::Display, net::SocketAddr, ops::RangeInclusive, path::PathBuf, str::FromStr, time::Duration};

use ipnet::IpNet;
use ringtrue_domain::{
    network::NetworkId,
    phone::{Country, Msisdn},
    tenancy::Mode,
};
use serde::de::DeserializeOwned;
use toml::Value;
use url::Url;

type ParseFn<T> = dyn Fn(&Value) -> Option<T>;

pub(super) struct ValueParser<T> {
    /// Description of the allowed values. Completes the message "allowed: …".
    pub allowed: String,
    parse: Box<ParseFn<T>>,
}

impl<T> ValueParser<T> {
    pub(super) fn parse(&self, value: &Value) -> Option<T> {
        (self.parse)(value)
    }

    pub(super) fn map<U>(self, convert: impl Fn(T) -> U + 'static) -> ValueParser<U>
    where
        T: 'static,
    {
        ValueParser { allowed: self.allowed, parse: Box::new(move |value| (self.parse)(value).map(&convert)) }
    }
}

/// Returns a parser for a value of any type that implements serde's `Deserialize`.
pub(super) fn value<T: DeserializeOwned>(allowed: impl Into<String>) -> ValueParser<T> {
    ValueParser { allowed: allowed.into(), parse: Box::new(|value| value.clone().try_into().ok()) }
}

pub(super) fn boolean() -> ValueParser<bool> {
    value("true or false")
}

pub(super) fn path() -> ValueParser<PathBuf> {
    value("a path to a file")
}

/// Returns a parser for the name of an enum variant, for enums that implement serde's `Deserialize`.
pub(super) fn variant<T: DeserializeOwned>() -> ValueParser<T> {
    // serde's message for an unknown variant lists the known ones in back quotes.
    let error = Value::from("?").try_into::<T>().err().map(|error| error.message().to_owned()).unwrap_or_default();
    let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    value(join_words(&names))
}

/// Returns a parser for one of several words, for enums of other crates that do not implement `Deserialize`.
pub(super) fn keyword<T: Copy + 'static>(words: &'static [(&'static str, T)]) -> ValueParser<T> {
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    text(join_words(&names), |text| words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning))
}

fn join_words(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

pub(super) fn text<T>(allowed: impl Into<String>, parse: impl Fn(&str) -> Option<T> + 'static) -> ValueParser<T> {
    ValueParser { allowed: allowed.into(), parse: Box::new(move |value| parse(value.as_str()?)) }
}

/// Returns a parser for text, which uses the `FromStr` implementation of the type.
pub(super) fn from_str<T: FromStr>(allowed: &str) -> ValueParser<T> {
    text(allowed, |text| text.parse().ok())
}

/// Returns a parser for text that satisfies a condition.
pub(super) fn string(allowed: &str, is_valid: impl Fn(&str) -> bool + 'static) -> ValueParser<String> {
    text(allowed, move |text| is_valid(text).then(|| text.to_owned()))
}

pub(super) fn list<T: 'static>(item: ValueParser<T>) -> ValueParser<Vec<T>> {
    let allowed = format!("a list, each item {}", item.allowed);
    ValueParser {
        allowed,
        parse: Box::new(move |value| value.as_array()?.iter().map(|value| item.parse(value)).collect()),
    }
}

/// Returns a parser for an optional setting. "" and "off" mean `None`.
pub(super) fn optional<T: 'static>(parser: ValueParser<T>) -> ValueParser<Option<T>> {
    let allowed = format!("{}; or \"\" for none", parser.allowed);
    let parse = move |value: &Value| match value.as_str() {
        Some("" | "off") => Some(None),
        _ => parser.parse(value).map(Some),
    };
    ValueParser { allowed, parse: Box::new(parse) }
}

pub(super) fn integer<T: TryFrom<i64> + PartialOrd + Display + 'static>(range: RangeInclusive<T>) -> ValueParser<T> {
    let allowed = format!("an integer from {} to {}", range.start(), range.end());
    let parse = move |value: &Value| T::try_from(value.as_integer()?).ok().filter(|number| range.contains(number));
    ValueParser { allowed, parse: Box::new(parse) }
}

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const DAY: Duration = Duration::from_hours(24);

/// Returns a parser for a duration with a unit, such as "10s", or an integer number of seconds.
pub(super) fn duration(min: Duration, max: Duration) -> ValueParser<Duration> {
    let (shown_min, shown_max) = (format_duration(min), format_duration(max));
    let parse = move |value: &Value| {
        let duration = match value {
            Value::Integer(seconds) => Duration::from_secs(u64::try_from(*seconds).ok()?),
            value => parse_duration(value.as_str()?)?,
        };
        (min..=max).contains(&duration).then_some(duration)
    };
    let allowed = format!(
        "a duration from {shown_min} to {shown_max}, such as \"500ms\", \"10s\" or \"2m\", or an integer number of seconds"
    );
    ValueParser { allowed, parse: Box::new(parse) }
}

/// Returns a parser for a duration. Zero means no limit, and becomes `None`.
pub(super) fn zero_or(parser: ValueParser<Duration>) -> ValueParser<Option<Duration>> {
    let allowed = format!("0, or {}", parser.allowed);
    let is_zero = |value: &Value| match value {
        Value::Integer(seconds) => *seconds == 0,
        value => value.as_str().and_then(parse_duration).is_some_and(|duration| duration.is_zero()),
    };
    let parse = move |value: &Value| if is_zero(value) { Some(None) } else { parser.parse(value).map(Some) };
    ValueParser { allowed, parse: Box::new(parse) }
}

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*millis).map(Duration::from_millis)
}

/// Renders a duration in its largest exact unit.
pub(super) fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let unit = UNITS.iter().rev().find(|(_, size)| millis > 0 && millis.is_multiple_of(u128::from(*size)));
    unit.map_or_else(|| "0s".to_owned(), |(name, size)| format!("{}{name}", millis / u128::from(*size)))
}

pub(super) fn socket_address() -> ValueParser<SocketAddr> {
    from_str("an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8443\"")
}

pub(super) fn ip_networks() -> ValueParser<Vec<IpNet>> {
    list(from_str("an IP network, such as \"10.0.0.0/8\" or \"2001:db8::/32\""))
}

pub(super) fn network_id() -> ValueParser<NetworkId> {
    from_str("a network id: five or six digits, MCC and MNC")
}

pub(super) fn country() -> ValueParser<Country> {
    from_str("a two-letter country code, such as \"GB\"")
}

pub(super) fn numbers() -> ValueParser<Vec<Msisdn>> {
    let allowed = "a phone number in E.164 format, such as \"+447700900001\"";
    list(text(allowed, |text| Msisdn::parse(text, Mode::Live).ok()))
}

pub(super) fn web_url() -> ValueParser<Url> {
    text("an absolute http:// or https:// URL", |text| {
        Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    })
}

/// Returns a parser for a URL without user name, password, query and fragment.
pub(super) fn plain_url(allowed: &str, is_valid: impl Fn(&Url) -> bool + 'static) -> ValueParser<Url> {
    text(allowed, move |text| {
        let url =
            Url::parse(text).ok().filter(|url| is_valid(url) && url.query().is_none() && url.fragment().is_none())?;
        (url.username().is_empty() && url.password().is_none()).then_some(url)
    })
}

pub(super) fn display_name() -> ValueParser<String> {
    string("1 to 100 characters without control characters", |text| {
        (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control)
    })
}

pub(super) fn token() -> ValueParser<String> {
    string("1 to 300 characters without whitespace", |text| {
        (1..=300).contains(&text.len()) && !text.contains(char::is_whitespace)
    })
}

pub(super) fn variable_name() -> ValueParser<String> {
    string("the name of an environment variable: letters, digits and `_`", |text| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
