//! A connector that knows devices by a header of their operator.

use ipnet::IpNet;
use ringtrue_domain::tenancy::Mode;
use ringtrue_operators::header_enrichment::{
    BadKey, Carrier, Cipher, Encoding, HeaderEnrichmentConfig, Integrity, Iv, Key, Pattern, ValueFormat,
};
use url::Url;

use super::{
    super::{
        ConfigError,
        kind::{ListOf, Text, Word, text},
        networks::country,
        sections::ip_networks,
    },
    camara::network_id,
    reader::{Form, Reader},
};

#[rustfmt::skip]
const MEMBERS: [&str; 15] = [
    "kind", "networks", "egress", "header", "cookie", "encoding", "cipher", "key_file", "key_env",
    "signing_key_file", "signing_key_env", "initialization_vector", "country", "pattern", "stand_ins",
];

const ENCODINGS: Word<Encoding> =
    Word(&[("plain", Encoding::Plain), ("hex", Encoding::Hex), ("base64", Encoding::Base64)]);

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

const CIPHERS: Word<CipherKind> = Word(&[
    ("none", CipherKind::None),
    ("aes256_gcm", CipherKind::Gcm),
    ("aes256_cbc_hmac_md5", CipherKind::CbcMd5),
    ("aes256_cbc_hmac_sha256", CipherKind::CbcSha256),
    ("aes128_cbc_hmac_md5", CipherKind::ShortCbcMd5),
    ("aes128_cbc_hmac_sha256", CipherKind::ShortCbcSha256),
    ("aes128_cbc_unsigned", CipherKind::ShortCbcUnsigned),
]);

const KEY: Form<Key> =
    Form { allowed: "a key in hexadecimal digits or in base64", parse: |text| Key::parse(text).ok() };

/// Where devices find the listener is the deployment's to say: `base_url` is a stand-in until then.
pub(super) fn read(reader: &mut Reader<'_>, proxies: &[IpNet]) -> Result<HeaderEnrichmentConfig, ConfigError> {
    let section = reader.section;
    section.only(&MEMBERS)?;
    let name = header_name();
    let carrier =
        Carrier { header: section.read_if("header", &name)?, cookie: section.read_if("cookie", &header_name())? };
    if carrier.header.is_none() && carrier.cookie.is_none() {
        let allowed = format!("the name of a header; or set `{}`", section.key("cookie"));
        return Err(section.invalid("header", "nothing", allowed));
    }
    let stand_in = Url::parse("http://localhost/").map_err(|_| section.invalid("kind", "nothing", "a kind"))?;
    let encoding = section.read_if("encoding", &ENCODINGS)?.unwrap_or_default();
    let cipher = cipher(reader)?;
    if encoding == Encoding::Plain && !matches!(cipher, Cipher::None) {
        return Err(section.invalid("encoding", "\"plain\"", "\"hex\" or \"base64\", because there is a `cipher`"));
    }
    Ok(HeaderEnrichmentConfig {
        name: section.name.into(),
        mode: Mode::Live,
        networks: filled(reader, "networks", &ListOf(network_id()), "at least one network: the operator's")?,
        base_url: stand_in,
        egress: egress(reader)?,
        trusted_proxies: proxies.to_vec(),
        carrier,
        encoding,
        cipher,
        format: format_of(reader)?,
        stand_ins: section.read_if("stand_ins", &ListOf(word()))?.unwrap_or_default(),
    })
}

/// Anybody can write a header: it counts only from these addresses.
fn egress(reader: &Reader<'_>) -> Result<Vec<IpNet>, ConfigError> {
    let allowed = "the addresses that the operator's devices or gateways come from";
    let egress = filled(reader, "egress", &ip_networks(), allowed)?;
    match egress.iter().find(|range| range.prefix_len() == 0) {
        Some(everybody) => Err(reader.section.invalid("egress", format!("\"{everybody}\""), allowed)),
        None => Ok(egress),
    }
}

fn filled<K, T>(reader: &Reader<'_>, member: &str, kind: &K, allowed: &str) -> Result<Vec<T>, ConfigError>
where
    K: super::super::kind::Kind<Output = Vec<T>>,
{
    let list = reader.section.read(member, kind)?;
    if list.is_empty() { Err(reader.section.invalid(member, "[]", allowed)) } else { Ok(list) }
}

fn cipher(reader: &mut Reader<'_>) -> Result<Cipher, ConfigError> {
    let section = reader.section;
    let kind = section.read_if("cipher", &CIPHERS)?.unwrap_or(CipherKind::None);
    if matches!(kind, CipherKind::None) {
        return Ok(Cipher::None);
    }
    let key = reader.secret("key", &KEY)?;
    let iv = section.read_if("initialization_vector", &initialization_vector())?.map_or(Iv::Sent, Iv::Fixed);
    let mut signing = || reader.secret("signing_key", &KEY);
    let cipher: Result<Cipher, BadKey> = match kind {
        CipherKind::None => Ok(Cipher::None),
        CipherKind::Gcm => Cipher::aes256_gcm(key),
        CipherKind::CbcMd5 => Cipher::aes256_cbc_hmac_md5(key, signing()?),
        CipherKind::CbcSha256 => Cipher::aes256_cbc_hmac_sha256(key, signing()?),
        CipherKind::ShortCbcMd5 => Cipher::aes128_cbc(key, iv, Integrity::HmacMd5(signing()?)),
        CipherKind::ShortCbcSha256 => Cipher::aes128_cbc(key, iv, Integrity::HmacSha256(signing()?)),
        CipherKind::ShortCbcUnsigned => Cipher::aes128_cbc(key, iv, Integrity::Unprotected),
    };
    cipher.map_err(|problem| section.invalid("cipher", problem, "a cipher that the key is for"))
}

fn format_of(reader: &Reader<'_>) -> Result<ValueFormat, ConfigError> {
    let section = reader.section;
    match (section.read_if("country", &country())?, section.read_if("pattern", &pattern())?) {
        (None, None) => Ok(ValueFormat::E164Digits),
        (Some(country), None) => Ok(ValueFormat::National(country)),
        (None, Some(pattern)) => Ok(ValueFormat::Pattern(pattern)),
        (Some(_), Some(_)) => {
            let allowed = format!("nothing, because `{}` is set", section.key("country"));
            Err(section.invalid("pattern", "a pattern", allowed))
        }
    }
}

fn pattern() -> Text<Pattern> {
    text("what stands around the number, which is `{number}`, such as \"msisdn={number};\"")
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
            let is_right = (1..=100).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            is_right.then(|| text.to_owned())
        },
    }
}

fn word() -> Text<String> {
    Text { allowed: "1 to 100 characters", parse: |text| (1..=100).contains(&text.len()).then(|| text.to_owned()) }
}
