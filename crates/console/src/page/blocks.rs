//! Building blocks of pages: times, ids, badges and icons. All of them render as HTML.

use std::{borrow::Cow, fmt};

use askama::{
    Template,
    filters::{Html, HtmlSafe, escape},
};
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckStatus, Verdict},
    timestamp,
};

/// A time that `console.js` shows as relative time, with the exact local time on hover.
#[derive(Clone, Copy, Debug)]
pub struct UtcTime(pub Timestamp);

/// A time that `console.js` shows as exact local time, with milliseconds. For sequences of events.
#[derive(Clone, Copy, Debug)]
pub struct ExactTime(pub Timestamp);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(f, self.0, "", "%Y-%m-%d %H:%M:%S")
    }
}

impl fmt::Display for ExactTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(f, self.0, " data-exact", "%Y-%m-%d %H:%M:%S%.3f")
    }
}

/// Safe because both times render only digits and punctuation.
impl HtmlSafe for UtcTime {}
impl HtmlSafe for ExactTime {}

fn write_time(f: &mut fmt::Formatter<'_>, at: Timestamp, attribute: &str, format: &str) -> fmt::Result {
    let shown = at.strftime(format);
    write!(f, "<time datetime=\"{}\"{attribute}>{shown} UTC</time>", timestamp::format(at))
}

/// An id that is shown shortened in the middle, with a copy button. The HTML contains the whole id, so that the
/// browser's search finds it and a selection copies it.
#[derive(Clone, Debug, Template)]
#[template(path = "page/short_id.html")]
pub struct ShortId {
    text: String,
    path: Option<String>,
}

impl HtmlSafe for ShortId {}

impl ShortId {
    const MAX_WHOLE_LENGTH: usize = 14;
    /// Number of characters shown at the start. A UUID starts with its time and ends with random digits, so the end
    /// tells ids apart and is longer.
    const HEAD_LENGTH: usize = 4;
    const TAIL_LENGTH: usize = 6;

    pub fn new(text: impl Into<String>) -> Self {
        ShortId { text: text.into(), path: None }
    }

    /// Makes the id a link.
    #[must_use]
    pub fn linked(self, path: impl Into<String>) -> Self {
        ShortId { path: Some(path.into()), ..self }
    }

    /// Splits the id into head, hidden middle and tail.
    fn parts(&self) -> (&str, &str, &str) {
        let length = self.text.chars().count();
        if length <= Self::MAX_WHOLE_LENGTH {
            return (&self.text, "", "");
        }
        let byte_of = |number: usize| self.text.char_indices().nth(number).map_or(self.text.len(), |(byte, _)| byte);
        let (head, rest) = self.text.split_at(byte_of(Self::HEAD_LENGTH));
        let (middle, tail) = rest.split_at(byte_of(length - Self::TAIL_LENGTH) - head.len());
        (head, middle, tail)
    }
}

/// Text of an error message. Parts between backticks are shown as code.
#[derive(Clone, Debug)]
pub struct CodeText(pub String);

impl fmt::Display for CodeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.0.split('`').enumerate() {
            let Ok(escaped) = escape(part, Html);
            if number % 2 == 1 {
                write!(f, "<code>{escaped}</code>")?;
            } else {
                write!(f, "{escaped}")?;
            }
        }
        Ok(())
    }
}

impl HtmlSafe for CodeText {}

/// Colour of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadgeKind {
    Match,
    /// The number does not match. Its colour differs from that of failures, because it may be a sign of fraud.
    NoMatch,
    Expired,
    Failed,
    Open,
    Neutral,
}

impl BadgeKind {
    pub fn css_class(self) -> &'static str {
        match self {
            BadgeKind::Match => "match",
            BadgeKind::NoMatch => "no-match",
            BadgeKind::Expired => "expired",
            BadgeKind::Failed => "failed",
            BadgeKind::Open => "open",
            BadgeKind::Neutral => "neutral",
        }
    }
}

/// A coloured label that shows the state of something.
#[derive(Clone, Debug, Template)]
#[template(path = "page/badge.html")]
pub struct Badge {
    pub kind: BadgeKind,
    pub text: Cow<'static, str>,
    /// Text shown on hover. May be empty.
    pub title: &'static str,
}

impl HtmlSafe for Badge {}

impl Badge {
    pub fn new(kind: BadgeKind, text: impl Into<Cow<'static, str>>) -> Self {
        Badge { kind, text: text.into(), title: "" }
    }

    /// Returns a badge with the outcome of a check. It shows the API status on hover.
    pub fn of_check(check: &AnyCheck) -> Self {
        let status = check.status();
        let (kind, text) = match status {
            CheckStatus::Accepted | CheckStatus::Pending => (BadgeKind::Open, "open"),
            CheckStatus::Expired => (BadgeKind::Expired, "expired"),
            CheckStatus::Error => (BadgeKind::Failed, check.error_code().map_or("failed", |code| code.into_str())),
            CheckStatus::Completed => match check.verdict() {
                Some(AnyVerdict::Sim(swap)) if swap.no_sim_change => (BadgeKind::Match, "no SIM change"),
                Some(AnyVerdict::Sim(_)) => (BadgeKind::NoMatch, "SIM changed"),
                Some(verdict) => match verdict.matched() {
                    Some(true) => (BadgeKind::Match, "match"),
                    Some(false) => (BadgeKind::NoMatch, "no match"),
                    None => (BadgeKind::Match, "number found"),
                },
                None => (BadgeKind::Neutral, "completed"),
            },
        };
        Badge { title: status.into_str(), ..Badge::new(kind, text) }
    }
}

/// An SVG icon of 16 by 16 units.
#[derive(Clone, Copy, Debug)]
pub struct Icon(&'static str);

impl Icon {
    /// Returns the icon with this name, or an empty icon if the name is unknown.
    pub fn named(name: &str) -> Self {
        Icon(match name {
            "overview" => "<path d=\"M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6\"/>",
            "live" => "<path d=\"M1.5 8.5h3l2-5 3 9 2-4h3\"/>",
            "checks" => "<path d=\"M2 4.5l1.2 1.2L5.5 3.4M2 11l1.2 1.2 2.3-2.3M8 4.7h6M8 11.2h6\"/>",
            "callbacks" => "<path d=\"M13.5 4.5H6.2a3.7 3.7 0 0 0 0 7.4h5.3M10.8 1.8l2.7 2.7-2.7 2.7\"/>",
            "requests" => "<path d=\"M2.5 5.5h10M9.8 2.8l2.7 2.7-2.7 2.7M13.5 10.8h-10M6.2 8.1l-2.7 2.7 2.7 2.7\"/>",
            "start" => "<circle cx=\"8\" cy=\"8\" r=\"6\"/><path d=\"M6.7 5.5v5l4-2.5z\"/>",
            "handset" => "<rect x=\"4.5\" y=\"1.5\" width=\"7\" height=\"13\" rx=\"1.5\"/><path d=\"M7.3 12.3h1.4\"/>",
            "eligibility" => "<circle cx=\"8\" cy=\"8\" r=\"6\"/><path d=\"M5.5 8.2l1.8 1.8 3.4-3.7\"/>",
            "signatures" => {
                "<path d=\"M2 13.5h12M3 10.5c2.5 0 3-7 5-7 1.6 0 .3 5.5 1.3 5.5.9 0 1-2 1.9-2 .7 0 .6 1.5 1.8 1.5\"/>"
            }
            "settings" => {
                "<path d=\"M2 4.5h6.5M12 4.5h2M2 11.5h2M7.5 11.5H14\"/><circle cx=\"10.2\" cy=\"4.5\" r=\"1.7\"/><circle cx=\"5.8\" cy=\"11.5\" r=\"1.7\"/>"
            }
            "networks" => {
                "<path d=\"M8 7.5v6.5M4.7 10.8a4.6 4.6 0 0 1 0-6.6M11.3 10.8a4.6 4.6 0 0 0 0-6.6M2.7 12.7a7.4 7.4 0 0 1 0-10.4M13.3 12.7a7.4 7.4 0 0 0 0-10.4\"/><circle cx=\"8\" cy=\"7.5\" r=\"1.2\"/>"
            }
            "credentials" | "key" => "<circle cx=\"5\" cy=\"11\" r=\"3\"/><path d=\"M7.2 8.8L13.5 2.5M10.5 5.5l2 2\"/>",
            "projects" => "<path d=\"M2 4.5v8h12V5.5H8L6.5 3.5H2z\"/>",
            "members" | "accounts" => {
                "<circle cx=\"6\" cy=\"5.5\" r=\"2.5\"/><path d=\"M1.5 13.5c.4-2.6 2-4 4.5-4s4.1 1.4 4.5 4M10.5 3.2a2.4 2.4 0 0 1 0 4.6M12 9.8c1.4.5 2.2 1.7 2.5 3.7\"/>"
            }
            "audit" => "<path d=\"M3.5 1.5h6.5l3 3v10h-9.5zM6 7.5h4.5M6 10.5h4.5\"/>",
            "usage" => "<path d=\"M8 2a6 6 0 1 0 6 6H8z\"/><path d=\"M10.5 1.8a6 6 0 0 1 3.7 3.7h-3.7z\"/>",
            "search" => "<circle cx=\"7\" cy=\"7\" r=\"4.5\"/><path d=\"M10.4 10.4L14 14\"/>",
            "copy" => {
                "<rect x=\"5.5\" y=\"5.5\" width=\"8\" height=\"8.5\" rx=\"1\"/><path d=\"M10.5 3V2.5h-8v8.5h.7\"/>"
            }
            "user" => "<circle cx=\"8\" cy=\"5.2\" r=\"2.9\"/><path d=\"M2.5 14c.5-3 2.5-4.6 5.5-4.6s5 1.6 5.5 4.6\"/>",
            "sign-out" => "<path d=\"M6 2.5H3v11h3M6.5 8h7.5M11 5l3 3-3 3\"/>",
            "sun" => {
                "<circle cx=\"8\" cy=\"8\" r=\"3\"/><path d=\"M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9L13 13M13 3l-1.1 1.1M4.1 11.9L3 13\"/>"
            }
            "moon" => "<path d=\"M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z\"/>",
            "system" => {
                "<rect x=\"1.5\" y=\"2.5\" width=\"13\" height=\"8.5\" rx=\"1\"/><path d=\"M5.5 14h5M8 11v3\"/>"
            }
            "external" => "<path d=\"M9 2.5h4.5V7M13.5 2.5L7.5 8.5M11.5 9v4.5h-9v-9H7\"/>",
            "chevron" => "<path d=\"M4.5 6.5L8 10l3.5-3.5\"/>",
            "menu" => "<path d=\"M2 4h12M2 8h12M2 12h12\"/>",
            _ => "",
        })
    }
}

impl fmt::Display for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">{}</svg>", self.0)
    }
}

/// Safe because icons contain only constants.
impl HtmlSafe for Icon {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ids_are_shortened_in_the_middle() {
        for (text, parts) in [
            ("", ("", "", "")),
            ("prj_short12345", ("prj_short12345", "", "")),
            ("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", ("01a1", "d990-1c2d-7e3f-8a4b-5c6d7e", "8f9a0b")),
            ("ääääääääääääääää", ("ääää", "ääääää", "ääääää")),
        ] {
            assert_eq!(ShortId::new(text).parts(), parts, "{text}");
        }
    }

    #[test]
    fn ids_are_escaped() {
        let html = ShortId::new("<b>\"'&0123456789").linked("/console?a=1&b=\"2\"").to_string();
        assert!(!html.contains("<b>") && !html.contains("b=\"2\""), "{html}");
        assert!(!Badge::new(BadgeKind::Failed, "<b>").to_string().contains("<b>"));
    }

    #[test]
    fn backticks_become_code() {
        for (text, html) in [
            ("`to` must be later than `from`", "<code>to</code> must be later than <code>from</code>"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(CodeText(text.to_owned()).to_string(), html);
        }
        let html = CodeText("<b> `<i>`".to_owned()).to_string();
        assert!(!html.contains("<b>") && !html.contains("<i>"), "{html}");
    }

    #[test]
    fn times_are_readable_without_a_script() {
        let at = "2026-11-15T13:34:56.789Z".parse().unwrap();
        assert_eq!(
            UtcTime(at).to_string(),
            "<time datetime=\"2026-11-15T13:34:56.789Z\">2026-11-15 13:34:56 UTC</time>"
        );
        assert!(ExactTime(at).to_string().contains(" data-exact>2026-11-15 13:34:56.789 UTC<"));
    }
}
