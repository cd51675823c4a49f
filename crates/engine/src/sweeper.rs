//! Ending checks: because something came, or because their time is up.
//!
//! Every end goes through [`Engine::conclude`], which records it with its callback in one transaction. The sweeper only
//! sees to it that checks nobody asks about end too.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, Check, CheckId, Concluded, Ending, Sealed, Verdict},
    product::Product,
    tenancy::ProjectId,
    web_url::CallbackUrl,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    callback::{payload, sealing},
    ports::{LeasedCallback, NewCallback, Recorded, StoreError},
};

/// How often overdue checks are looked for. An end is recorded within a second of its time.
const PAUSE: Duration = Duration::from_millis(250);
/// How many are ended together: enough for full batches, few enough to keep little in memory.
const BATCH: u32 = 2_000;

impl Engine {
    /// Records the end of a check, and sends its callback if this was the first to end it.
    pub(crate) async fn conclude<V: Into<AnyVerdict>>(&self, concluded: Concluded<V>) -> Result<Recorded, StoreError> {
        self.conclude_by(concluded, None).await
    }

    /// As [`conclude`](Engine::conclude), of a check that what a connector brought has ended.
    pub(crate) async fn conclude_by<V: Into<AnyVerdict>>(
        &self,
        concluded: Concluded<V>,
        connector: Option<Arc<str>>,
    ) -> Result<Recorded, StoreError> {
        let concluded = concluded.map(Into::into);
        let callback = self.callback_of(&concluded)?;
        let ending = Ending::from(&concluded).brought_by(connector);
        let recorded = self.store().conclude(ending, callback.clone()).await?;
        let is_first = matches!(recorded, Recorded::Now { .. });
        if is_first {
            self.activity().ended(concluded.check());
        }
        if let (true, Some(NewCallback { url, body, due_at })) = (is_first, callback) {
            let Check { id: check, project, product, mode, .. } = concluded.into_check();
            let (failed_attempts, earlier_attempts) = (0, 0);
            let leased = LeasedCallback { check, project, product, mode, url, body, failed_attempts, earlier_attempts };
            self.courier().deliver(leased, due_at);
        }
        Ok(recorded)
    }

    /// The callback that tells of an end, if anybody wants to know.
    fn callback_of(&self, concluded: &Concluded<AnyVerdict>) -> Result<Option<NewCallback>, StoreError> {
        let check = concluded.check();
        let Some(url) = check.callback_url.clone() else { return Ok(None) };
        let now = self.clock().now();
        let number = check.verdict().and_then(Verdict::discovered);
        let number = number.and_then(|number| self.open_number(check.id, number));
        let body = payload::render(concluded, number.as_ref());
        let body = sealing::seal_body(&self.control_plane().keys(), self.entropy(), now, check.id, &body);
        let body = body.ok_or_else(no_seal_key)?;
        Ok(Some(NewCallback { url, body, due_at: self.courier().first_due(check.project, now) }))
    }

    pub(crate) fn seal_callback_url(&self, check: CheckId, url: &CallbackUrl) -> Result<Sealed, StoreError> {
        let now = self.clock().now();
        sealing::seal_url(&self.control_plane().keys(), self.entropy(), now, check, url).ok_or_else(no_seal_key)
    }

    /// Ends a check whose time is up, unless someone else has ended it.
    pub(crate) async fn expire(&self, check: AnyCheck) -> Result<(), StoreError> {
        match check.expire() {
            Ok(concluded) => self.conclude(concluded).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Ends every check whose time is up. Gives how many were looked at.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let now = self.clock().now();
        let mut swept = 0;
        loop {
            let overdue = self.store().overdue(now, BATCH).await?;
            let is_last = overdue.len() < usize::try_from(BATCH).unwrap_or(usize::MAX);
            swept += overdue.len();
            self.expire_all(overdue).await?;
            if is_last {
                return Ok(swept);
            }
        }
    }

    /// Ends the overdue checks of one project, so that a list of it tells no tales.
    pub(crate) async fn sweep_project(&self, project: ProjectId, product: Product) -> Result<(), StoreError> {
        let now = self.clock().now();
        loop {
            let overdue = self.store().overdue_of(project, product, now, BATCH).await?;
            if overdue.is_empty() {
                return Ok(());
            }
            self.expire_all(overdue).await?;
        }
    }

    /// All at once, so that the store can record them together.
    async fn expire_all(&self, overdue: Vec<AnyCheck>) -> Result<(), StoreError> {
        join_all(overdue.into_iter().map(|check| self.expire(check))).await.into_iter().collect()
    }

    /// Sweeps until `shutdown`. A sweep under way is finished: an end that was recorded must be told.
    pub async fn keep_sweeping(&self, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "overdue checks wait for the next sweep");
            }
        }
    }
}

pub(crate) fn no_seal_key() -> StoreError {
    StoreError::Refused("no seal key is in use".to_owned())
}
