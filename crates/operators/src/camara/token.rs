//! Redeeming what a device brought: the token request.

use http::HeaderValue;
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use super::{
    Camara,
    config::Endpoints,
    faults::{Fault, Nonsense, Stage, Symptom},
    memory::Memory,
};
use crate::authentication::{Introduction, bearer};

/// What the operator gives for a code. Each is good for one question, and gone after it.
pub struct Tokens {
    /// `Bearer …`, as it is sent.
    pub bearer: HeaderValue,
    pub id: Option<String>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    id_token: Option<String>,
}

impl Camara {
    pub(super) async fn redeem(&self, code: &str, memory: &Memory, endpoints: &Endpoints) -> Result<Tokens, Fault> {
        let introduction = Introduction {
            client_id: &self.config.client_id,
            issuer: &endpoints.issuer,
            endpoint: endpoints.token.as_str(),
            now: self.asking.clock.now(),
        };
        let credentials = self.config.client_authentication.credentials(introduction, &*self.entropy);
        let credentials = credentials.ok_or(Fault::new(Stage::Token, Symptom::Ours))?;
        let (headers, form) = credentials.complete(self.form(code, memory));
        let answer = self.asking.post(Stage::Token, &endpoints.token, headers, form).await?;

        let nonsense = |what| Fault::nonsense(Stage::Token, what);
        let granted: Granted = serde_json::from_slice(&answer.body).map_err(|_| nonsense(Nonsense::Body))?;
        if !granted.token_type.eq_ignore_ascii_case("bearer") {
            return Err(nonsense(Nonsense::TokenType));
        }
        let bearer = bearer(&granted.access_token).ok_or(nonsense(Nonsense::Body))?;
        Ok(Tokens { bearer, id: granted.id_token })
    }

    fn form(&self, code: &str, memory: &Memory) -> Serializer<'static, String> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code");
        form.append_pair("code", code);
        form.append_pair("redirect_uri", self.config.redirect_uri.as_str());
        if self.config.pkce {
            form.append_pair("code_verifier", &memory.verifier());
        }
        form
    }
}
