//! Signing in with a phone number (OpenID Connect): settings of a project, authorization requests, and what an ID token
//! says about the proof.

mod authorization_request;
mod proof;
mod redirect_uri;
mod settings;

pub use authorization_request::{
    AuthorizationError, AuthorizationErrorCode, AuthorizationRequest, CodeChallenge, Parameters, Prompt,
    RequestedScopes, SignInScopes,
};
pub use proof::{AuthenticationContext, SignInProof};
pub use redirect_uri::{InvalidRedirectUri, RedirectUri};
pub use settings::{
    ClientAuthentication, ClientKeys, IdTokenAlgorithm, InvalidClientAuthentication, InvalidClientKeys,
    InvalidIdTokenAlgorithm, InvalidSessionLifetime, SessionLifetime, SignInSettings,
};

use crate::id::identifier;

identifier!(
    /// Identifies a sign-in: one authorization request, from its arrival to the expiry of its access token.
    SignInId
);
