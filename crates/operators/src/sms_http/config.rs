//! Configuration of an SMS webhook, and the secrets shared with its vendor.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use ipnet::IpNet;
use jsonwebtoken::{Algorithm, DecodingKey};
use ringtrue_domain::phone::{Country, Msisdn};
use ringtrue_engine::jwt;
use serde::de::DeserializeOwned;
use strum::IntoStaticStr;
use url::Url;
use zeroize::Zeroizing;

use super::{
    Bird, Generic, Infobip, Jasmin, Kannel, MessageBird, Plivo, Sinch, Telnyx, Twilio, Vonage,
    vendor::{InvalidSignature, WebhookVendor, constant_time_eq},
};

#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// Identifies this webhook in logs and metrics.
    pub name: Arc<str>,
    pub driver: WebhookDriver,
    /// Public URL that the vendor calls and signs, without query and path secret. The secret is appended as the last
    /// segment.
    pub public_url: Url,
    pub path_secret: Option<PathSecret>,
    /// Addresses from which the vendor sends requests. Empty: any address.
    pub allowed_addresses: Vec<IpNet>,
    /// Maximum difference between the signature timestamp and our clock.
    pub max_skew: Duration,
    /// Country of numbers in national format. `None`: national numbers are not recognised.
    pub country: Option<Country>,
    /// Our numbers at this vendor.
    pub receivers: Vec<Msisdn>,
}

impl WebhookConfig {
    pub const DEFAULT_MAX_SKEW: Duration = Duration::from_mins(5);
}

/// The vendor and its secrets. A driver without a secret or key does not verify signatures. The name of a variant, in
/// lower case, identifies the vendor in the configuration and in metrics.
#[derive(Clone, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum WebhookDriver {
    Twilio(Twilio),
    Vonage(Vonage),
    Telnyx(Telnyx),
    Sinch(Sinch),
    Infobip(Infobip),
    Plivo(Plivo),
    Bird(Bird),
    MessageBird(MessageBird),
    Kannel(Kannel),
    Jasmin(Jasmin),
    Generic(Generic),
}

/// What a driver's signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignatureCoverage {
    Message,
    /// The signature omits the body, so anyone who has seen one request can forge another.
    UrlOnly,
    Disabled,
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookConfigError {
    #[error("webhook {0}: signature verification is disabled, so it needs allowed addresses or a path secret")]
    SignatureOff(Arc<str>),
    #[error("webhook {0}: {1} does not sign requests, so it needs allowed addresses or a path secret")]
    NoSignatureScheme(Arc<str>, &'static str),
    #[error(
        "webhook {0}: version 2 of Plivo's signature covers the URL and not the message, so it also needs allowed \
         addresses or a path secret"
    )]
    SignatureWithoutBody(Arc<str>),
    #[error("webhook {0}: the public URL must be http or https, without credentials, query or fragment")]
    PublicUrl(Arc<str>),
    #[error("webhook {0}: no receiver number is configured")]
    NoReceiver(Arc<str>),
}

/// A configuration that accepts requests from the vendor only.
#[derive(Clone, Debug)]
pub struct ValidatedWebhookConfig(pub(super) WebhookConfig);

impl WebhookConfig {
    /// Rejects configurations that would accept requests from anyone, or could not accept any request.
    pub fn validate(self) -> Result<ValidatedWebhookConfig, WebhookConfigError> {
        self.check().map(|()| ValidatedWebhookConfig(self))
    }

    fn check(&self) -> Result<(), WebhookConfigError> {
        let name = || Arc::clone(&self.name);
        let url = &self.public_url;
        let url_is_plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !url_is_plain {
            return Err(WebhookConfigError::PublicUrl(name()));
        }
        if self.receivers.is_empty() {
            return Err(WebhookConfigError::NoReceiver(name()));
        }
        let restricts_access = self.path_secret.is_some() || !self.allowed_addresses.is_empty();
        match self.driver.signature_coverage() {
            SignatureCoverage::Message => Ok(()),
            _ if restricts_access => Ok(()),
            SignatureCoverage::UrlOnly => Err(WebhookConfigError::SignatureWithoutBody(name())),
            SignatureCoverage::Disabled => Err(WebhookConfigError::SignatureOff(name())),
            SignatureCoverage::Unsupported => {
                Err(WebhookConfigError::NoSignatureScheme(name(), self.driver.into_str()))
            }
        }
    }

    /// Returns the URL registered with the vendor: the public URL with the path secret.
    pub(super) fn registered_url(&self) -> Url {
        let mut url = self.public_url.clone();
        if let Some(secret) = &self.path_secret {
            let path = format!("{}/{}", url.path().trim_end_matches('/'), secret.as_str());
            url.set_path(&path);
        }
        url
    }
}

impl WebhookDriver {
    pub(super) fn vendor(&self) -> &dyn WebhookVendor {
        match self {
            WebhookDriver::Twilio(twilio) => twilio,
            WebhookDriver::Vonage(vonage) => vonage,
            WebhookDriver::Telnyx(telnyx) => telnyx,
            WebhookDriver::Sinch(sinch) => sinch,
            WebhookDriver::Infobip(infobip) => infobip,
            WebhookDriver::Plivo(plivo) => plivo,
            WebhookDriver::Bird(bird) => bird,
            WebhookDriver::MessageBird(messagebird) => messagebird,
            WebhookDriver::Kannel(kannel) => kannel,
            WebhookDriver::Jasmin(jasmin) => jasmin,
            WebhookDriver::Generic(generic) => generic,
        }
    }

    fn signature_coverage(&self) -> SignatureCoverage {
        let message_if =
            |signature_is_on| if signature_is_on { SignatureCoverage::Message } else { SignatureCoverage::Disabled };
        match self {
            WebhookDriver::Twilio(twilio) => message_if(twilio.auth_token.is_some()),
            WebhookDriver::Vonage(vonage) => message_if(vonage.signature.is_some()),
            WebhookDriver::Telnyx(telnyx) => message_if(telnyx.public_key.is_some()),
            WebhookDriver::Sinch(sinch) => message_if(sinch.secret.is_some()),
            WebhookDriver::Plivo(Plivo { signature: Some(signature) }) if !signature.covers_message() => {
                SignatureCoverage::UrlOnly
            }
            WebhookDriver::Plivo(plivo) => message_if(plivo.signature.is_some()),
            WebhookDriver::Bird(bird) => message_if(bird.secret.is_some()),
            WebhookDriver::MessageBird(messagebird) => message_if(messagebird.secret.is_some()),
            WebhookDriver::Generic(generic) => message_if(generic.signature.is_some()),
            WebhookDriver::Infobip(_) | WebhookDriver::Kannel(_) | WebhookDriver::Jasmin(_) => {
                SignatureCoverage::Unsupported
            }
        }
    }
}

/// Secret shared with a vendor. Masked in `Debug` output, and wiped from memory when dropped.
#[derive(Clone, derive_more::Debug)]
#[debug("Secret(…)")]
pub struct Secret(Zeroizing<Box<str>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("the secret is empty")]
    Empty,
    #[error("a path secret must be 16 to 128 letters, digits, `-` and `_`")]
    Path,
    #[error("the public key must be 32 octets in base64, as shown in the vendor's portal")]
    PublicKey,
}

impl Secret {
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, SecretError> {
        let text = text.into();
        if text.is_empty() { Err(SecretError::Empty) } else { Ok(Secret(Zeroizing::new(text))) }
    }

    pub(super) fn octets(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the claims of a token signed with this secret, as [`jwt::verify_signature`] does.
    pub(super) fn verify_jwt<T: DeserializeOwned>(
        &self,
        token: &str,
        algorithms: &[Algorithm],
    ) -> Result<T, InvalidSignature> {
        jwt::verify_signature(token, &DecodingKey::from_secret(self.octets()), algorithms).ok_or(InvalidSignature)
    }

    /// Whether `tag` is the HMAC of `data` under this secret.
    pub(super) fn verify_hmac(&self, algorithm: hmac::Algorithm, data: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(algorithm, self.octets()), data, tag).is_ok()
    }
}

/// Secret that forms the last segment of a webhook's path.
#[derive(Clone, derive_more::Debug)]
#[debug("PathSecret(…)")]
pub struct PathSecret(Zeroizing<Box<str>>);

impl PathSecret {
    const LENGTHS: RangeInclusive<usize> = 16..=128;

    pub fn new(text: impl Into<Box<str>>) -> Result<Self, SecretError> {
        let text = text.into();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let is_valid = is_plain && Self::LENGTHS.contains(&text.len());
        if is_valid { Ok(PathSecret(Zeroizing::new(text))) } else { Err(SecretError::Path) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn matches_path(&self, path: &str) -> bool {
        let last = path.rsplit('/').next().unwrap_or_default();
        constant_time_eq(last.as_bytes(), self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_masks_secrets() {
        let shown = format!("{:?} {:?}", Secret::new("hunter2"), PathSecret::new("0123456789abcdef"));
        assert_eq!(shown, "Ok(Secret(…)) Ok(PathSecret(…))");
    }

    #[test]
    fn path_secret_format_is_checked() {
        for bad in ["", "short", "0123456789abcde/", "0123456789abcde%41", &"a".repeat(129)] {
            assert_eq!(PathSecret::new(bad).err(), Some(SecretError::Path), "{bad}");
        }
        let secret = PathSecret::new("0123456789abcdef").unwrap();
        for (path, matches_path) in [
            ("/southbound/sms/a/0123456789abcdef", true),
            ("0123456789abcdef", true),
            ("/southbound/sms/a/0123456789abcdeF", false),
            ("/southbound/sms/0123456789abcdef/", false),
            ("/southbound/sms/0123456789abcdef/a", false),
            ("", false),
        ] {
            assert_eq!(secret.matches_path(path), matches_path, "{path}");
        }
    }
}
