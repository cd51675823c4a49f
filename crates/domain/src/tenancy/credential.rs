//! OAuth client credentials.

use std::str::FromStr;

use jiff::Timestamp;

use super::{Name, ProjectId, WorkspaceId};
use crate::{audit::Actor, product::Scope};

/// An OAuth client with its scopes. Only a digest of the secret is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub client_id: ClientId,
    pub owner: CredentialOwner,
    pub secret_digest: SecretDigest,
    pub scopes: Vec<Scope>,
    /// Name that people give to the credential.
    pub label: Option<Name>,
    pub created_at: Timestamp,
    pub created_by: Actor,
    pub expires_at: Option<Timestamp>,
    /// When the credential stops being valid because it was rotated. `None`: it was not rotated.
    pub retires_at: Option<Timestamp>,
    /// When the credential was deleted. Deleted credentials are kept for a while, so that their use can be
    /// distinguished from a wrong `client_id`.
    pub deleted_at: Option<Timestamp>,
    /// Last use, to the minute. A copy in memory may have an older value.
    pub last_used_at: Option<Timestamp>,
}

impl Credential {
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.inactive_since(now).is_none()
    }

    /// Returns when the credential was deleted, expired or retired. `None`: it is active at `now`.
    pub fn inactive_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.deleted_at.or(self.valid_until().filter(|at| *at <= now))
    }

    /// Returns when the credential expires or retires, whichever is earlier. `None`: it does neither.
    pub fn valid_until(&self) -> Option<Timestamp> {
        [self.expires_at, self.retires_at].into_iter().flatten().min()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialOwner {
    /// The credential is for the Management API.
    Workspace(WorkspaceId),
    /// The credential is for the products of one project.
    Project(WorkspaceId, ProjectId),
}

impl CredentialOwner {
    pub fn workspace(self) -> WorkspaceId {
        match self {
            CredentialOwner::Workspace(workspace) | CredentialOwner::Project(workspace, _) => workspace,
        }
    }

    pub fn project(self) -> Option<ProjectId> {
        match self {
            CredentialOwner::Workspace(_) => None,
            CredentialOwner::Project(_, project) => Some(project),
        }
    }
}

/// OAuth `client_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(String);

impl ClientId {
    const MAX_LENGTH: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::display_as_str::display_as_str!(ClientId);

impl std::borrow::Borrow<str> for ClientId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client id has 1 to 64 characters from A-Z, a-z, 0-9, `_` and `-`")]
pub struct InvalidClientId;

impl FromStr for ClientId {
    type Err = InvalidClientId;

    fn from_str(text: &str) -> Result<Self, InvalidClientId> {
        let is_valid = (1..=Self::MAX_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if is_valid { Ok(ClientId(text.to_owned())) } else { Err(InvalidClientId) }
    }
}

/// OAuth `client_secret`. Shown once, never stored.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("ClientSecret(…)")]
pub struct ClientSecret(String);

impl ClientSecret {
    pub fn new(secret: String) -> Self {
        ClientSecret(secret)
    }

    /// Returns the secret. Only the response to the credential's creation may contain it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// SHA-256 digest of a client secret.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
#[debug("SecretDigest(…)")]
pub struct SecretDigest(pub [u8; 32]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_masks_secrets() {
        let shown = format!("{:?} {:?}", ClientSecret::new("hunter2".into()), SecretDigest([7; 32]));
        assert!(!shown.contains("hunter2") && !shown.contains('7'), "{shown}");
    }

    #[test]
    fn client_ids_need_no_escaping() {
        assert!("prj_AZaz09-".parse::<ClientId>().is_ok());
        for bad in ["", "a b", "a:b", "a%20", "é", &"x".repeat(65)] {
            assert_eq!(bad.parse::<ClientId>(), Err(InvalidClientId), "{bad}");
        }
    }
}
