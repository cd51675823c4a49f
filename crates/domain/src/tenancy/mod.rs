//! Workspaces, their projects, and the credentials that open them.

mod configuration;
mod credential;
mod name;
mod project;
mod workspace;

pub use configuration::{Configuration, InvalidPrefix, InvalidTtl, ReverseSmsSettings, SilentSettings, SmsPrefix, Ttl};
pub use credential::{ClientId, ClientSecret, Credential, CredentialOwner, NotAClientId, SecretDigest};
pub use name::{InvalidName, Name};
pub use project::{Mode, NotAMode, Project, ProjectId, Revision};
pub use workspace::{RateLimits, Workspace, WorkspaceId};
