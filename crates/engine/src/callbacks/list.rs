//! Lists the callbacks of a project, filtered by receiver and by failure reason, and resends failed ones in bulk.

use std::collections::HashMap;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    lifecycle::CheckId,
    product::Product,
    tenancy::{Project, ProjectId, WorkspaceId},
};

use super::{Callbacks, ResendError};
use crate::{
    actor::ManagementActor,
    checks::ReadError,
    courier::sealing,
    ports::{
        callbacks::{
            CallbackQuery, CallbackSelection, CallbackState, LastAttempt, ListedCallback, MAX_RESENDS, ResendProgress,
        },
        store::StoreError,
    },
};

/// Maximum number of callbacks that are read and then filtered, newest first. The database cannot filter by receiver,
/// because URLs are stored encrypted.
pub const MAX_LISTED_CALLBACKS: u32 = 1_000;
/// Maximum number of callbacks that one request resends.
pub const MAX_BULK_RESENDS: usize = 200;
/// Time in which the number of callbacks that a workspace may resend in bulk grows by one, up to [`MAX_BULK_RESENDS`].
const MILLIS_PER_BULK_RESEND: i64 = 50;
/// Number of callbacks that a bulk resend queues at the same time. Few, so that database connections are left for other
/// requests.
const CONCURRENT_RESENDS: usize = 4;

/// [`CallbackSummary::reason`] of a callback before its first attempt.
const NOT_ATTEMPTED: &str = "not_attempted";
/// [`CallbackSummary::receiver`] of a callback whose URL was erased.
pub(super) const ERASED: &str = "erased";

/// Selects the callbacks to list or resend. A field that is `None` matches all callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackFilter {
    pub selection: CallbackSelection,
    pub product: Option<Product>,
    /// Host of the callback URL, with the port unless it is the default one.
    pub receiver: Option<String>,
    /// HTTP status or failure name of the last attempt, as in [`CallbackSummary::reason`].
    pub reason: Option<String>,
    /// Creation time of the checks: from this time on.
    pub created_from: Option<Timestamp>,
    /// Creation time of the checks: before this time.
    pub created_before: Option<Timestamp>,
}

/// The callbacks that match a filter, newest checks first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackSummaries {
    pub callbacks: Vec<CallbackSummary>,
    /// Callbacks of checks created before this time were not read, because there are too many newer ones. `None`: all
    /// were read.
    pub read_back_to: Option<Timestamp>,
}

impl CallbackFilter {
    /// Selects all callbacks in some states.
    pub fn new(selection: CallbackSelection) -> Self {
        CallbackFilter {
            selection,
            product: None,
            receiver: None,
            reason: None,
            created_from: None,
            created_before: None,
        }
    }

    /// Returns whether a listed callback has the filter's receiver and reason. The database compares the other fields.
    pub fn matches(&self, callback: &CallbackSummary) -> bool {
        self.receiver.as_ref().is_none_or(|receiver| *receiver == callback.receiver)
            && self.reason.as_ref().is_none_or(|reason| *reason == callback.reason)
    }
}

/// A callback and the result of its last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackSummary {
    pub check: CheckId,
    pub product: Product,
    /// Host and port of the callback URL. The rest of the URL is omitted, because it may contain secrets.
    pub receiver: String,
    /// HTTP status or failure name of the last attempt.
    pub reason: String,
    pub attempts: u32,
    pub last_attempt_at: Option<Timestamp>,
    /// For a callback that is not delivered: all attempts since this time have failed. Earlier attempts may have failed
    /// too, if the callback was resent. `None`: there was no attempt.
    pub failing_since: Option<Timestamp>,
    pub state: CallbackState,
    pub may_resend: bool,
}

/// Result of a bulk resend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkResendResult {
    pub queued: usize,
    /// Callbacks that were not resent, because another request resent them meanwhile, they were erased, or they were
    /// resent too often.
    pub refused: usize,
    /// Matching callbacks that were left out, because the workspace may not resend more at present. A later request can
    /// resend them.
    pub remaining: usize,
    /// Identifies the resent callbacks, for [`Callbacks::resend_progress`]. `None`: no callback was resent.
    pub batch: Option<ResendBatch>,
}

/// Identifies the callbacks of a bulk resend: those of the checks from `first` to `last` that were resent at `since` or
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResendBatch {
    pub since: Timestamp,
    pub first: CheckId,
    pub last: CheckId,
}

/// Limits bulk resends (token bucket): a workspace may resend [`MAX_BULK_RESENDS`] at once, and twenty per second after
/// that. Resends through the API count towards the rate limit for creating checks. Bulk resends have this limit of
/// their own instead, so that resends after an outage of a receiver do not use up the rate limit for new checks.
#[derive(Debug, Default)]
pub(crate) struct BulkResendBudget {
    /// For each workspace, the time from which it may resend [`MAX_BULK_RESENDS`] at once again.
    full_at: Mutex<HashMap<WorkspaceId, Timestamp>>,
}

impl BulkResendBudget {
    /// Takes up to `wanted` resends from the budget of a workspace. Returns the number of granted resends.
    fn take(&self, workspace: WorkspaceId, wanted: usize, now: Timestamp) -> usize {
        let mut full_at = self.full_at.lock();
        full_at.retain(|_, at| *at > now);
        let missing_millis = full_at.get(&workspace).map_or(0, |at| at.as_millisecond() - now.as_millisecond());
        let missing = (missing_millis + MILLIS_PER_BULK_RESEND - 1) / MILLIS_PER_BULK_RESEND;
        let granted = wanted.min(MAX_BULK_RESENDS.saturating_sub(usize::try_from(missing).unwrap_or(usize::MAX)));
        let millis = missing_millis + MILLIS_PER_BULK_RESEND * i64::try_from(granted).unwrap_or(i64::MAX);
        full_at.insert(workspace, now.saturating_add(SignedDuration::from_millis(millis)).unwrap_or(Timestamp::MAX));
        granted
    }
}

impl Callbacks {
    /// Lists the callbacks of a project that match a filter, newest checks first. Reads at most
    /// [`MAX_LISTED_CALLBACKS`], so older matches may be missing.
    pub async fn list_callbacks(
        &self,
        project: &Project,
        filter: &CallbackFilter,
    ) -> Result<CallbackSummaries, StoreError> {
        let mut found = self.read_callbacks(project, filter, MAX_LISTED_CALLBACKS).await?;
        found.callbacks.retain(|callback| filter.matches(callback));
        Ok(found)
    }

    /// Reads at most `limit` callbacks. Ignores the filter's receiver and reason.
    pub(super) async fn read_callbacks(
        &self,
        project: &Project,
        filter: &CallbackFilter,
        limit: u32,
    ) -> Result<CallbackSummaries, StoreError> {
        let before_first = filter.created_from.and_then(|from| from.checked_sub(SignedDuration::from_millis(1)).ok());
        let query = CallbackQuery {
            project: project.id,
            selection: filter.selection,
            product: filter.product,
            // Hides the sandbox checks of a project that has gone live.
            created_after: project.live_since.max(before_first),
            created_before: filter.created_before,
            limit,
        };
        let found = self.store.list_callbacks(query).await?;
        let keys = self.context.keys();
        let summary = |callback: ListedCallback| {
            let url = sealing::unseal_url(&keys, callback.check, &callback.url);
            let receiver = url.map_or_else(|| ERASED.to_owned(), |url| url.authority().to_owned());
            summarize(callback, receiver)
        };
        Ok(CallbackSummaries {
            callbacks: found.callbacks.into_iter().map(summary).collect(),
            read_back_to: found.cut_at.map(CheckId::created_at),
        })
    }

    /// Resends callbacks that match the filter and were given up after their last attempt, oldest checks first. Resends
    /// as many as the workspace's budget permits. The project must belong to the manager's workspace.
    pub async fn resend_failed(
        &self,
        manager: &ManagementActor,
        project: &Project,
        filter: &CallbackFilter,
    ) -> Result<BulkResendResult, ResendError> {
        if project.workspace != manager.workspace {
            return Err(ReadError::OtherProject.into());
        }
        let filter = CallbackFilter { selection: CallbackSelection::GivenUp, ..filter.clone() };
        let since = self.context.now();
        let mut matching = self.list_callbacks(project, &filter).await?.callbacks;
        matching.retain(|failure| failure.may_resend);
        matching.reverse();
        let granted = self.bulk_resends.take(project.workspace, matching.len(), since);
        let remaining = matching.len() - granted;
        matching.truncate(granted);
        let batch = matching.first().zip(matching.last()).map(|(first, last)| ResendBatch {
            since,
            first: first.check,
            last: last.check,
        });
        let (mut queued, mut refused) = (0, 0);
        for failures in matching.chunks(CONCURRENT_RESENDS) {
            let resends =
                failures.iter().map(|one| self.resend_callback(manager, project, one.product, one.check, None));
            for result in join_all(resends).await {
                match result {
                    Ok(_) => queued += 1,
                    Err(ResendError::Read(ReadError::Store(error))) => return Err(error.into()),
                    Err(_) => refused += 1,
                }
            }
        }
        Ok(BulkResendResult { queued, refused, remaining, batch })
    }

    pub async fn resend_progress(&self, project: ProjectId, batch: ResendBatch) -> Result<ResendProgress, StoreError> {
        self.store.resend_progress(project, batch.first..=batch.last, batch.since).await
    }
}

fn summarize(callback: ListedCallback, receiver: String) -> CallbackSummary {
    let ListedCallback { check, product, url: _, is_erased, created_at, state, resends, last_attempt } = callback;
    let is_first_series = resends == 0;
    let reason = last_attempt.as_ref().map(|LastAttempt { status, failure, .. }| match (status, failure) {
        (Some(status), _) => status.to_string(),
        (None, Some(failure)) => failure.clone(),
        (None, None) => "no_response".to_owned(),
    });
    CallbackSummary {
        check,
        product,
        receiver,
        reason: reason.unwrap_or_else(|| NOT_ATTEMPTED.to_owned()),
        attempts: last_attempt.as_ref().map_or(0, |attempt| attempt.number),
        failing_since: last_attempt.as_ref().map(|attempt| if is_first_series { created_at } else { attempt.ended_at }),
        last_attempt_at: last_attempt.map(|attempt| attempt.ended_at),
        state,
        may_resend: !matches!(state, CallbackState::Waiting { .. }) && !is_erased && resends < MAX_RESENDS,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn bulk_resends_are_limited_by_workspace() {
        let budget = BulkResendBudget::default();
        let [acme, globex] = [1, 2].map(|number| WorkspaceId(Uuid::from_u128(number)));
        let at = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
        assert_eq!([150, 150, 1].map(|wanted| budget.take(acme, wanted, at(0))), [150, 50, 0]);
        assert_eq!(budget.take(globex, 500, at(0)), MAX_BULK_RESENDS);
        assert_eq!([500, 500].map(|wanted| budget.take(acme, wanted, at(1_000))), [20, 0]);
        assert_eq!(budget.take(acme, 500, at(60_000)), MAX_BULK_RESENDS);
    }
}
