//! Simulated SIMs. Every number has one, and its last two digits decide what happens to it.

use std::{fmt, str::FromStr};

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The number of a SIM, in E.164 form with its plus sign.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct PhoneNumber(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a phone number is a plus sign and 5 to 15 digits, of which the first is not 0")]
pub struct NotANumber;

impl FromStr for PhoneNumber {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Self, NotANumber> {
        let digits = text.strip_prefix('+').ok_or(NotANumber)?;
        let shape_is_right = (5..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|octet| octet.is_ascii_digit());
        if shape_is_right { Ok(Self(text.to_owned())) } else { Err(NotANumber) }
    }
}

/// Masked, so that a number never reaches a log by accident.
impl fmt::Debug for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PhoneNumber(…{:02})", self.last_two_digits())
    }
}

/// What becomes of a device that is to be recognised by its SIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognition {
    /// It is recognised, and has the number that its SIM has.
    Right,
    /// It is recognised as some other device.
    Wrong,
    /// It is recognised, but its subscription does not have the service.
    NotApplicable,
    /// Nobody ever answers.
    Silence,
    OutOfTime,
    Failure,
}

/// What the operator knows of the changes of a number's SIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimHistory {
    /// The first SIM is still in use.
    NeverChanged,
    /// The SIM was changed [`RECENTLY`](Self::RECENTLY).
    ChangedRecently,
    /// Nothing is known from before so many days.
    Forgotten {
        monitored_days: i64,
    },
    NotApplicable,
    UnknownNumber,
    OutOfTime,
    Unavailable,
    Failure,
}

impl SimHistory {
    /// Twenty hours ago, in seconds: long enough for "within a day" not to be "within twelve hours".
    pub(super) const RECENTLY: i64 = 20 * 3600;
}

impl PhoneNumber {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn recognition(&self) -> Recognition {
        match self.last_two_digits() {
            99 | 93 => Recognition::Failure,
            98 => Recognition::Silence,
            97 | 94 => Recognition::NotApplicable,
            95 => Recognition::OutOfTime,
            even if even % 2 == 0 => Recognition::Right,
            _ => Recognition::Wrong,
        }
    }

    pub(super) fn sim_history(&self) -> SimHistory {
        match self.last_two_digits() {
            99 => SimHistory::Failure,
            98 => SimHistory::Forgotten { monitored_days: 400 },
            97 => SimHistory::NotApplicable,
            95 => SimHistory::OutOfTime,
            94 => SimHistory::UnknownNumber,
            93 => SimHistory::Unavailable,
            even if even % 2 == 0 => SimHistory::NeverChanged,
            _ => SimHistory::ChangedRecently,
        }
    }

    /// Whether this is the SHA-256 of the number, in hexadecimal digits of either case.
    pub(super) fn hashes_to(&self, hexadecimal: &str) -> bool {
        let mut hash = String::new();
        for octet in digest(&SHA256, self.0.as_bytes()).as_ref() {
            hash.extend([octet >> 4, octet & 15].map(|half| char::from_digit(half.into(), 16).unwrap_or_default()));
        }
        hash.eq_ignore_ascii_case(hexadecimal)
    }

    fn last_two_digits(&self) -> u32 {
        let digits = self.0.bytes().rev().take(2).map(|digit| u32::from(digit - b'0'));
        digits.zip([1, 10]).map(|(digit, weight)| digit * weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_camara_writes_them() {
        for good in ["+12345", "+990123456789012"] {
            assert!(good.parse::<PhoneNumber>().is_ok(), "{good}");
        }
        for bad in ["", "+", "12345", "+1234", "+01234", "+1234567890123456", "+12a45", "+1234５", " +12345"] {
            assert_eq!(bad.parse::<PhoneNumber>(), Err(NotANumber), "{bad}");
        }
    }

    #[test]
    fn the_last_two_digits_decide() {
        use Recognition::{Failure, NotApplicable, OutOfTime, Right, Silence, Wrong};
        let forgotten = SimHistory::Forgotten { monitored_days: 400 };
        for (suffix, recognition, history) in [
            ("99", Failure, SimHistory::Failure),
            ("98", Silence, forgotten),
            ("97", NotApplicable, SimHistory::NotApplicable),
            ("96", Right, SimHistory::NeverChanged),
            ("95", OutOfTime, SimHistory::OutOfTime),
            ("94", NotApplicable, SimHistory::UnknownNumber),
            ("93", Failure, SimHistory::Unavailable),
            ("92", Right, SimHistory::NeverChanged),
            ("91", Wrong, SimHistory::ChangedRecently),
            ("00", Right, SimHistory::NeverChanged),
            ("89", Wrong, SimHistory::ChangedRecently),
        ] {
            let number: PhoneNumber = format!("+9901234{suffix}").parse().unwrap();
            assert_eq!((number.recognition(), number.sim_history()), (recognition, history), "{suffix}");
        }
    }

    #[test]
    fn a_hash_is_known_in_either_case() {
        // By `printf +123456789 | sha256sum`.
        let hash = "b49f9168e8a886ffd61a090b51a26e117717f5f6fa804af49ea67043a2bfa4f0";
        let number: PhoneNumber = "+123456789".parse().unwrap();
        assert!(number.hashes_to(hash) && number.hashes_to(&hash.to_uppercase()));
        assert!(!number.hashes_to(&hash[1..]) && !number.hashes_to(&hash.replace('b', "c")));
    }

    #[test]
    fn a_number_is_masked() {
        let number: PhoneNumber = "+123456789".parse().unwrap();
        assert_eq!(format!("{number:?}"), "PhoneNumber(…89)");
    }
}
