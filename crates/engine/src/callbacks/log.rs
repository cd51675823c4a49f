//! Reads the callback of a check with its attempts, and resends it.

use std::sync::Arc;

use jiff::Timestamp;
use ringtrue_domain::{
    audit::Action,
    lifecycle::{CheckId, Lifecycle},
    product::Product,
    tenancy::{Project, ProjectId},
};

use super::{BulkResendBudget, OpenStreams, RunningTests};
use crate::{
    actor::ManagementActor,
    checks::{Checks, ReadError},
    context::Context,
    courier::{Courier, Exchange, sealing},
    idempotency::{Idempotency, IdempotentRequest},
    ports::{
        callbacks::{AttemptRecord, CallbackRecord, CallbackState, CallbackStore, MAX_RESENDS, ResendOutcome},
        store::{StoreError, TenantLookup},
    },
    verifications::Verifications,
};

/// A callback with its logged attempts, decrypted from a [`CallbackRecord`]. `Debug` omits the URL, which may contain a
/// token, and the body, which may contain personal data.
#[derive(Clone, derive_more::Debug)]
pub struct LoggedCallback {
    /// `None`: the URL is erased, or its seal key is missing.
    #[debug(skip)]
    pub url: Option<String>,
    /// `None`: the body is erased, or its seal key is missing.
    #[debug(skip)]
    pub body: Option<String>,
    pub state: CallbackState,
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Debug)]
pub struct Attempt {
    /// Number of the attempt, from 1. A resend continues the numbering. Only the newest attempts of a callback are
    /// stored.
    pub number: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub status: Option<u16>,
    pub failure: Option<String>,
    /// `None`: nothing was sent, or the log entry is erased, or its seal key is missing.
    pub exchange: Option<Exchange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledResend {
    pub check: CheckId,
    /// When the first attempt of the resend is due.
    pub due_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum ResendError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the check is not concluded yet")]
    StillOpen,
    #[error("this check has no callback")]
    NoCallback,
    #[error("delivery attempts are still in progress")]
    StillWaiting,
    #[error("the callback's content has been erased")]
    Erased,
    #[error("the callback was already resent {MAX_RESENDS} times; read the check instead")]
    LimitReached,
}

impl From<StoreError> for ResendError {
    fn from(error: StoreError) -> Self {
        ResendError::Read(error.into())
    }
}

/// Lists, reads, resends and debugs callbacks. The [`Courier`] delivers them.
#[derive(derive_more::Debug)]
#[debug("Callbacks")]
pub struct Callbacks {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn CallbackStore>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) courier: Courier,
    pub(crate) verifications: Arc<Verifications>,
    pub(crate) running_tests: RunningTests,
    pub(crate) bulk_resends: BulkResendBudget,
    pub(crate) streams: Arc<OpenStreams>,
}

impl Callbacks {
    /// Reads the callback of a check. `None`: the check has no callback, or is not concluded.
    pub async fn read_logged_callback(
        &self,
        project: ProjectId,
        check: CheckId,
    ) -> Result<Option<LoggedCallback>, ReadError> {
        let record = match self.store.find_callback(project, check).await? {
            TenantLookup::Found(record) => record,
            TenantLookup::OtherTenant => return Err(ReadError::OtherProject),
            TenantLookup::NotFound => return Ok(None),
        };
        let CallbackRecord { url, body, state, attempts, .. } = record;
        let keys = self.context.keys();
        let attempt = |(number, log): (u32, AttemptRecord)| Attempt {
            number,
            started_at: log.started_at,
            ended_at: log.ended_at,
            status: log.status,
            failure: log.failure,
            exchange: log.exchange.and_then(|sealed| sealing::unseal_exchange(&keys, check, &sealed)),
        };
        Ok(Some(LoggedCallback {
            url: sealing::unseal_url(&keys, check, &url).map(|url| url.as_str().to_owned()),
            body: body.and_then(|body| String::from_utf8(sealing::unseal_body(&keys, check, &body)?).ok()),
            state,
            attempts: attempts.into_iter().map(attempt).collect(),
        }))
    }

    /// Fails unless the check belongs to the project. Called before the idempotency key of a resend request is claimed,
    /// so that a request for another project's check does not claim a key.
    pub async fn authorize_resend(
        &self,
        project: &Project,
        product: Product,
        check: CheckId,
    ) -> Result<(), ResendError> {
        self.checks.read_any_check(project.id, product, check).await?;
        Ok(())
    }

    /// Resends a callback that was delivered or given up. The body stays the same, and the retry schedule starts again.
    /// The project must belong to the manager's workspace.
    pub async fn resend_callback(
        &self,
        manager: &ManagementActor,
        project: &Project,
        product: Product,
        check: CheckId,
        idempotency: Option<IdempotentRequest<'_, ScheduledResend>>,
    ) -> Result<ScheduledResend, ResendError> {
        if project.workspace != manager.workspace {
            return Err(ReadError::OtherProject.into());
        }
        let resent_check = self.checks.read_any_check(project.id, product, check).await?;
        if matches!(resent_check.state, Lifecycle::Open(_)) {
            return Err(ResendError::StillOpen);
        }
        let audit = manager.new_audit_event(&self.context, Action::CallbackResent, check.to_string(), vec![]);
        let resend = ScheduledResend { check, due_at: audit.at };
        let idempotent_response = self.idempotency.seal_response(idempotency.as_ref(), &resend)?;
        match self.store.resend_callback(project.id, check, audit.at, &audit, idempotent_response).await? {
            TenantLookup::Found(ResendOutcome::Queued) => {
                self.courier.wake();
                Ok(resend)
            }
            TenantLookup::Found(ResendOutcome::StillWaiting) => Err(ResendError::StillWaiting),
            TenantLookup::Found(ResendOutcome::Erased) => Err(ResendError::Erased),
            TenantLookup::Found(ResendOutcome::LimitReached) => Err(ResendError::LimitReached),
            TenantLookup::OtherTenant => Err(ReadError::OtherProject.into()),
            TenantLookup::NotFound => Err(ResendError::NoCallback),
        }
    }
}
