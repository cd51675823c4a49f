//! Configurations that are rejected.

use std::sync::Arc;

use jiff::Timestamp;
use ringtrue_engine::ports::clock::ManualClock;
use ringtrue_operators::sms_http::{
    FieldMap, Generic, Infobip, Jasmin, Kannel, Plivo, PlivoSignature, Secret, Sinch, Telnyx, Twilio, Vonage, Webhook,
    WebhookConfig, WebhookConfigError, WebhookDriver,
};
use ringtrue_test_support::reassembly::InMemoryReassembly;

use crate::{
    fixture::{PATH_SECRET, RecordingInbox, restricted, unrestricted},
    vendors::{SECRET, VENDORS},
};

fn config_error(config: WebhookConfig) -> Option<WebhookConfigError> {
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let reassembly = Arc::new(InMemoryReassembly::new(clock.clone()));
    Webhook::new(config, Arc::<RecordingInbox>::default(), reassembly, clock).err()
}

fn unsigned() -> [WebhookDriver; 9] {
    let [from, to, text] = ["from", "to", "text"].map(str::to_owned);
    [
        WebhookDriver::Twilio(Twilio { auth_token: None }),
        WebhookDriver::Vonage(Vonage { signature: None }),
        WebhookDriver::Telnyx(Telnyx { public_key: None }),
        WebhookDriver::Sinch(Sinch { secret: None }),
        WebhookDriver::Plivo(Plivo { signature: None }),
        WebhookDriver::Generic(Generic { fields: FieldMap { from, to, text, id: None }, signature: None }),
        WebhookDriver::Infobip(Infobip),
        WebhookDriver::Kannel(Kannel),
        WebhookDriver::Jasmin(Jasmin),
    ]
}

#[test]
fn unsigned_webhook_requires_restricted_access() {
    for driver in unsigned() {
        let name = driver.into_str();
        let error = config_error(unrestricted(driver.clone())).unwrap().to_string();
        assert!(error.contains("needs allowed addresses or a path secret"), "{name}: {error}");
        assert_eq!(config_error(restricted(driver.clone())), None, "{name}");
        let allowed_addresses = vec!["192.0.2.0/24".parse().unwrap()];
        assert_eq!(config_error(WebhookConfig { allowed_addresses, ..unrestricted(driver) }), None, "{name}");
    }
}

#[test]
fn signature_without_message_requires_restricted_access() {
    let signed = |signature| WebhookDriver::Plivo(Plivo { signature: Some(signature) });
    let token = Secret::new(SECRET).unwrap();
    let version_2 = signed(PlivoSignature::V2(token.clone()));
    let error = config_error(unrestricted(version_2.clone())).unwrap();
    assert!(error.to_string().contains("covers the URL and not the message"), "{error}");
    assert_eq!(config_error(restricted(version_2)), None);
    assert_eq!(config_error(unrestricted(signed(PlivoSignature::V3(token)))), None);
}

#[test]
fn public_url_and_receivers_are_validated() {
    let config = || (VENDORS[0].config)(SECRET);
    for url in [
        "ftp://nv.example.com/",
        "https://user@nv.example.com/",
        "https://nv.example.com/?a",
        "https://nv.example.com/#a",
    ] {
        let config = WebhookConfig { public_url: url.parse().unwrap(), ..config() };
        assert!(matches!(config_error(config), Some(WebhookConfigError::PublicUrl(_))), "{url}");
    }
    let config = WebhookConfig { receivers: vec![], ..config() };
    assert!(matches!(config_error(config), Some(WebhookConfigError::NoReceiver(_))));
}

#[test]
fn debug_output_masks_secrets() {
    for vendor in VENDORS {
        let shown = format!("{:?}", (vendor.config)(SECRET));
        assert!(!shown.contains(SECRET) && !shown.contains(PATH_SECRET), "{}", vendor.name);
    }
}
