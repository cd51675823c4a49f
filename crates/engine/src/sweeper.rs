//! Concluding checks, and the sweeper that expires overdue ones.
//!
//! Every conclusion goes through [`Engine::conclude`], which stores it with its callback in one transaction. Reads
//! expire overdue checks as well; the sweeper expires those that no client reads.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, Check, CheckConclusion, CheckId, Concluded, Sealed, Verdict},
    product::Product,
    tenancy::ProjectId,
    web_url::CallbackUrl,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    callback::{payload, sealing},
    ports::{ConcludeOutcome, LeasedCallback, NewCallback, StoreError},
};

/// Short enough to record an expiry within a second.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// Enough for full batches, few enough to bound memory.
const MAX_SWEEP_ROWS: u32 = 2_000;

impl Engine {
    /// Stores the conclusion of a check, and sends its callback unless the check was already concluded.
    pub(crate) async fn conclude<V: Into<AnyVerdict>>(
        &self,
        concluded: Concluded<V>,
    ) -> Result<ConcludeOutcome, StoreError> {
        self.conclude_via_connector(concluded, None).await
    }

    /// Like [`conclude`](Engine::conclude), naming the connector whose message concluded the check.
    pub(crate) async fn conclude_via_connector<V: Into<AnyVerdict>>(
        &self,
        concluded: Concluded<V>,
        connector: Option<Arc<str>>,
    ) -> Result<ConcludeOutcome, StoreError> {
        let concluded = concluded.map(Into::into);
        let callback = self.build_callback(&concluded)?;
        let conclusion = CheckConclusion::from(&concluded).via_connector(connector);
        let outcome = self.store().conclude(conclusion, callback.clone()).await?;
        let is_first = matches!(outcome, ConcludeOutcome::Concluded { .. });
        if is_first {
            self.activity_recorder().record_concluded(concluded.check());
        }
        if let (true, Some(NewCallback { url, body, due_at })) = (is_first, callback) {
            let Check { id: check, project, product, mode, .. } = concluded.into_check();
            let (failed_attempts, earlier_attempts) = (0, 0);
            let leased = LeasedCallback { check, project, product, mode, url, body, failed_attempts, earlier_attempts };
            self.courier().deliver(leased, due_at);
        }
        Ok(outcome)
    }

    /// `None`: the check has no callback URL.
    fn build_callback(&self, concluded: &Concluded<AnyVerdict>) -> Result<Option<NewCallback>, StoreError> {
        let check = concluded.check();
        let Some(url) = check.callback_url.clone() else { return Ok(None) };
        let now = self.clock().now();
        let number = check.verdict().and_then(Verdict::discovered);
        let number = number.and_then(|number| self.open_number(check.id, number));
        let body = payload::render(concluded, number.as_ref());
        let body = sealing::seal_body(&self.control_plane().keys(), self.entropy(), now, check.id, &body);
        let body = body.ok_or_else(missing_seal_key)?;
        Ok(Some(NewCallback { url, body, due_at: self.courier().initial_due_at(check.project, now) }))
    }

    pub(crate) fn seal_callback_url(&self, check: CheckId, url: &CallbackUrl) -> Result<Sealed, StoreError> {
        let now = self.clock().now();
        sealing::seal_url(&self.control_plane().keys(), self.entropy(), now, check, url).ok_or_else(missing_seal_key)
    }

    /// Concludes an overdue check as expired, unless it is already concluded.
    pub(crate) async fn expire(&self, check: AnyCheck) -> Result<(), StoreError> {
        match check.expire() {
            Ok(concluded) => self.conclude(concluded).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Expires all overdue checks and returns their number.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let now = self.clock().now();
        let mut swept = 0;
        loop {
            let overdue = self.store().overdue_checks(now, MAX_SWEEP_ROWS).await?;
            let is_last = overdue.len() < usize::try_from(MAX_SWEEP_ROWS).unwrap_or(usize::MAX);
            swept += overdue.len();
            self.expire_all(overdue).await?;
            if is_last {
                return Ok(swept);
            }
        }
    }

    /// Expires the overdue checks of one project, so that lists never show an expired check as open.
    pub(crate) async fn sweep_project(&self, project: ProjectId, product: Product) -> Result<(), StoreError> {
        let now = self.clock().now();
        loop {
            let overdue = self.store().overdue_checks_of_project(project, product, now, MAX_SWEEP_ROWS).await?;
            if overdue.is_empty() {
                return Ok(());
            }
            self.expire_all(overdue).await?;
        }
    }

    /// Concurrently, so that the store can batch the writes.
    async fn expire_all(&self, overdue: Vec<AnyCheck>) -> Result<(), StoreError> {
        join_all(overdue.into_iter().map(|check| self.expire(check))).await.into_iter().collect()
    }

    /// Sweeps until `shutdown`. A running sweep is completed, so that the callbacks of recorded conclusions are sent.
    pub async fn run_sweeper(&self, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_some() {
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "sweep of overdue checks failed; retrying at the next interval");
            }
        }
    }
}

pub(crate) fn missing_seal_key() -> StoreError {
    StoreError::Refused("no active seal key".to_owned())
}
