//! What a project sets once for all its checks.

use std::{fmt, str::FromStr};

use crate::web_url::{CallbackUrl, RedirectUrl};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub reverse_sms: ReverseSmsSettings,
    pub secure_sna: SilentSettings,
    pub discovery: SilentSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReverseSmsSettings {
    /// Used by checks that name no callback URL of their own.
    pub callback_url: Option<CallbackUrl>,
    pub ttl: Option<Ttl>,
    pub prefix: Option<SmsPrefix>,
    /// In a sandbox project: whether the simulated handset replies by itself.
    pub auto_reply: bool,
}

/// Settings of the products in which the device follows redirects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SilentSettings {
    pub callback_url: Option<CallbackUrl>,
    pub redirect_url: Option<RedirectUrl>,
}

/// How long a Reverse SMS check waits for its message, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl(u16);

impl Ttl {
    pub const DEFAULT: Ttl = Ttl(300);
    const ALLOWED: std::ops::RangeInclusive<u16> = 60..=900;

    pub fn seconds(self) -> u16 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ttl is 60 to 900 seconds")]
pub struct InvalidTtl;

impl TryFrom<i64> for Ttl {
    type Error = InvalidTtl;

    fn try_from(seconds: i64) -> Result<Self, InvalidTtl> {
        u16::try_from(seconds).ok().filter(|seconds| Self::ALLOWED.contains(seconds)).map(Ttl).ok_or(InvalidTtl)
    }
}

/// The word before the code in the SMS that an end-user sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmsPrefix(String);

/// Words that carriers and aggregators take for commands when they stand first in a message.
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

impl fmt::Display for SmsPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrefix {
    #[error("a prefix is one word of 1 to 20 characters, only A-Z and 0-9")]
    Shape,
    #[error("a prefix must not be a word that carriers take for a command, such as STOP or HELP")]
    CarrierKeyword,
}

impl FromStr for SmsPrefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let shape_is_right = (1..=20).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if !shape_is_right {
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
    fn a_ttl_is_one_to_fifteen_minutes() {
        for (seconds, good) in [(59, false), (60, true), (900, true), (901, false), (-1, false), (65_596, false)] {
            assert_eq!(Ttl::try_from(seconds).is_ok(), good, "{seconds}");
        }
    }

    #[test]
    fn a_prefix_is_a_plain_word_that_no_carrier_takes_for_itself() {
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
