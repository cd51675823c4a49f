//! `--since`: an age or a point in time.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

use crate::http::time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Since {
    Ago(SignedDuration),
    At(Timestamp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an age such as 90s, 10m, 2h or 1d, or a time such as 2026-11-14T09:30:00Z")]
pub(in crate::cli) struct InvalidSince;

impl FromStr for Since {
    type Err = InvalidSince;

    fn from_str(text: &str) -> Result<Self, InvalidSince> {
        if let Some(instant) = time::parse(text) {
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
        // A year exceeds every retention.
        let count: i64 = text.strip_suffix(unit).and_then(|count| count.parse().ok()).ok_or(InvalidSince)?;
        let seconds = count.checked_mul(seconds).filter(|seconds| (1..=366 * 86_400).contains(seconds));
        seconds.map(|seconds| Since::Ago(SignedDuration::from_secs(seconds))).ok_or(InvalidSince)
    }
}

impl Since {
    pub(super) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Since::Ago(age) => now.checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH),
            Since::At(instant) => instant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
