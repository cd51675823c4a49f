//! OAuth client credentials.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use super::{ProjectId, WorkspaceId};
use crate::product::Scope;

/// A `client_id` and what it opens. The secret itself is nowhere: only its digest is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub client_id: ClientId,
    pub owner: CredentialOwner,
    pub secret_digest: SecretDigest,
    pub scopes: Vec<Scope>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// A deleted credential stays known, so that its use is told apart from a wrong guess.
    pub deleted_at: Option<Timestamp>,
    /// To the minute, as last recorded; a copy in memory may be older.
    pub last_used_at: Option<Timestamp>,
}

impl Credential {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.died_at(now).is_none()
    }

    /// When it was deleted or expired; `None` while it is live.
    pub fn died_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.deleted_at.or(self.expires_at.filter(|at| *at <= now))
    }
}

/// What a credential belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialOwner {
    /// Opens the Management API.
    Workspace(WorkspaceId),
    /// Opens the products of one project.
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

/// The public half of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(String);

impl ClientId {
    const MAX_LENGTH: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ClientId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client id has 1 to 64 characters from A-Z, a-z, 0-9, `_` and `-`")]
pub struct NotAClientId;

impl FromStr for ClientId {
    type Err = NotAClientId;

    fn from_str(text: &str) -> Result<Self, NotAClientId> {
        let shape_is_right = (1..=Self::MAX_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if shape_is_right { Ok(ClientId(text.to_owned())) } else { Err(NotAClientId) }
    }
}

/// The secret half, as it is shown once. Masked in `Debug`, and never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(String);

impl ClientSecret {
    pub fn new(secret: String) -> Self {
        ClientSecret(secret)
    }

    /// For the one answer that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(…)")
    }
}

/// Keyed digest of a secret and of what its credential opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest(pub [u8; 32]);

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let shown = format!("{:?} {:?}", ClientSecret::new("hunter2".into()), SecretDigest([7; 32]));
        assert!(!shown.contains("hunter2") && !shown.contains('7'), "{shown}");
    }

    #[test]
    fn client_ids_need_no_escaping_anywhere() {
        assert!("prj_AZaz09-".parse::<ClientId>().is_ok());
        for bad in ["", "a b", "a:b", "a%20", "é", &"x".repeat(65)] {
            assert_eq!(bad.parse::<ClientId>(), Err(NotAClientId), "{bad}");
        }
    }
}
