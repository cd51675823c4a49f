//! A connector that asks an operator by CAMARA.

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
        kind::{Flag, ListOf, OrNone, Span, Text, Whole, Word, text},
    },
    authentication::{
        AUDIENCES, AUTHENTICATION_MEMBERS, CLIENT_MEMBERS, client, client_authentication, signing_key, web_url, word,
    },
    reader::Reader,
    sim_swap::{SIM_SWAP_MEMBERS, sim_swap},
};

#[rustfmt::skip]
const MEMBERS: [&str; 24] = [
    "kind", "networks", "issuer", "discovery_url", "authorization_endpoint", "token_endpoint", "jwks_uri",
    "backchannel_authentication_endpoint", "names_itself", "api_root", "number_verification_path",
    "request_object", "request_object_audience", "openid_scope", "purpose", "scope_style", "verify_scope",
    "device_phone_number_scope", "login_hint", "hashed_number", "pkce", "redirect_uri",
    "breaker_failures", "breaker_open_for",
];
const STYLES: Word<ScopeStyle> = Word(&[("space", ScopeStyle::Space), ("hash", ScopeStyle::Hash)]);
const HINTS: Word<LoginHint> = Word(&[
    ("none", LoginHint::None),
    ("tel", LoginHint::Tel),
    ("e164", LoginHint::E164),
    ("ipport", LoginHint::IpPort),
]);
/// A connector, and the client that it asks by.
#[derive(Clone, Debug)]
pub struct CamaraSection {
    /// Its redirect URI is the deployment's own, unless the section names another.
    pub config: CamaraConfig,
    pub has_own_redirect_uri: bool,
    pub client: ClientSettings,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<CamaraSection, ConfigError> {
    let section = reader.section;
    section.only(&[&MEMBERS[..], &SIM_SWAP_MEMBERS, &AUTHENTICATION_MEMBERS, &CLIENT_MEMBERS].concat())?;
    let networks = section.read("networks", &ListOf(network_id()))?;
    if networks.is_empty() {
        return Err(section.invalid("networks", "[]", "at least one network: the operator's"));
    }
    let key = signing_key(reader)?;
    let redirect_uri = section.read_if("redirect_uri", &web_url())?;
    let own = Url::parse("http://localhost/").map_err(|_| section.invalid("redirect_uri", "nothing", "a URL"))?;
    let scopes = scopes(reader)?;
    let sim_swap = sim_swap(reader, key.as_ref())?;
    let usual = CamaraConfig::new(
        section.name,
        provider(reader, &scopes, sim_swap.as_ref())?,
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
        scopes,
        login_hint: section.read_if("login_hint", &HINTS)?.unwrap_or_default(),
        sends_hashed_number: section.read_if("hashed_number", &Flag)?.unwrap_or(false),
        pkce: section.read_if("pkce", &Flag)?.unwrap_or(true),
        sim_swap,
        breaker: breaker(reader)?,
        ..usual
    };
    Ok(CamaraSection { config, has_own_redirect_uri: redirect_uri.is_some(), client: client(reader)? })
}

fn provider(reader: &Reader<'_>, scopes: &Scopes, sim_swap: Option<&SimSwapConfig>) -> Result<Provider, ConfigError> {
    let section = reader.section;
    let issuer = section.read_if("issuer", &word())?;
    if let Some(url) = section.read_if("discovery_url", &web_url())? {
        return Ok(Provider::Discovery { url, issuer });
    }
    let Some(issuer) = issuer else {
        let allowed = format!("the operator's issuer; or set `{}`", section.key("discovery_url"));
        return Err(section.invalid("issuer", "nothing", allowed));
    };
    let authorization = section.read_if("authorization_endpoint", &web_url())?;
    let token = section.read_if("token_endpoint", &web_url())?;
    if authorization.is_none() && token.is_none() {
        return Ok(Provider::Issuer(issuer));
    }
    let sends_devices = scopes.verify.is_some() || scopes.device_phone_number.is_some();
    let authorization = match authorization {
        None if sends_devices => Some(section.read("authorization_endpoint", &web_url())?),
        authorization => authorization,
    };
    let backchannel = match sim_swap.map(|sim_swap| &sim_swap.flow) {
        Some(SimSwapFlow::Ciba) => Some(section.read("backchannel_authentication_endpoint", &web_url())?),
        _ => section.read_if("backchannel_authentication_endpoint", &web_url())?,
    };
    Ok(Provider::Endpoints(Box::new(Endpoints {
        issuer,
        authorization,
        token: section.read("token_endpoint", &web_url())?,
        backchannel,
        keys: section.read_if("jwks_uri", &web_url())?,
        names_itself: section.read_if("names_itself", &Flag)?.unwrap_or(false),
    })))
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

pub(in crate::config) fn breaker(reader: &Reader<'_>) -> Result<BreakerSettings, ConfigError> {
    let section = reader.section;
    let usual = BreakerSettings::default();
    let open_for = section.read_if("breaker_open_for", &Span(Duration::from_secs(1)..=Duration::from_hours(1)))?;
    Ok(BreakerSettings {
        failures: section.read_if("breaker_failures", &Whole(1..=1_000))?.unwrap_or(usual.failures),
        open_for: open_for.map_or(usual.open_for, |span| SignedDuration::try_from(span).unwrap_or(usual.open_for)),
        ..usual
    })
}

pub(in crate::config) fn network_id() -> Text<NetworkId> {
    text("the id of a network: five or six digits, the country code (MCC) and the network code (MNC)")
}

pub(super) fn base_path() -> Text<String> {
    Text {
        allowed: "a path that begins with `/`, such as \"/number-verification/v2\"",
        parse: |text| (text.starts_with('/') && !text.contains(['?', '#'])).then(|| text.to_owned()),
    }
}
