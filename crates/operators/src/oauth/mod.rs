//! OAuth 2.0 and OpenID Connect client code that the connectors and the console's sign-in share.

mod authorization_code;
mod client_authentication;
mod endpoint_client;
mod error;
mod id_token;
mod metadata;
mod tokens;

pub(crate) use authorization_code::{PkceState, append_query, parse_authorization_response};
pub(crate) use client_authentication::{
    ASSERTION_LIFETIME_SECS, AuthenticationContext, Credentials, basic_header, random_jti, sensitive_header,
    vonage_application_header,
};
pub use client_authentication::{Audience, ClientAuthentication, ClientSecret};
pub(crate) use endpoint_client::{CachedDocument, EndpointClient, parse_retry_after};
pub use error::Stage;
#[cfg(test)]
pub(crate) use error::find_error_name;
pub(crate) use error::{InvalidResponse, OAuthCause, OAuthError, Rejection};
pub(crate) use id_token::{CLOCK_SKEW_SECS, ExpectedClaims};
pub use metadata::Endpoints;
pub(crate) use metadata::parse_metadata;
pub(crate) use tokens::{TokenCache, TokenError, TokenResponse, TokenResponseBody, deserialize_seconds, parse_tokens};
