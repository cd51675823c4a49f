//! Idempotency keys: a request that is repeated with the same key gets the stored response of the first one.
//!
//! A request with a key first claims the key for a short time (lease). The transaction that writes the request's effect
//! also stores its encrypted response, so both exist or neither does. The claim of a crashed node expires.

use std::sync::Arc;

use aws_lc_rs::digest;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::NumberHash,
    tenancy::{CredentialOwner, Mode, Project},
};
use uuid::Uuid;

use crate::{
    context::Context,
    ports::{
        checks::CompanionRow,
        idempotency::{ClaimOutcome, IdempotencyClaim, IdempotencyStore, IdempotentResponse},
        store::StoreError,
    },
    tokens::TokenBearer,
};

/// How long a claim blocks other requests with the same key. Longer than any request runs.
const CLAIM_LEASE_DURATION: SignedDuration = SignedDuration::from_secs(60);
const RESPONSE_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// The response to the first request with an idempotency key. The body is masked in debug output, because it may
/// contain a secret.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct StoredResponse {
    pub status: u16,
    #[debug(skip)]
    pub body: Vec<u8>,
}

/// Scope in which idempotency keys are unique: a project, or a workspace if the request path names no project.
///
/// A scope is created only after authorisation, so a key is never looked up or claimed for an unauthorised caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyScope {
    owner: CredentialOwner,
    /// Separates keys of live calls from keys of sandbox calls, because a project that has gone live must not replay a
    /// sandbox response. `None`: a management call, which has no mode.
    mode: Option<Mode>,
}

impl IdempotencyScope {
    /// Creates the scope of `owner`. The caller must be authorised for this owner.
    pub(crate) fn of_authorized(owner: CredentialOwner) -> Self {
        IdempotencyScope { owner, mode: None }
    }

    /// Returns the first part of the hash input. It differs for live calls, so that the same key has different hashes
    /// in a live call and in a sandbox call.
    fn key_purpose(self) -> &'static [u8] {
        if self.mode == Some(Mode::Live) { b"idempotency-key of a live call" } else { b"idempotency-key" }
    }

    /// Returns the id of the project, which is unique across workspaces, or else that of the workspace.
    fn tenant(self) -> Uuid {
        self.owner.project().map_or(self.owner.workspace().0, |project| project.0)
    }
}

impl TokenBearer {
    /// Returns the scope of the token's project. `None`: the token belongs to a workspace credential.
    pub fn idempotency_scope(&self) -> Option<IdempotencyScope> {
        let Project { workspace, id, mode, .. } = **self.project.as_ref()?;
        Some(IdempotencyScope { owner: CredentialOwner::Project(workspace, id), mode: Some(mode) })
    }
}

/// Exclusive right to process the request with an idempotency key, until its lease expires.
#[derive(Debug)]
#[must_use = "complete or release a claim; otherwise the key is blocked until its lease expires"]
pub struct ClaimedKey {
    tenant: Uuid,
    key_digest: [u8; 32],
    claim_id: Uuid,
}

/// A claimed idempotency key, and the function that renders the response to store.
#[derive(derive_more::Debug)]
pub struct IdempotentRequest<'a, T> {
    pub claim: &'a ClaimedKey,
    #[debug(skip)]
    pub render_response: &'a (dyn Fn(&T) -> StoredResponse + Send + Sync),
}

/// Returns the row with which a check should share a database server: the limit of its number, or else the idempotency
/// key of its request. A limited check with a key has both, and its transaction takes two servers if they are apart. The
/// limit comes first, because every such check has one.
pub(crate) fn companion_row<T>(
    limited_number: Option<NumberHash>,
    request: Option<&IdempotentRequest<'_, T>>,
) -> Option<CompanionRow> {
    let key = || request.map(|request| CompanionRow::IdempotencyKey(request.claim.key_digest));
    limited_number.map(CompanionRow::NumberLimit).or_else(key)
}

#[derive(Debug)]
pub enum IdempotencyState {
    Claimed(ClaimedKey),
    Replay(StoredResponse),
}

#[derive(Debug, thiserror::Error)]
pub enum IdempotencyError {
    #[error("the first request with this idempotency key is still running")]
    InProgress,
    #[error("this idempotency key was used for another request")]
    Reused,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(derive_more::Debug)]
#[debug("Idempotency")]
pub struct Idempotency {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn IdempotencyStore>,
}

impl Idempotency {
    /// Claims a key for a request, or returns the stored response of an earlier request with the same key and
    /// `fingerprint` (see [`request_fingerprint`]).
    pub async fn claim(
        &self,
        scope: IdempotencyScope,
        key: &str,
        fingerprint: [u8; 32],
    ) -> Result<IdempotencyState, IdempotencyError> {
        let tenant = scope.tenant();
        let now = self.context.now();
        // Stores keyed hashes only. A plain hash of a body would reveal the phone number in it to a brute-force search.
        let claim = ClaimedKey {
            tenant,
            key_digest: self.context.keyed_hash(&[scope.key_purpose(), key.as_bytes()])?,
            claim_id: self.context.new_uuid(now),
        };
        let fingerprint = self.context.keyed_hash(&[b"fingerprint", &fingerprint])?;
        let request = IdempotencyClaim {
            tenant,
            key_digest: claim.key_digest,
            fingerprint,
            claim_id: claim.claim_id,
            now,
            lease_until: now + CLAIM_LEASE_DURATION,
            expires_at: now + RESPONSE_RETENTION,
        };
        match self.store.claim_idempotency_key(&request).await? {
            ClaimOutcome::Claimed => Ok(IdempotencyState::Claimed(claim)),
            ClaimOutcome::InProgress => Err(IdempotencyError::InProgress),
            ClaimOutcome::KeyReused => Err(IdempotencyError::Reused),
            ClaimOutcome::Completed(sealed) => {
                let response = self.unseal_response(&claim, &sealed).ok_or_else(|| {
                    StoreError::Refused("no seal key opens the stored response of an idempotency key".to_owned())
                })?;
                Ok(IdempotencyState::Replay(response))
            }
        }
    }

    /// Releases the key of a request that failed without effect, so that the client can repeat it.
    pub async fn release(&self, claim: ClaimedKey) {
        if let Err(error) = self.store.release_idempotency_key(claim.tenant, claim.key_digest, claim.claim_id).await {
            tracing::warn!(%error, "failed to release idempotency key; it stays claimed until its lease expires");
        }
    }

    /// Renders and seals the response to a request with a key. The store writes it in the transaction of the request's
    /// effect. `None`: the request has no key.
    pub(crate) fn seal_response<T>(
        &self,
        request: Option<&IdempotentRequest<'_, T>>,
        result: &T,
    ) -> Result<Option<IdempotentResponse>, StoreError> {
        let Some(IdempotentRequest { claim, render_response }) = request else { return Ok(None) };
        let response = render_response(result);
        let plain = [&response.status.to_be_bytes(), response.body.as_slice()].concat();
        Ok(Some(IdempotentResponse {
            tenant: claim.tenant,
            key_digest: claim.key_digest,
            claim_id: claim.claim_id,
            sealed_response: self.context.seal(&claim.context(), &plain)?,
        }))
    }

    /// Stores the response to a request that succeeded without changing anything, and so has no transaction of its own
    /// to store the response in. Does nothing if the request has no idempotency key.
    pub(crate) async fn complete<T>(
        &self,
        request: Option<&IdempotentRequest<'_, T>>,
        result: &T,
    ) -> Result<(), StoreError> {
        match self.seal_response(request, result)? {
            Some(response) => self.store.complete_idempotency_key(response).await,
            None => Ok(()),
        }
    }

    fn unseal_response(&self, claim: &ClaimedKey, sealed: &[u8]) -> Option<StoredResponse> {
        let plain = self.context.unseal(&claim.context(), sealed)?;
        let (status, body) = plain.split_first_chunk::<2>()?;
        Some(StoredResponse { status: u16::from_be_bytes(*status), body: body.to_vec() })
    }
}

impl ClaimedKey {
    fn context(&self) -> Vec<u8> {
        [b"idempotency:", self.tenant.as_bytes().as_slice(), &self.key_digest].concat()
    }
}

/// Hashes method, path and body. Requests with the same fingerprint are repetitions of each other.
pub fn request_fingerprint(method: &str, path: &str, body: &[u8]) -> [u8; 32] {
    sha256(&[method.as_bytes(), b"\0", path.as_bytes(), b"\0", body])
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_goes_to_its_number_limit_or_else_to_its_key() {
        let claim = ClaimedKey { tenant: Uuid::nil(), key_digest: [7; 32], claim_id: Uuid::nil() };
        let render_response = |(): &()| StoredResponse { status: 201, body: Vec::new() };
        let request = IdempotentRequest { claim: &claim, render_response: &render_response };
        let (limit, key) = (CompanionRow::NumberLimit(NumberHash([1; 32])), CompanionRow::IdempotencyKey([7; 32]));
        assert_eq!(companion_row(Some(NumberHash([1; 32])), Some(&request)), Some(limit));
        assert_eq!(companion_row(None, Some(&request)), Some(key));
        assert_eq!(companion_row::<()>(None, None), None);
    }

    #[test]
    fn fingerprint_depends_on_method_path_and_body() {
        let request = request_fingerprint("POST", "/a/projects", b"{}");
        assert_eq!(request, request_fingerprint("POST", "/a/projects", b"{}"));
        for other in [
            request_fingerprint("PUT", "/a/projects", b"{}"),
            request_fingerprint("POST", "/b/projects", b"{}"),
            request_fingerprint("POST", "/a/projects", b"{} "),
            request_fingerprint("POST", "/a/project", b"s\0{}"),
        ] {
            assert_ne!(request, other);
        }
    }
}
