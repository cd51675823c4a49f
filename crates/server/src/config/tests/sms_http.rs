//! Connectors of the kind `sms_http`.

use std::time::Duration;

use ringtrue_operators::sms_http::{
    PlivoSignature, SigMethod, TagEncoding, VonageSignature, WebhookConfig, WebhookDriver,
};

use super::{assert_rejected, load_valid};
use crate::config::Connector;

const SECRETS: [(&str, &str); 2] = [("SECRET", "hunter2"), ("PATH_SECRET", "0123456789abcdef")];
const PATH_SECRET: &str = "path_secret_env = \"PATH_SECRET\"";

/// Required settings on seven lines, then `rest`.
fn webhook(driver: &str, rest: &str) -> String {
    format!(
        "ingress.listen = \"127.0.0.1:8081\"\n[connectors.sms]\nkind = \"sms_http\"\ndriver = \"{driver}\"\n\
         public_url = \"https://sms.example.com/southbound/sms/sms\"\n\n\
         receivers = [\"+447700900001\"]\n{rest}"
    )
}

#[track_caller]
fn read(driver: &str, rest: &str) -> WebhookConfig {
    let mut connectors = load_valid(&webhook(driver, rest), SECRETS).connectors;
    let Connector::SmsHttp(webhook) = connectors.remove(0).connector else { panic!() };
    assert_eq!(webhook.driver.as_str(), driver);
    *webhook
}

#[test]
fn omitted_members_have_defaults() {
    let webhook = read("twilio", "auth_token_env = \"SECRET\"");
    assert_eq!((&*webhook.name, webhook.receivers.len()), ("sms", 1));
    assert_eq!(webhook.public_url.as_str(), "https://sms.example.com/southbound/sms/sms");
    assert!(webhook.path_secret.is_none() && webhook.allowed.is_empty() && webhook.country.is_none());
    assert_eq!(webhook.max_skew, WebhookConfig::MAX_SKEW);
    assert!(matches!(webhook.driver, WebhookDriver::Twilio(twilio) if twilio.auth_token.is_some()));
}

#[test]
fn common_members_are_read() {
    let members = "allowed_addresses = [\"10.0.0.0/8\"]\nmax_skew = \"1m\"\ncountry = \"GB\"\n";
    let webhook = read("kannel", &format!("{members}{PATH_SECRET}"));
    assert!(webhook.path_secret.is_some());
    assert_eq!(webhook.allowed, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!((webhook.max_skew, webhook.country), (Duration::from_mins(1), "GB".parse().ok()));
}

#[test]
fn every_driver_is_read() {
    for driver in ["infobip", "kannel", "jasmin"] {
        read(driver, PATH_SECRET);
    }
    assert!(matches!(read("sinch", "secret_env = \"SECRET\"").driver, WebhookDriver::Sinch(it) if it.secret.is_some()));
    let key = "public_key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"";
    assert!(matches!(read("telnyx", key).driver, WebhookDriver::Telnyx(it) if it.public_key.is_some()));

    let vonage =
        |method| read("vonage", &format!("signature_secret_env = \"SECRET\"\nsignature_method = \"{method}\""));
    let WebhookDriver::Vonage(signed) = vonage("hmac_sha256").driver else { panic!() };
    assert!(matches!(signed.signature, Some(VonageSignature::Sig { method: SigMethod::HmacSha256, .. })));
    let WebhookDriver::Vonage(bearer) = vonage("bearer").driver else { panic!() };
    assert!(matches!(bearer.signature, Some(VonageSignature::Bearer(_))));

    let plivo = |rest: &str| read("plivo", &format!("auth_token_env = \"SECRET\"\n{rest}")).driver;
    let WebhookDriver::Plivo(third) = plivo("signature_version = \"v3\"") else { panic!() };
    assert!(matches!(third.signature, Some(PlivoSignature::V3(_))));
    let WebhookDriver::Plivo(second) = plivo(PATH_SECRET) else { panic!() };
    assert!(matches!(second.signature, Some(PlivoSignature::V2(_))));

    let WebhookDriver::Generic(generic) = read(
        "generic",
        "secret_env = \"SECRET\"
        signature_header = \"X-Signature\"
        signature_encoding = \"base64\"
        signature_prefix = \"sha256=\"
        timestamp_header = \"x-timestamp\"
        from_field = \"/message/from\"
        id_field = \"id\"",
    )
    .driver
    else {
        panic!()
    };
    let signature = generic.signature.unwrap();
    assert_eq!((signature.header.as_str(), signature.encoding), ("x-signature", TagEncoding::Base64));
    assert_eq!((signature.prefix.as_str(), signature.timestamp.unwrap().as_str()), ("sha256=", "x-timestamp"));
    let fields = generic.fields;
    assert_eq!((&*fields.from, &*fields.to, &*fields.text), ("/message/from", "to", "text"));
    assert_eq!(fields.id.as_deref(), Some("id"));
}

#[test]
fn signature_can_be_turned_off() {
    for driver in ["twilio", "vonage", "telnyx", "sinch", "bird", "messagebird", "plivo", "generic"] {
        let webhook = read(driver, &format!("signature = \"off\"\n{PATH_SECRET}"));
        let shown = format!("{:?}", webhook.driver);
        assert!(shown.contains("None"), "{shown}");
    }
}

#[track_caller]
fn assert_webhook_rejected(driver: &str, rest: &str, message: &str) {
    assert_rejected(&webhook(driver, rest), SECRETS, message);
}

#[test]
fn unsigned_webhooks_need_a_path_secret_or_allowed_addresses() {
    let message = |why: &str| {
        format!(
            "connectors.sms.allowed_addresses (/etc/ringtrue/ringtrue.toml:2): found nothing; allowed: IP networks of \
             the vendor, because {why}; or set `connectors.sms.path_secret_file`"
        )
    };
    for driver in ["infobip", "kannel", "jasmin"] {
        assert_webhook_rejected(driver, "", &message("this driver has no signatures and anyone could call"));
    }
    for driver in ["twilio", "vonage", "telnyx", "sinch", "bird", "messagebird", "plivo", "generic"] {
        assert_webhook_rejected(driver, "signature = \"off\"", &message("the signature is off and anyone could call"));
    }
    assert_webhook_rejected(
        "plivo",
        "auth_token_env = \"SECRET\"",
        &message("\"v2\" signs the URL and not the message"),
    );
}

#[test]
fn invalid_webhooks_are_rejected() {
    for (driver, rest, message) in [
        (
            "clickatell",
            "",
            "connectors.sms.driver (/etc/ringtrue/ringtrue.toml:4): found \"clickatell\"; allowed: \"twilio\", \
             \"vonage\", \"telnyx\", \"sinch\", \"infobip\", \"plivo\", \"bird\", \"messagebird\", \"kannel\", \
             \"jasmin\" or \"generic\"",
        ),
        (
            "twilio",
            "",
            "connectors.sms.auth_token_file (/etc/ringtrue/ringtrue.toml:2): found nothing; allowed: a path to a file \
             readable by its owner only; or set `connectors.sms.auth_token_env`",
        ),
        (
            "twilio",
            "auth_token = \"hunter2\"",
            "connectors.sms.auth_token (/etc/ringtrue/ringtrue.toml:8): unknown key; did you mean \
             connectors.sms.auth_token_file?",
        ),
        (
            "kannel",
            "auth_token_env = \"SECRET\"",
            "connectors.sms.auth_token_env (/etc/ringtrue/ringtrue.toml:8): unknown key; did you mean \
             connectors.sms.path_secret_env?",
        ),
        (
            "sinch",
            "signature = \"off\"\nsecret_env = \"SECRET\"",
            "connectors.sms.secret_env (/etc/ringtrue/ringtrue.toml:9): found a value; allowed: nothing, because \
             `connectors.sms.signature` is \"off\"",
        ),
        (
            "kannel",
            "path_secret_env = \"SECRET\"",
            "connectors.sms.path_secret_env (/etc/ringtrue/ringtrue.toml:8): found \"SECRET\", which holds an invalid \
             value; allowed: 16 to 128 letters, digits, `-` and `_`, which proxies do not rewrite",
        ),
        (
            "telnyx",
            "public_key = \"c2hvcnQ=\"",
            "connectors.sms.public_key (/etc/ringtrue/ringtrue.toml:8): found \"c2hvcnQ=\"; allowed: the account's \
             public key, 32 bytes in base64, as Telnyx shows it",
        ),
        (
            "vonage",
            "signature_secret_env = \"SECRET\"",
            "connectors.sms.signature_method (/etc/ringtrue/ringtrue.toml:2): found nothing; allowed: \"md5hash\", \
             \"hmac_md5\", \"hmac_sha1\", \"hmac_sha256\", \"hmac_sha512\" or \"bearer\"",
        ),
        (
            "generic",
            "secret_env = \"SECRET\"",
            "connectors.sms.signature_header (/etc/ringtrue/ringtrue.toml:2): found nothing; allowed: a header name, \
             such as \"x-signature\"",
        ),
    ] {
        assert_webhook_rejected(driver, rest, message);
    }
    assert_rejected(
        &webhook("kannel", PATH_SECRET).replace("https://", "https://u:hunter2@"),
        SECRETS,
        "connectors.sms.public_url (/etc/ringtrue/ringtrue.toml:5): found \
         \"https://…@sms.example.com/southbound/sms/sms\"; allowed: the http:// or https:// URL that the vendor calls, \
         without user name, password, query or path secret",
    );
}

#[test]
fn webhooks_need_the_ingress_listener() {
    assert_rejected(
        &webhook("kannel", PATH_SECRET).replace("ingress.listen = \"127.0.0.1:8081\"", ""),
        SECRETS,
        "ingress.listen (default): found \"off\"; allowed: an IP address and a port, because `connectors.sms.kind` is \
         \"sms_http\"",
    );
}
