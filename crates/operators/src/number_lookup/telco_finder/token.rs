//! The token that we show, from the server that gives it.

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::{TelcoFinder, unauthenticated};
use crate::{
    authentication::{Introduction, bearer},
    number_lookup::{
        asking::{Request, nonsense},
        guard::Fault,
    },
    token_keeper::{Fresh, seconds},
};

impl TelcoFinder {
    pub(super) async fn ask_for_token(&self) -> Result<Fresh, Fault> {
        let request = self.token_request(self.asking.clock.now()).ok_or_else(unauthenticated)?;
        // An assertion may be shown once: nothing is sent again.
        let told = self.asking.put_once(request, &[400]).await?;
        if told.status == 400 {
            return Err(Fault { status: Some(400), ..unauthenticated() });
        }
        let said = |name: &str| told.json.get(name).and_then(Value::as_str);
        let is_bearer = said("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let token = said("access_token").and_then(bearer).filter(|_| is_bearer).ok_or_else(nonsense)?;
        Ok(Fresh { token, good_for: seconds(told.json.get("expires_in")) })
    }

    /// `None`: it cannot be signed.
    fn token_request(&self, now: Timestamp) -> Option<Request> {
        let config = &self.config;
        let introduction = Introduction {
            client_id: &config.client_id,
            issuer: &config.issuer,
            endpoint: config.token_endpoint.as_str(),
            now,
        };
        let credentials = config.client_authentication.credentials(introduction, &*self.entropy)?;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &config.scope {
            form.append_pair("scope", scope);
        }
        let (headers, body) = credentials.complete(form);
        Some(Request { method: Method::POST, url: config.token_endpoint.clone(), headers, body })
    }
}
