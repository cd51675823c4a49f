//! What a webhook refuses to start with.

use std::sync::Arc;

use jiff::Timestamp;
use ringtrue_engine::ports::ManualClock;
use ringtrue_operators::sms_http::{
    ConfigError, Driver, FieldMap, Generic, Infobip, Jasmin, Kannel, Plivo, PlivoSignature, Secret, Sinch, Telnyx,
    Twilio, Vonage, Webhook, WebhookConfig,
};

use crate::{
    vendors::{SECRET, VENDORS},
    world::{Notebook, PATH_SECRET, fenced, open},
};

fn refusal(config: WebhookConfig) -> Option<ConfigError> {
    Webhook::new(config, Arc::<Notebook>::default(), Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH))).err()
}

fn unsigned() -> [Driver; 9] {
    let [from, to, text] = ["from", "to", "text"].map(str::to_owned);
    [
        Driver::Twilio(Twilio { auth_token: None }),
        Driver::Vonage(Vonage { signature: None }),
        Driver::Telnyx(Telnyx { public_key: None }),
        Driver::Sinch(Sinch { secret: None }),
        Driver::Plivo(Plivo { signature: None }),
        Driver::Generic(Generic { fields: FieldMap { from, to, text, id: None }, signature: None }),
        Driver::Infobip(Infobip),
        Driver::Kannel(Kannel),
        Driver::Jasmin(Jasmin),
    ]
}

#[test]
fn somebody_must_vouch_for_the_caller() {
    for driver in unsigned() {
        let name = driver.as_str();
        let error = refusal(open(driver.clone())).unwrap().to_string();
        assert!(error.contains("needs allowed addresses or a path secret"), "{name}: {error}");
        assert_eq!(refusal(fenced(driver.clone())), None, "{name}");
        let allowed = vec!["192.0.2.0/24".parse().unwrap()];
        assert_eq!(refusal(WebhookConfig { allowed, ..open(driver) }), None, "{name}");
    }
}

#[test]
fn a_signature_that_covers_no_message_is_not_enough() {
    let signed = |signature| Driver::Plivo(Plivo { signature: Some(signature) });
    let token = Secret::new(SECRET).unwrap();
    let version_2 = signed(PlivoSignature::V2(token.clone()));
    let error = refusal(open(version_2.clone())).unwrap();
    assert!(error.to_string().contains("covers the URL and not the message"), "{error}");
    assert_eq!(refusal(fenced(version_2)), None);
    assert_eq!(refusal(open(signed(PlivoSignature::V3(token)))), None);
}

#[test]
fn the_public_url_is_plain_and_there_is_a_receiver() {
    let config = || (VENDORS[0].config)(SECRET);
    for url in [
        "ftp://nv.example.com/",
        "https://user@nv.example.com/",
        "https://nv.example.com/?a",
        "https://nv.example.com/#a",
    ] {
        let config = WebhookConfig { public_url: url.parse().unwrap(), ..config() };
        assert!(matches!(refusal(config), Some(ConfigError::PublicUrl(_))), "{url}");
    }
    let config = WebhookConfig { receivers: vec![], ..config() };
    assert!(matches!(refusal(config), Some(ConfigError::NoReceiver(_))));
}

#[test]
fn a_configuration_shows_no_secret() {
    for vendor in VENDORS {
        let shown = format!("{:?}", (vendor.config)(SECRET));
        assert!(!shown.contains(SECRET) && !shown.contains(PATH_SECRET), "{}", vendor.name);
    }
}
