//! Errors of commands and their exit codes.

use std::{io, process::ExitCode};

use ringtrue_client::CommandError;
use ringtrue_domain::region::ResidencyViolation;
use ringtrue_engine::{
    StartError,
    accounts::AccountError,
    control_plane::RefreshError,
    keys::{KeyUnsealError, ResetHashKeyError, RewrapError, RotateError},
    ports::store::StoreError,
    tenants::ManagementError,
};
use ringtrue_store::{MigrateError, OpenError};

use crate::{
    config::{ConfigError, ConfigErrors, MasterKeyError},
    prepared::InvalidConfig,
    telemetry::TelemetryError,
};

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  Success
  1  Failure, or the server rejected the request
  2  Invalid command line
  3  Invalid configuration or master key
  4  Database unreachable or schema mismatch
  5  Server unreachable or temporarily unavailable
  6  Authentication failed: no profile, or an invalid credential

`ringtrue help COMMAND` describes a command.";

pub(super) const REGION_HINT: &str = "Correct `region` or `store.url`: data must stay in its workspace's region.";

#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("invalid configuration: {0}")]
    Configuration(#[from] ConfigErrors),
    #[error(transparent)]
    InvalidConfig(#[from] InvalidConfig),
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error(transparent)]
    KeyUnsealError(#[from] KeyUnsealError),
    #[error("{0}\n  {REGION_HINT}")]
    Misplaced(ResidencyViolation),
    #[error("{url}: {error}")]
    Open { url: String, error: OpenError },
    #[error("{url}: {error}")]
    Migrate { url: String, error: MigrateError },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Management(ManagementError),
    #[error(transparent)]
    Rotate(RotateError),
    #[error("{0:#}")]
    Other(anyhow::Error),
}

impl CliError {
    pub(super) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        CommandError::failed(message, hint).into()
    }

    /// Creates an error for an invalid command line that clap cannot detect.
    pub(super) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        CommandError::usage(message, hint).into()
    }

    /// Returns whether nothing should be printed: the error was already reported, or nobody reads the output any more
    /// (closed pipe), about which other programs are silent, too.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            CliError::Command(error) => matches!(error, CommandError::AlreadyReported) || error.is_closed_pipe(),
            _ => false,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            CliError::Configuration(_)
            | CliError::InvalidConfig(_)
            | CliError::MasterKey(_)
            | CliError::KeyUnsealError(_)
            | CliError::Misplaced(_) => 3,
            CliError::Open { .. } | CliError::Migrate { .. } | CliError::Store(_) => 4,
            CliError::Command(error) => error.exit_code(),
            CliError::Management(_) | CliError::Rotate(_) | CliError::Other(_) => 1,
        })
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        ConfigErrors::from(error).into()
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        CommandError::Output(error).into()
    }
}

impl From<AccountError> for CliError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Store(error) => error.into(),
            other => CliError::failed(other.to_string(), "The console's accounts page lists all accounts."),
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) | StartError::Refresh(RefreshError::Store(error)) => CliError::Store(error),
            StartError::Refresh(RefreshError::Key(error)) => CliError::KeyUnsealError(error),
            StartError::Misplaced(error) => CliError::Misplaced(error),
        }
    }
}

impl From<ManagementError> for CliError {
    fn from(error: ManagementError) -> Self {
        match error {
            ManagementError::Store(error) => CliError::Store(error),
            other => CliError::Management(other),
        }
    }
}

impl From<ResetHashKeyError> for CliError {
    fn from(error: ResetHashKeyError) -> Self {
        match error {
            ResetHashKeyError::Store(error) => CliError::Store(error),
            ResetHashKeyError::Unseal(error) => CliError::KeyUnsealError(error),
            other @ ResetHashKeyError::NoKey => CliError::failed(other.to_string(), "No changes were made."),
        }
    }
}

impl From<RotateError> for CliError {
    fn from(error: RotateError) -> Self {
        match error {
            RotateError::Store(error) => CliError::Store(error),
            RotateError::Unseal(error) => CliError::KeyUnsealError(error),
            other => CliError::Rotate(other),
        }
    }
}

impl From<RewrapError> for CliError {
    fn from(error: RewrapError) -> Self {
        match error {
            RewrapError::Store(error) => CliError::Store(error),
            RewrapError::Key(error) => CliError::KeyUnsealError(error),
            RewrapError::ConcurrentChange => CliError::failed(error.to_string(), "Run the command again."),
        }
    }
}

impl From<TelemetryError> for CliError {
    fn from(error: TelemetryError) -> Self {
        CliError::Other(error.into())
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast::<StartError>() {
            Ok(error) => return error.into(),
            Err(other) => other,
        };
        error.downcast::<InvalidConfig>().map_or_else(CliError::Other, CliError::InvalidConfig)
    }
}
