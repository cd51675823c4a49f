//! What became of a check's callback, for people; and sending it again.

use jiff::Timestamp;
use ringtrue_domain::{
    audit::Action,
    lifecycle::{CheckId, Lifecycle},
    product::Product,
    tenancy::{Project, ProjectId},
};

use super::{Exchange, sealing};
use crate::{
    Engine,
    checks::ReadError,
    idempotency::Once,
    management::Manager,
    ports::{AttemptLog, CallbackRecord, CallbackState, Found, MAX_RESENDS, Resent, StoreError},
};

/// A callback with all that is remembered of it.
#[derive(Clone)]
pub struct CallbackLog {
    /// `None` once it cannot be read any more.
    pub url: Option<String>,
    /// `None` once it has been erased.
    pub body: Option<String>,
    pub state: CallbackState,
    pub attempts: Vec<Attempt>,
}

/// Masked: a URL may carry a token, a body personal data.
impl std::fmt::Debug for CallbackLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackLog").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct Attempt {
    /// Counted from 1 over all series. Only the newest are kept.
    pub number: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub status: Option<u16>,
    pub failure: Option<String>,
    /// `None` once it has been erased.
    pub exchange: Option<Exchange>,
}

/// A callback that will be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resending {
    pub check: CheckId,
    /// When the new series of attempts begins.
    pub due_at: Timestamp,
}

/// Why a callback is not sent again.
#[derive(Debug, thiserror::Error)]
pub enum ResendError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the check has not ended yet")]
    StillOpen,
    #[error("this check has no callback")]
    NoCallback,
    #[error("the callback is still being tried")]
    StillWaiting,
    #[error("what the callback said has been erased")]
    Erased,
    #[error("the callback was sent again {MAX_RESENDS} times already; read the check instead")]
    LimitReached,
}

impl From<StoreError> for ResendError {
    fn from(error: StoreError) -> Self {
        ResendError::Read(error.into())
    }
}

impl Engine {
    /// `None`: the check has no callback, or has not ended.
    pub async fn callback_log(&self, project: ProjectId, check: CheckId) -> Result<Option<CallbackLog>, ReadError> {
        let record = match self.store().callback(project, check).await? {
            Found::Mine(record) => record,
            Found::SomeoneElses => return Err(ReadError::NotYours),
            Found::Nothing => return Ok(None),
        };
        let CallbackRecord { url, body, state, attempts, .. } = record;
        let keys = self.control_plane().keys();
        let attempt = |(number, log): (u32, AttemptLog)| Attempt {
            number,
            started_at: log.started_at,
            ended_at: log.ended_at,
            status: log.status,
            failure: log.failure,
            exchange: log.exchange.and_then(|sealed| sealing::open_exchange(&keys, check, &sealed)),
        };
        Ok(Some(CallbackLog {
            url: sealing::open_url(&keys, check, &url).map(|url| url.as_str().to_owned()),
            body: body.and_then(|body| String::from_utf8(sealing::open_body(&keys, check, &body)?).ok()),
            state,
            attempts: attempts.into_iter().map(attempt).collect(),
        }))
    }

    /// Fails unless the check belongs to the project, so that a caller is refused before its idempotency key is used.
    pub async fn authorize_resend(
        &self,
        project: &Project,
        product: Product,
        check: CheckId,
    ) -> Result<(), ResendError> {
        self.any_check(project.id, product, check).await?;
        Ok(())
    }

    /// Sends a callback again that was delivered or given up: the same body, in a new series of attempts. The project is
    /// one that the manager has been let into.
    pub async fn resend_callback(
        &self,
        manager: &Manager,
        project: &Project,
        product: Product,
        check: CheckId,
        once: Option<Once<'_, Resending>>,
    ) -> Result<Resending, ResendError> {
        if project.workspace != manager.workspace {
            return Err(ReadError::NotYours.into());
        }
        let ended = self.any_check(project.id, product, check).await?;
        if matches!(ended.state, Lifecycle::Open(_)) {
            return Err(ResendError::StillOpen);
        }
        let audit = self.audit(manager, Action::CallbackResent, check.to_string(), vec![]);
        let resending = Resending { check, due_at: audit.at };
        let completion = self.completion(once, &resending)?;
        match self.store().resend(project.id, check, audit.at, &audit, completion).await? {
            Found::Mine(Resent::Queued) => {
                self.courier().look();
                Ok(resending)
            }
            Found::Mine(Resent::StillWaiting) => Err(ResendError::StillWaiting),
            Found::Mine(Resent::Erased) => Err(ResendError::Erased),
            Found::Mine(Resent::LimitReached) => Err(ResendError::LimitReached),
            Found::SomeoneElses => Err(ReadError::NotYours.into()),
            Found::Nothing => Err(ResendError::NoCallback),
        }
    }
}
