//! Workspaces, projects and credentials.

mod configuration;
mod credential;
mod mode;
mod name;
mod project;
mod settings;
mod workspace;

pub use configuration::{
    CallbackSettings, Configuration, InvalidPrefix, InvalidReverseSmsTtl, ReverseSmsSettings, ReverseSmsTtl,
    SilentSettings, SmsPrefix,
};
pub use credential::{ClientId, ClientSecret, Credential, CredentialOwner, InvalidClientId, SecretDigest};
pub use mode::{InvalidMode, Mode};
pub use name::{InvalidName, Name};
pub use project::{Project, ProjectId, Revision};
pub use settings::{
    ConfigurationPatch, InvalidSetting, SETTINGS, Setting, SettingError, SettingKind, SettingRules, SettingValue,
};
pub use workspace::{RateLimits, Workspace, WorkspaceId};
