//! Token requests, and what is given for them.

use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded::Serializer};

use super::{
    Camara,
    config::Endpoints,
    faults::{Fault, Nonsense, Stage, Symptom},
    memory::Memory,
};
use crate::{
    authentication::{Introduction, bearer},
    token_keeper::seconds,
};

/// What the operator gives. For a code, each is good for one question and gone after it.
pub struct Tokens {
    /// `Bearer …`, as it is sent.
    pub bearer: HeaderValue,
    pub id: Option<String>,
    /// In seconds, if it is said.
    pub good_for: Option<i64>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    id_token: Option<String>,
    expires_in: Option<Value>,
}

impl Tokens {
    pub(super) fn read(body: &[u8]) -> Result<Self, Fault> {
        let nonsense = |what| Fault::nonsense(Stage::Token, what);
        let granted: Granted = serde_json::from_slice(body).map_err(|_| nonsense(Nonsense::Body))?;
        if !granted.token_type.eq_ignore_ascii_case("bearer") {
            return Err(nonsense(Nonsense::TokenType));
        }
        let bearer = bearer(&granted.access_token).ok_or(nonsense(Nonsense::Body))?;
        Ok(Tokens { bearer, id: granted.id_token, good_for: seconds(granted.expires_in.as_ref()) })
    }
}

impl Camara {
    /// Redeems what a device brought.
    pub(super) async fn redeem(&self, code: &str, memory: &Memory, endpoints: &Endpoints) -> Result<Tokens, Fault> {
        let verifier = memory.verifier();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.config.redirect_uri.as_str()),
        ];
        fields.extend(self.config.pkce.then_some(("code_verifier", &**verifier)));
        self.grant(&fields, endpoints).await
    }

    /// Asks for tokens. Once: neither a code nor an assertion is taken twice.
    pub(super) async fn grant(&self, fields: &[(&str, &str)], endpoints: &Endpoints) -> Result<Tokens, Fault> {
        let (headers, form) = self.introduced(Stage::Token, &endpoints.token, endpoints, fields)?;
        let answer = self.asking.post(Stage::Token, &endpoints.token, headers, form).await?;
        Tokens::read(&answer.body)
    }

    /// The head and the body of a request to an endpoint of the operator's, which say who we are.
    pub(super) fn introduced(
        &self,
        stage: Stage,
        endpoint: &Url,
        endpoints: &Endpoints,
        fields: &[(&str, &str)],
    ) -> Result<(HeaderMap, Vec<u8>), Fault> {
        let introduction = Introduction {
            client_id: &self.config.client_id,
            issuer: &endpoints.issuer,
            endpoint: endpoint.as_str(),
            now: self.asking.clock.now(),
        };
        let credentials = self.config.client_authentication.credentials(introduction, &*self.entropy);
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields);
        Ok(credentials.ok_or(Fault::new(stage, Symptom::Ours))?.complete(form))
    }
}
