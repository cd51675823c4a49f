//! Connectors of the kind `camara`: CAMARA APIs of an operator.

use std::time::Duration;

use jiff::SignedDuration;
use ringtrue_domain::network::NetworkId;
use ringtrue_operators::{
    camara::{
        BreakerSettings, CamaraConfig, Endpoints, LoginHint, Provider, RequestObject, ScopeStyle, Scopes, SigningKey,
        SimSwapConfig, SimSwapFlow,
    },
    client::ClientSettings,
};
use url::Url;

use super::{
    super::{
        ConfigError,
        value_type::{Bool, DurationRange, Integer, ListOf, OneOf, Optional, Text, text},
    },
    authentication::{
        AUDIENCES, AUTHENTICATION_MEMBERS, CLIENT_MEMBERS, read_client, read_client_authentication, read_signing_key,
        token_text, web_url,
    },
    section_reader::SectionReader,
    sim_swap::{SIM_SWAP_MEMBERS, read_sim_swap},
};

#[rustfmt::skip]
const MEMBERS: [&str; 24] = [
    "kind", "networks", "issuer", "discovery_url", "authorization_endpoint", "token_endpoint", "jwks_uri",
    "backchannel_authentication_endpoint", "names_itself", "api_root", "number_verification_path",
    "request_object", "request_object_audience", "openid_scope", "purpose", "scope_style", "verify_scope",
    "device_phone_number_scope", "login_hint", "hashed_number", "pkce", "redirect_uri",
    "breaker_failures", "breaker_open_for",
];
const SCOPE_STYLES: OneOf<ScopeStyle> = OneOf(&[("space", ScopeStyle::Space), ("hash", ScopeStyle::Hash)]);
const LOGIN_HINTS: OneOf<LoginHint> = OneOf(&[
    ("none", LoginHint::None),
    ("tel", LoginHint::Tel),
    ("e164", LoginHint::E164),
    ("ipport", LoginHint::IpPort),
]);
#[derive(Clone, Debug)]
pub struct CamaraSection {
    /// The redirect URI is a placeholder unless `has_own_redirect_uri`.
    pub config: CamaraConfig,
    pub has_own_redirect_uri: bool,
    pub client: ClientSettings,
}

pub(super) fn read(reader: &mut SectionReader<'_>) -> Result<CamaraSection, ConfigError> {
    let section = reader.section;
    section.reject_unknown(&[&MEMBERS[..], &SIM_SWAP_MEMBERS, &AUTHENTICATION_MEMBERS, &CLIENT_MEMBERS].concat())?;
    let networks = section.read("networks", &ListOf(network_id()))?;
    if networks.is_empty() {
        return Err(section.invalid("networks", "[]", "at least one network of the operator"));
    }
    let key = read_signing_key(reader)?;
    let redirect_uri = section.read_optional("redirect_uri", &web_url())?;
    let placeholder =
        Url::parse("http://localhost/").map_err(|_| section.invalid("redirect_uri", "nothing", "a URL"))?;
    let scopes = read_scopes(reader)?;
    let sim_swap = read_sim_swap(reader, key.as_ref())?;
    let defaults = CamaraConfig::new(
        section.name,
        read_provider(reader, &scopes, sim_swap.as_ref())?,
        section.read("api_root", &web_url())?,
        section.read("client_id", &token_text())?,
        read_client_authentication(reader, key.as_ref())?,
        redirect_uri.clone().unwrap_or(placeholder),
    );
    let config = CamaraConfig {
        networks,
        number_verification_path: section
            .read_optional("number_verification_path", &base_path())?
            .unwrap_or(defaults.number_verification_path),
        request_object: read_request_object(reader, key)?,
        scopes,
        login_hint: section.read_optional("login_hint", &LOGIN_HINTS)?.unwrap_or_default(),
        sends_hashed_number: section.read_optional("hashed_number", &Bool)?.unwrap_or(false),
        pkce: section.read_optional("pkce", &Bool)?.unwrap_or(true),
        sim_swap,
        breaker: read_breaker(reader)?,
        ..defaults
    };
    Ok(CamaraSection { config, has_own_redirect_uri: redirect_uri.is_some(), client: read_client(reader)? })
}

fn read_provider(
    reader: &SectionReader<'_>,
    scopes: &Scopes,
    sim_swap: Option<&SimSwapConfig>,
) -> Result<Provider, ConfigError> {
    let section = reader.section;
    let issuer = section.read_optional("issuer", &token_text())?;
    if let Some(url) = section.read_optional("discovery_url", &web_url())? {
        return Ok(Provider::Discovery { url, issuer });
    }
    let Some(issuer) = issuer else {
        let allowed = format!("the issuer of the operator; or set `{}`", section.key("discovery_url"));
        return Err(section.invalid("issuer", "nothing", allowed));
    };
    let authorization = section.read_optional("authorization_endpoint", &web_url())?;
    let token = section.read_optional("token_endpoint", &web_url())?;
    if authorization.is_none() && token.is_none() {
        return Ok(Provider::Issuer(issuer));
    }
    let supports_number_verification = scopes.verify.is_some() || scopes.device_phone_number.is_some();
    let authorization = match authorization {
        None if supports_number_verification => Some(section.read("authorization_endpoint", &web_url())?),
        authorization => authorization,
    };
    let backchannel = match sim_swap.map(|sim_swap| &sim_swap.flow) {
        Some(SimSwapFlow::Ciba) => Some(section.read("backchannel_authentication_endpoint", &web_url())?),
        _ => section.read_optional("backchannel_authentication_endpoint", &web_url())?,
    };
    Ok(Provider::Endpoints(Box::new(Endpoints {
        issuer,
        authorization,
        token: section.read("token_endpoint", &web_url())?,
        backchannel,
        jwks: section.read_optional("jwks_uri", &web_url())?,
        supports_iss_parameter: section.read_optional("names_itself", &Bool)?.unwrap_or(false),
    })))
}

fn read_request_object(reader: &SectionReader<'_>, key: Option<SigningKey>) -> Result<RequestObject, ConfigError> {
    let section = reader.section;
    if !section.read_optional("request_object", &Bool)?.unwrap_or(false) {
        return Ok(RequestObject::Off);
    }
    let Some(key) = key else {
        return Err(section.invalid("request_object", "true", "false, because no signing key is set"));
    };
    let audience = section.read_optional("request_object_audience", &AUDIENCES)?.unwrap_or_default();
    Ok(RequestObject::Signed { key, audience })
}

fn read_scopes(reader: &SectionReader<'_>) -> Result<Scopes, ConfigError> {
    let section = reader.section;
    let defaults = Scopes::default();
    let read_or_default = |member, defaults| {
        Ok::<_, ConfigError>(section.read_optional(member, &Optional(token_text()))?.unwrap_or(defaults))
    };
    Ok(Scopes {
        openid: section.read_optional("openid_scope", &Bool)?.unwrap_or(defaults.openid),
        purpose: read_or_default("purpose", defaults.purpose)?,
        style: section.read_optional("scope_style", &SCOPE_STYLES)?.unwrap_or_default(),
        verify: read_or_default("verify_scope", defaults.verify)?,
        device_phone_number: read_or_default("device_phone_number_scope", defaults.device_phone_number)?,
    })
}

pub(in crate::config) fn read_breaker(reader: &SectionReader<'_>) -> Result<BreakerSettings, ConfigError> {
    let section = reader.section;
    let defaults = BreakerSettings::default();
    let open_duration =
        section.read_optional("breaker_open_for", &DurationRange(Duration::from_secs(1)..=Duration::from_hours(1)))?;
    Ok(BreakerSettings {
        failure_threshold: section
            .read_optional("breaker_failures", &Integer(1..=1_000))?
            .unwrap_or(defaults.failure_threshold),
        open_duration: open_duration
            .map_or(defaults.open_duration, |span| SignedDuration::try_from(span).unwrap_or(defaults.open_duration)),
        ..defaults
    })
}

pub(in crate::config) fn network_id() -> Text<NetworkId> {
    text("a network id: five or six digits, MCC and MNC")
}

pub(super) fn base_path() -> Text<String> {
    Text {
        allowed: "a path that begins with `/`, such as \"/number-verification/v2\"",
        parse: |text| (text.starts_with('/') && !text.contains(['?', '#'])).then(|| text.to_owned()),
    }
}
