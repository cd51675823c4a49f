//! The settings of a project, by product.

use std::str::FromStr;

use crate::{
    callback::RetryFor,
    camara::CamaraSettings,
    product::Product,
    sign_in::SignInSettings,
    silent::AppOrigin,
    verification::VerificationSettings,
    web_url::{CallbackUrl, RedirectUrl},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub reverse_sms: ReverseSmsSettings,
    pub secure_sna: SilentSettings,
    pub discovery: SilentSettings,
    pub verification: VerificationSettings,
    pub sign_in: SignInSettings,
    pub camara: CamaraSettings,
    pub callbacks: CallbackSettings,
}

impl Configuration {
    /// Returns the callback URL for a product's checks whose create request has none: the product's own, otherwise the
    /// one for all products.
    pub fn callback_url(&self, product: Product) -> Option<&CallbackUrl> {
        let own = match product {
            Product::ReverseSms => &self.reverse_sms.callback_url,
            Product::SecureSna => &self.secure_sna.callback_url,
            Product::Discovery => &self.discovery.callback_url,
            Product::Verification => &self.verification.callback_url,
            Product::SimSwap | Product::Eligibility | Product::SignIn => return None,
        };
        own.as_ref().or(self.callbacks.url.as_ref())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReverseSmsSettings {
    /// Overrides [`CallbackSettings::url`]. Read it through [`Configuration::callback_url`].
    pub callback_url: Option<CallbackUrl>,
    pub ttl: Option<ReverseSmsTtl>,
    pub prefix: Option<SmsPrefix>,
    /// Sandbox projects only: whether the simulated handset sends the SMS automatically.
    pub auto_reply: bool,
}

/// Settings for the callbacks of all products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallbackSettings {
    /// Callback URL of products without their own. Read it through [`Configuration::callback_url`].
    pub url: Option<CallbackUrl>,
    /// How long callbacks are retried. `None`: only by the regular schedule of seven attempts.
    pub retry_for: Option<RetryFor>,
}

/// Settings of Secure SNA or Discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SilentSettings {
    /// Overrides [`CallbackSettings::url`]. Read it through [`Configuration::callback_url`].
    pub callback_url: Option<CallbackUrl>,
    pub redirect_url: Option<RedirectUrl>,
    /// Secure SNA only: origins at which the project's own apps and sites ask wallets. Empty: none do.
    pub app_origins: Vec<AppOrigin>,
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
    use crate::web_url::UrlPolicy;

    #[test]
    fn callback_url_of_a_product_overrides_the_one_for_all() {
        let url = |text| CallbackUrl::parse(text, &UrlPolicy::default()).ok();
        let (all, own) = (url("https://shop.example/all"), url("https://shop.example/own"));
        let shared = CallbackSettings { url: all.clone(), retry_for: None };
        let silent = SilentSettings { callback_url: own.clone(), ..SilentSettings::default() };
        for (configuration, expected) in [
            (Configuration::default(), [None, None, None, None]),
            (
                Configuration { callbacks: shared.clone(), ..Configuration::default() },
                [&all, &all, &all, &all].map(Option::as_ref),
            ),
            (
                Configuration { callbacks: shared, discovery: silent.clone(), ..Configuration::default() },
                [&all, &all, &own, &all].map(Option::as_ref),
            ),
            (Configuration { secure_sna: silent, ..Configuration::default() }, [None, own.as_ref(), None, None]),
        ] {
            let products = [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::Verification];
            assert_eq!(products.map(|product| configuration.callback_url(product)), expected);
            for product in [Product::SimSwap, Product::Eligibility] {
                assert_eq!(configuration.callback_url(product), None, "{product:?}");
            }
        }
    }

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
