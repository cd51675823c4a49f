//! Redeeming what a device brought: the token request.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded::{Serializer, byte_serialize};
use zeroize::Zeroizing;

use super::{
    Camara,
    authorization::GOOD_FOR,
    config::{Audience, ClientAuthentication, Endpoints},
    faults::{Fault, Nonsense, Stage, Symptom},
    memory::Memory,
};

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

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

/// How we say who we are: a header, and fields of the form.
#[derive(Default)]
struct Credentials {
    header: Option<String>,
    fields: Vec<(&'static str, String)>,
}

impl Camara {
    pub(super) async fn redeem(&self, code: &str, memory: &Memory, endpoints: &Endpoints) -> Result<Tokens, Fault> {
        let credentials = self.credentials(endpoints).ok_or(Fault::new(Stage::Token, Symptom::Ours))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(value) = credentials.header {
            headers.insert(AUTHORIZATION, secret_header(&value).ok_or(Fault::new(Stage::Token, Symptom::Ours))?);
        }
        let form = self.form(code, memory, credentials.fields);
        let answer = self.asking.post(Stage::Token, &endpoints.token, headers, form.into_bytes()).await?;

        let nonsense = |what| Fault::nonsense(Stage::Token, what);
        let granted: Granted = serde_json::from_slice(&answer.body).map_err(|_| nonsense(Nonsense::Body))?;
        if !granted.token_type.eq_ignore_ascii_case("bearer") {
            return Err(nonsense(Nonsense::TokenType));
        }
        let is_whole =
            !granted.access_token.is_empty() && granted.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        let header = Zeroizing::new(format!("Bearer {}", granted.access_token));
        let bearer = secret_header(&header).filter(|_| is_whole).ok_or(nonsense(Nonsense::Body))?;
        Ok(Tokens { bearer, id: granted.id_token })
    }

    fn form(&self, code: &str, memory: &Memory, credentials: Vec<(&str, String)>) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code");
        form.append_pair("code", code);
        form.append_pair("redirect_uri", self.config.redirect_uri.as_str());
        if self.config.pkce {
            form.append_pair("code_verifier", &memory.verifier());
        }
        form.extend_pairs(credentials);
        form.finish()
    }

    /// `None`: nothing can be signed.
    fn credentials(&self, endpoints: &Endpoints) -> Option<Credentials> {
        let id = &self.config.client_id;
        let named = ("client_id", id.clone());
        Some(match &self.config.client_authentication {
            ClientAuthentication::PrivateKeyJwt { key, audience } => {
                let assertion = key.sign("JWT", &self.assertion(*audience, endpoints))?;
                let fields =
                    vec![named, ("client_assertion_type", ASSERTION.to_owned()), ("client_assertion", assertion)];
                Credentials { header: None, fields }
            }
            ClientAuthentication::SecretPost(secret) => {
                Credentials { header: None, fields: vec![named, ("client_secret", secret.as_str().to_owned())] }
            }
            ClientAuthentication::SecretBasic(secret) => {
                // Both are form-encoded first (RFC 6749, 2.3.1), or a colon in one would end it.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = Zeroizing::new(format!("{}:{}", encoded(id), encoded(secret.as_str())));
                Credentials { header: Some(format!("Basic {}", BASE64_STANDARD.encode(&*pair))), fields: vec![] }
            }
            ClientAuthentication::BearerJwt { key } => {
                let now = self.now();
                let claims =
                    json!({ "application_id": id, "iat": now, "exp": now + GOOD_FOR, "jti": self.identifier() });
                Credentials { header: Some(format!("Bearer {}", key.sign("JWT", &claims)?)), fields: vec![named] }
            }
        })
    }

    fn assertion(&self, audience: Audience, endpoints: &Endpoints) -> Value {
        let now = self.now();
        let audience = match audience {
            Audience::Endpoint => endpoints.token.as_str(),
            Audience::Issuer => &endpoints.issuer,
        };
        let id = &self.config.client_id;
        json!({ "iss": id, "sub": id, "aud": audience, "iat": now, "exp": now + GOOD_FOR, "jti": self.identifier() })
    }
}

/// One that is not shown by whoever shows headers.
fn secret_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
