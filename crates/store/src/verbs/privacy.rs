//! Forgetting people.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::NumberHash};
use ringtrue_engine::ports::{Erased, PrivacyStore, StoreError};
use uuid::Uuid;

use super::{SqlStore, audit};
use crate::{
    driver::{Database, Ending, Tx, values},
    row::Row,
};

#[async_trait]
impl<D: Database> PrivacyStore for SqlStore<D> {
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<Erased, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    tx.run("delete from number_guard where number_hash = $1", values![number]).await?;
                    let ended = tx
                        .run(
                            "select id from checks
                              where number_hash = $1 and status not in ('ACCEPTED', 'PENDING') order by id",
                            values![number],
                        )
                        .await?;
                    let erased = erase(tx, ended).await?;
                    audit::record(tx, &event).await?;
                    Ok(Ending::Commit(erased))
                })
            })
            .await
    }

    async fn erase_old(&self, ended_before: Timestamp, limit: u32) -> Result<Erased, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    tx.run(
                        "delete from reverse_sms_codes where code_hash in
                           (select code_hash from reverse_sms_codes where expires_at < $1
                             order by expires_at, code_hash limit $2)",
                        values![ended_before, i64::from(limit)],
                    )
                    .await?;
                    let ended = tx
                        .run(
                            "select id from checks
                              where concluded_at is not null and number_hash is not null and concluded_at < $1
                              order by concluded_at, id limit $2",
                            values![ended_before, i64::from(limit)],
                        )
                        .await?;
                    erase(tx, ended).await.map(Ending::Commit)
                })
            })
            .await
    }
}

/// Erases what is kept of these ended checks. A callback that waits for its next attempt has nothing left to say, and is
/// given up.
async fn erase(tx: &mut dyn Tx, checks: Vec<Row>) -> Result<Erased, StoreError> {
    let mut ids = checks.into_iter().map(|row| row.of("checks").uuid("id")).collect::<Result<Vec<Uuid>, _>>()?;
    ids.sort_unstable();
    let mut erased = Erased::default();
    for id in ids {
        let checks = tx
            .run(
                "update checks set number_hash = null, number_tail = null
                  where id = $1 and number_hash is not null
                 returning 1",
                values![id],
            )
            .await?;
        let callbacks = tx
            .run(
                "update callbacks
                    set body = null, due_at = null, state = case state when 'waiting' then 'given_up' else state end
                  where check_id = $1 and body is not null
                 returning 1",
                values![id],
            )
            .await?;
        let attempts = tx
            .run(
                "update callback_attempts set exchange = null where check_id = $1 and exchange is not null returning 1",
                values![id],
            )
            .await?;
        erased.checks += checks.len() as u64;
        erased.callbacks += callbacks.len() as u64;
        erased.attempts += attempts.len() as u64;
    }
    Ok(erased)
}
