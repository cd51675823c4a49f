//! Types of settings: how a value is parsed, and which values are allowed.

use std::{fmt, ops::RangeInclusive, path::PathBuf, str::FromStr, time::Duration};

use super::value::Value;

/// Parses untyped values.
pub(super) trait ValueType {
    type Output;

    /// Completes the message "allowed: …".
    fn allowed(&self) -> String;

    /// `None`: invalid value.
    fn parse(&self, value: &Value) -> Option<Self::Output>;

    /// [`allowed`](Self::allowed) with details for this invalid value.
    fn allowed_for(&self, _found: &Value) -> String {
        self.allowed()
    }

    /// Renders a value for error messages, without secrets.
    fn display(&self, value: &Value) -> String {
        value.to_string()
    }
}

pub(super) struct Bool;

impl ValueType for Bool {
    type Output = bool;

    fn allowed(&self) -> String {
        "true or false".to_owned()
    }

    fn parse(&self, value: &Value) -> Option<bool> {
        if let Value::Bool(flag) = value { Some(*flag) } else { None }
    }
}

pub(super) struct Integer<T>(pub RangeInclusive<T>);

impl<T: TryFrom<i64> + PartialOrd + fmt::Display> ValueType for Integer<T> {
    type Output = T;

    fn allowed(&self) -> String {
        format!("an integer from {} to {}", self.0.start(), self.0.end())
    }

    fn parse(&self, value: &Value) -> Option<T> {
        let Value::Integer(number) = value else { return None };
        T::try_from(*number).ok().filter(|number| self.0.contains(number))
    }
}

/// One of several keywords.
pub(super) struct OneOf<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy> ValueType for OneOf<T> {
    type Output = T;

    fn allowed(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| format!("{word:?}")).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }

    fn parse(&self, value: &Value) -> Option<T> {
        let Value::Text(text) = value else { return None };
        self.0.iter().find(|(word, _)| word == text).map(|(_, meaning)| *meaning)
    }
}

/// String with a custom parser.
pub(super) struct Text<T> {
    pub allowed: &'static str,
    pub parse: fn(&str) -> Option<T>,
}

impl<T> ValueType for Text<T> {
    type Output = T;

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }

    fn parse(&self, value: &Value) -> Option<T> {
        if let Value::Text(text) = value { (self.parse)(text) } else { None }
    }
}

/// String parsed by `FromStr`.
pub(super) fn text<T: FromStr>(allowed: &'static str) -> Text<T> {
    Text { allowed, parse: |text| text.parse().ok() }
}

/// URL whose user name, password and query are masked in errors.
pub(super) struct MaskedUrl<T>(pub Text<T>);

impl<T> ValueType for MaskedUrl<T> {
    type Output = T;

    fn allowed(&self) -> String {
        self.0.allowed()
    }

    fn parse(&self, value: &Value) -> Option<T> {
        self.0.parse(value)
    }

    fn display(&self, value: &Value) -> String {
        mask_value(value)
    }
}

/// Renders a value with possible secrets in URLs masked.
pub(super) fn mask_value(value: &Value) -> String {
    if let Value::Text(text) = value { format!("{:?}", mask_url(text)) } else { value.to_string() }
}

/// Masks possible secrets, even in text that is not a valid URL.
fn mask_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    // An unencoded password may contain any character: use the last `@`, and the first `?` after it.
    let (mask, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("…@", rest));
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
    format!("{scheme}{separator}{mask}{rest}{query}")
}

pub(super) fn file_path() -> Text<PathBuf> {
    text("a path to a file")
}

/// Setting that may be "" or "off".
pub(super) struct Optional<T>(pub T);

impl<T: ValueType> ValueType for Optional<T> {
    type Output = Option<T::Output>;

    fn allowed(&self) -> String {
        format!("{}; or \"\" for none", self.0.allowed())
    }

    fn parse(&self, value: &Value) -> Option<Self::Output> {
        match value {
            Value::Text(text) if text.is_empty() || text == "off" => Some(None),
            value => self.0.parse(value).map(Some),
        }
    }

    fn display(&self, value: &Value) -> String {
        self.0.display(value)
    }
}

pub(super) struct ListOf<T>(pub T);

impl<T: ValueType> ValueType for ListOf<T> {
    type Output = Vec<T::Output>;

    fn allowed(&self) -> String {
        format!("a list, each item {}", self.0.allowed())
    }

    fn parse(&self, value: &Value) -> Option<Self::Output> {
        if let Value::List(items) = value { items.iter().map(|item| self.0.parse(item)).collect() } else { None }
    }
}

/// Duration with a unit, such as "10s", or an integer number of seconds.
pub(super) struct DurationRange(pub RangeInclusive<Duration>);

impl ValueType for DurationRange {
    type Output = Duration;

    fn allowed(&self) -> String {
        let [min, max] = [self.0.start(), self.0.end()].map(|bound| format_duration(*bound));
        format!("a duration from {min} to {max}, such as \"500ms\", \"10s\" or \"2m\", or an integer number of seconds")
    }

    fn parse(&self, value: &Value) -> Option<Duration> {
        let duration = match value {
            Value::Integer(seconds) => Duration::from_secs(u64::try_from(*seconds).ok()?),
            Value::Text(text) => parse_duration(text)?,
            _ => return None,
        };
        self.0.contains(&duration).then_some(duration)
    }
}

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

fn parse_duration(text: &str) -> Option<Duration> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_render() {
        for (text, millis) in [
            ("500ms", Some(500)),
            ("10s", Some(10_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0s", Some(0)),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("10 s", None),
            ("30d", Some(2_592_000_000)),
            ("1w", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
            ("", None),
        ] {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
        for text in ["500ms", "90s", "2m", "1h", "0s", "25h", "30d"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn secrets_in_urls_are_masked() {
        for (url, shown) in [
            ("sqlite:/var/lib/ringtrue.db", "sqlite:/var/lib/ringtrue.db"),
            ("postgres://u:hunter2@db/x", "postgres://…@db/x"),
            ("postgres://u:p@ss?w/rd@db/x", "postgres://…@db/x"),
            ("postgres://db/x?user=u&password=hunter2", "postgres://db/x?…"),
            ("u:hunter2@db", "…@db"),
        ] {
            assert_eq!(mask_url(url), shown);
        }
    }
}
