//! A project's settings for verifications.

use std::str::FromStr;

use super::{LogoUrl, Method};
use crate::{
    tenancy::{InvalidName, Name},
    web_url::{CallbackUrl, RedirectUrl, UrlError, UrlPolicy, WebOrigin},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationSettings {
    /// Methods to try, in this order. `None`: all methods, beginning with the one that needs no action by the end-user.
    pub methods: Option<Vec<Method>>,
    /// Whether a mismatch of Secure SNA leads to the next method, as an error does, instead of being the verdict.
    pub fall_back_on_mismatch: bool,
    /// Callback URL of verifications whose create request has none.
    pub callback_url: Option<CallbackUrl>,
    /// Redirect URL of verifications whose create request has none.
    pub redirect_url: Option<RedirectUrl>,
    /// Allowed origins of redirect URLs. Empty: any origin is allowed.
    pub redirect_origins: Vec<WebOrigin>,
    /// Origins of sites that may show the hosted page in a frame. Empty: none may.
    pub frame_origins: Vec<WebOrigin>,
    pub ttl: Option<VerificationTtl>,
    pub brand: Brand,
}

impl VerificationSettings {
    /// Rejects a redirect URL whose origin is not allowed.
    pub fn check_redirect(&self, url: &RedirectUrl) -> Result<(), UrlError> {
        let is_allowed =
            self.redirect_origins.is_empty() || self.redirect_origins.iter().any(|origin| origin.contains(url));
        if is_allowed { Ok(()) } else { Err(UrlError::OriginNotAllowed) }
    }
}

/// How the hosted page presents the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brand {
    /// Name on the page. `None`: the project's name.
    pub name: Option<BrandName>,
    pub logo_url: Option<LogoUrl>,
    /// Page on which the project's owner helps end-users.
    pub support_url: Option<BrandUrl>,
    pub colour: Option<Colour>,
}

/// Lifetime of a verification, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationTtl(u16);

impl VerificationTtl {
    pub const DEFAULT: VerificationTtl = VerificationTtl(600);
    const ALLOWED: std::ops::RangeInclusive<u16> = 60..=3_600;

    pub fn seconds(self) -> u16 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ttl of a verification is 60 to 3600 seconds")]
pub struct InvalidVerificationTtl;

impl TryFrom<i64> for VerificationTtl {
    type Error = InvalidVerificationTtl;

    fn try_from(seconds: i64) -> Result<Self, InvalidVerificationTtl> {
        let seconds = u16::try_from(seconds).ok().filter(|seconds| Self::ALLOWED.contains(seconds));
        seconds.map(VerificationTtl).ok_or(InvalidVerificationTtl)
    }
}

/// The brand name that the hosted page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrandName(Name);

impl BrandName {
    pub const MAX_CHARS: usize = 60;

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

crate::display_as_str::display_as_str!(BrandName);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBrandName {
    #[error("the name of a brand has at most {} characters", BrandName::MAX_CHARS)]
    TooLong,
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl FromStr for BrandName {
    type Err = InvalidBrandName;

    fn from_str(text: &str) -> Result<Self, InvalidBrandName> {
        let name: Name = text.parse()?;
        let is_too_long = name.as_str().chars().nth(Self::MAX_CHARS).is_some();
        if is_too_long { Err(InvalidBrandName::TooLong) } else { Ok(Self(name)) }
    }
}

/// URL on the hosted page that the end-user's browser opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrandUrl(RedirectUrl);

impl BrandUrl {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct InvalidBrandUrl(#[from] UrlError);

impl FromStr for BrandUrl {
    type Err = InvalidBrandUrl;

    /// Accepts only `https`, because the hosted page uses TLS and browsers block images over plain HTTP in it.
    fn from_str(text: &str) -> Result<Self, InvalidBrandUrl> {
        Ok(BrandUrl(RedirectUrl::parse(text, &UrlPolicy::default())?))
    }
}

/// Accent colour of the hosted page: `#` and six hexadecimal digits, stored in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colour(String);

impl Colour {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a colour is `#` and six hexadecimal digits, such as `#1a73e8`")]
pub struct InvalidColour;

impl FromStr for Colour {
    type Err = InvalidColour;

    fn from_str(text: &str) -> Result<Self, InvalidColour> {
        let digits = text.strip_prefix('#').ok_or(InvalidColour)?;
        let is_valid = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_valid { Ok(Colour(text.to_ascii_lowercase())) } else { Err(InvalidColour) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_one_minute_to_one_hour() {
        for (seconds, is_valid) in [(59, false), (60, true), (3_600, true), (3_601, false), (-1, false)] {
            assert_eq!(VerificationTtl::try_from(seconds).is_ok(), is_valid, "{seconds}");
        }
    }

    #[test]
    fn redirect_origins_restrict_redirect_urls() {
        let policy = UrlPolicy { allow_http: true, ..UrlPolicy::default() };
        let origin = |text| WebOrigin::parse(text, &policy);
        for (text, parsed) in [
            ("https://Shop.example:443", Ok("https://shop.example")),
            ("https://shop.example/", Ok("https://shop.example")),
            ("http://localhost:8080", Ok("http://localhost:8080")),
            ("https://shop.example/back", Err(UrlError::NotOrigin)),
            ("https://shop.example?a=b", Err(UrlError::NotOrigin)),
            ("shop.example", Err(UrlError::NotAbsolute)),
            ("https://*.shop.example", Err(UrlError::HostInvalid)),
        ] {
            assert_eq!(origin(text).as_ref().map(WebOrigin::as_str), parsed.as_ref().copied(), "{text}");
        }
        assert_eq!(WebOrigin::parse("http://shop.example", &UrlPolicy::default()), Err(UrlError::HttpNotAllowed));

        let redirect_origins = vec![origin("https://shop.example").unwrap(), origin("http://localhost:8080").unwrap()];
        let settings = VerificationSettings { redirect_origins, ..VerificationSettings::default() };
        for (url, is_allowed) in [
            ("https://shop.example/back?session=1", true),
            ("https://SHOP.example:443/", true),
            ("http://localhost:8080/back", true),
            ("http://shop.example/back", false),
            ("https://shop.example:8443/back", false),
            ("https://shop.example.evil.example/", false),
            ("https://evil.example/?https://shop.example", false),
        ] {
            let url = RedirectUrl::parse(url, &policy).unwrap();
            assert_eq!(settings.check_redirect(&url).is_ok(), is_allowed, "{url:?}");
            assert_eq!(VerificationSettings::default().check_redirect(&url), Ok(()));
        }
    }

    #[test]
    fn brand_is_validated() {
        for (name, is_valid) in [("Shop", true), (&*"é".repeat(60), true), (&*"é".repeat(61), false), (" ", false)] {
            assert_eq!(name.parse::<BrandName>().is_ok(), is_valid, "{name}");
        }
        for (url, is_valid) in [("https://example.com/logo.svg", true), ("http://example.com/logo.svg", false)] {
            assert_eq!(url.parse::<BrandUrl>().is_ok(), is_valid, "{url}");
        }
        for (colour, is_valid) in
            [("#1A73e8", true), ("1a73e8", false), ("#1a73e", false), ("#1a73eg", false), ("#ü3e83", false)]
        {
            assert_eq!(colour.parse::<Colour>().is_ok(), is_valid, "{colour}");
        }
        assert_eq!("#1A73E8".parse::<Colour>().map(|colour| colour.as_str().to_owned()), Ok("#1a73e8".to_owned()));
    }
}
