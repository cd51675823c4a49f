//! Connectors of the kind `sms_http`: receive SMS by webhook from operators and aggregators.

use http::HeaderName;
use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_operators::sms_http::{
    Bird, FieldMap, Generic, GenericSignature, Infobip, Jasmin, Kannel, MessageBird, PathSecret, Plivo, PlivoSignature,
    Secret, SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, Vonage, VonageCredential, WebhookConfig,
    WebhookConfigError, WebhookDriver,
};
use serde::Deserialize;

use super::{
    super::{
        ConfigError,
        document::{SecretParser, Section},
        listeners::Listeners,
        value_parser::{
            HOUR, SECOND, ValueParser, country, duration, from_str, ip_networks, keyword, list, plain_url, string,
            text, value, variant,
        },
    },
    Connector, read_receivers, require_listener,
};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Vendor {
    Twilio,
    Vonage,
    Telnyx,
    Sinch,
    Infobip,
    Plivo,
    Bird,
    MessageBird,
    Kannel,
    Jasmin,
    Generic,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PlivoVersion {
    V2,
    V3,
}

#[rustfmt::skip]
const COMMON_MEMBERS: [&str; 9] = [
    "kind", "driver", "public_url", "path_secret_file", "path_secret_env", "allowed_addresses", "max_skew", "country",
    "receivers",
];

impl Vendor {
    /// Returns the names of the settings for the vendor's signatures. These settings are rejected if signatures are
    /// off.
    fn signature_members(self) -> &'static [&'static str] {
        match self {
            Vendor::Twilio => &["auth_token_file", "auth_token_env"],
            Vendor::Plivo => &["auth_token_file", "auth_token_env", "signature_version"],
            Vendor::Vonage => &["signature_secret_file", "signature_secret_env", "signature_method"],
            Vendor::Telnyx => &["public_key"],
            Vendor::Sinch | Vendor::MessageBird | Vendor::Bird => &["secret_file", "secret_env"],
            Vendor::Infobip | Vendor::Kannel | Vendor::Jasmin => &[],
            #[rustfmt::skip]
            Vendor::Generic => &[
                "secret_file", "secret_env", "signature_header", "signature_encoding", "signature_prefix",
                "timestamp_header",
            ],
        }
    }

    fn driver_members(self) -> &'static [&'static str] {
        match self {
            Vendor::Infobip | Vendor::Kannel | Vendor::Jasmin => &[],
            Vendor::Bird => &["signature", "channels"],
            Vendor::Generic => &["signature", "from_field", "to_field", "text_field", "id_field"],
            _ => &["signature"],
        }
    }
}

pub(super) fn read(section: &Section<'_>, listeners: &Listeners) -> Result<Connector, ConfigError> {
    const PATH_SECRET_PARSER: SecretParser<PathSecret> =
        ("16 to 128 letters, digits, `-` and `_`, which proxies do not rewrite", |text| PathSecret::new(text).ok());
    let vendor: Vendor = section.get("driver", variant())?;
    section.reject_unknown(&[&COMMON_MEMBERS, vendor.signature_members(), vendor.driver_members()])?;
    let public_url = plain_url(
        "the http:// or https:// URL that the vendor calls, without user name, password, query or path secret",
        |url| matches!(url.scheme(), "http" | "https"),
    );
    let config = WebhookConfig {
        name: section.name().into(),
        driver: read_driver(section, vendor)?,
        public_url: section.get("public_url", public_url)?,
        path_secret: section.get_opt_secret("path_secret", &PATH_SECRET_PARSER)?,
        allowed_addresses: section.get_or("allowed_addresses", ip_networks(), vec![])?,
        max_skew: section.get_or("max_skew", duration(SECOND, HOUR), WebhookConfig::DEFAULT_MAX_SKEW)?,
        country: section.get_opt("country", country())?,
        receivers: read_receivers(section)?,
    };
    let reason = match config.clone().validate() {
        Ok(_) => {
            require_listener(section, "ingress.listen", listeners.ingress.as_ref())?;
            return Ok(Connector::SmsHttp(Box::new(config)));
        }
        Err(WebhookConfigError::NoSignatureScheme(..)) => "this driver has no signatures and anyone could call",
        Err(WebhookConfigError::SignatureOff(_)) => "the signature is off and anyone could call",
        Err(WebhookConfigError::SignatureWithoutBody(_)) => "\"v2\" signs the URL and not the message",
        Err(error) => return Err(section.invalid("", "an invalid connector", error)),
    };
    let allowed = format!("IP networks of the vendor, because {reason}; or set `{}`", section.key("path_secret_file"));
    Err(section.invalid("allowed_addresses", "nothing", allowed))
}

fn read_driver(section: &Section<'_>, vendor: Vendor) -> Result<WebhookDriver, ConfigError> {
    const SECRET_PARSER: SecretParser<Secret> = ("a non-empty secret", |text| Secret::new(text).ok());
    let is_signed = section.get_or("signature", keyword(&[("required", true), ("off", false)]), true)?;
    if !is_signed && let Some(member) = vendor.signature_members().iter().find(|member| section.has(member)) {
        let allowed = format!("nothing, because `{}` is \"off\"", section.key("signature"));
        return Err(section.invalid(member, "a value", allowed));
    }
    let secret = |member| is_signed.then(|| section.get_secret(member, &SECRET_PARSER)).transpose();
    Ok(match vendor {
        Vendor::Twilio => WebhookDriver::Twilio(Twilio { auth_token: secret("auth_token")? }),
        Vendor::Vonage => {
            let method = is_signed.then(|| section.get("signature_method", keyword(VONAGE_METHODS))).transpose()?;
            let signature = secret("signature_secret")?.zip(method).map(|(secret, method)| match method {
                Some(method) => VonageCredential::Sig { method, secret },
                None => VonageCredential::Bearer(secret),
            });
            WebhookDriver::Vonage(Vonage { signature })
        }
        Vendor::Telnyx => {
            let key = text("the account's public key, 32 bytes in base64, as Telnyx shows it", |text| {
                TelnyxKey::from_base64(text).ok()
            });
            let public_key = is_signed.then(|| section.get("public_key", key)).transpose()?;
            WebhookDriver::Telnyx(Telnyx { public_key })
        }
        Vendor::Sinch => WebhookDriver::Sinch(Sinch { secret: secret("secret")? }),
        Vendor::MessageBird => WebhookDriver::MessageBird(MessageBird { secret: secret("secret")? }),
        Vendor::Bird => {
            let channels = section.get_or("channels", list(channel_number_parser()), vec![])?.into_iter().collect();
            WebhookDriver::Bird(Bird { secret: secret("secret")?, channels })
        }
        Vendor::Plivo => {
            let version = section.get_or("signature_version", variant(), PlivoVersion::V2)?;
            let signature = secret("auth_token")?.map(|token| match version {
                PlivoVersion::V2 => PlivoSignature::V2(token),
                PlivoVersion::V3 => PlivoSignature::V3(token),
            });
            WebhookDriver::Plivo(Plivo { signature })
        }
        Vendor::Infobip => WebhookDriver::Infobip(Infobip),
        Vendor::Kannel => WebhookDriver::Kannel(Kannel),
        Vendor::Jasmin => WebhookDriver::Jasmin(Jasmin),
        Vendor::Generic => {
            let signature = secret("secret")?.map(|secret| read_generic_signature(section, secret)).transpose()?;
            let fields = FieldMap {
                from: section.get_or("from_field", field_name_parser(), "from".to_owned())?,
                to: section.get_or("to_field", field_name_parser(), "to".to_owned())?,
                text: section.get_or("text_field", field_name_parser(), "text".to_owned())?,
                id: section.get_opt("id_field", field_name_parser())?,
            };
            WebhookDriver::Generic(Generic { fields, signature })
        }
    })
}

fn read_generic_signature(section: &Section<'_>, secret: Secret) -> Result<GenericSignature, ConfigError> {
    let header_name = || from_str::<HeaderName>("a header name, such as \"x-signature\"");
    let encodings = keyword(&[("hex", TagEncoding::Hex), ("base64", TagEncoding::Base64)]);
    Ok(GenericSignature {
        secret,
        header: section.get("signature_header", header_name())?,
        encoding: section.get_or("signature_encoding", encodings, TagEncoding::Hex)?,
        prefix: section.get_or("signature_prefix", value("text"), String::new())?,
        timestamp: section.get_opt("timestamp_header", header_name())?,
    })
}

/// Signature methods of Vonage. `None`: the bearer token (JWT) of its Messages API.
const VONAGE_METHODS: &[(&str, Option<SigMethod>)] = &[
    ("md5hash", Some(SigMethod::Md5Hash)),
    ("hmac_md5", Some(SigMethod::HmacMd5)),
    ("hmac_sha1", Some(SigMethod::HmacSha1)),
    ("hmac_sha256", Some(SigMethod::HmacSha256)),
    ("hmac_sha512", Some(SigMethod::HmacSha512)),
    ("bearer", None),
];

/// Parses `CHANNEL_ID=NUMBER`, which the vendor Bird needs.
fn channel_number_parser() -> ValueParser<(String, String)> {
    text("a channel id and its number, such as \"614208aa-b153-4d5d-9989-2fddfc0ce4c3=+447700900001\"", |text| {
        let (channel, number) = text.split_once('=').filter(|(channel, _)| !channel.is_empty())?;
        let number = Msisdn::parse(number, Mode::Live).ok()?;
        Some((channel.to_owned(), number.as_str().to_owned()))
    })
}

fn field_name_parser() -> ValueParser<String> {
    string("a field name, or a JSON pointer such as \"/message/from\"", |text| !text.is_empty())
}
