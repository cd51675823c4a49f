//! Connectors of the kind `camara`: use the CAMARA APIs of an operator.

use jiff::SignedDuration;
use ringtrue_operators::{
    camara::{
        CamaraConfig, ConsentData, CredentialVerifier, Endpoints, LoginHintFormat, OperatorTokenConfig,
        OperatorTokenFlow, Provider, RequestObjectMode, ScopeStyle, Scopes, SigningKey, SimSwapConfig, SimSwapFlow,
        SimSwapOperation, WalletRequestSigner, WalletRequestSignerError,
    },
    client::ClientSettings,
};
use serde::Deserialize;

use super::{
    super::{
        ConfigError,
        document::Section,
        listeners::Listeners,
        value_parser::{
            ValueParser, boolean, integer, keyword, list, network_id, optional, path, string, token, variant, web_url,
        },
    },
    Connector,
    client::{
        AUTHENTICATION_MEMBERS, CLIENT_MEMBERS, PRIVATE_KEY_PARSER, SIGNING_KEY_MEMBERS, audience_parser,
        read_authentication, read_breaker, read_client, read_signing_key,
    },
};

#[rustfmt::skip]
const MEMBERS: [&str; 22] = [
    "kind", "networks", "issuer", "discovery_url", "authorization_endpoint", "token_endpoint", "jwks_uri",
    "backchannel_authentication_endpoint", "supports_iss_parameter", "api_root", "number_verification_path",
    "request_object", "request_object_audience", "openid_scope", "purpose", "scope_style", "verify_scope",
    "device_phone_number_scope", "login_hint", "hashed_number", "pkce", "redirect_uri",
];
#[rustfmt::skip]
const SIM_SWAP_MEMBERS: [&str; 6] = [
    "sim_swap", "sim_swap_path", "sim_swap_operations", "sim_swap_retrieve_date_scope", "sim_swap_check_scope",
    "sim_swap_assumed_days",
];
#[rustfmt::skip]
const OPERATOR_TOKEN_MEMBERS: [&str; 9] = [
    "operator_tokens", "operator_tokens_issuer", "operator_tokens_certificate_file", "operator_tokens_key_file",
    "operator_tokens_key_env", "operator_tokens_consent_text", "operator_tokens_policy_link",
    "operator_tokens_policy_text", "operator_tokens_issuer_certificates_file",
];

#[derive(Clone, Debug)]
pub struct CamaraSection {
    /// Settings of the connector. Unless `has_own_redirect_uri`, their redirect URI is a placeholder until the public
    /// URL is known.
    pub config: CamaraConfig,
    pub has_own_redirect_uri: bool,
    pub client: ClientSettings,
}

pub(super) fn read(section: &Section<'_>, _: &Listeners) -> Result<Connector, ConfigError> {
    section.reject_unknown(&[
        &MEMBERS,
        &SIM_SWAP_MEMBERS,
        &OPERATOR_TOKEN_MEMBERS,
        &AUTHENTICATION_MEMBERS,
        &SIGNING_KEY_MEMBERS,
        &CLIENT_MEMBERS,
    ])?;
    let networks = section.get("networks", list(network_id()))?;
    if networks.is_empty() {
        return Err(section.invalid("networks", "[]", "at least one network of the operator"));
    }
    let key = read_signing_key(section)?;
    let scopes = read_scopes(section)?;
    let sim_swap = read_sim_swap(section, key.as_ref())?;
    let operator_tokens = read_operator_tokens(section, key.as_ref(), &scopes)?;
    let redirect_uri = section.get_opt("redirect_uri", web_url())?;
    let api_root = section.get("api_root", web_url())?;
    let mut config = CamaraConfig::new(
        section.name(),
        read_provider(section, &scopes, sim_swap.as_ref(), operator_tokens.as_ref())?,
        api_root.clone(),
        section.get("client_id", token())?,
        read_authentication(section, key.clone())?,
        // Placeholder, replaced when the public URL is known.
        redirect_uri.clone().unwrap_or(api_root),
    );
    config.networks = networks;
    config.request_object = read_request_object(section, key)?;
    config.scopes = scopes;
    config.sim_swap = sim_swap;
    config.operator_tokens = operator_tokens;
    config.breaker = read_breaker(section)?;
    section.update("number_verification_path", base_path_parser(), &mut config.number_verification_path)?;
    section.update("login_hint", keyword(LOGIN_HINTS), &mut config.login_hint)?;
    section.update("hashed_number", boolean(), &mut config.sends_hashed_number)?;
    section.update("pkce", boolean(), &mut config.pkce)?;
    let (has_own_redirect_uri, client) = (redirect_uri.is_some(), read_client(section)?);
    Ok(Connector::Camara(Box::new(CamaraSection { config, has_own_redirect_uri, client })))
}

fn read_provider(
    section: &Section<'_>,
    scopes: &Scopes,
    sim_swap: Option<&SimSwapConfig>,
    operator_tokens: Option<&OperatorTokenConfig>,
) -> Result<Provider, ConfigError> {
    const AUTHORIZATION: &str = "authorization_endpoint";
    const BACKCHANNEL: &str = "backchannel_authentication_endpoint";
    let issuer = section.get_opt("issuer", token())?;
    if let Some(url) = section.get_opt("discovery_url", web_url())? {
        return Ok(Provider::Discovery { url, issuer });
    }
    let Some(issuer) = issuer else {
        let allowed = format!("the issuer of the operator; or set `{}`", section.key("discovery_url"));
        return Err(section.invalid("issuer", "nothing", allowed));
    };
    if !section.has(AUTHORIZATION) && !section.has("token_endpoint") {
        return Ok(Provider::Issuer(issuer));
    }
    let endpoint = |member, is_required| {
        if is_required { section.get(member, web_url()).map(Some) } else { section.get_opt(member, web_url()) }
    };
    let supports_number_verification = scopes.verify.is_some() || scopes.device_phone_number.is_some();
    let uses_ciba = sim_swap.is_some_and(|sim_swap| matches!(sim_swap.flow, SimSwapFlow::Ciba))
        || operator_tokens.is_some_and(|tokens| matches!(tokens.flow, OperatorTokenFlow::Ciba));
    Ok(Provider::Endpoints(Box::new(Endpoints {
        issuer,
        authorization: endpoint(AUTHORIZATION, supports_number_verification)?,
        token: section.get("token_endpoint", web_url())?,
        backchannel: endpoint(BACKCHANNEL, uses_ciba)?,
        jwks: section.get_opt("jwks_uri", web_url())?,
        supports_iss_parameter: section.get_or("supports_iss_parameter", boolean(), false)?,
    })))
}

fn read_request_object(section: &Section<'_>, key: Option<SigningKey>) -> Result<RequestObjectMode, ConfigError> {
    if !section.get_or("request_object", boolean(), false)? {
        return Ok(RequestObjectMode::Off);
    }
    let missing_key = || section.invalid("request_object", "true", "false, because no signing key is set");
    let key = key.ok_or_else(missing_key)?;
    Ok(RequestObjectMode::Signed {
        key,
        audience: section.get_or("request_object_audience", audience_parser(), <_>::default())?,
    })
}

fn read_scopes(section: &Section<'_>) -> Result<Scopes, ConfigError> {
    let mut scopes = Scopes::default();
    section.update("openid_scope", boolean(), &mut scopes.openid)?;
    section.update("purpose", optional(token()), &mut scopes.purpose)?;
    section.update("scope_style", keyword(SCOPE_STYLES), &mut scopes.style)?;
    section.update("verify_scope", optional(token()), &mut scopes.verify)?;
    section.update("device_phone_number_scope", optional(token()), &mut scopes.device_phone_number)?;
    Ok(scopes)
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Flow {
    Off,
    ClientCredentials,
    Ciba,
    JwtBearer,
}

/// Reads the settings of SIM Swap. `None`: SIM Swap is off.
fn read_sim_swap(section: &Section<'_>, key: Option<&SigningKey>) -> Result<Option<SimSwapConfig>, ConfigError> {
    const OPERATIONS: &str = "sim_swap_operations";
    let flow = match section.get_or("sim_swap", variant(), Flow::Off)? {
        Flow::Off => return reject_unused(section, &SIM_SWAP_MEMBERS).map(|()| None),
        Flow::ClientCredentials => SimSwapFlow::ClientCredentials,
        Flow::Ciba => SimSwapFlow::Ciba,
        Flow::JwtBearer => {
            let allowed = "another flow, because no signing key is set";
            SimSwapFlow::JwtBearer {
                key: key.cloned().ok_or_else(|| section.invalid("sim_swap", "\"jwt_bearer\"", allowed))?,
                audience: section.get_or("assertion_audience", audience_parser(), <_>::default())?,
            }
        }
    };
    let mut config = SimSwapConfig::new(flow);
    section.update("sim_swap_path", base_path_parser(), &mut config.path)?;
    section.update(OPERATIONS, list(keyword(SIM_SWAP_OPERATIONS)), &mut config.operations)?;
    section.update("sim_swap_retrieve_date_scope", token(), &mut config.retrieve_date_scope)?;
    section.update("sim_swap_check_scope", token(), &mut config.check_scope)?;
    let days = section.get_opt("sim_swap_assumed_days", integer(1..=3_650))?;
    config.assumed_window = days.map(|days: i64| SignedDuration::from_hours(24 * days));
    let operations = &config.operations;
    let is_repeated = |(position, operation)| operations[..position].contains(operation);
    if operations.is_empty() || operations.iter().enumerate().any(is_repeated) {
        let allowed = "\"retrieve_date\", \"check\" or both, each only once";
        return Err(section.invalid(OPERATIONS, section.render_value(OPERATIONS), allowed));
    }
    Ok(Some(config))
}

/// Rejects settings of a feature that is off: all but the first, which is its switch.
fn reject_unused(section: &Section<'_>, members: &[&str]) -> Result<(), ConfigError> {
    let [switch, members @ ..] = members else { return Ok(()) };
    let Some(member) = members.iter().find(|member| section.has(member)) else { return Ok(()) };
    let allowed = format!("nothing, because `{}` is \"off\"", section.key(switch));
    Err(section.invalid(member, section.render_value(member), allowed))
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TokenExchange {
    Off,
    Ciba,
    JwtBearer,
}

/// Reads the settings of operator tokens. `None`: they are off.
fn read_operator_tokens(
    section: &Section<'_>,
    key: Option<&SigningKey>,
    scopes: &Scopes,
) -> Result<Option<OperatorTokenConfig>, ConfigError> {
    const SWITCH: &str = "operator_tokens";
    let flow = match section.get_or(SWITCH, variant(), TokenExchange::Off)? {
        TokenExchange::Off => return reject_unused(section, &OPERATOR_TOKEN_MEMBERS).map(|()| None),
        TokenExchange::Ciba => OperatorTokenFlow::Ciba,
        TokenExchange::JwtBearer => {
            let allowed = "another flow, because no signing key is set";
            OperatorTokenFlow::JwtBearer {
                key: key.cloned().ok_or_else(|| section.invalid(SWITCH, "\"jwt_bearer\"", allowed))?,
                audience: section.get_or("assertion_audience", audience_parser(), <_>::default())?,
            }
        }
    };
    if scopes.verify.is_none() {
        let allowed = format!("\"off\", because `{}` is empty", section.key("verify_scope"));
        return Err(section.invalid(SWITCH, section.render_value(SWITCH), allowed));
    }
    let text = |member| section.get(member, display_text_parser());
    let consent = ConsentData::new(
        &text("operator_tokens_consent_text")?,
        &section.get("operator_tokens_policy_link", web_url())?,
        &text("operator_tokens_policy_text")?,
    );
    let issuer = section.get("operator_tokens_issuer", token())?;
    let mut config = OperatorTokenConfig::new(flow, issuer, read_request_signer(section)?, consent);
    config.verifier = read_issuer_certificates(section, config.verifier)?;
    Ok(Some(config))
}

fn read_request_signer(section: &Section<'_>) -> Result<WalletRequestSigner, ConfigError> {
    const CERTIFICATES: &str = "operator_tokens_certificate_file";
    const KEY_VARIABLE: &str = "operator_tokens_key_env";
    let path = section.get(CERTIFICATES, path())?;
    let certificates = section.read_file(CERTIFICATES, &path)?;
    let key = section.get_secret("operator_tokens_key", &PRIVATE_KEY_PARSER)?;
    WalletRequestSigner::from_pem(&certificates, key.as_bytes()).map_err(|error| {
        let (member, allowed) = match error {
            WalletRequestSignerError::InvalidKey if section.has(KEY_VARIABLE) => (KEY_VARIABLE, "our private key"),
            WalletRequestSignerError::InvalidKey => ("operator_tokens_key_file", "our private key"),
            _ => (CERTIFICATES, "our certificate and its root"),
        };
        section.invalid(member, format!("{}: {error}", section.render_value(member)), allowed)
    })
}

fn read_issuer_certificates(
    section: &Section<'_>,
    verifier: CredentialVerifier,
) -> Result<CredentialVerifier, ConfigError> {
    const MEMBER: &str = "operator_tokens_issuer_certificates_file";
    let Some(path) = section.get_opt(MEMBER, path())? else { return Ok(verifier) };
    let certificates = section.read_file(MEMBER, &path)?;
    verifier.with_issuer_certificates(&certificates).map_err(|error| {
        section.invalid(MEMBER, format!("{}: {error}", section.render_value(MEMBER)), "root certificates (PEM)")
    })
}

const SCOPE_STYLES: &[(&str, ScopeStyle)] = &[("space", ScopeStyle::Space), ("hash", ScopeStyle::Hash)];
const LOGIN_HINTS: &[(&str, LoginHintFormat)] = &[
    ("none", LoginHintFormat::None),
    ("tel", LoginHintFormat::Tel),
    ("e164", LoginHintFormat::E164),
    ("ipport", LoginHintFormat::IpPort),
];
const SIM_SWAP_OPERATIONS: &[(&str, SimSwapOperation)] =
    &[("retrieve_date", SimSwapOperation::RetrieveDate), ("check", SimSwapOperation::Check)];

fn base_path_parser() -> ValueParser<String> {
    string("a path that begins with `/`, such as \"/number-verification/v2\"", |text| {
        text.starts_with('/') && !text.contains(['?', '#'])
    })
}

/// Parses a text that phones show to their users.
fn display_text_parser() -> ValueParser<String> {
    string("1 to 500 characters without control characters", |text| {
        (1..=500).contains(&text.chars().count()) && !text.chars().any(char::is_control)
    })
}
