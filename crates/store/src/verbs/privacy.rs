//! Forgetting people.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::NumberHash};
use ringtrue_engine::ports::{Erased, PrivacyStore, StoreError};
use uuid::Uuid;

use super::{SqlStore, audit};
use crate::{
    driver::{Database, Ending, Tx, Value, values},
    row::Row,
};

#[async_trait]
impl<D: Database> PrivacyStore for SqlStore<D> {
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<Erased, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let ended = tx
                        .run(
                            "select id from checks
                              where number_hash = $1 and status not in ('ACCEPTED', 'PENDING') order by id",
                            values![number],
                        )
                        .await?;
                    let erased = erase(tx, ended, "state <> 'waiting'").await?;
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
                    let ended = tx
                        .run(
                            "select id from checks
                              where concluded_at is not null and number_hash is not null and concluded_at < $1
                              order by concluded_at, id limit $2",
                            values![ended_before, i64::from(limit)],
                        )
                        .await?;
                    erase(tx, ended, "1 = 1").await.map(Ending::Commit)
                })
            })
            .await
    }
}

/// How many ids one statement names.
const CHUNK: usize = 500;

/// Erases what is kept of these ended checks, and the bodies of those of their callbacks that meet a condition. One that
/// still waits has nothing left to say, and is given up.
async fn erase(tx: &mut dyn Tx, checks: Vec<Row>, callbacks: &str) -> Result<Erased, StoreError> {
    let mut ids = checks.into_iter().map(|row| row.of("checks").uuid("id")).collect::<Result<Vec<Uuid>, _>>()?;
    ids.sort_unstable();
    let mut erased = Erased::default();
    for ids in ids.chunks(CHUNK) {
        let values: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
        let places: Vec<String> = (1..=ids.len()).map(|number| format!("${number}")).collect();
        let places = places.join(", ");
        let mut run = async |sql: String| Ok::<_, StoreError>(tx.query(sql.into(), &values).await?.len() as u64);
        erased.checks += run(format!(
            "update checks set number_hash = null, number_tail = null, code_hash = null
              where id in ({places}) and number_hash is not null
             returning 1"
        ))
        .await?;
        erased.callbacks += run(format!(
            "update callbacks
                set body = null, due_at = null, state = case state when 'waiting' then 'given_up' else state end
              where check_id in ({places}) and body is not null and {callbacks}
             returning 1"
        ))
        .await?;
        erased.attempts += run(format!(
            "update callback_attempts set exchange = null
              where check_id in ({places}) and exchange is not null
             returning 1"
        ))
        .await?;
    }
    Ok(erased)
}
