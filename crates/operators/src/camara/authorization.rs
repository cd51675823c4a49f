//! Finds the operator's authorization server (configured, or by OpenID Connect Discovery), and builds authorization
//! requests.

use std::sync::Arc;

use ringtrue_engine::ports::silent::{OperatorAuthorizationRequest, SilentOperation};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    Camara,
    config::{LoginHintFormat, Provider, RequestObjectMode, ScopeStyle},
    error::CamaraConnectorError,
};
use crate::oauth::{
    ASSERTION_LIFETIME_SECS, Audience, CachedDocument, EndpointClient, Endpoints, PkceState, Stage, append_query,
    parse_metadata,
};

pub enum AuthorizationServer {
    Configured(Arc<Endpoints>),
    Discovered(Box<DiscoveryDocument>),
}

pub struct DiscoveryDocument {
    url: Url,
    document: CachedDocument<Endpoints>,
}

impl AuthorizationServer {
    /// Returns `None` if the provider is given by an issuer that is not a valid URL.
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

    pub async fn endpoints(&self, client: &EndpointClient) -> Result<Arc<Endpoints>, CamaraConnectorError> {
        match self {
            AuthorizationServer::Configured(endpoints) => Ok(Arc::clone(endpoints)),
            AuthorizationServer::Discovered(discovery) => Ok(discovery.document.get(client, &discovery.url).await?),
        }
    }
}

/// Query parameters that are sent in addition to the signed request object, although the object contains them too.
/// `state` need not be repeated, but with it an operator that cannot read the object can still return the device to its
/// check.
const PARAMETERS_REPEATED_IN_QUERY: [&str; 5] = ["response_type", "client_id", "redirect_uri", "scope", "state"];
impl Camara {
    /// Builds the URL to which the device is redirected. `None`: signing failed, or there is no authorization endpoint.
    pub(super) fn authorization_url(
        &self,
        request: &OperatorAuthorizationRequest<'_>,
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
        if let RequestObjectMode::Signed { key, audience } = &self.config.request_object {
            let audience = match audience {
                Audience::Endpoint => endpoint.as_str(),
                Audience::Issuer => &endpoints.issuer,
            };
            let claims = self.request_object_claims(&parameters, audience);
            parameters.retain(|(name, _)| PARAMETERS_REPEATED_IN_QUERY.contains(name));
            parameters.push(("request", key.sign("oauth-authz-req+jwt", &claims)?));
        }
        Some(append_query(endpoint, &parameters))
    }

    /// Returns the scope for a token that identifies a user: with the purpose, and with `openid` if configured.
    pub(super) fn user_scope(&self, operations: &[&str]) -> String {
        let operations = self.scope_with_purpose(operations);
        if self.config.scopes.openid { format!("openid {operations}") } else { operations }
    }

    /// Combines the scopes with the configured purpose.
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

    fn login_hint(&self, request: &OperatorAuthorizationRequest<'_>) -> Option<String> {
        let claimed = match request.operation {
            SilentOperation::VerifyNumber(number) => Some(number),
            SilentOperation::DiscoverNumber | SilentOperation::AuthenticateDevice => None,
        };
        let number = request.simulated_sim.or(claimed);
        match self.config.login_hint {
            LoginHintFormat::None => None,
            LoginHintFormat::Tel => number.map(|number| format!("tel:{}", number.as_str())),
            LoginHintFormat::E164 => number.map(|number| number.as_str().to_owned()),
            LoginHintFormat::IpPort if request.device_ip.is_ipv6() => Some(format!("ipport:[{}]", request.device_ip)),
            LoginHintFormat::IpPort => Some(format!("ipport:{}", request.device_ip)),
        }
    }

    /// Returns the claims of a request object. They omit `sub`, so that the object cannot be used as a client
    /// assertion.
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
