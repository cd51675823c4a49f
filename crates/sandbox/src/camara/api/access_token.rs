//! Access token checks of the APIs.

use super::CamaraError;
use crate::camara::{
    OperatorState,
    http::Request,
    scope::Scope,
    sealer::SealedKind,
    store::{AccessToken, Grant},
};

/// Returns the grant of the request's access token. Consumes a single-use token.
pub(super) fn authorize(state: &OperatorState, request: &Request, any_of: &[Scope]) -> Result<Grant, CamaraError> {
    let token = request.credentials("Bearer").ok_or(CamaraError::Unauthenticated)?;
    let AccessToken { grant, until } =
        state.sealer.open(SealedKind::AccessToken, token).ok_or(CamaraError::Unauthenticated)?;
    let now = state.now();
    let mut store = state.store();
    if until <= now || store.used_tokens.contains(now, token) {
        return Err(CamaraError::Unauthenticated);
    }
    if !grant.scopes.includes_any(any_of) {
        return Err(CamaraError::PermissionDenied);
    }
    if grant.scopes.require_single_use_token() {
        store.used_tokens.insert(now, token.to_owned(), until, ());
    }
    Ok(grant)
}
