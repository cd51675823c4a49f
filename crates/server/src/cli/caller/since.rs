//! How long ago, or since when, as it is typed.

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
pub(in crate::cli) struct NotSince;

impl FromStr for Since {
    type Err = NotSince;

    fn from_str(text: &str) -> Result<Self, NotSince> {
        if let Some(instant) = time::parse(text) {
            return Ok(Since::At(instant));
        }
        let unit = text.chars().next_back().ok_or(NotSince)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(NotSince),
        };
        // A year is more than anything is kept for.
        let count: i64 = text.strip_suffix(unit).and_then(|count| count.parse().ok()).ok_or(NotSince)?;
        let seconds = count.checked_mul(seconds).filter(|seconds| (1..=366 * 86_400).contains(seconds));
        seconds.map(|seconds| Since::Ago(SignedDuration::from_secs(seconds))).ok_or(NotSince)
    }
}

impl Since {
    pub(super) fn instant(self, now: Timestamp) -> Timestamp {
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
    fn ages_and_times() {
        let ago = |seconds| Ok(Since::Ago(SignedDuration::from_secs(seconds)));
        for (text, since) in [
            ("90s", ago(90)),
            ("10m", ago(600)),
            ("2h", ago(7_200)),
            ("1d", ago(86_400)),
            ("2026-11-14T09:30:00Z", Ok(Since::At("2026-11-14T09:30:00Z".parse().unwrap()))),
            ("", Err(NotSince)),
            ("m", Err(NotSince)),
            ("10", Err(NotSince)),
            ("-1m", Err(NotSince)),
            ("0s", Err(NotSince)),
            ("367d", Err(NotSince)),
            ("99999999999999999999d", Err(NotSince)),
            ("10 m", Err(NotSince)),
            ("yesterday", Err(NotSince)),
            ("5ü", Err(NotSince)),
        ] {
            assert_eq!(text.parse(), since, "{text}");
        }
    }
}
