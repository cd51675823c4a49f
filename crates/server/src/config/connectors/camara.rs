//! A connector that asks an operator by CAMARA.

use std::time::Duration;

use jiff::SignedDuration;
use ringtrue_domain::network::NetworkId;
use ringtrue_operators::{
    camara::{
        Algorithm, Audience, BreakerSettings, CamaraConfig, ClientAuthentication, ClientSecret, Endpoints, LoginHint,
        Provider, RequestObject, ScopeStyle, Scopes, SigningKey,
    },
    client::{ClientSettings, Identity},
};
use url::Url;
use zeroize::Zeroizing;

use super::{
    super::{
        ConfigError,
        kind::{self, Flag, ListOf, OrNone, Span, Text, Whole, Word, text},
    },
    reader::{Form, Reader},
};

#[rustfmt::skip]
const MEMBERS: [&str; 34] = [
    "kind", "networks", "issuer", "discovery_url", "authorization_endpoint", "token_endpoint", "jwks_uri",
    "names_itself", "api_root", "number_verification_path",
    "client_id", "client_authentication", "client_secret_file", "client_secret_env",
    "signing_key_file", "signing_key_env", "signing_key_id", "signing_algorithm", "assertion_audience",
    "request_object", "request_object_audience", "openid_scope", "purpose", "scope_style", "verify_scope",
    "device_phone_number_scope", "login_hint", "hashed_number", "pkce", "redirect_uri",
    "connect_timeout", "timeout", "breaker_failures", "breaker_open_for",
];
const TLS_MEMBERS: [&str; 3] = ["tls_ca_file", "tls_certificate_file", "tls_key_file"];

const AUDIENCES: Word<Audience> = Word(&[("endpoint", Audience::Endpoint), ("issuer", Audience::Issuer)]);
const STYLES: Word<ScopeStyle> = Word(&[("space", ScopeStyle::Space), ("hash", ScopeStyle::Hash)]);
const HINTS: Word<LoginHint> = Word(&[
    ("none", LoginHint::None),
    ("tel", LoginHint::Tel),
    ("e164", LoginHint::E164),
    ("ipport", LoginHint::IpPort),
]);
const ALGORITHMS: Word<Algorithm> = Word(&[
    ("ES256", Algorithm::Es256),
    ("RS256", Algorithm::Rs256),
    ("PS256", Algorithm::Ps256),
    ("EdDSA", Algorithm::EdDsa),
]);

/// A connector, and the client that it asks by.
#[derive(Clone, Debug)]
pub struct CamaraSection {
    /// Its redirect URI is the deployment's own, unless the section names another.
    pub config: CamaraConfig,
    pub has_own_redirect_uri: bool,
    pub client: ClientSettings,
}

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

pub(super) fn read(reader: &mut Reader<'_>) -> Result<CamaraSection, ConfigError> {
    let section = reader.section;
    section.only(&[&MEMBERS[..], &TLS_MEMBERS].concat())?;
    let networks = section.read("networks", &ListOf(network_id()))?;
    if networks.is_empty() {
        return Err(section.invalid("networks", "[]", "at least one network: the operator's"));
    }
    let key = signing_key(reader)?;
    let redirect_uri = section.read_if("redirect_uri", &web_url())?;
    let own = Url::parse("http://localhost/").map_err(|_| section.invalid("redirect_uri", "nothing", "a URL"))?;
    let usual = CamaraConfig::new(
        section.name,
        provider(reader)?,
        section.read("api_root", &web_url())?,
        section.read("client_id", &word())?,
        client_authentication(reader, key.as_ref())?,
        redirect_uri.clone().unwrap_or(own),
    );
    let config = CamaraConfig {
        networks,
        number_verification_path: section
            .read_if("number_verification_path", &base_path())?
            .unwrap_or(usual.number_verification_path),
        request_object: request_object(reader, key)?,
        scopes: scopes(reader)?,
        login_hint: section.read_if("login_hint", &HINTS)?.unwrap_or_default(),
        sends_hashed_number: section.read_if("hashed_number", &Flag)?.unwrap_or(false),
        pkce: section.read_if("pkce", &Flag)?.unwrap_or(true),
        breaker: breaker(reader)?,
        ..usual
    };
    Ok(CamaraSection { config, has_own_redirect_uri: redirect_uri.is_some(), client: client(reader)? })
}

fn provider(reader: &Reader<'_>) -> Result<Provider, ConfigError> {
    let section = reader.section;
    let issuer = section.read_if("issuer", &word())?;
    if let Some(url) = section.read_if("discovery_url", &web_url())? {
        return Ok(Provider::Discovery { url, issuer });
    }
    let Some(issuer) = issuer else {
        let allowed = format!("the operator's issuer; or set `{}`", section.key("discovery_url"));
        return Err(section.invalid("issuer", "nothing", allowed));
    };
    let Some(authorization) = section.read_if("authorization_endpoint", &web_url())? else {
        return Ok(Provider::Issuer(issuer));
    };
    Ok(Provider::Endpoints(Box::new(Endpoints {
        issuer,
        authorization,
        token: section.read("token_endpoint", &web_url())?,
        keys: section.read_if("jwks_uri", &web_url())?,
        names_itself: section.read_if("names_itself", &Flag)?.unwrap_or(false),
    })))
}

const PEM: Form<Zeroizing<String>> = Form {
    allowed: "a private key in PKCS#8 PEM form",
    parse: |text| text.contains("PRIVATE KEY").then(|| Zeroizing::new(text.to_owned())),
};
const SECRET: Form<Zeroizing<String>> =
    Form { allowed: "a secret", parse: |text| (!text.is_empty()).then(|| Zeroizing::new(text.to_owned())) };

fn signing_key(reader: &mut Reader<'_>) -> Result<Option<SigningKey>, ConfigError> {
    let section = reader.section;
    let Some(pem) = reader.secret_if("signing_key", &PEM)? else { return Ok(None) };
    let algorithm = section.read_if("signing_algorithm", &ALGORITHMS)?.unwrap_or(Algorithm::Es256);
    let id = section.read("signing_key_id", &word())?;
    let key = SigningKey::from_pem(pem.as_bytes(), algorithm, id);
    let allowed = "the algorithm that the signing key is for";
    key.map(Some).map_err(|problem| section.invalid("signing_algorithm", format!("{problem}"), allowed))
}

fn client_authentication(
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

fn secret(reader: &mut Reader<'_>) -> Result<ClientSecret, ConfigError> {
    Ok(reader.secret("client_secret", &SECRET)?.as_str().into())
}

fn request_object(reader: &Reader<'_>, key: Option<SigningKey>) -> Result<RequestObject, ConfigError> {
    let section = reader.section;
    if !section.read_if("request_object", &Flag)?.unwrap_or(false) {
        return Ok(RequestObject::Off);
    }
    let Some(key) = key else {
        return Err(section.invalid("request_object", "true", "false, because there is no signing key"));
    };
    let audience = section.read_if("request_object_audience", &AUDIENCES)?.unwrap_or_default();
    Ok(RequestObject::Signed { key, audience })
}

fn scopes(reader: &Reader<'_>) -> Result<Scopes, ConfigError> {
    let section = reader.section;
    let usual = Scopes::default();
    let or = |member, usual| Ok::<_, ConfigError>(section.read_if(member, &OrNone(word()))?.unwrap_or(usual));
    Ok(Scopes {
        openid: section.read_if("openid_scope", &Flag)?.unwrap_or(usual.openid),
        purpose: or("purpose", usual.purpose)?,
        style: section.read_if("scope_style", &STYLES)?.unwrap_or_default(),
        verify: or("verify_scope", usual.verify)?,
        device_phone_number: or("device_phone_number_scope", usual.device_phone_number)?,
    })
}

fn breaker(reader: &Reader<'_>) -> Result<BreakerSettings, ConfigError> {
    let section = reader.section;
    let usual = BreakerSettings::default();
    let open_for = section.read_if("breaker_open_for", &Span(Duration::from_secs(1)..=Duration::from_hours(1)))?;
    Ok(BreakerSettings {
        failures: section.read_if("breaker_failures", &Whole(1..=1_000))?.unwrap_or(usual.failures),
        open_for: open_for.map_or(usual.open_for, |span| SignedDuration::try_from(span).unwrap_or(usual.open_for)),
        ..usual
    })
}

/// How operators' endpoints are asked.
pub(super) fn client(reader: &mut Reader<'_>) -> Result<ClientSettings, ConfigError> {
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
        connect: section.read_if("connect_timeout", &span)?.unwrap_or(usual.connect),
        total: section.read_if("timeout", &span)?.unwrap_or(usual.total),
    })
}

pub(super) fn network_id() -> Text<NetworkId> {
    text("the id of a network: five or six digits, the country code (MCC) and the network code (MNC)")
}

fn web_url() -> Text<Url> {
    Text {
        allowed: "an absolute http or https URL",
        parse: |text| Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()),
    }
}

fn base_path() -> Text<String> {
    Text {
        allowed: "a path that begins with `/`, such as \"/number-verification/v2\"",
        parse: |text| (text.starts_with('/') && !text.contains(['?', '#'])).then(|| text.to_owned()),
    }
}

/// Text without blanks.
fn word() -> Text<String> {
    Text {
        allowed: "1 to 300 characters without blanks",
        parse: |text| {
            let is_right = (1..=300).contains(&text.len()) && !text.contains(char::is_whitespace);
            is_right.then(|| text.to_owned())
        },
    }
}
