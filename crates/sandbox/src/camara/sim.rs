//! Simulated SIMs. The last two digits of a number select its behaviour.

use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Phone number in E.164 format with plus sign. Masked, to keep numbers out of logs.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize, Serialize, derive_more::Debug)]
#[debug("PhoneNumber(…{:02})", self.last_two_digits())]
pub struct PhoneNumber(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid phone number: must be a plus sign and 5 to 15 digits, the first not 0")]
pub struct InvalidPhoneNumber;

impl FromStr for PhoneNumber {
    type Err = InvalidPhoneNumber;

    fn from_str(text: &str) -> Result<Self, InvalidPhoneNumber> {
        let digits = text.strip_prefix('+').ok_or(InvalidPhoneNumber)?;
        let is_valid = (5..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|octet| octet.is_ascii_digit());
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidPhoneNumber) }
    }
}

/// Result of recognising a device by its SIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognition {
    Recognised,
    /// Recognised as a different device.
    OtherDevice,
    /// Recognised, but the service is not available for the subscription.
    NotApplicable,
    NoResponse,
    Timeout,
    Failure,
}

/// SIM history of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimHistory {
    NeverChanged,
    ChangedRecently,
    /// Changes before the monitored period are not recorded.
    NotMonitored {
        monitored_days: i64,
    },
    NotApplicable,
    UnknownNumber,
    Timeout,
    Unavailable,
    Failure,
}

impl SimHistory {
    /// 20 hours in seconds: within a day, but not within twelve hours.
    pub(super) const RECENT_CHANGE_AGE: i64 = 20 * 3600;
}

impl PhoneNumber {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn recognition(&self) -> Recognition {
        match self.last_two_digits() {
            99 | 93 => Recognition::Failure,
            98 => Recognition::NoResponse,
            97 | 94 => Recognition::NotApplicable,
            95 => Recognition::Timeout,
            even if even % 2 == 0 => Recognition::Recognised,
            _ => Recognition::OtherDevice,
        }
    }

    pub(super) fn sim_history(&self) -> SimHistory {
        match self.last_two_digits() {
            99 => SimHistory::Failure,
            98 => SimHistory::NotMonitored { monitored_days: 400 },
            97 => SimHistory::NotApplicable,
            95 => SimHistory::Timeout,
            94 => SimHistory::UnknownNumber,
            93 => SimHistory::Unavailable,
            even if even % 2 == 0 => SimHistory::NeverChanged,
            _ => SimHistory::ChangedRecently,
        }
    }

    /// Compares the SHA-256 of the number, in hexadecimal digits of either case.
    pub(super) fn hashes_to(&self, hexadecimal: &str) -> bool {
        hex::encode(digest(&SHA256, self.0.as_bytes())).eq_ignore_ascii_case(hexadecimal)
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
    fn phone_numbers_are_parsed() {
        for valid in ["+12345", "+990123456789012"] {
            assert!(valid.parse::<PhoneNumber>().is_ok(), "{valid}");
        }
        for invalid in ["", "+", "12345", "+1234", "+01234", "+1234567890123456", "+12a45", "+1234５", " +12345"] {
            assert_eq!(invalid.parse::<PhoneNumber>(), Err(InvalidPhoneNumber), "{invalid}");
        }
    }

    #[test]
    fn last_two_digits_select_the_behaviour() {
        use Recognition::{Failure, NoResponse, NotApplicable, OtherDevice, Recognised, Timeout};
        let not_monitored = SimHistory::NotMonitored { monitored_days: 400 };
        for (suffix, recognition, history) in [
            ("99", Failure, SimHistory::Failure),
            ("98", NoResponse, not_monitored),
            ("97", NotApplicable, SimHistory::NotApplicable),
            ("96", Recognised, SimHistory::NeverChanged),
            ("95", Timeout, SimHistory::Timeout),
            ("94", NotApplicable, SimHistory::UnknownNumber),
            ("93", Failure, SimHistory::Unavailable),
            ("92", Recognised, SimHistory::NeverChanged),
            ("91", OtherDevice, SimHistory::ChangedRecently),
            ("00", Recognised, SimHistory::NeverChanged),
            ("89", OtherDevice, SimHistory::ChangedRecently),
        ] {
            let number: PhoneNumber = format!("+9901234{suffix}").parse().unwrap();
            assert_eq!((number.recognition(), number.sim_history()), (recognition, history), "{suffix}");
        }
    }

    #[test]
    fn hash_is_case_insensitive() {
        // By `printf +123456789 | sha256sum`.
        let hash = "b49f9168e8a886ffd61a090b51a26e117717f5f6fa804af49ea67043a2bfa4f0";
        let number: PhoneNumber = "+123456789".parse().unwrap();
        assert!(number.hashes_to(hash) && number.hashes_to(&hash.to_uppercase()));
        assert!(!number.hashes_to(&hash[1..]) && !number.hashes_to(&hash.replace('b', "c")));
    }

    #[test]
    fn debug_masks_the_number() {
        let number: PhoneNumber = "+123456789".parse().unwrap();
        assert_eq!(format!("{number:?}"), "PhoneNumber(…89)");
    }
}
