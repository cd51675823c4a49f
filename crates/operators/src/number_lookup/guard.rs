//! Circuit breaker and error logging around the lookups of a source.

use std::{fmt, sync::Arc};

use jiff::SignedDuration;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{Clock, LookupError, LookupResult};

use crate::breaker::{Breaker, BreakerSettings, CallOutcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceError {
    pub kind: LookupError,
    /// Outcome for the circuit breaker.
    pub outcome: CallOutcome,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Pause that the source requests.
    pub retry_after: Option<SignedDuration>,
}

impl SourceError {
    pub fn new(kind: LookupError, outcome: CallOutcome) -> Self {
        SourceError { kind, outcome, status: None, retry_after: None }
    }

    /// The same error for another caller; the breaker has already counted it.
    pub fn already_counted(self) -> Self {
        SourceError { outcome: CallOutcome::Inconclusive, retry_after: None, ..self }
    }

    /// Error of a received response.
    pub fn from_response(kind: LookupError) -> Self {
        // A refusal may concern one number; an invalid response concerns them all.
        let outcome =
            if kind == LookupError::InvalidResponse { CallOutcome::Failure } else { CallOutcome::Inconclusive };
        SourceError::new(kind, outcome)
    }
}

pub struct SourceGuard {
    pub name: Arc<str>,
    breaker: Breaker,
    clock: Arc<dyn Clock>,
}

impl SourceGuard {
    pub fn new(name: Arc<str>, settings: BreakerSettings, clock: Arc<dyn Clock>) -> Self {
        SourceGuard { name, breaker: Breaker::new(settings), clock }
    }

    /// Runs the lookup, unless the breaker is open.
    pub async fn run(
        &self,
        lookup: impl Future<Output = Result<LookupResult, SourceError>> + Send,
    ) -> Result<LookupResult, LookupError> {
        self.breaker.allow_call(self.clock.now()).map_err(|code| match code {
            ErrorCode::MnoTimeout => LookupError::Timeout,
            _ => LookupError::Refused,
        })?;
        let mut pending = PendingLookup { guard: self, is_finished: false };
        let result = lookup.await;
        pending.is_finished = true;
        let (outcome, retry_after) = match &result {
            Ok(_) => (CallOutcome::Success, None),
            Err(error) => (error.outcome, error.retry_after),
        };
        self.breaker.record_outcome(outcome, retry_after, self.clock.now());
        result.map_err(|error| self.log_error(error))
    }

    fn log_error(&self, SourceError { kind: error, outcome, status, .. }: SourceError) -> LookupError {
        let source = &*self.name;
        if outcome == CallOutcome::Rejected {
            tracing::error!(source, status, %error, "lookup source rejected our credentials or configuration");
        } else {
            tracing::warn!(source, status, %error, "number lookup failed");
        }
        error
    }
}

/// A pending lookup. The engine drops it at its deadline; the breaker counts that as a timeout.
struct PendingLookup<'a> {
    guard: &'a SourceGuard,
    is_finished: bool,
}

impl Drop for PendingLookup<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.guard.breaker.record_outcome(CallOutcome::Timeout, None, self.guard.clock.now());
        }
    }
}

impl fmt::Debug for SourceGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceGuard({})", self.name)
    }
}
