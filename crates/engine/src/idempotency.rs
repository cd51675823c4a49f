//! Requests that may be sent twice and are done once.
//!
//! A request with a key first claims it, for a short lease. Its answer is stored, sealed, in the transaction of what
//! the request did: the effect and the answer exist together or not at all. A claim whose holder died runs out.

use aws_lc_rs::digest;
use jiff::SignedDuration;
use ringtrue_domain::{
    id::time_ordered,
    tenancy::{CredentialOwner, Mode, Project},
};
use uuid::Uuid;

use crate::{
    Engine,
    ports::{ClaimOutcome, ClaimRequest, Completion, StoreError},
    tokens::TokenBearer,
};

/// Longer than any request takes.
const LEASE: SignedDuration = SignedDuration::from_secs(60);
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

/// An answer as it went out the first time. It may hold a secret, so `Debug` shows its status only.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for StoredAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredAnswer({}, …)", self.status)
    }
}

/// The owner of the idempotency keys that a request may use: a project, or a workspace where the path names no project.
///
/// Only authorisation creates a scope, so a key is never looked up or claimed for an owner that refuses the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyScope {
    owner: CredentialOwner,
    /// A project that has gone live gets no answer of its sandbox days.
    mode: Option<Mode>,
}

impl IdempotencyScope {
    /// The caller must have been authorised for `owner`.
    pub(crate) fn authorized(owner: CredentialOwner) -> Self {
        IdempotencyScope { owner, mode: None }
    }

    /// What the key is hashed for: keys of live calls are apart from all others.
    fn key_purpose(self) -> &'static [u8] {
        if self.mode == Some(Mode::Live) { b"idempotency-key of a live call" } else { b"idempotency-key" }
    }

    /// Ids are unique across workspaces: a project's id names its workspace too.
    fn tenant(self) -> Uuid {
        self.owner.project().map_or(self.owner.workspace().0, |project| project.0)
    }
}

impl TokenBearer {
    /// The keys of the project that the token was issued for; `None` for a token of a workspace.
    pub fn idempotency_scope(&self) -> Option<IdempotencyScope> {
        let Project { workspace, id, mode, .. } = **self.project.as_ref()?;
        Some(IdempotencyScope { owner: CredentialOwner::Project(workspace, id), mode: Some(mode) })
    }
}

/// The right to be the request that does the work.
#[derive(Debug)]
#[must_use = "a claim is completed or abandoned; otherwise the key is blocked until its lease runs out"]
pub struct Claim {
    tenant: Uuid,
    key_digest: [u8; 32],
    attempt: Uuid,
}

/// A request that is to be done once: its claim, and how its answer will look.
pub struct Once<'a, T> {
    pub claim: &'a Claim,
    pub answer: &'a (dyn Fn(&T) -> StoredAnswer + Send + Sync),
}

impl<T> std::fmt::Debug for Once<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("claim", self.claim).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub enum Begun {
    First(Claim),
    Replay(StoredAnswer),
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

impl Engine {
    /// Claims a key of an authorised scope for a request with this fingerprint.
    pub async fn begin_once(
        &self,
        scope: IdempotencyScope,
        key: &str,
        fingerprint: [u8; 32],
    ) -> Result<Begun, IdempotencyError> {
        let tenant = scope.tenant();
        let now = self.clock().now();
        // Keyed: a body holds a phone number, and there are few enough of those to try them all.
        let claim = Claim {
            tenant,
            key_digest: self.hash(&[scope.key_purpose(), key.as_bytes()])?,
            attempt: time_ordered(now, self.entropy().bytes()),
        };
        let fingerprint = self.hash(&[b"fingerprint", &fingerprint])?;
        let request = ClaimRequest {
            tenant,
            key_digest: claim.key_digest,
            fingerprint,
            claim: claim.attempt,
            now,
            lease_until: now + LEASE,
            expires_at: now + KEPT_FOR,
        };
        match self.store().claim(&request).await? {
            ClaimOutcome::Claimed => Ok(Begun::First(claim)),
            ClaimOutcome::InProgress => Err(IdempotencyError::InProgress),
            ClaimOutcome::Reused => Err(IdempotencyError::Reused),
            ClaimOutcome::Answered(sealed) => {
                let answer = self.unseal_answer(&claim, &sealed).ok_or_else(|| {
                    StoreError::Refused("no seal key opens the answer stored for an idempotency key".to_owned())
                })?;
                Ok(Begun::Replay(answer))
            }
        }
    }

    /// Gives the key back after a request that did nothing.
    pub async fn abandon(&self, claim: Claim) {
        if let Err(error) = self.store().abandon(claim.tenant, claim.key_digest, claim.attempt).await {
            tracing::warn!(%error, "an idempotency key stays claimed until its lease runs out");
        }
    }

    pub(crate) fn completion<T>(&self, once: Option<Once<'_, T>>, done: &T) -> Result<Option<Completion>, StoreError> {
        once.map(|once| self.complete(once.claim, &(once.answer)(done))).transpose()
    }

    /// What the store writes beside the effect of the request.
    fn complete(&self, claim: &Claim, answer: &StoredAnswer) -> Result<Completion, StoreError> {
        let plain = [&answer.status.to_be_bytes(), answer.body.as_slice()].concat();
        let sealed_answer = self
            .control_plane()
            .keys()
            .seal(self.entropy(), &claim.context(), &plain, self.clock().now())
            .ok_or_else(|| StoreError::Refused("no seal key is in use".to_owned()))?;
        Ok(Completion { tenant: claim.tenant, key_digest: claim.key_digest, claim: claim.attempt, sealed_answer })
    }

    fn unseal_answer(&self, claim: &Claim, sealed: &[u8]) -> Option<StoredAnswer> {
        let plain = self.control_plane().keys().unseal(&claim.context(), sealed)?;
        let (status, body) = plain.split_first_chunk::<2>()?;
        Some(StoredAnswer { status: u16::from_be_bytes(*status), body: body.to_vec() })
    }
}

impl Claim {
    fn context(&self) -> Vec<u8> {
        [b"idempotency:", self.tenant.as_bytes().as_slice(), &self.key_digest].concat()
    }
}

/// What makes two requests the same: method, path and body.
pub fn fingerprint(method: &str, path: &str, body: &[u8]) -> [u8; 32] {
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
    fn another_method_path_or_body_is_another_request() {
        let request = fingerprint("POST", "/a/projects", b"{}");
        assert_eq!(request, fingerprint("POST", "/a/projects", b"{}"));
        for other in [
            fingerprint("PUT", "/a/projects", b"{}"),
            fingerprint("POST", "/b/projects", b"{}"),
            fingerprint("POST", "/a/projects", b"{} "),
            fingerprint("POST", "/a/project", b"s\0{}"),
        ] {
            assert_ne!(request, other);
        }
    }
}
