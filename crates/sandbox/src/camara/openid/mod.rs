//! The OpenID provider: who a device is, and which client may know.

mod assertion;
mod authorize;
mod backchannel;
mod client_authentication;
mod discovery;
mod grants;
mod id_token;
mod refusal;
mod request_object;
mod subject;
mod token;

pub(super) use self::{
    authorize::authorize,
    backchannel::backchannel_authorize,
    discovery::discovery,
    refusal::{ErrorCode, Refusal, simulated_failure},
    token::token,
};

/// How long a signed token of a client may live, in seconds.
const LONGEST_ASSERTION: i64 = 300;
