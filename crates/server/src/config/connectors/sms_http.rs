//! Connectors of the kind `sms_http`: webhooks for operators and aggregators.

use std::time::Duration;

use http::HeaderName;
use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_operators::sms_http::{
    Bird, FieldMap, Generic, GenericSignature, Infobip, Jasmin, Kannel, MessageBird, PathSecret, Plivo, PlivoSignature,
    Secret, SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, Vonage, VonageSignature, WebhookConfig,
    WebhookDriver,
};
use url::Url;

use super::{
    super::{
        ConfigError,
        named_sections::NamedSection,
        networks::country_code,
        sections::ip_networks,
        value_type::{DurationRange, ListOf, MaskedUrl, OneOf, Text, text},
    },
    read_receivers,
    section_reader::{SecretFormat, SectionReader},
};

#[derive(Clone, Copy, PartialEq, Eq)]
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

const VENDORS: OneOf<Vendor> = OneOf(&[
    ("twilio", Vendor::Twilio),
    ("vonage", Vendor::Vonage),
    ("telnyx", Vendor::Telnyx),
    ("sinch", Vendor::Sinch),
    ("infobip", Vendor::Infobip),
    ("plivo", Vendor::Plivo),
    ("bird", Vendor::Bird),
    ("messagebird", Vendor::MessageBird),
    ("kannel", Vendor::Kannel),
    ("jasmin", Vendor::Jasmin),
    ("generic", Vendor::Generic),
]);

#[rustfmt::skip]
const COMMON_MEMBERS: [&str; 9] = [
    "kind", "driver", "public_url", "path_secret_file", "path_secret_env", "allowed_addresses", "max_skew", "country",
    "receivers",
];

impl Vendor {
    fn members(self) -> &'static [&'static str] {
        match self {
            Vendor::Twilio => &["signature", "auth_token_file", "auth_token_env"],
            Vendor::Plivo => &["signature", "auth_token_file", "auth_token_env", "signature_version"],
            Vendor::Vonage => &["signature", "signature_secret_file", "signature_secret_env", "signature_method"],
            Vendor::Telnyx => &["signature", "public_key"],
            Vendor::Sinch | Vendor::MessageBird => &["signature", "secret_file", "secret_env"],
            Vendor::Bird => &["signature", "secret_file", "secret_env", "channels"],
            Vendor::Infobip | Vendor::Kannel | Vendor::Jasmin => &[],
            #[rustfmt::skip]
            Vendor::Generic => &[
                "signature", "secret_file", "secret_env", "signature_header", "signature_encoding", "signature_prefix",
                "timestamp_header", "from_field", "to_field", "text_field", "id_field",
            ],
        }
    }
}

pub(super) fn read(reader: &mut SectionReader<'_>) -> Result<WebhookConfig, ConfigError> {
    let section = reader.section;
    let vendor = section.read("driver", &VENDORS)?;
    section.reject_unknown(&[&COMMON_MEMBERS, vendor.members()].concat())?;
    let (driver, integrity) = read_driver(reader, vendor)?;
    let skew = DurationRange(Duration::from_secs(1)..=Duration::from_hours(1));
    let config = WebhookConfig {
        name: section.name.into(),
        driver,
        public_url: section.read("public_url", &public_url())?,
        path_secret: reader.optional_secret("path_secret", &PATH_SECRET)?,
        allowed: section.read_optional("allowed_addresses", &ip_networks())?.unwrap_or_default(),
        max_skew: section.read_optional("max_skew", &skew)?.unwrap_or(WebhookConfig::MAX_SKEW),
        country: section.read_optional("country", &country_code())?,
        receivers: read_receivers(&section)?,
    };
    let is_restricted = config.path_secret.is_some() || !config.allowed.is_empty();
    match integrity {
        MessageIntegrity::Signed => Ok(config),
        _ if is_restricted => Ok(config),
        MessageIntegrity::Unsigned(why) => {
            let key = section.key("path_secret_file");
            let allowed = format!("IP networks of the vendor, because {why}; or set `{key}`");
            Err(section.invalid("allowed_addresses", "nothing", allowed))
        }
    }
}

enum MessageIntegrity {
    Signed,
    Unsigned(&'static str),
}

const UNSIGNED: MessageIntegrity = MessageIntegrity::Unsigned("this driver has no signatures and anyone could call");

fn read_driver(
    reader: &mut SectionReader<'_>,
    vendor: Vendor,
) -> Result<(WebhookDriver, MessageIntegrity), ConfigError> {
    let section = reader.section;
    let is_signed = section.read_optional("signature", &SIGNATURE_MODES)?.unwrap_or(true);
    if !is_signed && let Some(member) = unused_signature_member(&section, vendor) {
        let allowed = format!("nothing, because `{}` is \"off\"", section.key("signature"));
        return Err(section.invalid(member, "a value", allowed));
    }
    let integrity = if is_signed {
        MessageIntegrity::Signed
    } else {
        MessageIntegrity::Unsigned("the signature is off and anyone could call")
    };
    Ok(match vendor {
        Vendor::Twilio => {
            (WebhookDriver::Twilio(Twilio { auth_token: read_auth_token(reader, is_signed)? }), integrity)
        }
        Vendor::Vonage => {
            (WebhookDriver::Vonage(Vonage { signature: read_vonage_signature(reader, is_signed)? }), integrity)
        }
        Vendor::Telnyx => {
            let public_key = if is_signed { Some(section.read("public_key", &public_key())?) } else { None };
            (WebhookDriver::Telnyx(Telnyx { public_key }), integrity)
        }
        Vendor::Sinch => (WebhookDriver::Sinch(Sinch { secret: read_shared_secret(reader, is_signed)? }), integrity),
        Vendor::MessageBird => {
            (WebhookDriver::MessageBird(MessageBird { secret: read_shared_secret(reader, is_signed)? }), integrity)
        }
        Vendor::Bird => {
            let channels = section.read_optional("channels", &ListOf(channel()))?.unwrap_or_default();
            let (secret, channels) = (read_shared_secret(reader, is_signed)?, channels.into_iter().collect());
            (WebhookDriver::Bird(Bird { secret, channels }), integrity)
        }
        Vendor::Plivo => {
            let version = section.read_optional("signature_version", &PLIVO_VERSIONS)?.unwrap_or(PlivoVersion::V2);
            let token = read_auth_token(reader, is_signed)?;
            let integrity = match version {
                PlivoVersion::V2 if is_signed => MessageIntegrity::Unsigned("\"v2\" signs the URL and not the message"),
                PlivoVersion::V2 | PlivoVersion::V3 => integrity,
            };
            let signature = token.map(|token| match version {
                PlivoVersion::V2 => PlivoSignature::V2(token),
                PlivoVersion::V3 => PlivoSignature::V3(token),
            });
            (WebhookDriver::Plivo(Plivo { signature }), integrity)
        }
        Vendor::Infobip => (WebhookDriver::Infobip(Infobip), UNSIGNED),
        Vendor::Kannel => (WebhookDriver::Kannel(Kannel), UNSIGNED),
        Vendor::Jasmin => (WebhookDriver::Jasmin(Jasmin), UNSIGNED),
        Vendor::Generic => (WebhookDriver::Generic(read_generic(reader, is_signed)?), integrity),
    })
}

/// Finds a member that has no effect without signatures.
fn unused_signature_member(section: &NamedSection<'_>, vendor: Vendor) -> Option<&'static str> {
    let is_signature_member =
        |member: &&&str| !member.ends_with("_field") && !["signature", "channels"].contains(*member);
    let mut candidates = vendor.members().iter().filter(is_signature_member);
    candidates.find(|member| section.members().any(|(written, _)| written == **member)).copied()
}

fn read_shared_secret(reader: &mut SectionReader<'_>, is_signed: bool) -> Result<Option<Secret>, ConfigError> {
    if is_signed { reader.secret("secret", &SECRET).map(Some) } else { Ok(None) }
}

fn read_auth_token(reader: &mut SectionReader<'_>, is_signed: bool) -> Result<Option<Secret>, ConfigError> {
    if is_signed { reader.secret("auth_token", &SECRET).map(Some) } else { Ok(None) }
}

fn read_vonage_signature(
    reader: &mut SectionReader<'_>,
    is_signed: bool,
) -> Result<Option<VonageSignature>, ConfigError> {
    if !is_signed {
        return Ok(None);
    }
    let method = reader.section.read("signature_method", &VONAGE_METHODS)?;
    let secret = reader.secret("signature_secret", &SECRET)?;
    Ok(Some(match method {
        Some(method) => VonageSignature::Sig { method, secret },
        None => VonageSignature::Bearer(secret),
    }))
}

fn read_generic(reader: &mut SectionReader<'_>, is_signed: bool) -> Result<Generic, ConfigError> {
    let section = reader.section;
    let field = |member, defaults: &str| {
        Ok::<_, ConfigError>(section.read_optional(member, &field_name())?.unwrap_or_else(|| defaults.to_owned()))
    };
    let fields = FieldMap {
        from: field("from_field", "from")?,
        to: field("to_field", "to")?,
        text: field("text_field", "text")?,
        id: section.read_optional("id_field", &field_name())?,
    };
    if !is_signed {
        return Ok(Generic { fields, signature: None });
    }
    let signature = GenericSignature {
        secret: reader.secret("secret", &SECRET)?,
        header: section.read("signature_header", &header_name())?,
        encoding: section.read_optional("signature_encoding", &TAG_ENCODINGS)?.unwrap_or(TagEncoding::Hex),
        prefix: section.read_optional("signature_prefix", &text("text"))?.unwrap_or_default(),
        timestamp: section.read_optional("timestamp_header", &header_name())?,
    };
    Ok(Generic { fields, signature: Some(signature) })
}

#[derive(Clone, Copy)]
enum PlivoVersion {
    V2,
    V3,
}

const SIGNATURE_MODES: OneOf<bool> = OneOf(&[("required", true), ("off", false)]);
const PLIVO_VERSIONS: OneOf<PlivoVersion> = OneOf(&[("v2", PlivoVersion::V2), ("v3", PlivoVersion::V3)]);
const TAG_ENCODINGS: OneOf<TagEncoding> = OneOf(&[("hex", TagEncoding::Hex), ("base64", TagEncoding::Base64)]);
/// `None`: bearer token of the Messages API.
const VONAGE_METHODS: OneOf<Option<SigMethod>> = OneOf(&[
    ("md5hash", Some(SigMethod::Md5Hash)),
    ("hmac_md5", Some(SigMethod::HmacMd5)),
    ("hmac_sha1", Some(SigMethod::HmacSha1)),
    ("hmac_sha256", Some(SigMethod::HmacSha256)),
    ("hmac_sha512", Some(SigMethod::HmacSha512)),
    ("bearer", None),
]);
const SECRET: SecretFormat<Secret> =
    SecretFormat { allowed: "a non-empty secret", parse: |text| Secret::new(text).ok() };
const PATH_SECRET: SecretFormat<PathSecret> = SecretFormat {
    allowed: "16 to 128 letters, digits, `-` and `_`, which proxies do not rewrite",
    parse: |text| PathSecret::new(text).ok(),
};

fn public_key() -> Text<TelnyxKey> {
    Text {
        allowed: "the account's public key, 32 bytes in base64, as Telnyx shows it",
        parse: |text| TelnyxKey::from_base64(text).ok(),
    }
}

/// URL configured at the vendor. The path secret, if any, is appended as a segment.
fn public_url() -> MaskedUrl<Url> {
    MaskedUrl(Text {
        allowed: "the http:// or https:// URL that the vendor calls, without user name, password, query or path secret",
        parse: |text| {
            let url = Url::parse(text).ok()?;
            let is_plain = matches!(url.scheme(), "http" | "https")
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none();
            is_plain.then_some(url)
        },
    })
}

/// Parses `CHANNEL_ID=NUMBER` of Bird.
fn channel() -> Text<(String, String)> {
    Text {
        allowed: "a channel id and its number, such as \"614208aa-b153-4d5d-9989-2fddfc0ce4c3=+447700900001\"",
        parse: |text| {
            let (channel, number) = text.split_once('=')?;
            let number = Msisdn::parse(number, Mode::Live).ok()?;
            (!channel.is_empty()).then(|| (channel.to_owned(), number.as_str().to_owned()))
        },
    }
}

fn header_name() -> Text<HeaderName> {
    text("a header name, such as \"x-signature\"")
}

fn field_name() -> Text<String> {
    Text {
        allowed: "a field name, or a JSON pointer such as \"/message/from\"",
        parse: |text| (!text.is_empty()).then(|| text.to_owned()),
    }
}
