//! How a server knows that it is us: client authentication of OAuth 2.0, and the tokens that it gives for it.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use jiff::Timestamp;
use ringtrue_engine::ports::Entropy;
use serde_json::json;
use url::form_urlencoded::{Serializer, byte_serialize};
use zeroize::Zeroizing;

use crate::jwt::{SigningKey, base64url};

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long a signed object is good, in seconds: as long as the profile of CAMARA lets it.
pub(crate) const GOOD_FOR: i64 = 300;

/// How the operator knows that it is us.
#[derive(Clone, Debug)]
pub enum ClientAuthentication {
    /// A signed assertion (RFC 7523), as the profile demands.
    PrivateKeyJwt {
        key: SigningKey,
        audience: Audience,
    },
    SecretBasic(ClientSecret),
    SecretPost(ClientSecret),
    /// A signed token that names an application, in the header, as Vonage has it.
    BearerJwt {
        key: SigningKey,
    },
}

/// For whom a signed object is meant. Servers disagree, and not only with each other: assertions and request objects
/// each have their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The endpoint that it is sent to.
    #[default]
    Endpoint,
    Issuer,
}

/// A password that the operator gave us. Masked, and wiped when dropped.
#[derive(Clone)]
pub struct ClientSecret(Zeroizing<Box<str>>);

impl ClientSecret {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Box<str>>> From<T> for ClientSecret {
    fn from(secret: T) -> Self {
        Self(Zeroizing::new(secret.into()))
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(…)")
    }
}

/// To whom we say who we are, and what we are called there.
#[derive(Clone, Copy)]
pub(crate) struct Introduction<'a> {
    pub client_id: &'a str,
    pub issuer: &'a str,
    pub endpoint: &'a str,
    pub now: Timestamp,
}

/// What is added to a request: a header, and fields of its form.
#[derive(Default)]
pub(crate) struct Credentials {
    header: Option<HeaderValue>,
    fields: Vec<(&'static str, String)>,
}

impl ClientAuthentication {
    /// `None`: nothing can be signed, or what is configured cannot be sent.
    pub(crate) fn credentials(&self, to: Introduction<'_>, entropy: &dyn Entropy) -> Option<Credentials> {
        let id = to.client_id;
        let named = ("client_id", id.to_owned());
        Some(match self {
            ClientAuthentication::PrivateKeyJwt { key, audience } => {
                let audience = match audience {
                    Audience::Endpoint => to.endpoint,
                    Audience::Issuer => to.issuer,
                };
                let now = to.now.as_second();
                let claims = json!({
                    "iss": id, "sub": id, "aud": audience, "iat": now, "exp": now + GOOD_FOR, "jti": identifier(entropy),
                });
                let assertion = key.sign("JWT", &claims)?;
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
                Credentials { header: Some(basic(&encoded(id), &encoded(secret.as_str()))?), fields: vec![] }
            }
            ClientAuthentication::BearerJwt { key } => {
                Credentials { header: Some(application_token(key, id, to.now, entropy)?), fields: vec![named] }
            }
        })
    }
}

impl Credentials {
    /// The head and the body of a request that they are added to.
    pub fn complete(self, mut form: Serializer<'_, String>) -> (HeaderMap, Vec<u8>) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(value) = self.header {
            headers.insert(AUTHORIZATION, value);
        }
        form.extend_pairs(self.fields);
        (headers, form.finish().into_bytes())
    }
}

/// `Bearer …`, with a token that names an application of Vonage's.
pub(crate) fn application_token(
    key: &SigningKey,
    application: &str,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Option<HeaderValue> {
    let now = now.as_second();
    let claims =
        json!({ "application_id": application, "iat": now, "exp": now + GOOD_FOR, "jti": identifier(entropy) });
    bearer(&key.sign("JWT", &claims)?)
}

/// `Basic …` (RFC 7617).
pub(crate) fn basic(name: &str, password: &str) -> Option<HeaderValue> {
    let pair = Zeroizing::new(format!("{name}:{password}"));
    secret_header(&format!("Basic {}", BASE64_STANDARD.encode(&*pair)))
}

/// `Bearer …`. `None`: that is no token.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let is_whole = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let header = Zeroizing::new(format!("Bearer {token}"));
    secret_header(&header).filter(|_| is_whole)
}

/// One that is not shown by whoever shows headers.
pub(crate) fn secret_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Of something that may be used once.
pub(crate) fn identifier(entropy: &dyn Entropy) -> String {
    base64url(entropy.bytes::<16>())
}
