//! The operator's authorization server, configured or discovered (OpenID Connect Discovery), and the authorization request
//! and response, with PKCE (RFC 7636).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ringtrue_engine::ports::{
    entropy::Entropy,
    silent::{AuthorizationRequest, SilentOperation},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::{Position, Url, form_urlencoded::Serializer};
use zeroize::Zeroizing;

use super::{
    Camara,
    config::{Endpoints, LoginHint, Provider, RequestObject, ScopeStyle},
    error::{CamaraError, InvalidResponse, Stage},
    operator_client::{CachedDocument, OperatorClient},
};
use crate::oauth::{ASSERTION_LIFETIME_SECS, Audience};

pub enum AuthorizationServer {
    Configured(Arc<Endpoints>),
    Discovered(Box<DiscoveryDocument>),
}

pub struct DiscoveryDocument {
    url: Url,
    document: CachedDocument<Endpoints>,
}

impl AuthorizationServer {
    /// `None`: the issuer is not a valid URL.
    pub fn new(provider: &Provider) -> Option<Self> {
        let (url, issuer) = match provider {
            Provider::Endpoints(endpoints) => {
                return Some(AuthorizationServer::Configured(Arc::new(Endpoints::clone(endpoints))));
            }
            Provider::Discovery { url, issuer } => (url.clone(), issuer.clone()),
            Provider::Issuer(issuer) => {
                let well_known = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
                (Url::parse(&well_known).ok()?, Some(issuer.clone()))
            }
        };
        let is_https = url.scheme() == "https";
        let parse_metadata = move |json: &[u8]| parse_metadata(json, issuer.as_deref(), is_https);
        let document = CachedDocument::new(Stage::Discovery, parse_metadata);
        Some(AuthorizationServer::Discovered(Box::new(DiscoveryDocument { url, document })))
    }

    pub async fn endpoints(&self, client: &OperatorClient) -> Result<Arc<Endpoints>, CamaraError> {
        match self {
            AuthorizationServer::Configured(endpoints) => Ok(Arc::clone(endpoints)),
            AuthorizationServer::Discovered(discovery) => discovery.document.get(client, &discovery.url).await,
        }
    }
}

#[derive(Deserialize)]
struct ProviderMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    backchannel_authentication_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Metadata fetched over https must not contain http endpoints.
pub(crate) fn parse_metadata(json: &[u8], issuer: Option<&str>, is_https: bool) -> Result<Endpoints, InvalidResponse> {
    let metadata: ProviderMetadata = serde_json::from_slice(json).map_err(|_| InvalidResponse::Body)?;
    let is_allowed = |url: &Url| url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && !is_https);
    let parse_url = |text: &str| Url::parse(text).ok().filter(is_allowed).ok_or(InvalidResponse::Body);
    if issuer.is_some_and(|issuer| issuer != metadata.issuer) {
        return Err(InvalidResponse::IssuerMismatch);
    }
    Ok(Endpoints {
        authorization: Some(parse_url(&metadata.authorization_endpoint)?),
        token: parse_url(&metadata.token_endpoint)?,
        backchannel: metadata.backchannel_authentication_endpoint.as_deref().map(parse_url).transpose()?,
        jwks: Some(parse_url(&metadata.jwks_uri)?),
        issuer: metadata.issuer,
        supports_iss_parameter: metadata.authorization_response_iss_parameter_supported,
    })
}

/// Parameters repeated outside the request object. `state` is optional there; with it, an operator that cannot read the
/// object can still return the device to its check.
const REPEATED_PARAMETERS: [&str; 5] = ["response_type", "client_id", "redirect_uri", "scope", "state"];
/// Maximum length of an authorization code.
const MAX_CODE_BYTES: usize = 4 * 1_024;

impl Camara {
    /// `None`: signing failed, or there is no authorization endpoint.
    pub(super) fn authorization_url(
        &self,
        request: &AuthorizationRequest<'_>,
        pkce: &PkceState,
        endpoints: &Endpoints,
        scope: &str,
    ) -> Option<String> {
        let endpoint = endpoints.authorization.as_ref()?;
        let mut parameters = vec![
            ("response_type", "code".to_owned()),
            ("client_id", self.config.client_id.clone()),
            ("redirect_uri", self.config.redirect_uri.to_string()),
            ("scope", self.user_scope(&[scope])),
            ("state", request.state.to_owned()),
            ("nonce", pkce.nonce()),
            // Silent checks must not show a page.
            ("prompt", "none".to_owned()),
        ];
        if self.config.pkce {
            parameters.push(("code_challenge", pkce.code_challenge()));
            parameters.push(("code_challenge_method", "S256".to_owned()));
        }
        parameters.extend(self.login_hint(request).map(|hint| ("login_hint", hint)));
        if let RequestObject::Signed { key, audience } = &self.config.request_object {
            let audience = match audience {
                Audience::Endpoint => endpoint.as_str(),
                Audience::Issuer => &endpoints.issuer,
            };
            let claims = self.request_object_claims(&parameters, audience);
            parameters.retain(|(name, _)| REPEATED_PARAMETERS.contains(name));
            parameters.push(("request", key.sign("oauth-authz-req+jwt", &claims)?));
        }
        Some(append_query(endpoint, &parameters))
    }

    /// Scope for tokens that identify a user.
    pub(super) fn user_scope(&self, operations: &[&str]) -> String {
        let operations = self.scope_with_purpose(operations);
        if self.config.scopes.openid { format!("openid {operations}") } else { operations }
    }

    /// Scopes with the configured purpose.
    pub(super) fn scope_with_purpose(&self, operations: &[&str]) -> String {
        let scopes = &self.config.scopes;
        match (&scopes.purpose, scopes.style) {
            (None, _) => operations.join(" "),
            (Some(purpose), ScopeStyle::Space) => format!("{purpose} {}", operations.join(" ")),
            (Some(purpose), ScopeStyle::Hash) => {
                let each = operations.iter().map(|operation| format!("{purpose}#{operation}"));
                each.collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn login_hint(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        let claimed = match request.operation {
            SilentOperation::VerifyNumber(number) => Some(number),
            SilentOperation::DiscoverNumber => None,
        };
        let number = request.simulated_sim.or(claimed);
        match self.config.login_hint {
            LoginHint::None => None,
            LoginHint::Tel => number.map(|number| format!("tel:{}", number.as_str())),
            LoginHint::E164 => number.map(|number| number.as_str().to_owned()),
            LoginHint::IpPort if request.device_ip.is_ipv6() => Some(format!("ipport:[{}]", request.device_ip)),
            LoginHint::IpPort => Some(format!("ipport:{}", request.device_ip)),
        }
    }

    /// Omits `sub`, so that it cannot be used as a client assertion.
    fn request_object_claims(&self, parameters: &[(&str, String)], audience: &str) -> Value {
        let claim = |(name, value): &(&str, String)| ((*name).to_owned(), Value::from(value.as_str()));
        let mut claims: Map<String, Value> = parameters.iter().map(claim).collect();
        let now = self.now();
        let own = json!({
            "iss": self.config.client_id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_LIFETIME_SECS,
            "jti": self.random_jti(),
        });
        claims.extend(own.as_object().cloned().unwrap_or_default());
        Value::Object(claims)
    }
}

/// Validates the authorization response and returns the code.
pub fn authorization_code<'a>(query: &'a [(String, String)], endpoints: &Endpoints) -> Result<&'a str, CamaraError> {
    let invalid_response = |reason| CamaraError::invalid_response(Stage::Redirect, reason);
    let single_value = |parameter: &str| {
        let mut found = query.iter().filter(|(name, _)| name == parameter).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.next().is_some() { Err(invalid_response(InvalidResponse::RepeatedParameter)) } else { Ok(first) }
    };
    // Also for error responses: they must come from this server.
    match single_value("iss")? {
        Some(issuer) if issuer != endpoints.issuer => {
            return Err(invalid_response(InvalidResponse::ResponseIssuerMismatch));
        }
        None if endpoints.supports_iss_parameter => {
            return Err(invalid_response(InvalidResponse::ResponseIssuerMismatch));
        }
        _ => {}
    }
    if let Some(error) = single_value("error")? {
        return Err(CamaraError::from_redirect(error));
    }
    let is_valid_code = |code: &&str| {
        (1..=MAX_CODE_BYTES).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    single_value("code")?.filter(is_valid_code).ok_or(invalid_response(InvalidResponse::NoCode))
}

/// Encodes spaces as `%20`: not every server decodes a plus.
pub(crate) fn append_query(endpoint: &Url, parameters: &[(&str, String)]) -> String {
    let own = &endpoint[Position::BeforeQuery..Position::AfterQuery];
    let mut query = Serializer::for_suffix(own.to_owned(), 0);
    let query = query.extend_pairs(parameters).finish().replace('+', "%20");
    format!("{}?{query}", &endpoint[..Position::AfterPath])
}

/// First octet of a stored [`PkceState`]; distinguishes future formats.
const VERSION: u8 = 1;
const NONCE_BYTES: usize = 16;
const VERIFIER_BYTES: usize = 32;

/// Nonce and PKCE code verifier of an authorization request.
pub struct PkceState {
    nonce: [u8; NONCE_BYTES],
    code_verifier: Zeroizing<[u8; VERIFIER_BYTES]>,
}

impl PkceState {
    pub fn new(entropy: &dyn Entropy) -> Self {
        PkceState { nonce: entropy.bytes(), code_verifier: Zeroizing::new(entropy.bytes()) }
    }

    pub fn nonce(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.nonce)
    }

    pub fn code_verifier(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(*self.code_verifier))
    }

    pub fn code_challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, self.code_verifier().as_bytes()))
    }

    pub fn to_octets(&self) -> Vec<u8> {
        [&[VERSION][..], &self.nonce, &*self.code_verifier].concat()
    }

    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = octets.split_first()? else { return None };
        let (nonce, code_verifier) = rest.split_first_chunk()?;
        Some(PkceState { nonce: *nonce, code_verifier: Zeroizing::new(code_verifier.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_validated() {
        let valid = json!({
            "issuer": "https://op.example",
            "authorization_endpoint": "https://op.example/authorize",
            "token_endpoint": "https://op.example/token",
            "jwks_uri": "https://op.example/keys",
        });
        let parse =
            |json: &serde_json::Value, issuer, is_https| parse_metadata(json.to_string().as_bytes(), issuer, is_https);
        assert!(parse(&valid, None, true).is_ok_and(|endpoints| !endpoints.supports_iss_parameter));
        assert!(parse(&valid, Some("https://op.example"), true).is_ok());
        assert_eq!(parse(&valid, Some("https://op.example/"), true), Err(InvalidResponse::IssuerMismatch));
        for (member, value) in [
            ("issuer", json!(null)),
            ("issuer", json!(1)),
            ("authorization_endpoint", json!("/authorize")),
            ("token_endpoint", json!("ftp://op.example/token")),
            ("jwks_uri", json!("data:,{}")),
            ("jwks_uri", json!(null)),
            ("backchannel_authentication_endpoint", json!("/bc-authorize")),
            ("authorization_response_iss_parameter_supported", json!("yes")),
        ] {
            let mut other = valid.clone();
            other[member] = value;
            assert_eq!(parse(&other, None, false), Err(InvalidResponse::Body), "{other}");
        }
        for member in ["authorization_endpoint", "token_endpoint", "jwks_uri", "backchannel_authentication_endpoint"] {
            let mut other = valid.clone();
            other[member] = json!("http://op.example/");
            assert_eq!(parse(&other, None, true), Err(InvalidResponse::Body), "{other}");
            assert!(parse(&other, None, false).is_ok(), "{other}");
        }
    }

    struct CountingEntropy;

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
        }
    }

    #[test]
    fn encoding_round_trips() {
        let pkce = PkceState::new(&CountingEntropy);
        let octets = pkce.to_octets();
        let decoded = PkceState::from_octets(&octets).unwrap();
        assert_eq!((pkce.nonce(), pkce.code_verifier()), (decoded.nonce(), decoded.code_verifier()));
        assert_eq!(pkce.code_verifier().len(), 43);
        let longer = [&*octets, &[0]].concat();
        let other_version = [&[2], &octets[1..]].concat();
        for bad in [&[][..], &[1], &octets[..48], &longer, &other_version] {
            assert!(PkceState::from_octets(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn code_challenge_matches_rfc_7636() {
        let code_verifier = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191,
            240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let pkce = PkceState { nonce: [0; NONCE_BYTES], code_verifier: Zeroizing::new(code_verifier) };
        assert_eq!(&*pkce.code_verifier(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(pkce.code_challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
