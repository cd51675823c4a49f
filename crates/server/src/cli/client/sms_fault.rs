//! Faults to inject into a sandbox SMS.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::arguments::Number;

/// Parsed from `NAME` or `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum SmsFault {
    /// Delay in seconds.
    Late(u32),
    /// Number of extra copies.
    Duplicate(u32),
    /// Sender number to forge.
    Spoofed(Number),
    Garbled,
    /// Number of parts.
    Split(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected late[=SECONDS] (0 to 3600), duplicate[=COPIES] (0 to 10), spoofed[=NUMBER], garbled or split[=PARTS] (1 to 10)"
)]
pub(in crate::cli) struct InvalidFault;

/// Never assigned in the sandbox.
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
            "spoofed" => Ok(SmsFault::Spoofed(Number(value.unwrap_or(DEFAULT_SPOOFED_NUMBER).to_owned()))),
            "garbled" if value.is_none() => Ok(SmsFault::Garbled),
            "split" => Ok(SmsFault::Split(count(2, 1..=10)?)),
            _ => Err(InvalidFault),
        }
    }
}

/// Renders the `faults` object of the sandbox API.
pub(super) fn render_faults(faults: &[SmsFault]) -> Value {
    let member = |fault: &SmsFault| match fault {
        SmsFault::Late(seconds) => ("late_seconds", json!(seconds)),
        SmsFault::Duplicate(copies) => ("extra_copies", json!(copies)),
        SmsFault::Spoofed(number) => ("spoofed_from", json!(number.0)),
        SmsFault::Garbled => ("garbled", json!(true)),
        SmsFault::Split(parts) => ("parts", json!(parts)),
    };
    Value::Object(faults.iter().map(member).map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_parse_with_defaults_and_limits() {
        for (text, fault) in [
            ("late", Ok(SmsFault::Late(5))),
            ("late=30", Ok(SmsFault::Late(30))),
            ("duplicate", Ok(SmsFault::Duplicate(1))),
            ("spoofed", Ok(SmsFault::Spoofed(Number(DEFAULT_SPOOFED_NUMBER.to_owned())))),
            ("spoofed=+990123456701", Ok(SmsFault::Spoofed(Number("+990123456701".to_owned())))),
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
}
