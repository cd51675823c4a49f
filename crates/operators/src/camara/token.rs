//! Token requests and responses.

use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded::Serializer};

use super::{
    Camara,
    config::Endpoints,
    error::{CamaraError, ErrorCause, InvalidResponse, Stage},
    pkce::PkceState,
};
use crate::{
    authentication::{AuthenticationContext, bearer_header},
    token_cache::parse_seconds,
};

/// Tokens issued by the operator. Those for a code are valid for one call.
pub struct TokenResponse {
    /// Value of the `Authorization` header: `Bearer …`.
    pub bearer: HeaderValue,
    pub id_token: Option<String>,
    /// In seconds.
    pub expires_in: Option<i64>,
}

#[derive(Deserialize)]
struct TokenResponseBody {
    access_token: String,
    token_type: String,
    id_token: Option<String>,
    expires_in: Option<Value>,
}

impl TokenResponse {
    pub(super) fn parse(json: &[u8]) -> Result<Self, CamaraError> {
        let invalid_response = |reason| CamaraError::invalid_response(Stage::Token, reason);
        let body: TokenResponseBody =
            serde_json::from_slice(json).map_err(|_| invalid_response(InvalidResponse::Body))?;
        if !body.token_type.eq_ignore_ascii_case("bearer") {
            return Err(invalid_response(InvalidResponse::TokenType));
        }
        let bearer = bearer_header(&body.access_token).ok_or(invalid_response(InvalidResponse::Body))?;
        Ok(TokenResponse { bearer, id_token: body.id_token, expires_in: parse_seconds(body.expires_in.as_ref()) })
    }
}

impl Camara {
    /// Exchanges an authorization code for tokens.
    pub(super) async fn redeem_code(
        &self,
        code: &str,
        pkce: &PkceState,
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraError> {
        let code_verifier = pkce.code_verifier();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.config.redirect_uri.as_str()),
        ];
        fields.extend(self.config.pkce.then_some(("code_verifier", &**code_verifier)));
        self.request_token(&fields, endpoints).await
    }

    /// Sends a token request without retry: codes and assertions are single-use.
    pub(super) async fn request_token(
        &self,
        fields: &[(&str, &str)],
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraError> {
        let (headers, form) = self.authenticated_form(Stage::Token, &endpoints.token, endpoints, fields)?;
        let response = self.client.post(Stage::Token, &endpoints.token, headers, form).await?;
        TokenResponse::parse(&response.body)
    }

    /// Headers and body of a form request with client authentication.
    pub(super) fn authenticated_form(
        &self,
        stage: Stage,
        endpoint: &Url,
        endpoints: &Endpoints,
        fields: &[(&str, &str)],
    ) -> Result<(HeaderMap, Vec<u8>), CamaraError> {
        let context = AuthenticationContext {
            client_id: &self.config.client_id,
            issuer: &endpoints.issuer,
            endpoint: endpoint.as_str(),
            now: self.client.clock.now(),
        };
        let credentials = self.config.client_authentication.credentials(context, &*self.entropy);
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields);
        Ok(credentials.ok_or(CamaraError::new(stage, ErrorCause::Internal))?.into_form_request(form))
    }
}
