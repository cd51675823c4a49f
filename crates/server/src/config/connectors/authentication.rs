//! How operators' endpoints are asked: by which client, and how they know that it is us.

use std::time::Duration;

use ringtrue_operators::{
    client::{ClientSettings, Identity},
    number_lookup::{Algorithm, Audience, ClientAuthentication, ClientSecret, SigningKey},
};
use url::Url;
use zeroize::Zeroizing;

use super::{
    super::{
        ConfigError,
        kind::{self, Span, Text, Word},
    },
    reader::{Form, Reader},
};

/// What [`client`] reads.
pub(in crate::config) const CLIENT_MEMBERS: [&str; 5] =
    ["connect_timeout", "timeout", "tls_ca_file", "tls_certificate_file", "tls_key_file"];
/// What [`signing_key`] and [`client_authentication`] read.
#[rustfmt::skip]
pub(in crate::config) const AUTHENTICATION_MEMBERS: [&str; 9] = [
    "client_id", "client_authentication", "client_secret_file", "client_secret_env",
    "signing_key_file", "signing_key_env", "signing_key_id", "signing_algorithm", "assertion_audience",
];

pub(in crate::config) const AUDIENCES: Word<Audience> =
    Word(&[("endpoint", Audience::Endpoint), ("issuer", Audience::Issuer)]);
const ALGORITHMS: Word<Algorithm> = Word(&[
    ("ES256", Algorithm::Es256),
    ("RS256", Algorithm::Rs256),
    ("PS256", Algorithm::Ps256),
    ("EdDSA", Algorithm::EdDsa),
]);

#[derive(Clone, Copy)]
enum Method {
    PrivateKeyJwt,
    SecretBasic,
    SecretPost,
    BearerJwt,
}

const METHODS: Word<Method> = Word(&[
    ("private_key_jwt", Method::PrivateKeyJwt),
    ("client_secret_basic", Method::SecretBasic),
    ("client_secret_post", Method::SecretPost),
    ("bearer_jwt", Method::BearerJwt),
]);

const PEM: Form<Zeroizing<String>> = Form {
    allowed: "a private key in PKCS#8 PEM form",
    parse: |text| text.contains("PRIVATE KEY").then(|| Zeroizing::new(text.to_owned())),
};
const SECRET: Form<Zeroizing<String>> =
    Form { allowed: "a secret", parse: |text| (!text.is_empty()).then(|| Zeroizing::new(text.to_owned())) };

pub(in crate::config) fn signing_key(reader: &mut Reader<'_>) -> Result<Option<SigningKey>, ConfigError> {
    let section = reader.section;
    let Some(pem) = reader.secret_if("signing_key", &PEM)? else { return Ok(None) };
    let algorithm = section.read_if("signing_algorithm", &ALGORITHMS)?.unwrap_or(Algorithm::Es256);
    let id = section.read("signing_key_id", &word())?;
    let key = SigningKey::from_pem(pem.as_bytes(), algorithm, id);
    let allowed = "the algorithm that the signing key is for";
    key.map(Some).map_err(|problem| section.invalid("signing_algorithm", format!("{problem}"), allowed))
}

pub(in crate::config) fn client_authentication(
    reader: &mut Reader<'_>,
    key: Option<&SigningKey>,
) -> Result<ClientAuthentication, ConfigError> {
    let section = reader.section;
    let method = section.read_if("client_authentication", &METHODS)?.unwrap_or(Method::PrivateKeyJwt);
    let own_key =
        || key.cloned().ok_or_else(|| section.invalid("signing_key_file", "nothing", "a path to a private key (PEM)"));
    Ok(match method {
        Method::PrivateKeyJwt => ClientAuthentication::PrivateKeyJwt {
            key: own_key()?,
            audience: section.read_if("assertion_audience", &AUDIENCES)?.unwrap_or_default(),
        },
        Method::BearerJwt => ClientAuthentication::BearerJwt { key: own_key()? },
        Method::SecretBasic => ClientAuthentication::SecretBasic(secret(reader)?),
        Method::SecretPost => ClientAuthentication::SecretPost(secret(reader)?),
    })
}

/// The same secret, for who writes it into something else.
pub(in crate::config) fn secret_text(reader: &mut Reader<'_>) -> Result<Zeroizing<String>, ConfigError> {
    reader.secret("client_secret", &SECRET)
}

pub(in crate::config) fn secret(reader: &mut Reader<'_>) -> Result<ClientSecret, ConfigError> {
    Ok(secret_text(reader)?.as_str().into())
}

/// How operators' endpoints are asked.
pub(in crate::config) fn client(reader: &mut Reader<'_>) -> Result<ClientSettings, ConfigError> {
    let section = reader.section;
    let usual = ClientSettings::default();
    let span = Span(Duration::from_millis(100)..=Duration::from_secs(30));
    let extra_roots = section.read_if("tls_ca_file", &kind::path())?;
    if let Some(path) = &extra_roots {
        reader.file("tls_ca_file", path)?;
    }
    let certificates = section.read_if("tls_certificate_file", &kind::path())?;
    let identity = match certificates {
        None => None,
        Some(certificates) => {
            reader.file("tls_certificate_file", &certificates)?;
            let key = section.read("tls_key_file", &kind::path())?;
            reader.file("tls_key_file", &key)?;
            Some(Identity { certificates, key })
        }
    };
    Ok(ClientSettings {
        extra_roots,
        identity,
        certificate_clock: usual.certificate_clock,
        connect: section.read_if("connect_timeout", &span)?.unwrap_or(usual.connect),
        total: section.read_if("timeout", &span)?.unwrap_or(usual.total),
    })
}

pub(in crate::config) fn web_url() -> Text<Url> {
    Text {
        allowed: "an absolute http or https URL",
        parse: |text| Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()),
    }
}

/// Text without blanks.
pub(in crate::config) fn word() -> Text<String> {
    Text {
        allowed: "1 to 300 characters without blanks",
        parse: |text| {
            let is_right = (1..=300).contains(&text.len()) && !text.contains(char::is_whitespace);
            is_right.then(|| text.to_owned())
        },
    }
}
