//! What a setting can be: how it is read, and how to say what is allowed.

use std::{fmt, ops::RangeInclusive, path::PathBuf, str::FromStr, time::Duration};

use super::value::Value;

/// Turns a value into what it stands for.
pub(super) trait Kind {
    type Output;

    /// Ends the sentence "allowed: …".
    fn allowed(&self) -> String;

    /// `None`: this is not one.
    fn read(&self, value: &Value) -> Option<Self::Output>;

    /// The same as [`allowed`](Self::allowed), where more can be said about a value that is not one.
    fn allowed_instead(&self, _found: &Value) -> String {
        self.allowed()
    }

    /// A value as it may be shown.
    fn show(&self, value: &Value) -> String {
        value.to_string()
    }
}

/// `true` or `false`.
pub(super) struct Flag;

impl Kind for Flag {
    type Output = bool;

    fn allowed(&self) -> String {
        "true or false".to_owned()
    }

    fn read(&self, value: &Value) -> Option<bool> {
        if let Value::Flag(flag) = value { Some(*flag) } else { None }
    }
}

/// A whole number within bounds.
pub(super) struct Whole<T>(pub RangeInclusive<T>);

impl<T: TryFrom<i64> + PartialOrd + fmt::Display> Kind for Whole<T> {
    type Output = T;

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }

    fn read(&self, value: &Value) -> Option<T> {
        let Value::Whole(number) = value else { return None };
        T::try_from(*number).ok().filter(|number| self.0.contains(number))
    }
}

/// One of a few words.
pub(super) struct Word<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy> Kind for Word<T> {
    type Output = T;

    fn allowed(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| format!("{word:?}")).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }

    fn read(&self, value: &Value) -> Option<T> {
        let Value::Text(text) = value else { return None };
        self.0.iter().find(|(word, _)| word == text).map(|(_, meaning)| *meaning)
    }
}

/// Text of a certain form.
pub(super) struct Text<T> {
    pub allowed: &'static str,
    pub parse: fn(&str) -> Option<T>,
}

impl<T> Kind for Text<T> {
    type Output = T;

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }

    fn read(&self, value: &Value) -> Option<T> {
        if let Value::Text(text) = value { (self.parse)(text) } else { None }
    }
}

/// Text that its type can read.
pub(super) fn text<T: FromStr>(allowed: &'static str) -> Text<T> {
    Text { allowed, parse: |text| text.parse().ok() }
}

/// A URL. Its user name, its password and its query are not shown.
pub(super) struct Masked<T>(pub Text<T>);

impl<T> Kind for Masked<T> {
    type Output = T;

    fn allowed(&self) -> String {
        self.0.allowed()
    }

    fn read(&self, value: &Value) -> Option<T> {
        self.0.read(value)
    }

    fn show(&self, value: &Value) -> String {
        shown(value)
    }
}

/// A value of any kind as it may be shown: what may be a secret in a URL is left out.
pub(super) fn shown(value: &Value) -> String {
    if let Value::Text(text) = value { format!("{:?}", without_secrets(text)) } else { value.to_string() }
}

/// A URL as it may be shown, even if it is none: what may be a secret is left out.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    // A password may contain anything when it was not percent-encoded: take the last `@`, and the first `?` after it.
    let (mask, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("…@", rest));
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
    format!("{scheme}{separator}{mask}{rest}{query}")
}

/// A path to a file.
pub(super) fn path() -> Text<PathBuf> {
    text("a path to a file")
}

/// A setting that may be left out, as "" or "off".
pub(super) struct OrNone<K>(pub K);

impl<K: Kind> Kind for OrNone<K> {
    type Output = Option<K::Output>;

    fn allowed(&self) -> String {
        format!("{}; or \"\" for none", self.0.allowed())
    }

    fn read(&self, value: &Value) -> Option<Self::Output> {
        match value {
            Value::Text(text) if text.is_empty() || text == "off" => Some(None),
            value => self.0.read(value).map(Some),
        }
    }

    fn show(&self, value: &Value) -> String {
        self.0.show(value)
    }
}

/// A list of things of one kind.
pub(super) struct ListOf<K>(pub K);

impl<K: Kind> Kind for ListOf<K> {
    type Output = Vec<K::Output>;

    fn allowed(&self) -> String {
        format!("a list, each item {}", self.0.allowed())
    }

    fn read(&self, value: &Value) -> Option<Self::Output> {
        if let Value::List(items) = value { items.iter().map(|item| self.0.read(item)).collect() } else { None }
    }
}

/// A duration within bounds: "10s", or whole seconds.
pub(super) struct Span(pub RangeInclusive<Duration>);

impl Kind for Span {
    type Output = Duration;

    fn allowed(&self) -> String {
        let [least, most] = [self.0.start(), self.0.end()].map(|bound| duration_text(*bound));
        format!("a duration from {least} to {most}, such as \"500ms\", \"10s\" or \"2m\", or a whole number of seconds")
    }

    fn read(&self, value: &Value) -> Option<Duration> {
        let duration = match value {
            Value::Whole(seconds) => Duration::from_secs(u64::try_from(*seconds).ok()?),
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

/// The shortest way to write a duration.
pub(super) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let unit = UNITS.iter().rev().find(|(_, size)| millis > 0 && millis.is_multiple_of(u128::from(*size)));
    unit.map_or_else(|| "0s".to_owned(), |(name, size)| format!("{}{name}", millis / u128::from(*size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
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
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn secrets_in_urls_are_not_shown() {
        for (url, shown) in [
            ("sqlite:/var/lib/ringtrue.db", "sqlite:/var/lib/ringtrue.db"),
            ("postgres://u:hunter2@db/x", "postgres://…@db/x"),
            ("postgres://u:p@ss?w/rd@db/x", "postgres://…@db/x"),
            ("postgres://db/x?user=u&password=hunter2", "postgres://db/x?…"),
            ("u:hunter2@db", "…@db"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
