//! Configuration of an SMS webhook.

use std::{sync::Arc, time::Duration};

use ipnet::IpNet;
use ringtrue_domain::phone::{Country, Msisdn};
use url::Url;

use super::{
    bird::Bird, generic::Generic, infobip::Infobip, jasmin::Jasmin, kannel::Kannel, messagebird::MessageBird,
    plivo::Plivo, secret::PathSecret, sinch::Sinch, telnyx::Telnyx, twilio::Twilio, vendor::WebhookVendor,
    vonage::Vonage,
};

#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// Identifies this webhook in logs and metrics.
    pub name: Arc<str>,
    pub driver: WebhookDriver,
    /// Public URL that the vendor calls and signs, without query and path secret; the secret is appended as a segment.
    pub public_url: Url,
    pub path_secret: Option<PathSecret>,
    /// Addresses of the vendor; empty means any.
    pub allowed: Vec<IpNet>,
    /// Maximum difference between the signature timestamp and our clock.
    pub max_skew: Duration,
    /// Country of numbers in national format.
    pub country: Option<Country>,
    /// Our numbers at this vendor.
    pub receivers: Vec<Msisdn>,
}

impl WebhookConfig {
    pub const MAX_SKEW: Duration = Duration::from_mins(5);
}

/// The vendor and its secrets. A signature of `None` disables verification.
#[derive(Clone, Debug)]
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
    /// Anyone who has seen one request can forge another.
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

/// A configuration that accepts requests of the vendor only.
#[derive(Clone, Debug)]
pub struct ValidatedWebhookConfig(pub(super) WebhookConfig);

impl WebhookConfig {
    /// Rejects configurations that would accept anyone, or no one.
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
        let restricts_access = self.path_secret.is_some() || !self.allowed.is_empty();
        match self.driver.signature_coverage() {
            SignatureCoverage::Message => Ok(()),
            _ if restricts_access => Ok(()),
            SignatureCoverage::UrlOnly => Err(WebhookConfigError::SignatureWithoutBody(name())),
            SignatureCoverage::Disabled => Err(WebhookConfigError::SignatureOff(name())),
            SignatureCoverage::Unsupported => Err(WebhookConfigError::NoSignatureScheme(name(), self.driver.as_str())),
        }
    }

    /// The URL registered with the vendor.
    pub(super) fn signed_url(&self) -> Url {
        let mut url = self.public_url.clone();
        if let Some(secret) = &self.path_secret {
            let path = format!("{}/{}", url.path().trim_end_matches('/'), secret.as_str());
            url.set_path(&path);
        }
        url
    }
}

impl WebhookDriver {
    /// Name in the configuration and in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            WebhookDriver::Twilio(_) => "twilio",
            WebhookDriver::Vonage(_) => "vonage",
            WebhookDriver::Telnyx(_) => "telnyx",
            WebhookDriver::Sinch(_) => "sinch",
            WebhookDriver::Infobip(_) => "infobip",
            WebhookDriver::Plivo(_) => "plivo",
            WebhookDriver::Bird(_) => "bird",
            WebhookDriver::MessageBird(_) => "messagebird",
            WebhookDriver::Kannel(_) => "kannel",
            WebhookDriver::Jasmin(_) => "jasmin",
            WebhookDriver::Generic(_) => "generic",
        }
    }

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
