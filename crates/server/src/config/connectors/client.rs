//! Settings of the HTTP client and of the client authentication at operators' endpoints.

use ringtrue_operators::{
    client::{ClientCertificate, ClientSettings},
    number_lookup::{Algorithm, Audience, BreakerSettings, ClientAuthentication, ClientSecret, SigningKey},
};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::super::{
    ConfigError,
    document::{SecretParser, Section},
    value_parser::{HOUR, MILLISECOND, SECOND, ValueParser, duration, integer, keyword, path, token, variant},
};

/// Names of the settings that [`read_client`] and [`read_breaker`] read.
#[rustfmt::skip]
pub(in crate::config) const CLIENT_MEMBERS: [&str; 7] = [
    "connect_timeout", "timeout", "tls_ca_file", "tls_certificate_file", "tls_key_file",
    "breaker_failures", "breaker_open_for",
];
/// Names of the settings that [`read_signing_key`] reads.
pub(in crate::config) const SIGNING_KEY_MEMBERS: [&str; 4] =
    ["signing_key_file", "signing_key_env", "signing_key_id", "signing_algorithm"];
/// Names of the settings that [`read_authentication`] reads.
#[rustfmt::skip]
pub(in crate::config) const AUTHENTICATION_MEMBERS: [&str; 5] =
    ["client_id", "client_authentication", "client_secret_file", "client_secret_env", "assertion_audience"];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AuthenticationMethod {
    PrivateKeyJwt,
    ClientSecretBasic,
    ClientSecretPost,
    BearerJwt,
}

pub(in crate::config) fn read_client(section: &Section<'_>) -> Result<ClientSettings, ConfigError> {
    let defaults = ClientSettings::default();
    let timeout = || duration(100 * MILLISECOND, 30 * SECOND);
    let ca_file = section.get_opt("tls_ca_file", path())?;
    if let Some(path) = &ca_file {
        section.read_file("tls_ca_file", path)?;
    }
    let identity = match section.get_opt("tls_certificate_file", path())? {
        None => None,
        Some(certificates) => {
            section.read_file("tls_certificate_file", &certificates)?;
            let key = section.get("tls_key_file", path())?;
            section.read_file("tls_key_file", &key)?;
            Some(ClientCertificate { certificates, key })
        }
    };
    Ok(ClientSettings {
        ca_file,
        identity,
        connect_timeout: section.get_or("connect_timeout", timeout(), defaults.connect_timeout)?,
        timeout: section.get_or("timeout", timeout(), defaults.timeout)?,
        ..defaults
    })
}

pub(in crate::config) fn read_breaker(section: &Section<'_>) -> Result<BreakerSettings, ConfigError> {
    let defaults = BreakerSettings::default();
    let open_for = section.get_opt("breaker_open_for", duration(SECOND, HOUR))?;
    Ok(BreakerSettings {
        failures: section.get_or("breaker_failures", integer(1..=1_000), defaults.failures)?,
        open_for: open_for.and_then(|open| open.try_into().ok()).unwrap_or(defaults.open_for),
        ..defaults
    })
}

pub(in crate::config) const PRIVATE_KEY_PARSER: SecretParser<Zeroizing<String>> =
    ("a private key in PKCS#8 PEM form", |text| text.contains("PRIVATE KEY").then(|| Zeroizing::new(text.to_owned())));

pub(in crate::config) fn read_signing_key(section: &Section<'_>) -> Result<Option<SigningKey>, ConfigError> {
    let Some(pem) = section.get_opt_secret("signing_key", &PRIVATE_KEY_PARSER)? else { return Ok(None) };
    let algorithms = keyword(&[
        ("ES256", Algorithm::ES256),
        ("RS256", Algorithm::RS256),
        ("PS256", Algorithm::PS256),
        ("EdDSA", Algorithm::EdDSA),
    ]);
    let algorithm = section.get_or("signing_algorithm", algorithms, Algorithm::ES256)?;
    let key = SigningKey::from_pem(pem.as_bytes(), algorithm, section.get("signing_key_id", token())?);
    key.map(Some).map_err(|error| section.invalid("signing_algorithm", error, "the algorithm of the signing key"))
}

pub(in crate::config) fn require_signing_key(
    section: &Section<'_>,
    key: Option<SigningKey>,
) -> Result<SigningKey, ConfigError> {
    key.ok_or_else(|| section.invalid("signing_key_file", "nothing", "a path to a private key (PEM)"))
}

pub(in crate::config) fn read_authentication(
    section: &Section<'_>,
    key: Option<SigningKey>,
) -> Result<ClientAuthentication, ConfigError> {
    let method = section.get_or("client_authentication", variant(), AuthenticationMethod::PrivateKeyJwt)?;
    Ok(match method {
        AuthenticationMethod::PrivateKeyJwt => ClientAuthentication::PrivateKeyJwt {
            key: require_signing_key(section, key)?,
            audience: section.get_or("assertion_audience", audience_parser(), Audience::default())?,
        },
        AuthenticationMethod::BearerJwt => ClientAuthentication::BearerJwt { key: require_signing_key(section, key)? },
        AuthenticationMethod::ClientSecretBasic => ClientAuthentication::SecretBasic(read_client_secret(section)?),
        AuthenticationMethod::ClientSecretPost => ClientAuthentication::SecretPost(read_client_secret(section)?),
    })
}

pub(in crate::config) fn read_client_secret(section: &Section<'_>) -> Result<ClientSecret, ConfigError> {
    section.get_secret("client_secret", &("a secret", |text| (!text.is_empty()).then(|| text.into())))
}

pub(in crate::config) fn audience_parser() -> ValueParser<Audience> {
    keyword(&[("endpoint", Audience::Endpoint), ("issuer", Audience::Issuer)])
}
