//! HTTP client and client authentication for operators' endpoints.

use std::time::Duration;

use ringtrue_operators::{
    client::{ClientCertificate, ClientSettings},
    number_lookup::{Algorithm, Audience, ClientAuthentication, ClientSecret, SigningKey},
};
use url::Url;
use zeroize::Zeroizing;

use super::{
    super::{
        ConfigError,
        value_type::{self, DurationRange, OneOf, Text},
    },
    section_reader::{SecretFormat, SectionReader},
};

/// Members read by [`read_client`].
pub(in crate::config) const CLIENT_MEMBERS: [&str; 5] =
    ["connect_timeout", "timeout", "tls_ca_file", "tls_certificate_file", "tls_key_file"];
/// Members read by [`read_signing_key`] and [`read_client_authentication`].
#[rustfmt::skip]
pub(in crate::config) const AUTHENTICATION_MEMBERS: [&str; 9] = [
    "client_id", "client_authentication", "client_secret_file", "client_secret_env",
    "signing_key_file", "signing_key_env", "signing_key_id", "signing_algorithm", "assertion_audience",
];

pub(in crate::config) const AUDIENCES: OneOf<Audience> =
    OneOf(&[("endpoint", Audience::Endpoint), ("issuer", Audience::Issuer)]);
const ALGORITHMS: OneOf<Algorithm> = OneOf(&[
    ("ES256", Algorithm::Es256),
    ("RS256", Algorithm::Rs256),
    ("PS256", Algorithm::Ps256),
    ("EdDSA", Algorithm::EdDsa),
]);

#[derive(Clone, Copy)]
enum AuthenticationMethod {
    PrivateKeyJwt,
    SecretBasic,
    SecretPost,
    BearerJwt,
}

const METHODS: OneOf<AuthenticationMethod> = OneOf(&[
    ("private_key_jwt", AuthenticationMethod::PrivateKeyJwt),
    ("client_secret_basic", AuthenticationMethod::SecretBasic),
    ("client_secret_post", AuthenticationMethod::SecretPost),
    ("bearer_jwt", AuthenticationMethod::BearerJwt),
]);

const PEM: SecretFormat<Zeroizing<String>> = SecretFormat {
    allowed: "a private key in PKCS#8 PEM form",
    parse: |text| text.contains("PRIVATE KEY").then(|| Zeroizing::new(text.to_owned())),
};
const SECRET: SecretFormat<Zeroizing<String>> =
    SecretFormat { allowed: "a secret", parse: |text| (!text.is_empty()).then(|| Zeroizing::new(text.to_owned())) };

pub(in crate::config) fn read_signing_key(reader: &mut SectionReader<'_>) -> Result<Option<SigningKey>, ConfigError> {
    let section = reader.section;
    let Some(pem) = reader.optional_secret("signing_key", &PEM)? else { return Ok(None) };
    let algorithm = section.read_optional("signing_algorithm", &ALGORITHMS)?.unwrap_or(Algorithm::Es256);
    let id = section.read("signing_key_id", &token_text())?;
    let key = SigningKey::from_pem(pem.as_bytes(), algorithm, id);
    let allowed = "the algorithm of the signing key";
    key.map(Some).map_err(|error| section.invalid("signing_algorithm", format!("{error}"), allowed))
}

pub(in crate::config) fn read_client_authentication(
    reader: &mut SectionReader<'_>,
    key: Option<&SigningKey>,
) -> Result<ClientAuthentication, ConfigError> {
    let section = reader.section;
    let method =
        section.read_optional("client_authentication", &METHODS)?.unwrap_or(AuthenticationMethod::PrivateKeyJwt);
    let require_key =
        || key.cloned().ok_or_else(|| section.invalid("signing_key_file", "nothing", "a path to a private key (PEM)"));
    Ok(match method {
        AuthenticationMethod::PrivateKeyJwt => ClientAuthentication::PrivateKeyJwt {
            key: require_key()?,
            audience: section.read_optional("assertion_audience", &AUDIENCES)?.unwrap_or_default(),
        },
        AuthenticationMethod::BearerJwt => ClientAuthentication::BearerJwt { key: require_key()? },
        AuthenticationMethod::SecretBasic => ClientAuthentication::SecretBasic(read_client_secret(reader)?),
        AuthenticationMethod::SecretPost => ClientAuthentication::SecretPost(read_client_secret(reader)?),
    })
}

pub(in crate::config) fn read_secret_text(reader: &mut SectionReader<'_>) -> Result<Zeroizing<String>, ConfigError> {
    reader.secret("client_secret", &SECRET)
}

pub(in crate::config) fn read_client_secret(reader: &mut SectionReader<'_>) -> Result<ClientSecret, ConfigError> {
    Ok(read_secret_text(reader)?.as_str().into())
}

pub(in crate::config) fn read_client(reader: &mut SectionReader<'_>) -> Result<ClientSettings, ConfigError> {
    let section = reader.section;
    let defaults = ClientSettings::default();
    let span = DurationRange(Duration::from_millis(100)..=Duration::from_secs(30));
    let extra_roots = section.read_optional("tls_ca_file", &value_type::file_path())?;
    if let Some(path) = &extra_roots {
        reader.read_file("tls_ca_file", path)?;
    }
    let certificates = section.read_optional("tls_certificate_file", &value_type::file_path())?;
    let identity = match certificates {
        None => None,
        Some(certificates) => {
            reader.read_file("tls_certificate_file", &certificates)?;
            let key = section.read("tls_key_file", &value_type::file_path())?;
            reader.read_file("tls_key_file", &key)?;
            Some(ClientCertificate { certificates, key })
        }
    };
    Ok(ClientSettings {
        extra_roots,
        identity,
        certificate_clock: defaults.certificate_clock,
        connect_timeout: section.read_optional("connect_timeout", &span)?.unwrap_or(defaults.connect_timeout),
        total_timeout: section.read_optional("timeout", &span)?.unwrap_or(defaults.total_timeout),
    })
}

pub(in crate::config) fn web_url() -> Text<Url> {
    Text {
        allowed: "an absolute http:// or https:// URL",
        parse: |text| Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()),
    }
}

pub(in crate::config) fn token_text() -> Text<String> {
    Text {
        allowed: "1 to 300 characters without whitespace",
        parse: |text| {
            let is_valid = (1..=300).contains(&text.len()) && !text.contains(char::is_whitespace);
            is_valid.then(|| text.to_owned())
        },
    }
}
