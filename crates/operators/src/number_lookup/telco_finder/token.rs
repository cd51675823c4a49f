//! Access token requests.

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::{TelcoFinder, authentication_error};
use crate::{
    authentication::{AuthenticationContext, bearer_header},
    number_lookup::{
        guard::SourceError,
        lookup_client::{LookupRequest, invalid_response},
    },
    token_cache::{FetchedToken, parse_seconds},
};

impl TelcoFinder {
    pub(super) async fn fetch_token(&self) -> Result<FetchedToken, SourceError> {
        let request = self.token_request(self.client.clock.now()).ok_or_else(authentication_error)?;
        // Assertions are single-use, so there is no retry.
        let response = self.client.send_once(request, &[400]).await?;
        if response.status == 400 {
            return Err(SourceError { status: Some(400), ..authentication_error() });
        }
        let text_field = |name: &str| response.json.get(name).and_then(Value::as_str);
        let is_bearer = text_field("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let token =
            text_field("access_token").and_then(bearer_header).filter(|_| is_bearer).ok_or_else(invalid_response)?;
        Ok(FetchedToken { token, expires_in: parse_seconds(response.json.get("expires_in")) })
    }

    /// `None`: signing failed.
    fn token_request(&self, now: Timestamp) -> Option<LookupRequest> {
        let config = &self.config;
        let context = AuthenticationContext {
            client_id: &config.client_id,
            issuer: &config.issuer,
            endpoint: config.token_endpoint.as_str(),
            now,
        };
        let credentials = config.client_authentication.credentials(context, &*self.entropy)?;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &config.scope {
            form.append_pair("scope", scope);
        }
        let (headers, body) = credentials.into_form_request(form);
        Some(LookupRequest { method: Method::POST, url: config.token_endpoint.clone(), headers, body })
    }
}
