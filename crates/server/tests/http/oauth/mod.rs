//! Tokens: issuing, errors, invalidation and revocation.

pub mod bearer;
pub mod login_throttle;
pub mod revoke;
pub mod token;
pub mod token_errors;
pub mod token_invalidation;
