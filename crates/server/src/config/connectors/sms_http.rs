//! A connector that operators and aggregators call.

use std::time::Duration;

use http::HeaderName;
use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_operators::sms_http::{
    Bird, Driver, FieldMap, Generic, GenericSignature, Infobip, Jasmin, Kannel, MessageBird, PathSecret, Plivo,
    PlivoSignature, Secret, SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, Vonage, VonageSignature,
    WebhookConfig,
};
use url::Url;

use super::{
    super::{
        ConfigError,
        family::Named,
        kind::{ListOf, Masked, Span, Text, Word, text},
        networks::country,
        sections::ip_networks,
    },
    own_receivers,
    reader::{Form, Reader},
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

const VENDORS: Word<Vendor> = Word(&[
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
const COMMON: [&str; 9] = [
    "kind", "driver", "public_url", "path_secret_file", "path_secret_env", "allowed_addresses", "max_skew", "country",
    "receivers",
];

impl Vendor {
    /// What it has besides the common members.
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

pub(super) fn read(reader: &mut Reader<'_>) -> Result<WebhookConfig, ConfigError> {
    let section = reader.section;
    let vendor = section.read("driver", &VENDORS)?;
    section.only(&[&COMMON, vendor.members()].concat())?;
    let (driver, vouching) = driver(reader, vendor)?;
    let skew = Span(Duration::from_secs(1)..=Duration::from_hours(1));
    let config = WebhookConfig {
        name: section.name.into(),
        driver,
        public_url: section.read("public_url", &public_url())?,
        path_secret: reader.secret_if("path_secret", &PATH_SECRET)?,
        allowed: section.read_if("allowed_addresses", &ip_networks())?.unwrap_or_default(),
        max_skew: section.read_if("max_skew", &skew)?.unwrap_or(WebhookConfig::MAX_SKEW),
        country: section.read_if("country", &country())?,
        receivers: own_receivers(&section)?,
    };
    let is_fenced = config.path_secret.is_some() || !config.allowed.is_empty();
    match vouching {
        Vouching::ForMessage => Ok(config),
        _ if is_fenced => Ok(config),
        Vouching::Not(why) => {
            let key = section.key("path_secret_file");
            let allowed = format!("networks that the vendor calls from, because {why}; or set `{key}`");
            Err(section.invalid("allowed_addresses", "nothing", allowed))
        }
    }
}

/// Whether a signature vouches for what a request says; if not, why not.
enum Vouching {
    ForMessage,
    Not(&'static str),
}

const UNSIGNED: Vouching = Vouching::Not("this driver signs nothing and anyone could call");

fn driver(reader: &mut Reader<'_>, vendor: Vendor) -> Result<(Driver, Vouching), ConfigError> {
    let section = reader.section;
    let is_signed = section.read_if("signature", &SIGNATURES)?.unwrap_or(true);
    if !is_signed && let Some(member) = needless(&section, vendor) {
        let allowed = format!("nothing, because `{}` is \"off\"", section.key("signature"));
        return Err(section.invalid(member, "something", allowed));
    }
    let vouching =
        if is_signed { Vouching::ForMessage } else { Vouching::Not("the signature is off and anyone could call") };
    Ok(match vendor {
        Vendor::Twilio => (Driver::Twilio(Twilio { auth_token: token(reader, is_signed)? }), vouching),
        Vendor::Vonage => (Driver::Vonage(Vonage { signature: vonage(reader, is_signed)? }), vouching),
        Vendor::Telnyx => {
            let public_key = if is_signed { Some(section.read("public_key", &public_key())?) } else { None };
            (Driver::Telnyx(Telnyx { public_key }), vouching)
        }
        Vendor::Sinch => (Driver::Sinch(Sinch { secret: shared_secret(reader, is_signed)? }), vouching),
        Vendor::MessageBird => {
            (Driver::MessageBird(MessageBird { secret: shared_secret(reader, is_signed)? }), vouching)
        }
        Vendor::Bird => {
            let channels = section.read_if("channels", &ListOf(channel()))?.unwrap_or_default();
            let (secret, channels) = (shared_secret(reader, is_signed)?, channels.into_iter().collect());
            (Driver::Bird(Bird { secret, channels }), vouching)
        }
        Vendor::Plivo => {
            let version = section.read_if("signature_version", &PLIVO)?.unwrap_or(PlivoVersion::V2);
            let token = token(reader, is_signed)?;
            let vouching = match version {
                PlivoVersion::V2 if is_signed => Vouching::Not("\"v2\" signs the URL and not the message"),
                PlivoVersion::V2 | PlivoVersion::V3 => vouching,
            };
            let signature = token.map(|token| match version {
                PlivoVersion::V2 => PlivoSignature::V2(token),
                PlivoVersion::V3 => PlivoSignature::V3(token),
            });
            (Driver::Plivo(Plivo { signature }), vouching)
        }
        Vendor::Infobip => (Driver::Infobip(Infobip), UNSIGNED),
        Vendor::Kannel => (Driver::Kannel(Kannel), UNSIGNED),
        Vendor::Jasmin => (Driver::Jasmin(Jasmin), UNSIGNED),
        Vendor::Generic => (Driver::Generic(generic(reader, is_signed)?), vouching),
    })
}

/// A member that only a signature needs.
fn needless(section: &Named<'_>, vendor: Vendor) -> Option<&'static str> {
    let of_signature = |member: &&&str| !member.ends_with("_field") && !["signature", "channels"].contains(*member);
    let mut candidates = vendor.members().iter().filter(of_signature);
    candidates.find(|member| section.members().any(|(written, _)| written == **member)).copied()
}

fn shared_secret(reader: &mut Reader<'_>, is_signed: bool) -> Result<Option<Secret>, ConfigError> {
    if is_signed { reader.secret("secret", &SECRET).map(Some) } else { Ok(None) }
}

fn token(reader: &mut Reader<'_>, is_signed: bool) -> Result<Option<Secret>, ConfigError> {
    if is_signed { reader.secret("auth_token", &SECRET).map(Some) } else { Ok(None) }
}

fn vonage(reader: &mut Reader<'_>, is_signed: bool) -> Result<Option<VonageSignature>, ConfigError> {
    if !is_signed {
        return Ok(None);
    }
    let method = reader.section.read("signature_method", &VONAGE)?;
    let secret = reader.secret("signature_secret", &SECRET)?;
    Ok(Some(match method {
        Some(method) => VonageSignature::Sig { method, secret },
        None => VonageSignature::Bearer(secret),
    }))
}

fn generic(reader: &mut Reader<'_>, is_signed: bool) -> Result<Generic, ConfigError> {
    let section = reader.section;
    let field = |member, usual: &str| {
        Ok::<_, ConfigError>(section.read_if(member, &field_name())?.unwrap_or_else(|| usual.to_owned()))
    };
    let fields = FieldMap {
        from: field("from_field", "from")?,
        to: field("to_field", "to")?,
        text: field("text_field", "text")?,
        id: section.read_if("id_field", &field_name())?,
    };
    if !is_signed {
        return Ok(Generic { fields, signature: None });
    }
    let signature = GenericSignature {
        secret: reader.secret("secret", &SECRET)?,
        header: section.read("signature_header", &header())?,
        encoding: section.read_if("signature_encoding", &ENCODINGS)?.unwrap_or(TagEncoding::Hex),
        prefix: section.read_if("signature_prefix", &text("text"))?.unwrap_or_default(),
        timestamp: section.read_if("timestamp_header", &header())?,
    };
    Ok(Generic { fields, signature: Some(signature) })
}

#[derive(Clone, Copy)]
enum PlivoVersion {
    V2,
    V3,
}

const SIGNATURES: Word<bool> = Word(&[("required", true), ("off", false)]);
const PLIVO: Word<PlivoVersion> = Word(&[("v2", PlivoVersion::V2), ("v3", PlivoVersion::V3)]);
const ENCODINGS: Word<TagEncoding> = Word(&[("hex", TagEncoding::Hex), ("base64", TagEncoding::Base64)]);
/// `None`: the Messages API's token.
const VONAGE: Word<Option<SigMethod>> = Word(&[
    ("md5hash", Some(SigMethod::Md5Hash)),
    ("hmac_md5", Some(SigMethod::HmacMd5)),
    ("hmac_sha1", Some(SigMethod::HmacSha1)),
    ("hmac_sha256", Some(SigMethod::HmacSha256)),
    ("hmac_sha512", Some(SigMethod::HmacSha512)),
    ("bearer", None),
]);
const SECRET: Form<Secret> = Form { allowed: "a secret that is not empty", parse: |text| Secret::new(text).ok() };
const PATH_SECRET: Form<PathSecret> = Form {
    allowed: "16 to 128 letters, digits, `-` and `_`, so that no proxy writes them in another way",
    parse: |text| PathSecret::new(text).ok(),
};

fn public_key() -> Text<TelnyxKey> {
    Text {
        allowed: "the account's public key, 32 bytes in base64, as Telnyx shows it",
        parse: |text| TelnyxKey::from_base64(text).ok(),
    }
}

/// What the vendor is told to call. The path secret, if there is one, follows as one more segment.
fn public_url() -> Masked<Url> {
    Masked(Text {
        allowed: "the http:// or https:// URL that the vendor calls, without user name, password, query and path secret",
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

/// A channel of Bird's, and its number.
fn channel() -> Text<(String, String)> {
    Text {
        allowed: "the id of a channel and its number, such as \"614208aa-b153-4d5d-9989-2fddfc0ce4c3=+447700900001\"",
        parse: |text| {
            let (channel, number) = text.split_once('=')?;
            let number = Msisdn::parse(number, Mode::Live).ok()?;
            (!channel.is_empty()).then(|| (channel.to_owned(), number.as_str().to_owned()))
        },
    }
}

fn header() -> Text<HeaderName> {
    text("the name of a header, such as \"x-signature\"")
}

fn field_name() -> Text<String> {
    Text {
        allowed: "the name of a field, or a JSON pointer such as \"/message/from\"",
        parse: |text| (!text.is_empty()).then(|| text.to_owned()),
    }
}
