//! Simulated SIMs. The last two digits of a number select its behaviour.

use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Phone number in E.164 format with plus sign. `Debug` shows only the last two digits, to keep numbers out of logs.
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
    /// The network recognises a different device, so the number to verify does not match.
    OtherDevice,
    /// Recognised, but the service is not available for the subscription.
    NotApplicable,
    NoResponse,
    Timeout,
    Failure,
}

/// Whether a phone's wallet hands out operator tokens of a SIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalletSupport {
    Supported,
    /// The operator does not offer the service for the subscription, so the wallet does not offer the SIM.
    NotEligible,
    /// The wallet never answers.
    NoAnswer,
}

/// SIM history of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimHistory {
    NeverChanged,
    ChangedRecently,
    /// No change in the monitored period. Earlier changes are not recorded.
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
    /// Age of a recent SIM change, in seconds: 20 hours, which is within a day but not within twelve hours.
    pub(super) const RECENT_CHANGE_AGE: i64 = 20 * 3600;
}

impl PhoneNumber {
    pub fn as_str(&self) -> &str {
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

    pub(crate) fn wallet_support(&self) -> WalletSupport {
        match self.last_two_digits() {
            98 => WalletSupport::NoAnswer,
            97 | 96 | 94 => WalletSupport::NotEligible,
            _ => WalletSupport::Supported,
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

    /// Whether the SHA-256 of the number equals this one, in hexadecimal digits of either case.
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
    fn debug_masks_the_number() {
        let number: PhoneNumber = "+123456789".parse().unwrap();
        assert_eq!(format!("{number:?}"), "PhoneNumber(…89)");
    }
}
