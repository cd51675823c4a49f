//! What can befall an SMS in the sandbox.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::arguments::Number;

/// As it is typed: a name, and for some of them how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Fault {
    /// After so many seconds.
    Late(u32),
    /// With so many more copies.
    Duplicate(u32),
    /// With the number of someone else.
    Spoofed(Number),
    Garbled,
    /// In so many parts.
    Split(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected late[=SECONDS] (0 to 3600), duplicate[=COPIES] (0 to 10), spoofed[=NUMBER], garbled or split[=PARTS] (1 to 10)"
)]
pub(in crate::cli) struct NotAFault;

/// Nobody's, in the sandbox.
const SOMEONE_ELSE: &str = "+990000000002";

impl FromStr for Fault {
    type Err = NotAFault;

    fn from_str(text: &str) -> Result<Self, NotAFault> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let count = |usual: u32, range: std::ops::RangeInclusive<u32>| {
            let count = value.map_or(Ok(usual), str::parse).map_err(|_| NotAFault)?;
            if range.contains(&count) { Ok(count) } else { Err(NotAFault) }
        };
        match name {
            "late" => Ok(Fault::Late(count(5, 0..=3_600)?)),
            "duplicate" => Ok(Fault::Duplicate(count(1, 0..=10)?)),
            "spoofed" => Ok(Fault::Spoofed(Number(value.unwrap_or(SOMEONE_ELSE).to_owned()))),
            "garbled" if value.is_none() => Ok(Fault::Garbled),
            "split" => Ok(Fault::Split(count(2, 1..=10)?)),
            _ => Err(NotAFault),
        }
    }
}

/// In the form of the sandbox's API.
pub(super) fn faults(faults: &[Fault]) -> Value {
    let member = |fault: &Fault| match fault {
        Fault::Late(seconds) => ("late_seconds", json!(seconds)),
        Fault::Duplicate(copies) => ("extra_copies", json!(copies)),
        Fault::Spoofed(number) => ("spoofed_from", json!(number.0)),
        Fault::Garbled => ("garbled", json!(true)),
        Fault::Split(parts) => ("parts", json!(parts)),
    };
    Value::Object(faults.iter().map(member).map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_and_measured() {
        for (text, fault) in [
            ("late", Ok(Fault::Late(5))),
            ("late=30", Ok(Fault::Late(30))),
            ("duplicate", Ok(Fault::Duplicate(1))),
            ("spoofed", Ok(Fault::Spoofed(Number(SOMEONE_ELSE.to_owned())))),
            ("spoofed=+990123456701", Ok(Fault::Spoofed(Number("+990123456701".to_owned())))),
            ("garbled", Ok(Fault::Garbled)),
            ("split=3", Ok(Fault::Split(3))),
            ("split=0", Err(NotAFault)),
            ("split=11", Err(NotAFault)),
            ("late=3601", Err(NotAFault)),
            ("late=soon", Err(NotAFault)),
            ("garbled=yes", Err(NotAFault)),
            ("lost", Err(NotAFault)),
        ] {
            assert_eq!(text.parse(), fault, "{text}");
        }
        let both = [Fault::Late(1), Fault::Garbled];
        assert_eq!(faults(&both), json!({"late_seconds": 1, "garbled": true}));
    }
}
