//! Sends token requests and verifies ID tokens.

use http::{HeaderMap, Method};
use ringtrue_engine::jwt::JwtError;
use url::{Url, form_urlencoded::Serializer};

use super::{
    Camara,
    error::{CamaraConnectorError, ErrorCause, InvalidResponse},
};
use crate::oauth::{AuthenticationContext, Endpoints, ExpectedClaims, PkceState, Stage, TokenResponse, parse_tokens};

impl Camara {
    /// Exchanges an authorization code for tokens.
    pub(super) async fn redeem_code(
        &self,
        code: &str,
        pkce: &PkceState,
        endpoints: &Endpoints,
    ) -> Result<TokenResponse, CamaraConnectorError> {
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
    ) -> Result<TokenResponse, CamaraConnectorError> {
        let (headers, form) = self.authenticated_form(Stage::Token, &endpoints.token, endpoints, fields)?;
        let response = self.client.send_once(Stage::Token, Method::POST, &endpoints.token, headers, form).await?;
        Ok(parse_tokens(&response.body)?)
    }

    /// Builds headers and body of a form request with client authentication.
    pub(super) fn authenticated_form(
        &self,
        stage: Stage,
        endpoint: &Url,
        endpoints: &Endpoints,
        fields: &[(&str, &str)],
    ) -> Result<(HeaderMap, Vec<u8>), CamaraConnectorError> {
        let context = AuthenticationContext {
            client_id: &self.config.client_id,
            issuer: &endpoints.issuer,
            endpoint: endpoint.as_str(),
            now: self.client.clock.now(),
        };
        let credentials = self.config.client_authentication.credentials(context, &*self.entropy);
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields);
        Ok(credentials.ok_or(CamaraConnectorError::new(stage, ErrorCause::Internal))?.into_form_request(form))
    }

    pub(super) async fn verify_id_token(
        &self,
        token: &str,
        pkce: &PkceState,
        endpoints: &Endpoints,
    ) -> Result<(), CamaraConnectorError> {
        // The configuration requires a JWKS URL if it requests ID tokens. Without one, an ID token that the operator
        // sends unasked is ignored.
        let Some(url) = &endpoints.jwks else { return Ok(()) };
        let keys = self.jwks.get(&self.client, url).await?;
        let verified = match keys.verify(token) {
            Err(JwtError::UnknownKey) => self.jwks.refresh(&self.client, url, &keys).await?.verify(token),
            verified => verified,
        };
        let claims = verified.map_err(|reason| self.id_token_error(&reason.to_string()))?;
        let expected = ExpectedClaims {
            issuer: &endpoints.issuer,
            client_id: &self.config.client_id,
            nonce: &pkce.nonce(),
            now: self.now(),
        };
        expected.check(&claims).map_err(|claim| self.id_token_error(claim))
    }

    fn id_token_error(&self, reason: &str) -> CamaraConnectorError {
        tracing::warn!(connector = %self.config.name, reason, "invalid ID token");
        CamaraConnectorError::invalid_response(Stage::IdToken, InvalidResponse::IdToken)
    }
}
