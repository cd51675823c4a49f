//! Who may ask an API: those with a token that has the scope.

use super::Problem;
use crate::camara::{
    Core,
    http::Request,
    memory::{AccessToken, Grant},
    scope::Scope,
    sealed::Kind,
};

/// What the request's token stands for. One that is good for one call is used up by this.
pub(super) fn granted(core: &Core, request: &Request, any_of: &[Scope]) -> Result<Grant, Problem> {
    let token = request.credentials("Bearer").ok_or(Problem::Unauthenticated)?;
    let AccessToken { grant, until } = core.sealer.open(Kind::AccessToken, token).ok_or(Problem::Unauthenticated)?;
    let now = core.now();
    let mut memory = core.memory();
    if until <= now || memory.used_tokens.contains(now, token) {
        return Err(Problem::Unauthenticated);
    }
    if !grant.scopes.include_any(any_of) {
        return Err(Problem::PermissionDenied);
    }
    if grant.scopes.are_for_one_call() {
        memory.used_tokens.insert(now, token.to_owned(), until, ());
    }
    Ok(grant)
}
