//! Client authentication at the endpoints of an authorization server.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use jiff::Timestamp;
use ringtrue_engine::ports::entropy::Entropy;
use serde_json::json;
use url::form_urlencoded::{Serializer, byte_serialize};
use zeroize::Zeroizing;

use crate::jwt::SigningKey;

const CLIENT_ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Lifetime of assertions and request objects: the maximum that the CAMARA profile allows.
pub(crate) const ASSERTION_LIFETIME_SECS: i64 = 300;

#[derive(Clone, Debug)]
pub enum ClientAuthentication {
    /// A signed assertion (RFC 7523), as the CAMARA profile requires.
    PrivateKeyJwt {
        key: SigningKey,
        audience: Audience,
    },
    SecretBasic(ClientSecret),
    SecretPost(ClientSecret),
    /// A signed token that names an application, in the `Authorization` header (Vonage).
    BearerJwt {
        key: SigningKey,
    },
}

/// The `aud` claim of a signed object. Servers differ, and may expect different values in assertions and request
/// objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The endpoint that receives the object.
    #[default]
    Endpoint,
    Issuer,
}

/// Client secret issued by the operator. Masked in `Debug` output, and wiped from memory when dropped.
#[derive(Clone, derive_more::Debug)]
#[debug("ClientSecret(…)")]
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

/// The endpoint to authenticate at, and our identity there.
#[derive(Clone, Copy)]
pub(crate) struct AuthenticationContext<'a> {
    pub client_id: &'a str,
    pub issuer: &'a str,
    pub endpoint: &'a str,
    pub now: Timestamp,
}

/// `Authorization` header and form fields that authenticate a request.
#[derive(Default)]
pub(crate) struct Credentials {
    header: Option<HeaderValue>,
    fields: Vec<(&'static str, String)>,
}

impl ClientAuthentication {
    /// Builds the credentials of a request. `None`: signing failed, or a configured value is not valid in a header.
    pub(crate) fn credentials(&self, context: AuthenticationContext<'_>, entropy: &dyn Entropy) -> Option<Credentials> {
        let id = context.client_id;
        let client_id_field = ("client_id", id.to_owned());
        Some(match self {
            ClientAuthentication::PrivateKeyJwt { key, audience } => {
                let audience = match audience {
                    Audience::Endpoint => context.endpoint,
                    Audience::Issuer => context.issuer,
                };
                let now = context.now.as_second();
                let claims = json!({
                    "iss": id, "sub": id, "aud": audience, "iat": now, "exp": now + ASSERTION_LIFETIME_SECS, "jti": random_jti(entropy),
                });
                let assertion = key.sign("JWT", &claims)?;
                let fields = vec![
                    client_id_field,
                    ("client_assertion_type", CLIENT_ASSERTION_TYPE.to_owned()),
                    ("client_assertion", assertion),
                ];
                Credentials { header: None, fields }
            }
            ClientAuthentication::SecretPost(secret) => Credentials {
                header: None,
                fields: vec![client_id_field, ("client_secret", secret.as_str().to_owned())],
            },
            ClientAuthentication::SecretBasic(secret) => {
                // Id and secret are form-encoded first (RFC 6749, 2.3.1), so that neither contains a colon.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                Credentials { header: Some(basic_header(&encoded(id), &encoded(secret.as_str()))?), fields: vec![] }
            }
            ClientAuthentication::BearerJwt { key } => Credentials {
                header: Some(vonage_application_header(key, id, context.now, entropy)?),
                fields: vec![client_id_field],
            },
        })
    }
}

impl Credentials {
    /// Builds headers and body of a form request with these credentials.
    pub fn into_form_request(self, mut form: Serializer<'_, String>) -> (HeaderMap, Vec<u8>) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(value) = self.header {
            headers.insert(AUTHORIZATION, value);
        }
        form.extend_pairs(self.fields);
        (headers, form.finish().into_bytes())
    }
}

/// Builds the header value `Bearer …` with a signed Vonage application token.
pub(crate) fn vonage_application_header(
    key: &SigningKey,
    application: &str,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Option<HeaderValue> {
    let now = now.as_second();
    let claims = json!({ "application_id": application, "iat": now, "exp": now + ASSERTION_LIFETIME_SECS, "jti": random_jti(entropy) });
    bearer_header(&key.sign("JWT", &claims)?)
}

/// Builds the header value `Basic …` (RFC 7617).
pub(crate) fn basic_header(name: &str, password: &str) -> Option<HeaderValue> {
    let pair = Zeroizing::new(format!("{name}:{password}"));
    sensitive_header(&format!("Basic {}", BASE64_STANDARD.encode(&*pair)))
}

/// Builds the header value `Bearer …`. `None`: the token is empty or contains invalid characters.
pub(crate) fn bearer_header(token: &str) -> Option<HeaderValue> {
    let is_valid = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let header = Zeroizing::new(format!("Bearer {token}"));
    sensitive_header(&header).filter(|_| is_valid)
}

/// Builds a header value that `Debug` output masks.
pub(crate) fn sensitive_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns a random `jti` for a single-use object.
pub(crate) fn random_jti(entropy: &dyn Entropy) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(entropy.bytes::<16>())
}
