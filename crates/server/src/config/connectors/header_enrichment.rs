//! Connectors of the kind `header_enrichment`: the operator adds the number to the HTTP requests of devices.

use ringtrue_operators::header_enrichment::{
    Cipher, CipherKey, Encoding, HeaderEnrichmentConfig, Integrity, IvSource, MsisdnLocation, ValueFormat,
};
use serde::Deserialize;
use url::Url;

use super::{
    super::{
        ConfigError, HeaderEnrichmentSection,
        document::{SecretParser, Section},
        listeners::Listeners,
        value_parser::{ValueParser, country, from_str, ip_networks, keyword, list, network_id, string, text, variant},
    },
    Connector, require_listener,
};

#[rustfmt::skip]
const MEMBERS: [&str; 15] = [
    "kind", "networks", "egress", "header", "cookie", "encoding", "cipher", "key_file", "key_env",
    "signing_key_file", "signing_key_env", "initialization_vector", "country", "pattern", "placeholders",
];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CipherKind {
    None,
    Aes256Gcm,
    Aes256CbcHmacMd5,
    Aes256CbcHmacSha256,
    Aes128CbcHmacMd5,
    Aes128CbcHmacSha256,
    Aes128CbcUnsigned,
}

/// Reads the section. Its `base_url` is a placeholder until the listener is bound.
pub(super) fn read(section: &Section<'_>, listeners: &Listeners) -> Result<Connector, ConfigError> {
    section.reject_unknown(&[&MEMBERS])?;
    let msisdn_location = MsisdnLocation {
        header: section.get_opt("header", header_name_parser())?,
        cookie: section.get_opt("cookie", header_name_parser())?,
    };
    if msisdn_location.header.is_none() && msisdn_location.cookie.is_none() {
        let allowed = format!("a header name; or set `{}`", section.key("cookie"));
        return Err(section.invalid("header", "nothing", allowed));
    }
    let encodings = &[("plain", Encoding::Plain), ("hex", Encoding::Hex), ("base64", Encoding::Base64)];
    let encoding = section.get_or("encoding", keyword(encodings), Encoding::default())?;
    let cipher = read_cipher(section)?;
    if encoding == Encoding::Plain && !matches!(cipher, Cipher::None) {
        return Err(section.invalid("encoding", "\"plain\"", "\"hex\" or \"base64\", because `cipher` is set"));
    }
    let networks = section.get("networks", list(network_id()))?;
    if networks.is_empty() {
        return Err(section.invalid("networks", "[]", "at least one network of the operator"));
    }
    // The number in the header is trusted only from these addresses, because any client can send the header.
    let egress = section.get("egress", ip_networks())?;
    if egress.is_empty() || egress.iter().any(|range| range.prefix_len() == 0) {
        let allowed = "the IP networks of the operator's devices or gateways";
        return Err(section.invalid("egress", section.render_value("egress"), allowed));
    }
    let placeholder = Url::parse("http://localhost/").map_err(|_| section.invalid("kind", "nothing", "a kind"))?;
    let word = string("1 to 100 characters", |text| (1..=100).contains(&text.len()));
    let config = HeaderEnrichmentConfig {
        name: section.name().into(),
        networks,
        base_url: placeholder,
        egress,
        trusted_proxies: vec![],
        msisdn_location,
        encoding,
        cipher,
        format: read_format(section)?,
        placeholders: section.get_or("placeholders", list(word), vec![])?,
    };
    let HeaderEnrichmentSection { trusted_proxies, .. } =
        require_listener(section, "header_enrichment.listen", listeners.header_enrichment.as_ref())?;
    Ok(Connector::HeaderEnrichment(Box::new(HeaderEnrichmentConfig { trusted_proxies, ..config })))
}

fn read_cipher(section: &Section<'_>) -> Result<Cipher, ConfigError> {
    const CIPHER_KEY_PARSER: SecretParser<CipherKey> =
        ("a key in hexadecimal digits or in base64", |text| CipherKey::parse(text).ok());
    let kind = section.get_or("cipher", variant(), CipherKind::None)?;
    if matches!(kind, CipherKind::None) {
        return Ok(Cipher::None);
    }
    let key = section.get_secret("key", &CIPHER_KEY_PARSER)?;
    let signing_key = || section.get_secret("signing_key", &CIPHER_KEY_PARSER);
    let iv = section
        .get_opt("initialization_vector", initialization_vector_parser())?
        .map_or(IvSource::Sent, IvSource::Fixed);
    let cipher = match kind {
        CipherKind::None => Ok(Cipher::None),
        CipherKind::Aes256Gcm => Cipher::aes256_gcm(key),
        CipherKind::Aes256CbcHmacMd5 => Cipher::aes256_cbc_hmac_md5(key, signing_key()?),
        CipherKind::Aes256CbcHmacSha256 => Cipher::aes256_cbc_hmac_sha256(key, signing_key()?),
        CipherKind::Aes128CbcHmacMd5 => Cipher::aes128_cbc(key, iv, Integrity::HmacMd5(signing_key()?)),
        CipherKind::Aes128CbcHmacSha256 => Cipher::aes128_cbc(key, iv, Integrity::HmacSha256(signing_key()?)),
        CipherKind::Aes128CbcUnsigned => Cipher::aes128_cbc(key, iv, Integrity::Unprotected),
    };
    cipher.map_err(|error| section.invalid("cipher", error, "a cipher that fits the key"))
}

fn read_format(section: &Section<'_>) -> Result<ValueFormat, ConfigError> {
    let pattern = from_str("a pattern with the placeholder `{number}`, such as \"msisdn={number};\"");
    match (section.get_opt("country", country())?, section.get_opt("pattern", pattern)?) {
        (None, None) => Ok(ValueFormat::E164Digits),
        (Some(country), None) => Ok(ValueFormat::National(country)),
        (None, Some(pattern)) => Ok(ValueFormat::Pattern(pattern)),
        (Some(_), Some(_)) => {
            let allowed = format!("nothing, because `{}` is set", section.key("country"));
            Err(section.invalid("pattern", "a pattern", allowed))
        }
    }
}

fn initialization_vector_parser() -> ValueParser<[u8; 16]> {
    text("32 hexadecimal digits", |text| {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| is_hex).map(u128::to_be_bytes)
    })
}

fn header_name_parser() -> ValueParser<String> {
    string("a name of letters, digits, `-` and `_`", |text| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=100).contains(&text.len()) && text.bytes().all(is_allowed)
    })
}
