//! Connectors of the kind `header_enrichment`: the operator adds the number to requests of devices.

use ipnet::IpNet;
use ringtrue_domain::tenancy::Mode;
use ringtrue_operators::header_enrichment::{
    Cipher, CipherKey, CipherKeyError, Encoding, HeaderEnrichmentConfig, Integrity, Iv, MsisdnLocation, NumberPattern,
    ValueFormat,
};
use url::Url;

use super::{
    super::{
        ConfigError,
        networks::country_code,
        sections::ip_networks,
        value_type::{ListOf, OneOf, Text, text},
    },
    camara::network_id,
    section_reader::{SecretFormat, SectionReader},
};

#[rustfmt::skip]
const MEMBERS: [&str; 15] = [
    "kind", "networks", "egress", "header", "cookie", "encoding", "cipher", "key_file", "key_env",
    "signing_key_file", "signing_key_env", "initialization_vector", "country", "pattern", "stand_ins",
];

const VALUE_ENCODINGS: OneOf<Encoding> =
    OneOf(&[("plain", Encoding::Plain), ("hex", Encoding::Hex), ("base64", Encoding::Base64)]);

#[derive(Clone, Copy)]
enum CipherKind {
    None,
    Gcm,
    CbcMd5,
    CbcSha256,
    ShortCbcMd5,
    ShortCbcSha256,
    ShortCbcUnsigned,
}

const CIPHERS: OneOf<CipherKind> = OneOf(&[
    ("none", CipherKind::None),
    ("aes256_gcm", CipherKind::Gcm),
    ("aes256_cbc_hmac_md5", CipherKind::CbcMd5),
    ("aes256_cbc_hmac_sha256", CipherKind::CbcSha256),
    ("aes128_cbc_hmac_md5", CipherKind::ShortCbcMd5),
    ("aes128_cbc_hmac_sha256", CipherKind::ShortCbcSha256),
    ("aes128_cbc_unsigned", CipherKind::ShortCbcUnsigned),
]);

const KEY: SecretFormat<CipherKey> =
    SecretFormat { allowed: "a key in hexadecimal digits or in base64", parse: |text| CipherKey::parse(text).ok() };

/// `base_url` is a placeholder until the listener is bound.
pub(super) fn read(reader: &mut SectionReader<'_>, proxies: &[IpNet]) -> Result<HeaderEnrichmentConfig, ConfigError> {
    let section = reader.section;
    section.reject_unknown(&MEMBERS)?;
    let name = header_name();
    let msisdn_location = MsisdnLocation {
        header: section.read_optional("header", &name)?,
        cookie: section.read_optional("cookie", &header_name())?,
    };
    if msisdn_location.header.is_none() && msisdn_location.cookie.is_none() {
        let allowed = format!("a header name; or set `{}`", section.key("cookie"));
        return Err(section.invalid("header", "nothing", allowed));
    }
    let placeholder = Url::parse("http://localhost/").map_err(|_| section.invalid("kind", "nothing", "a kind"))?;
    let encoding = section.read_optional("encoding", &VALUE_ENCODINGS)?.unwrap_or_default();
    let cipher = read_cipher(reader)?;
    if encoding == Encoding::Plain && !matches!(cipher, Cipher::None) {
        return Err(section.invalid("encoding", "\"plain\"", "\"hex\" or \"base64\", because `cipher` is set"));
    }
    Ok(HeaderEnrichmentConfig {
        name: section.name.into(),
        mode: Mode::Live,
        networks: read_non_empty(reader, "networks", &ListOf(network_id()), "at least one network of the operator")?,
        base_url: placeholder,
        egress: read_egress(reader)?,
        trusted_proxies: proxies.to_vec(),
        msisdn_location,
        encoding,
        cipher,
        format: read_format(reader)?,
        placeholders: section.read_optional("stand_ins", &ListOf(word()))?.unwrap_or_default(),
    })
}

/// Headers are trusted only from these addresses, since any client can send one.
fn read_egress(reader: &SectionReader<'_>) -> Result<Vec<IpNet>, ConfigError> {
    let allowed = "the IP networks of the operator's devices or gateways";
    let egress = read_non_empty(reader, "egress", &ip_networks(), allowed)?;
    match egress.iter().find(|range| range.prefix_len() == 0) {
        Some(range) => Err(reader.section.invalid("egress", format!("\"{range}\""), allowed)),
        None => Ok(egress),
    }
}

fn read_non_empty<K, T>(
    reader: &SectionReader<'_>,
    member: &str,
    value_type: &K,
    allowed: &str,
) -> Result<Vec<T>, ConfigError>
where
    K: super::super::value_type::ValueType<Output = Vec<T>>,
{
    let list = reader.section.read(member, value_type)?;
    if list.is_empty() { Err(reader.section.invalid(member, "[]", allowed)) } else { Ok(list) }
}

fn read_cipher(reader: &mut SectionReader<'_>) -> Result<Cipher, ConfigError> {
    let section = reader.section;
    let kind = section.read_optional("cipher", &CIPHERS)?.unwrap_or(CipherKind::None);
    if matches!(kind, CipherKind::None) {
        return Ok(Cipher::None);
    }
    let key = reader.secret("key", &KEY)?;
    let iv = section.read_optional("initialization_vector", &initialization_vector())?.map_or(Iv::Sent, Iv::Fixed);
    let mut signing_key = || reader.secret("signing_key", &KEY);
    let cipher: Result<Cipher, CipherKeyError> = match kind {
        CipherKind::None => Ok(Cipher::None),
        CipherKind::Gcm => Cipher::aes256_gcm(key),
        CipherKind::CbcMd5 => Cipher::aes256_cbc_hmac_md5(key, signing_key()?),
        CipherKind::CbcSha256 => Cipher::aes256_cbc_hmac_sha256(key, signing_key()?),
        CipherKind::ShortCbcMd5 => Cipher::aes128_cbc(key, iv, Integrity::HmacMd5(signing_key()?)),
        CipherKind::ShortCbcSha256 => Cipher::aes128_cbc(key, iv, Integrity::HmacSha256(signing_key()?)),
        CipherKind::ShortCbcUnsigned => Cipher::aes128_cbc(key, iv, Integrity::Unprotected),
    };
    cipher.map_err(|error| section.invalid("cipher", error, "a cipher that fits the key"))
}

fn read_format(reader: &SectionReader<'_>) -> Result<ValueFormat, ConfigError> {
    let section = reader.section;
    match (section.read_optional("country", &country_code())?, section.read_optional("pattern", &pattern())?) {
        (None, None) => Ok(ValueFormat::E164Digits),
        (Some(country), None) => Ok(ValueFormat::National(country)),
        (None, Some(pattern)) => Ok(ValueFormat::Pattern(pattern)),
        (Some(_), Some(_)) => {
            let allowed = format!("nothing, because `{}` is set", section.key("country"));
            Err(section.invalid("pattern", "a pattern", allowed))
        }
    }
}

fn pattern() -> Text<NumberPattern> {
    text("a pattern with the placeholder `{number}`, such as \"msisdn={number};\"")
}

fn initialization_vector() -> Text<[u8; 16]> {
    Text {
        allowed: "32 hexadecimal digits",
        parse: |text| {
            let digits = (text.len() == 32 && text.is_ascii()).then(|| u128::from_str_radix(text, 16).ok()).flatten();
            digits.map(u128::to_be_bytes)
        },
    }
}

fn header_name() -> Text<String> {
    Text {
        allowed: "a name of letters, digits, `-` and `_`",
        parse: |text| {
            let is_valid = (1..=100).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            is_valid.then(|| text.to_owned())
        },
    }
}

fn word() -> Text<String> {
    Text { allowed: "1 to 100 characters", parse: |text| (1..=100).contains(&text.len()).then(|| text.to_owned()) }
}
