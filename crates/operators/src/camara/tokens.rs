//! Token requests and responses, and ID token verification.

use http::{HeaderMap, Method};
use serde_json::{Map, Value};
use url::{Url, form_urlencoded::Serializer};

use super::{
    Camara,
    authorization::PkceState,
    config::Endpoints,
    error::{CamaraError, ErrorCause, InvalidResponse, Stage},
};
use crate::{
    jwt::JwtError,
    oauth::{AuthenticationContext, TokenResponse, TokenResponseBody},
};

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
        let response = self.client.send_once(Stage::Token, Method::POST, &endpoints.token, headers, form).await?;
        parse_tokens(&response.body)
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

    pub(super) async fn verify_id_token(
        &self,
        token: &str,
        pkce: &PkceState,
        endpoints: &Endpoints,
    ) -> Result<(), CamaraError> {
        // Without a JWKS URL no ID token is requested; an unexpected one is ignored.
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

    fn id_token_error(&self, reason: &str) -> CamaraError {
        tracing::warn!(connector = %self.config.name, reason, "invalid ID token");
        CamaraError::invalid_response(Stage::IdToken, InvalidResponse::IdToken)
    }
}

/// Tokens of a code or of a number are valid for one call.
pub(crate) fn parse_tokens(json: &[u8]) -> Result<TokenResponse, CamaraError> {
    let invalid_response = |reason| CamaraError::invalid_response(Stage::Token, reason);
    let body: TokenResponseBody = serde_json::from_slice(json).map_err(|_| invalid_response(InvalidResponse::Body))?;
    if !body.is_bearer() {
        return Err(invalid_response(InvalidResponse::TokenType));
    }
    body.into_tokens().ok_or(invalid_response(InvalidResponse::Body))
}

const CLOCK_SKEW_SECS: i64 = 60;

pub(crate) struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    pub now: i64,
}

impl ExpectedClaims<'_> {
    /// Returns the name of the first invalid claim.
    pub fn check(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let text = |name| claims.get(name).and_then(Value::as_str);
        let timestamp = |name| claims.get(name).and_then(Value::as_i64);
        let (audience_matches, has_other_audiences) = match claims.get("aud") {
            Some(Value::String(audience)) => (audience == self.client_id, false),
            Some(Value::Array(all)) => (all.iter().any(|one| one == self.client_id), all.len() > 1),
            _ => (false, false),
        };
        let authorized_party = claims.get("azp");
        let azp_matches =
            authorized_party.map_or(!has_other_audiences, |authorized_party| authorized_party == self.client_id);
        let claims_valid = [
            ("iss", text("iss") == Some(self.issuer)),
            ("aud", audience_matches),
            ("azp", azp_matches),
            ("exp", timestamp("exp").is_some_and(|expires_at| self.now < expires_at.saturating_add(CLOCK_SKEW_SECS))),
            ("iat", timestamp("iat").is_some_and(|issued_at| issued_at <= self.now + CLOCK_SKEW_SECS)),
            ("nonce", text("nonce") == Some(self.nonce)),
        ];
        claims_valid.iter().find(|(_, is_valid)| !is_valid).map_or(Ok(()), |(name, _)| Err(*name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_claim_is_checked() {
        let expected = ExpectedClaims { issuer: "https://op.example", client_id: "us", nonce: "n", now: 1_000 };
        let valid = json!({ "iss": "https://op.example", "aud": "us", "exp": 1_300, "iat": 1_000, "nonce": "n" });
        let check = |changes: &Value| {
            let mut claims = valid.as_object().unwrap().clone();
            claims.extend(changes.as_object().unwrap().clone());
            expected.check(&claims)
        };
        for accepted in [
            json!({}),
            json!({ "aud": ["us"] }),
            json!({ "aud": ["us", "others"], "azp": "us" }),
            json!({ "azp": "us", "exp": 941, "iat": 1_060 }),
            json!({ "exp": i64::MAX, "iat": i64::MIN }),
        ] {
            assert_eq!(check(&accepted), Ok(()), "{accepted}");
        }
        for (rejected, claim) in [
            (json!({ "iss": "https://op.example/" }), "iss"),
            (json!({ "iss": null }), "iss"),
            (json!({ "aud": "others" }), "aud"),
            (json!({ "aud": ["others"] }), "aud"),
            (json!({ "aud": null }), "aud"),
            (json!({ "aud": ["us", "others"] }), "azp"),
            (json!({ "azp": "others" }), "azp"),
            (json!({ "azp": null }), "azp"),
            (json!({ "exp": 940 }), "exp"),
            (json!({ "exp": "1300" }), "exp"),
            (json!({ "iat": 1_061 }), "iat"),
            (json!({ "iat": null }), "iat"),
            (json!({ "nonce": "other" }), "nonce"),
            (json!({ "nonce": null }), "nonce"),
        ] {
            assert_eq!(check(&rejected), Err(claim), "{rejected}");
        }
    }
}
