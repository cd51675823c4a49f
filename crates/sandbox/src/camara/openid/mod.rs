//! OpenID provider.

mod assertion;
mod authorize;
mod backchannel;
mod client_authentication;
mod discovery;
mod grants;
mod id_token;
mod oauth_error;
mod request_object;
mod subject;
mod token;

pub(super) use self::{
    authorize::authorize,
    backchannel::backchannel_authorize,
    discovery::discovery,
    oauth_error::{OAuthError, OAuthErrorCode, simulated_error_response},
    token::token,
};

/// In seconds (CAMARA security profile).
const MAX_ASSERTION_LIFETIME: i64 = 300;
