//! What a webhook is told about its vendor.

use std::{sync::Arc, time::Duration};

use ipnet::IpNet;
use ringtrue_domain::phone::{Country, Msisdn};
use url::Url;

use super::{
    bird::Bird, generic::Generic, infobip::Infobip, jasmin::Jasmin, kannel::Kannel, messagebird::MessageBird,
    plivo::Plivo, secret::PathSecret, sinch::Sinch, telnyx::Telnyx, twilio::Twilio, vendor::Vendor, vonage::Vonage,
};

#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// As logs and metrics call it.
    pub name: Arc<str>,
    pub driver: Driver,
    /// What the vendor calls, and signs, as the world outside sees it; without a query, and without the path secret,
    /// which follows as one more segment.
    pub public_url: Url,
    pub path_secret: Option<PathSecret>,
    /// From where the vendor calls; from anywhere if empty.
    pub allowed: Vec<IpNet>,
    /// How far the vendor's clock and ours may be apart, the way of the request included.
    pub max_skew: Duration,
    /// The country of numbers in national format.
    pub country: Option<Country>,
    /// Our numbers at this vendor.
    pub receivers: Vec<Msisdn>,
}

impl WebhookConfig {
    pub const MAX_SKEW: Duration = Duration::from_mins(5);
}

/// Who calls, and the secrets that only it has. A signature that is `None` is switched off.
#[derive(Clone, Debug)]
pub enum Driver {
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

/// How much of a request a driver's signature vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vouches {
    ForMessage,
    /// By the vendor's own scheme: somebody who has seen one request can write another.
    ForUrlOnly,
    SwitchedOff,
    HasNoScheme,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("webhook {0}: the signature is off, so it needs allowed addresses or a path secret: anyone could call it")]
    SignatureOff(Arc<str>),
    #[error("webhook {0}: {1} signs nothing, so it needs allowed addresses or a path secret: anyone could call it")]
    NoSignatureScheme(Arc<str>, &'static str),
    #[error(
        "webhook {0}: version 2 of Plivo's signature covers the URL and not the message, so it needs allowed addresses \
         or a path secret too: who has seen one request could write another"
    )]
    SignatureWithoutBody(Arc<str>),
    #[error("webhook {0}: the public URL is http or https with a host, without credentials, query or fragment")]
    PublicUrl(Arc<str>),
    #[error("webhook {0}: it has no receiver number, so every message would be for somebody else")]
    NoReceiver(Arc<str>),
}

/// A configuration that lets the vendor in, and nobody else.
#[derive(Clone, Debug)]
pub struct SoundConfig(pub(super) WebhookConfig);

impl WebhookConfig {
    /// Refuses what would let anyone in, or nobody.
    pub fn sound(self) -> Result<SoundConfig, ConfigError> {
        self.check().map(|()| SoundConfig(self))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let name = || Arc::clone(&self.name);
        let url = &self.public_url;
        let url_is_plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !url_is_plain {
            return Err(ConfigError::PublicUrl(name()));
        }
        if self.receivers.is_empty() {
            return Err(ConfigError::NoReceiver(name()));
        }
        let is_fenced = self.path_secret.is_some() || !self.allowed.is_empty();
        match self.driver.vouches() {
            Vouches::ForMessage => Ok(()),
            _ if is_fenced => Ok(()),
            Vouches::ForUrlOnly => Err(ConfigError::SignatureWithoutBody(name())),
            Vouches::SwitchedOff => Err(ConfigError::SignatureOff(name())),
            Vouches::HasNoScheme => Err(ConfigError::NoSignatureScheme(name(), self.driver.as_str())),
        }
    }

    /// What the vendor was told to call.
    pub(super) fn signed_url(&self) -> Url {
        let mut url = self.public_url.clone();
        if let Some(secret) = &self.path_secret {
            let path = format!("{}/{}", url.path().trim_end_matches('/'), secret.as_str());
            url.set_path(&path);
        }
        url
    }
}

impl Driver {
    /// The word in settings and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Driver::Twilio(_) => "twilio",
            Driver::Vonage(_) => "vonage",
            Driver::Telnyx(_) => "telnyx",
            Driver::Sinch(_) => "sinch",
            Driver::Infobip(_) => "infobip",
            Driver::Plivo(_) => "plivo",
            Driver::Bird(_) => "bird",
            Driver::MessageBird(_) => "messagebird",
            Driver::Kannel(_) => "kannel",
            Driver::Jasmin(_) => "jasmin",
            Driver::Generic(_) => "generic",
        }
    }

    pub(super) fn vendor(&self) -> &dyn Vendor {
        match self {
            Driver::Twilio(twilio) => twilio,
            Driver::Vonage(vonage) => vonage,
            Driver::Telnyx(telnyx) => telnyx,
            Driver::Sinch(sinch) => sinch,
            Driver::Infobip(infobip) => infobip,
            Driver::Plivo(plivo) => plivo,
            Driver::Bird(bird) => bird,
            Driver::MessageBird(messagebird) => messagebird,
            Driver::Kannel(kannel) => kannel,
            Driver::Jasmin(jasmin) => jasmin,
            Driver::Generic(generic) => generic,
        }
    }

    fn vouches(&self) -> Vouches {
        let by = |signature_is_on| if signature_is_on { Vouches::ForMessage } else { Vouches::SwitchedOff };
        match self {
            Driver::Twilio(twilio) => by(twilio.auth_token.is_some()),
            Driver::Vonage(vonage) => by(vonage.signature.is_some()),
            Driver::Telnyx(telnyx) => by(telnyx.public_key.is_some()),
            Driver::Sinch(sinch) => by(sinch.secret.is_some()),
            Driver::Plivo(Plivo { signature: Some(signature) }) if !signature.covers_message() => Vouches::ForUrlOnly,
            Driver::Plivo(plivo) => by(plivo.signature.is_some()),
            Driver::Bird(bird) => by(bird.secret.is_some()),
            Driver::MessageBird(messagebird) => by(messagebird.secret.is_some()),
            Driver::Generic(generic) => by(generic.signature.is_some()),
            Driver::Infobip(_) | Driver::Kannel(_) | Driver::Jasmin(_) => Vouches::HasNoScheme,
        }
    }
}
