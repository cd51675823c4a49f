//! Why a command did not do what it was asked to, and with which exit code it says so.

use std::{io, process::ExitCode, time::Duration};

use ringtrue_domain::region::Misplaced;
use ringtrue_engine::{
    StartError,
    control_plane::RefreshError,
    keys::{RewrapError, RotateError, UnopenedKey},
    management::ManagementError,
    ports::StoreError,
};
use ringtrue_store::{MigrateError, OpenError};

use super::caller::Problem;
use crate::{
    config::{ConfigError, MasterKeyError},
    groundwork::Unfit,
    telemetry::TelemetryError,
};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 the command line was not understood; \
                                     3 the configuration or the master key is wrong; \
                                     4 the database cannot be reached, or its schema does not fit; \
                                     5 the server cannot be reached, or cannot do it now; \
                                     6 not signed in, or the credential is not accepted.";

/// What to do about data in the wrong region.
pub(super) const WHERE_DATA_BELONGS: &str =
    "Set `region` or `store.url` right: data stays in the region of its workspace.";

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the configuration is wrong: {0}")]
    Configuration(#[from] ConfigError),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    #[error(transparent)]
    UnopenedKey(#[from] UnopenedKey),
    #[error("{0}\n  {WHERE_DATA_BELONGS}")]
    Misplaced(Misplaced),
    #[error("{url}: {problem}")]
    Open { url: String, problem: OpenError },
    #[error("{url}: {problem}")]
    Migrate { url: String, problem: MigrateError },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Management(ManagementError),
    #[error(transparent)]
    Rotate(RotateError),
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
    #[error("{what}\n  {remedy}")]
    Refused { what: String, remedy: String },
    /// What a server said.
    #[error(transparent)]
    Problem(Problem),
    #[error("{what}\n  {remedy}")]
    Unreachable { what: String, remedy: &'static str },
    #[error("{what}\n  {remedy}")]
    NotSignedIn { what: String, remedy: String },
    /// Said already, in another way.
    #[error("")]
    Told,
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl Failure {
    /// A refusal of our own: what is wrong, and what to do about it.
    pub(super) fn refused(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Failure::Refused { what: what.into(), remedy: remedy.into() }
    }

    /// Whether the same may go well a little later, of a request to a server.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Failure::Unreachable { .. } => true,
            Failure::Problem(problem) => problem.may_pass(),
            _ => false,
        }
    }

    /// When the server wants to be asked again.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Problem(problem) => problem.retry_after.map(Duration::from_secs),
            _ => None,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Configuration(_)
            | Failure::Unfit(_)
            | Failure::MasterKey(_)
            | Failure::UnopenedKey(_)
            | Failure::Misplaced(_) => 3,
            Failure::Open { .. } | Failure::Migrate { .. } | Failure::Store(_) => 4,
            Failure::Unreachable { .. } => 5,
            Failure::NotSignedIn { .. } => 6,
            Failure::Problem(problem) if problem.is_about_credentials() => 6,
            Failure::Problem(problem) if problem.may_pass() => 5,
            Failure::Problem(_)
            | Failure::Management(_)
            | Failure::Rotate(_)
            | Failure::Output(_)
            | Failure::Refused { .. }
            | Failure::Told
            | Failure::Failed(_) => 1,
        })
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) | StartError::Refresh(RefreshError::Store(error)) => Failure::Store(error),
            StartError::Refresh(RefreshError::Key(error)) => Failure::UnopenedKey(error),
            StartError::Misplaced(error) => Failure::Misplaced(error),
        }
    }
}

impl From<ManagementError> for Failure {
    fn from(error: ManagementError) -> Self {
        match error {
            ManagementError::Store(error) => Failure::Store(error),
            other => Failure::Management(other),
        }
    }
}

impl From<RotateError> for Failure {
    fn from(error: RotateError) -> Self {
        match error {
            RotateError::Store(error) => Failure::Store(error),
            RotateError::Unopened(error) => Failure::UnopenedKey(error),
            other => Failure::Rotate(other),
        }
    }
}

impl From<RewrapError> for Failure {
    fn from(error: RewrapError) -> Self {
        match error {
            RewrapError::Store(error) => Failure::Store(error),
            RewrapError::Key(error) => Failure::UnopenedKey(error),
            RewrapError::Overtaken => Failure::refused(error.to_string(), "Run the command again."),
        }
    }
}

impl From<TelemetryError> for Failure {
    fn from(error: TelemetryError) -> Self {
        Failure::Failed(error.into())
    }
}

/// What went wrong while a node was started, by its cause.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast::<StartError>() {
            Ok(error) => return error.into(),
            Err(other) => other,
        };
        error.downcast::<Unfit>().map_or_else(Failure::Failed, Failure::Unfit)
    }
}
