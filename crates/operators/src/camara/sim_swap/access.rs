//! Access tokens for SIM Swap.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::SimSwapRequest;
use serde_json::json;
use url::form_urlencoded::Serializer;

use super::{SimSwapConfig, SimSwapFlow, SimSwapOperation};
use crate::{
    authentication::{ASSERTION_LIFETIME_SECS, Audience},
    camara::{
        Camara,
        config::Endpoints,
        error::{CamaraError, ErrorCause, Stage},
        token::TokenResponse,
    },
    jwt::SigningKey,
    token_cache::{FetchedToken, TokenCache, TokenError},
};

const JWT_BEARER_GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FORM_CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

pub struct SimSwapAccess {
    /// Value of the `Authorization` header: `Bearer …`.
    pub bearer: HeaderValue,
    /// The token identifies the number.
    pub identifies_number: bool,
    /// The token comes from the cache.
    pub is_cached: bool,
}

impl SimSwapAccess {
    fn for_number(tokens: TokenResponse) -> Self {
        SimSwapAccess { bearer: tokens.bearer, identifies_number: true, is_cached: false }
    }
}

/// Client-credentials tokens, one per scope: an operator may refuse one scope and grant the other.
pub(in crate::camara) struct SimSwapTokenCache {
    retrieve_date: TokenCache<CamaraError>,
    check: TokenCache<CamaraError>,
}

impl SimSwapTokenCache {
    pub fn new() -> Self {
        SimSwapTokenCache { retrieve_date: TokenCache::new(), check: TokenCache::new() }
    }

    pub(super) fn for_operation(
        &self,
        operation: SimSwapOperation,
        config: &SimSwapConfig,
    ) -> &TokenCache<CamaraError> {
        match operation {
            SimSwapOperation::Check if config.check_scope != config.retrieve_date_scope => &self.check,
            SimSwapOperation::Check | SimSwapOperation::RetrieveDate => &self.retrieve_date,
        }
    }
}

impl Camara {
    pub(super) async fn sim_swap_access(
        &self,
        config: &SimSwapConfig,
        operation: SimSwapOperation,
        request: SimSwapRequest<'_>,
    ) -> Result<SimSwapAccess, CamaraError> {
        let scope = config.scope(operation);
        match &config.flow {
            SimSwapFlow::ClientCredentials => {
                let tokens = self.sim_swap_tokens.for_operation(operation, config);
                let bearer = match tokens.cached(request.now) {
                    Some(bearer) => bearer,
                    None => Box::pin(self.renew_token(tokens, scope)).await?,
                };
                Ok(SimSwapAccess { bearer, identifies_number: false, is_cached: true })
            }
            // Boxed to keep the common future small.
            SimSwapFlow::Ciba => {
                let endpoints = self.authorization_server.endpoints(&self.client).await?;
                let scope = self.user_scope(&[scope]);
                let tokens = Box::pin(self.token_by_ciba(&scope, request, &endpoints)).await;
                tokens.map(SimSwapAccess::for_number)
            }
            SimSwapFlow::JwtBearer { key, audience } => {
                let endpoints = self.authorization_server.endpoints(&self.client).await?;
                let scope = self.user_scope(&[scope]);
                let tokens =
                    Box::pin(self.token_by_assertion(&scope, request.number, key, *audience, &endpoints)).await;
                tokens.map(SimSwapAccess::for_number)
            }
        }
    }

    async fn renew_token(&self, tokens: &TokenCache<CamaraError>, scope: &str) -> Result<HeaderValue, CamaraError> {
        let token = tokens.get_or_fetch(&*self.client.clock, self.fetch_client_token(scope)).await;
        token.map_err(|error| match error {
            TokenError::FetchFailed(error) => error,
            TokenError::SharedFetchFailed(error) => error.already_counted(),
        })
    }

    /// Valid for all numbers. It has no user, so the scope `openid` does not apply.
    async fn fetch_client_token(&self, scope: &str) -> Result<FetchedToken, CamaraError> {
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        let scope = self.scope_with_purpose(&[scope]);
        let tokens = self.request_token(&[("grant_type", "client_credentials"), ("scope", &scope)], &endpoints).await?;
        Ok(FetchedToken { token: tokens.bearer, expires_in: tokens.expires_in })
    }

    /// The assertion also authenticates the client.
    async fn token_by_assertion(
        &self,
        scope: &str,
        number: &Msisdn,
        key: &SigningKey,
        audience: Audience,
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraError> {
        let now = self.now();
        let claims = json!({
            "iss": self.config.client_id,
            "sub": format!("tel:{}", number.as_str()),
            "aud": match audience {
                Audience::Endpoint => endpoints.token.as_str(),
                Audience::Issuer => &endpoints.issuer,
            },
            "iat": now,
            "exp": now + ASSERTION_LIFETIME_SECS,
            "jti": self.random_jti(),
            "scope": scope,
        });
        let assertion = key.sign("JWT", &claims).ok_or(CamaraError::new(Stage::Token, ErrorCause::Internal))?;
        let fields = [("grant_type", JWT_BEARER_GRANT_TYPE), ("assertion", &*assertion)];
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(FORM_CONTENT_TYPE))]);
        let response = self.client.post(Stage::Token, &endpoints.token, headers, form.into_bytes()).await?;
        TokenResponse::parse(&response.body)
    }
}
