//! Who may ask an API: those with a token that has the scope.

use std::sync::Arc;

use super::Problem;
use crate::camara::{Core, http::Request, memory::Grant, scope::Scope};

/// What the request's token stands for. One that is good for one call is used up by this.
pub(super) fn granted(core: &Core, request: &Request, any_of: &[Scope]) -> Result<Arc<Grant>, Problem> {
    let token = request.credentials("Bearer").ok_or(Problem::Unauthenticated)?;
    let now = core.now();
    let mut memory = core.memory();
    let grant = memory.tokens.get_mut(now, token).cloned().ok_or(Problem::Unauthenticated)?;
    if !grant.scopes.include_any(any_of) {
        return Err(Problem::PermissionDenied);
    }
    if grant.scopes.are_for_one_call() {
        memory.tokens.remove(token);
    }
    Ok(grant)
}
