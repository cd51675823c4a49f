//! The settings of a project, by product.

use std::str::FromStr;

use crate::{
    callback::RetryFor,
    product::Product,
    verification::VerificationSettings,
    web_url::{CallbackUrl, RedirectUrl},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub reverse_sms: ReverseSmsSettings,
    pub secure_sna: SilentSettings,
    pub discovery: SilentSettings,
    pub verification: VerificationSettings,
    pub callbacks: CallbackSettings,
}

impl Configuration {
    /// Returns the callback URL for a product's checks whose create request has none.
    pub fn callback_url(&self, product: Product) -> Option<&CallbackUrl> {
        match product {
            Product::ReverseSms => self.reverse_sms.callback_url.as_ref(),
            Product::SecureSna => self.secure_sna.callback_url.as_ref(),
            Product::Discovery => self.discovery.callback_url.as_ref(),
            Product::Verification => self.verification.callback_url.as_ref(),
            Product::SimSwap | Product::Eligibility => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReverseSmsSettings {
    /// Callback URL of checks whose create request has none.
    pub callback_url: Option<CallbackUrl>,
    pub ttl: Option<ReverseSmsTtl>,
    pub prefix: Option<SmsPrefix>,
    /// Sandbox projects only: whether the simulated handset sends the SMS automatically.
    pub auto_reply: bool,
}

/// Settings for the callbacks of all products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallbackSettings {
    /// How long callbacks are retried. `None`: only by the regular schedule of seven attempts.
    pub retry_for: Option<RetryFor>,
}

/// Settings of Secure SNA or Discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SilentSettings {
    pub callback_url: Option<CallbackUrl>,
    pub redirect_url: Option<RedirectUrl>,
}

/// Lifetime of a Reverse SMS check, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverseSmsTtl(u16);

impl ReverseSmsTtl {
    pub const DEFAULT: ReverseSmsTtl = ReverseSmsTtl(300);
    const ALLOWED: std::ops::RangeInclusive<u16> = 60..=900;

    pub fn seconds(self) -> u16 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ttl is 60 to 900 seconds")]
pub struct InvalidReverseSmsTtl;

impl TryFrom<i64> for ReverseSmsTtl {
    type Error = InvalidReverseSmsTtl;

    fn try_from(seconds: i64) -> Result<Self, InvalidReverseSmsTtl> {
        u16::try_from(seconds)
            .ok()
            .filter(|seconds| Self::ALLOWED.contains(seconds))
            .map(ReverseSmsTtl)
            .ok_or(InvalidReverseSmsTtl)
    }
}

/// The word before the code in the SMS that an end-user sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmsPrefix(String);

/// Words that carriers and SMS aggregators interpret as commands if they are at the start of a message.
const CARRIER_KEYWORDS: [&str; 14] = [
    "STOP",
    "STOPALL",
    "UNSUBSCRIBE",
    "CANCEL",
    "END",
    "QUIT",
    "START",
    "UNSTOP",
    "YES",
    "NO",
    "HELP",
    "INFO",
    "OPTOUT",
    "REVOKE",
];

impl SmsPrefix {
    pub const DEFAULT: &'static str = "VERIFY";

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::display_as_str::display_as_str!(SmsPrefix);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrefix {
    #[error("a prefix is one word of 1 to 20 characters, only A-Z and 0-9")]
    Shape,
    #[error("a prefix must not be a carrier keyword, such as STOP or HELP")]
    CarrierKeyword,
}

impl FromStr for SmsPrefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let is_well_formed = (1..=20).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if !is_well_formed {
            Err(InvalidPrefix::Shape)
        } else if CARRIER_KEYWORDS.contains(&text) {
            Err(InvalidPrefix::CarrierKeyword)
        } else {
            Ok(SmsPrefix(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_one_to_fifteen_minutes() {
        for (seconds, is_valid) in [(59, false), (60, true), (900, true), (901, false), (-1, false), (65_596, false)] {
            assert_eq!(ReverseSmsTtl::try_from(seconds).is_ok(), is_valid, "{seconds}");
        }
    }

    #[test]
    fn prefix_is_a_plain_word_and_no_carrier_keyword() {
        assert!(SmsPrefix::DEFAULT.parse::<SmsPrefix>().is_ok());
        for (text, result) in [
            ("ACME2", Ok("ACME2")),
            ("", Err(InvalidPrefix::Shape)),
            ("acme", Err(InvalidPrefix::Shape)),
            ("TWO WORDS", Err(InvalidPrefix::Shape)),
            ("ABCDEFGHIJKLMNOPQRSTU", Err(InvalidPrefix::Shape)),
            ("STOP", Err(InvalidPrefix::CarrierKeyword)),
            ("INFO", Err(InvalidPrefix::CarrierKeyword)),
        ] {
            assert_eq!(text.parse::<SmsPrefix>().as_ref().map(SmsPrefix::as_str), result.as_ref().copied(), "{text}");
        }
    }
}
