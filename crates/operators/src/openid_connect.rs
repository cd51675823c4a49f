//! OpenID Connect relying party for sign-in to the console: the authorization code flow with PKCE, ID tokens and
//! userinfo.
//!
//! The provider's endpoints are found by OpenID Connect Discovery. Metadata and keys are cached.

use std::sync::Arc;

use http::{HeaderMap, Method, header::AUTHORIZATION};
use ringtrue_engine::jwt::{JwtError, KeySet};
use ringtrue_engine::ports::{clock::Clock, entropy::Entropy};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::{Url, form_urlencoded::Serializer};

pub use crate::oauth::ClientSecret;
use crate::{
    client::Client,
    oauth::{
        AuthenticationContext, CachedDocument, ClientAuthentication, Credentials, EndpointClient, Endpoints,
        ExpectedClaims, InvalidResponse, OAuthCause, OAuthError, PkceState, Stage, TokenResponse, append_query,
        parse_authorization_response, parse_metadata, parse_tokens,
    },
};

/// Value of the log field `connector` in messages about the provider.
const CONNECTOR_NAME: &str = "console.openid_connect";

#[derive(Clone, Debug)]
pub struct RelyingPartyConfig {
    pub issuer: String,
    pub client_id: String,
    /// `None`: a public client.
    pub client_secret: Option<ClientSecret>,
    /// Requested scopes. `openid` is always added.
    pub scopes: Vec<String>,
    pub redirect_uri: Url,
}

/// Client of an OpenID provider.
#[derive(derive_more::Debug)]
#[debug("RelyingParty({})", config.issuer)]
pub struct RelyingParty {
    config: RelyingPartyConfig,
    metadata_url: Url,
    metadata: CachedDocument<ProviderMetadata>,
    jwks: CachedDocument<KeySet>,
    client: EndpointClient,
    entropy: Arc<dyn Entropy>,
}

/// URL to which the browser is sent, and the data that is needed when it returns.
#[derive(derive_more::Debug)]
#[debug("AuthorizationRedirect(…)")]
pub struct AuthorizationRedirect {
    pub url: String,
    /// Nonce and PKCE code verifier, which must stay secret.
    pub flow: Vec<u8>,
}

/// Claims of one document: the ID token or the userinfo response.
pub type Claims = Map<String, Value>;

/// The claims of a subject, by document. They are not merged: claims that belong together, such as `email` and
/// `email_verified`, must come from one document.
#[derive(Clone, derive_more::Debug)]
#[debug("SubjectClaims(…)")]
pub struct SubjectClaims {
    pub id_token: Claims,
    /// `None`: the provider has no userinfo endpoint, or the claims of the ID token were sufficient.
    pub userinfo: Option<Claims>,
}

impl SubjectClaims {
    /// Returns the first document that satisfies the condition: the ID token, then userinfo.
    pub fn find_document(&self, condition: impl Fn(&Claims) -> bool) -> Option<&Claims> {
        [Some(&self.id_token), self.userinfo.as_ref()].into_iter().flatten().find(|claims| condition(claims))
    }
}

/// Why a sign-in failed. Contains no text from the provider.
#[derive(Debug, thiserror::Error)]
pub enum RelyingPartyError {
    #[error("the user or the provider denied the sign-in")]
    Denied,
    #[error("{0}")]
    Provider(String),
    #[error("invalid ID token: {0}")]
    IdToken(String),
    #[error("the userinfo response belongs to another subject")]
    OtherSubject,
}

impl From<OAuthError> for RelyingPartyError {
    fn from(error: OAuthError) -> Self {
        match error.cause {
            OAuthCause::Denied("access_denied" | "login_required" | "consent_required") => RelyingPartyError::Denied,
            _ => RelyingPartyError::Provider(error.to_string()),
        }
    }
}

struct ProviderMetadata {
    endpoints: Endpoints,
    userinfo: Option<Url>,
    /// Whether the provider supports `client_secret_post` but not `client_secret_basic`.
    requires_secret_post: bool,
}

#[derive(Deserialize)]
struct FurtherMetadata {
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl RelyingParty {
    /// Returns `None` if the issuer is not an http or https URL.
    pub fn new(
        config: RelyingPartyConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Option<Self> {
        let metadata_url = format!("{}/.well-known/openid-configuration", config.issuer.trim_end_matches('/'));
        let metadata_url = Url::parse(&metadata_url).ok().filter(crate::client::is_http_url)?;
        let (issuer, is_https) = (config.issuer.clone(), metadata_url.scheme() == "https");
        let parse = move |json: &[u8]| ProviderMetadata::parse(json, &issuer, is_https);
        Some(RelyingParty {
            metadata: CachedDocument::new(Stage::Discovery, parse),
            jwks: CachedDocument::new(Stage::Keys, |json| KeySet::parse(json).ok_or(InvalidResponse::Body)),
            client: EndpointClient { connector: CONNECTOR_NAME.into(), client, clock },
            config,
            metadata_url,
            entropy,
        })
    }

    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// Fetches the provider's metadata, unless it is cached.
    pub async fn discover(&self) -> Result<(), RelyingPartyError> {
        self.metadata.get(&self.client, &self.metadata_url).await?;
        Ok(())
    }

    /// Builds the URL of an authorization request with this `state`.
    pub async fn build_authorization_redirect(&self, state: &str) -> Result<AuthorizationRedirect, RelyingPartyError> {
        let metadata = self.metadata.get(&self.client, &self.metadata_url).await?;
        let pkce = PkceState::new(&*self.entropy);
        let mut scope = "openid".to_owned();
        for further in self.config.scopes.iter().filter(|scope| *scope != "openid") {
            scope.push(' ');
            scope.push_str(further);
        }
        let parameters = [
            ("response_type", "code".to_owned()),
            ("client_id", self.config.client_id.clone()),
            ("redirect_uri", self.config.redirect_uri.to_string()),
            ("scope", scope),
            ("state", state.to_owned()),
            ("nonce", pkce.nonce()),
            ("code_challenge", pkce.code_challenge()),
            ("code_challenge_method", "S256".to_owned()),
        ];
        let internal_error = OAuthError::new(Stage::Discovery, OAuthCause::Internal);
        let endpoint = metadata.endpoints.authorization.as_ref().ok_or(internal_error)?;
        Ok(AuthorizationRedirect { url: append_query(endpoint, &parameters), flow: pkce.to_octets() })
    }

    /// Validates an authorization response and returns the claims of the subject. The caller has already verified the
    /// `state` of the response. The userinfo endpoint is queried unless `is_complete` accepts the claims of the ID
    /// token.
    pub async fn handle_authorization_response(
        &self,
        query: &[(String, String)],
        flow: &[u8],
        is_complete: impl Fn(&Claims) -> bool,
    ) -> Result<SubjectClaims, RelyingPartyError> {
        let pkce = PkceState::from_octets(flow).ok_or(OAuthError::new(Stage::Redirect, OAuthCause::Internal))?;
        let metadata = self.metadata.get(&self.client, &self.metadata_url).await?;
        let code = parse_authorization_response(query, &metadata.endpoints)?;
        let tokens = self.redeem_code(code, &pkce, &metadata).await?;
        let id_token = tokens.id_token.as_deref().ok_or_else(|| RelyingPartyError::IdToken("none".to_owned()))?;
        let id_token = self.verify_id_token(id_token, &pkce, &metadata.endpoints).await?;
        let Some(endpoint) = metadata.userinfo.as_ref().filter(|_| !is_complete(&id_token)) else {
            return Ok(SubjectClaims { id_token, userinfo: None });
        };
        let userinfo = self.fetch_userinfo(endpoint, &tokens).await?;
        if userinfo.get("sub") != id_token.get("sub") {
            return Err(RelyingPartyError::OtherSubject);
        }
        Ok(SubjectClaims { id_token, userinfo: Some(userinfo) })
    }

    /// Exchanges the code for tokens, without retry: a code is valid once.
    async fn redeem_code(
        &self,
        code: &str,
        pkce: &PkceState,
        metadata: &ProviderMetadata,
    ) -> Result<TokenResponse, OAuthError> {
        let (headers, form) = self.token_request(code, pkce, metadata)?;
        let endpoint = &metadata.endpoints.token;
        let response = self.client.send_once(Stage::Token, Method::POST, endpoint, headers, form).await?;
        parse_tokens(&response.body)
    }

    /// Builds headers and form of a token request with client authentication.
    fn token_request(
        &self,
        code: &str,
        pkce: &PkceState,
        metadata: &ProviderMetadata,
    ) -> Result<(HeaderMap, Vec<u8>), OAuthError> {
        let Endpoints { token: endpoint, issuer, .. } = &metadata.endpoints;
        let code_verifier = pkce.code_verifier();
        let mut form = Serializer::new(String::new());
        form.extend_pairs([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.config.redirect_uri.as_str()),
            ("code_verifier", &**code_verifier),
        ]);
        let Some(secret) = self.config.client_secret.clone() else {
            form.append_pair("client_id", &self.config.client_id);
            return Ok(Credentials::default().into_form_request(form));
        };
        let authentication = if metadata.requires_secret_post {
            ClientAuthentication::SecretPost(secret)
        } else {
            ClientAuthentication::SecretBasic(secret)
        };
        let context = AuthenticationContext {
            client_id: &self.config.client_id,
            issuer,
            endpoint: endpoint.as_str(),
            now: self.client.clock.now(),
        };
        let credentials = authentication.credentials(context, &*self.entropy);
        Ok(credentials.ok_or(OAuthError::new(Stage::Token, OAuthCause::Internal))?.into_form_request(form))
    }

    async fn verify_id_token(
        &self,
        token: &str,
        pkce: &PkceState,
        endpoints: &Endpoints,
    ) -> Result<Claims, RelyingPartyError> {
        let id_token_error = |reason: &str| RelyingPartyError::IdToken(reason.to_owned());
        let url = endpoints.jwks.as_ref().ok_or_else(|| id_token_error("no keys"))?;
        let keys = self.jwks.get(&self.client, url).await?;
        let verified = match keys.verify(token) {
            // The provider may have rotated its keys.
            Err(JwtError::UnknownKey) => self.jwks.refresh(&self.client, url, &keys).await?.verify(token),
            verified => verified,
        };
        let claims = verified.map_err(|reason| id_token_error(&reason.to_string()))?;
        let expected = ExpectedClaims {
            issuer: &endpoints.issuer,
            client_id: &self.config.client_id,
            nonce: &pkce.nonce(),
            now: self.client.clock.now().as_second(),
        };
        expected.check(&claims).map_err(|claim| id_token_error(&format!("claim `{claim}`")))?;
        Ok(claims)
    }

    async fn fetch_userinfo(&self, url: &Url, tokens: &TokenResponse) -> Result<Claims, OAuthError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, tokens.bearer.clone());
        let response = self.client.send_idempotent(Stage::Api, Method::GET, url, headers, bytes::Bytes::new()).await?;
        serde_json::from_slice(&response.body)
            .map_err(|_| OAuthError::invalid_response(Stage::Api, InvalidResponse::Body))
    }
}

impl ProviderMetadata {
    fn parse(json: &[u8], issuer: &str, is_https: bool) -> Result<Self, InvalidResponse> {
        let endpoints = parse_metadata(json, Some(issuer), is_https)?;
        let further: FurtherMetadata = serde_json::from_slice(json).map_err(|_| InvalidResponse::Body)?;
        let is_allowed = |url: &Url| url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && !is_https);
        let userinfo = match further.userinfo_endpoint {
            Some(text) => Some(Url::parse(&text).ok().filter(is_allowed).ok_or(InvalidResponse::Body)?),
            None => None,
        };
        // Providers that list no methods support `client_secret_basic`.
        let methods = further.token_endpoint_auth_methods_supported.unwrap_or_default();
        let supports = |method: &str| methods.iter().any(|known| known == method);
        let requires_secret_post = supports("client_secret_post") && !supports("client_secret_basic");
        Ok(ProviderMetadata { endpoints, userinfo, requires_secret_post })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn client_authentication_follows_the_metadata() {
        let metadata = json!({
            "issuer": "https://op.example",
            "authorization_endpoint": "https://op.example/authorize",
            "token_endpoint": "https://op.example/token",
            "jwks_uri": "https://op.example/keys",
        });
        let parse = |member: &str, value: Value| {
            let mut other = metadata.clone();
            other[member] = value;
            ProviderMetadata::parse(other.to_string().as_bytes(), "https://op.example", true)
        };
        for (methods, requires_post) in [
            (json!(null), false),
            (json!([]), false),
            (json!(["client_secret_post", "client_secret_basic"]), false),
            (json!(["private_key_jwt", "client_secret_post"]), true),
        ] {
            let parsed = parse("token_endpoint_auth_methods_supported", methods.clone());
            assert_eq!(parsed.is_ok_and(|parsed| parsed.requires_secret_post), requires_post, "{methods}");
        }
        assert!(
            parse("userinfo_endpoint", json!("https://op.example/me")).is_ok_and(|parsed| parsed.userinfo.is_some())
        );
        for bad in ["http://op.example/me", "/me", "ftp://op.example/me"] {
            assert!(parse("userinfo_endpoint", json!(bad)).is_err(), "{bad}");
        }
        assert!(parse("issuer", json!("https://other.example")).is_err());
    }
}
