//! Tests the settings of connectors of every kind.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use jiff::SignedDuration;
use ringtrue_operators::{
    camara::{
        Audience, CamaraConfig, ConsentData, OperatorTokenFlow, Provider, SimSwapConfig, SimSwapFlow, SimSwapOperation,
    },
    smpp::{AddressRange, BindDirection, DefaultAlphabet, InterfaceVersion, SmppConfig},
    sms_http::{PlivoSignature, SigMethod, TagEncoding, VonageCredential, WebhookConfig, WebhookDriver},
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{CAMARA, SMPP, SMS_HTTP, certificate_chain, load, load_valid};
use crate::config::Connector;

const SECRETS: [(&str, &str); 2] = [("SECRET", "hunter2"), ("PATH_SECRET", "0123456789abcdef")];
const PATH_SECRET: &str = "path_secret_env = \"PATH_SECRET\"";

fn smpp(rest: &str) -> String {
    format!("{SMPP}password_env = \"SECRET\"\n{rest}")
}

fn read_smpp(file: &str) -> SmppConfig {
    let mut connectors = load_valid(file, SECRETS).connectors;
    let Connector::Smpp(smpp) = connectors.remove(0).connector else { panic!() };
    *smpp
}

#[test]
fn omitted_members_of_smpp_have_defaults() {
    let smpp = read_smpp(&smpp(""));
    let expected = SmppConfig {
        system_id: "ringtrue".to_owned(),
        password: "hunter2".into(),
        ..SmppConfig::new("o2", "smsc.example.net", 2775, smpp.receivers.clone())
    };
    assert_eq!(format!("{smpp:?}"), format!("{expected:?}"));
    assert_eq!(smpp.password, expected.password);
}

#[test]
fn every_member_of_smpp_is_read() {
    let smpp = read_smpp(&smpp(
        "tls = true
        tls_server_name = \"smsc.internal\"
        system_type = \"VMA\"
        bind = \"receiver\"
        interface_version = \"5.0\"
        address_ton = 1
        address_npi = 2
        address_range = \"^4477\"
        country = \"GB\"
        default_alphabet = \"latin1\"
        binds = 3
        window = 10
        enquire_link_interval = \"15s\"
        response_timeout = \"5s\"
        answer_timeout = \"4s\"
        reconnect_min = \"500ms\"
        reconnect_max = \"30s\"
        concatenation_deadline = \"2m\"
        exclusive = true
        grace = 0",
    ));
    assert_eq!(format!("{:?}", smpp.tls.unwrap().server_name), "DnsName(\"smsc.internal\")");
    assert_eq!(smpp.system_type, "VMA");
    assert_eq!((smpp.bind, smpp.interface_version), (BindDirection::Receiver, InterfaceVersion::V5_0));
    assert_eq!(smpp.address_range, AddressRange { ton: 1, npi: 2, pattern: "^4477".to_owned() });
    assert_eq!((smpp.country, smpp.default_alphabet), ("GB".parse().ok(), DefaultAlphabet::Latin1));
    assert_eq!((smpp.binds, smpp.window, smpp.is_exclusive), (3, 10, true));
    let seconds = Duration::from_secs;
    assert_eq!((smpp.enquire_link_interval, smpp.response_timeout), (seconds(15), seconds(5)));
    assert_eq!((smpp.answer_timeout, smpp.concatenation_deadline), (seconds(4), seconds(120)));
    assert_eq!((smpp.reconnect_min, smpp.reconnect_max), (Duration::from_millis(500), seconds(30)));
    assert_eq!(smpp.grace, Duration::ZERO);
}

#[test]
fn secret_variables_are_not_settings() {
    let file = smpp("").replace("SECRET", "RINGTRUE_O2_PASSWORD");
    let secret = [("RINGTRUE_O2_PASSWORD", "hunter2")];
    load_valid(&file, secret);
    assert!(load("", secret).is_err());
}

#[test]
fn secrets_are_masked() {
    let loaded = load(&smpp(""), SECRETS).unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let shown: Vec<_> = loaded.changed.iter().map(|it| format!("{} = {}", it.key, it.value)).collect();
    assert_eq!(
        shown,
        [
            "connectors.o2.host = \"smsc.example.net\"",
            "connectors.o2.kind = \"smpp\"",
            "connectors.o2.password_env = \"SECRET\"",
            "connectors.o2.port = 2775",
            "connectors.o2.receivers = [\"+447700900001\", \"+447700900002\"]",
            "connectors.o2.system_id = \"ringtrue\"",
        ]
    );
}

#[test]
fn connectors_compare_by_settings_and_secrets() {
    let section = |file: &str, password| load_valid(file, [("SECRET", password)]).connectors.remove(0);
    let old = section(&smpp(""), "hunter2");
    assert_eq!(old.name(), "o2");
    assert_eq!(old, section(&format!("# moved\n\n{}", smpp("")), "hunter2"));
    for (file, password) in [
        (smpp(""), "hunter3"),
        (smpp("binds = 2"), "hunter2"),
        (smpp("").replace("2775", "2776"), "hunter2"),
        (smpp("").replace("connectors.o2", "connectors.o3"), "hunter2"),
    ] {
        assert_ne!(old, section(&file, password), "{file}");
    }
}

#[track_caller]
fn read_webhook(driver: &str, rest: &str) -> WebhookConfig {
    let mut connectors = load_valid(&format!("{SMS_HTTP}driver = \"{driver}\"\n{rest}"), SECRETS).connectors;
    let Connector::SmsHttp(webhook) = connectors.remove(0).connector else { panic!() };
    assert_eq!(webhook.driver.into_str(), driver);
    *webhook
}

#[test]
fn omitted_members_of_webhooks_have_defaults() {
    let webhook = read_webhook("twilio", "auth_token_env = \"SECRET\"");
    assert_eq!((&*webhook.name, webhook.receivers.len()), ("sms", 1));
    assert_eq!(webhook.public_url.as_str(), "https://sms.example.com/southbound/sms/sms");
    assert!(webhook.path_secret.is_none() && webhook.allowed_addresses.is_empty() && webhook.country.is_none());
    assert_eq!(webhook.max_skew, WebhookConfig::DEFAULT_MAX_SKEW);
    assert!(matches!(webhook.driver, WebhookDriver::Twilio(twilio) if twilio.auth_token.is_some()));
}

#[test]
fn common_members_of_webhooks_are_read() {
    let members = "allowed_addresses = [\"10.0.0.0/8\"]\nmax_skew = \"1m\"\ncountry = \"GB\"\n";
    let webhook = read_webhook("kannel", &format!("{members}{PATH_SECRET}"));
    assert!(webhook.path_secret.is_some());
    assert_eq!(webhook.allowed_addresses, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!((webhook.max_skew, webhook.country), (Duration::from_mins(1), "GB".parse().ok()));
}

#[test]
fn every_driver_is_read() {
    for driver in ["infobip", "kannel", "jasmin"] {
        read_webhook(driver, PATH_SECRET);
    }
    assert!(
        matches!(read_webhook("sinch", "secret_env = \"SECRET\"").driver, WebhookDriver::Sinch(it) if it.secret.is_some())
    );
    let key = "public_key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"";
    assert!(matches!(read_webhook("telnyx", key).driver, WebhookDriver::Telnyx(it) if it.public_key.is_some()));

    let vonage =
        |method| read_webhook("vonage", &format!("signature_secret_env = \"SECRET\"\nsignature_method = \"{method}\""));
    let WebhookDriver::Vonage(signed) = vonage("hmac_sha256").driver else { panic!() };
    assert!(matches!(signed.signature, Some(VonageCredential::Sig { method: SigMethod::HmacSha256, .. })));
    let WebhookDriver::Vonage(bearer) = vonage("bearer").driver else { panic!() };
    assert!(matches!(bearer.signature, Some(VonageCredential::Bearer(_))));

    let plivo = |rest: &str| read_webhook("plivo", &format!("auth_token_env = \"SECRET\"\n{rest}")).driver;
    let WebhookDriver::Plivo(third) = plivo("signature_version = \"v3\"") else { panic!() };
    assert!(matches!(third.signature, Some(PlivoSignature::V3(_))));
    let WebhookDriver::Plivo(second) = plivo(PATH_SECRET) else { panic!() };
    assert!(matches!(second.signature, Some(PlivoSignature::V2(_))));

    let WebhookDriver::Generic(generic) = read_webhook(
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
        let webhook = read_webhook(driver, &format!("signature = \"off\"\n{PATH_SECRET}"));
        let shown = format!("{:?}", webhook.driver);
        assert!(shown.contains("None"), "{shown}");
    }
}

#[test]
fn unsigned_webhooks_need_a_path_secret_or_allowed_addresses() {
    let off = "signature = \"off\"";
    for (drivers, rest, reason) in [
        ("infobip kannel jasmin", "", "this driver has no signatures and anyone could call"),
        (
            "twilio vonage telnyx sinch bird messagebird plivo generic",
            off,
            "the signature is off and anyone could call",
        ),
    ] {
        for driver in drivers.split(' ') {
            let error = load(&format!("{SMS_HTTP}driver = \"{driver}\"\n{rest}"), SECRETS).unwrap_err().to_string();
            assert!(error.starts_with("connectors.sms.allowed_addresses ") && error.contains(reason), "{error}");
        }
    }
}

fn camara(rest: &str) -> CamaraConfig {
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let mut connectors = load_valid(&format!("{CAMARA}{rest}"), [("SECRET", "hunter2"), ("KEY", &key)]).connectors;
    let Connector::Camara(camara) = connectors.remove(0).connector else { panic!() };
    camara.config
}

fn sim_swap(rest: &str) -> SimSwapConfig {
    camara(rest).sim_swap.unwrap()
}

#[test]
fn sim_swap_is_off_by_default() {
    for off in ["", "sim_swap = \"off\""] {
        let config = camara(off);
        assert!(config.sim_swap.is_none() && config.scopes.verify.is_some());
    }
    let default = sim_swap("sim_swap = \"client_credentials\"");
    let expected = SimSwapConfig::new(SimSwapFlow::ClientCredentials);
    assert_eq!(format!("{default:?}"), format!("{expected:?}"));
    assert_eq!((&*default.path, default.operations), ("/sim-swap/v2", vec![SimSwapOperation::RetrieveDate]));

    let config = camara("sim_swap = \"ciba\"\nverify_scope = \"\"\ndevice_phone_number_scope = \"off\"");
    assert!(matches!(config.sim_swap.unwrap().flow, SimSwapFlow::Ciba));
    assert!(config.scopes.verify.is_none() && config.scopes.device_phone_number.is_none());
}

#[test]
fn every_member_of_sim_swap_is_read() {
    let sim_swap = sim_swap(
        "sim_swap = \"jwt_bearer\"
        sim_swap_path = \"/sim-swap/v1\"
        sim_swap_operations = [\"check\", \"retrieve_date\"]
        sim_swap_retrieve_date_scope = \"sim-swap\"
        sim_swap_check_scope = \"sim-swap:c\"
        sim_swap_assumed_days = 30
        signing_key_env = \"KEY\"
        signing_key_id = \"2026-11\"
        assertion_audience = \"issuer\"",
    );
    assert!(matches!(sim_swap.flow, SimSwapFlow::JwtBearer { audience: Audience::Issuer, .. }));
    assert_eq!(sim_swap.operations, [SimSwapOperation::Check, SimSwapOperation::RetrieveDate]);
    let written = (&*sim_swap.path, &*sim_swap.retrieve_date_scope, &*sim_swap.check_scope);
    assert_eq!(written, ("/sim-swap/v1", "sim-swap", "sim-swap:c"));
    assert_eq!(sim_swap.assumed_window, Some(SignedDuration::from_hours(24 * 30)));
}

/// Settings of operator tokens, whose files are in the folder.
fn operator_tokens(folder: &Path, more: &str) -> String {
    let folder = folder.display();
    format!(
        "operator_tokens = \"jwt_bearer\"
        operator_tokens_issuer = \"https://us.example\"
        operator_tokens_certificate_file = \"{folder}/chain.crt\"
        operator_tokens_key_file = \"{folder}/chain.key\"
        operator_tokens_consent_text = \"May we?\"
        operator_tokens_policy_link = \"https://us.example/privacy\"
        operator_tokens_policy_text = \"Privacy\"
        signing_key_env = \"KEY\"
        signing_key_id = \"2026-11\"
        {more}"
    )
}

fn write_chain(folder: &Path) {
    let (chain, key) = certificate_chain();
    for (name, content) in [("chain.crt", chain), ("chain.key", key)] {
        fs::write(folder.join(name), content).unwrap();
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn every_member_of_operator_tokens_is_read() {
    assert!(camara("operator_tokens = \"off\"").operator_tokens.is_none());
    let folder = tempfile::tempdir().unwrap();
    write_chain(folder.path());
    let roots = format!("operator_tokens_issuer_certificates_file = \"{}/chain.crt\"", folder.path().display());
    let config = camara(&operator_tokens(folder.path(), &format!("assertion_audience = \"issuer\"\n{roots}")));
    let tokens = config.operator_tokens.unwrap();
    assert!(matches!(tokens.flow, OperatorTokenFlow::JwtBearer { audience: Audience::Issuer, .. }));
    assert_eq!(tokens.issuer, "https://us.example");
    let policy = "https://us.example/privacy".parse().unwrap();
    assert_eq!(tokens.consent, ConsentData::new("May we?", &policy, "Privacy"));
    assert!(format!("{:?}", tokens.verifier).contains("IssuerRoots(2)"), "{:?}", tokens.verifier);
    let chain = fs::read(folder.path().join("chain.crt")).unwrap();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain).map(Result::unwrap).collect();
    assert_eq!(tokens.signer.certificates().to_vec(), chain);
}

#[test]
fn files_of_operator_tokens_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let error = |more: &str| {
        let file = format!("{CAMARA}{}", operator_tokens(folder.path(), more));
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        load(&file, [("SECRET", "hunter2"), ("KEY", &key)]).unwrap_err().to_string()
    };
    write_chain(folder.path());
    let (other_chain, other_key) = certificate_chain();
    let replace = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    replace("chain.key", &other_key);
    let shown = error("");
    assert!(shown.contains("three.operator_tokens_certificate_file") && shown.contains("does not belong"), "{shown}");
    replace("chain.key", "PRIVATE KEY");
    let shown = error("");
    assert!(shown.contains("three.operator_tokens_key_file") && shown.contains("EC key on P-256"), "{shown}");
    replace("chain.key", &other_key);
    replace("chain.crt", other_chain.split_inclusive("-----END CERTIFICATE-----").next().unwrap());
    let shown = error("");
    assert!(shown.contains("must contain two certificates"), "{shown}");
    replace("chain.crt", &other_chain);
    let shown = error(&format!("operator_tokens_issuer_certificates_file = \"{}/chain.key\"", folder.path().display()));
    assert!(shown.contains("three.operator_tokens_issuer_certificates_file"), "{shown}");
}

/// A replaced certificate restarts the connector.
#[test]
fn certificates_of_operator_tokens_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let section = || {
        write_chain(folder.path());
        let file = format!("{CAMARA}{}", operator_tokens(folder.path(), ""));
        load_valid(&file, [("SECRET", "hunter2"), ("KEY", &key)]).connectors.remove(0)
    };
    assert_ne!(section(), section());
}

#[test]
fn provider_without_discovery_needs_the_endpoints_in_use() {
    let endpoints = |rest: &str| match camara(rest).provider {
        Provider::Endpoints(endpoints) => endpoints,
        other => panic!("{other:?}"),
    };
    let only_sims =
        "verify_scope = \"\"\ndevice_phone_number_scope = \"\"\ntoken_endpoint = \"https://op.example/token\"";
    let found = endpoints(&format!("sim_swap = \"client_credentials\"\n{only_sims}"));
    assert_eq!((found.authorization.clone(), found.backchannel.clone()), (None, None));
    let backchannel = "backchannel_authentication_endpoint = \"https://op.example/bc\"";
    let found = endpoints(&format!("sim_swap = \"ciba\"\n{backchannel}\n{only_sims}"));
    assert_eq!(found.backchannel.as_ref().map(AsRef::as_ref), Some("https://op.example/bc"));
}
