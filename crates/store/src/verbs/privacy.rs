//! Forgetting people.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::NumberHash};
use ringtrue_engine::ports::{Erased, PrivacyStore, StillOpen, StoreError};
use uuid::Uuid;

use super::{SqlStore, audit};
use crate::{
    driver::{Database, Ending, Tx, Value, values},
    row::Row,
};

#[async_trait]
impl<D: Database> PrivacyStore for SqlStore<D> {
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<Erased, StoreError> {
        let mut event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    // First: whatever becomes of them meanwhile, none is passed over.
                    tx.run(
                        "insert into erasures (check_id)
                         select id from checks where number_hash = $1 order by id
                         on conflict do nothing",
                        values![number],
                    )
                    .await?;
                    let left = still_open(tx, number).await?;
                    let ended = tx
                        .run(
                            "select id from checks
                              where number_hash = $1 and status not in ('ACCEPTED', 'PENDING') order by id",
                            values![number],
                        )
                        .await?;
                    let erased = Erased { left, ..erase(tx, ended, Callbacks::WhenTheyHaveCome).await? };
                    event.changes = erased.to_be_continued();
                    audit::record(tx, &event).await?;
                    Ok(Ending::Commit(erased))
                })
            })
            .await
    }

    async fn erase_left(&self, limit: u32) -> Result<Erased, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let ended = tx.run(NEEDED_NO_MORE, values![i64::from(limit)]).await?;
                    erase(tx, ended, Callbacks::WhenTheyHaveCome).await.map(Ending::Commit)
                })
            })
            .await
    }

    async fn erase_discovered(&self, ended_before: Timestamp, limit: u32) -> Result<Erased, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let ended = tx
                        .run(
                            "select id from checks
                              where product = 'discovery'
                                and (number_tail is not null or callback_url is not null or redirect_url is not null)
                                and created_at < $1 and concluded_at < $1
                              order by created_at, id limit $2",
                            values![ended_before, i64::from(limit)],
                        )
                        .await?;
                    erase(tx, ended, Callbacks::AsTheyAre).await.map(Ending::Commit)
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
                              where number_tail is not null and created_at < $1 and concluded_at < $1
                              order by created_at, id limit $2",
                            values![ended_before, i64::from(limit)],
                        )
                        .await?;
                    erase(tx, ended, Callbacks::AsTheyAre).await.map(Ending::Commit)
                })
            })
            .await
    }
}

/// What of the checks whose erasure was asked for can be erased. By the order it is these that are gone through, which are
/// few, and not all checks.
pub(crate) const NEEDED_NO_MORE: &str = "select id from erasures join checks on id = check_id
      where concluded_at is not null
        and (number_hash is not null
             or not exists (select 1 from callbacks where callbacks.check_id = id and state = 'waiting'))
      order by check_id limit $1";

/// The checks of a number that wait for its device, of those that were noted.
async fn still_open(tx: &mut dyn Tx, number: NumberHash) -> Result<Option<StillOpen>, StoreError> {
    let open = tx
        .run(
            "select expires_at from checks
              where number_hash = $1 and status in ('ACCEPTED', 'PENDING')
                and exists (select 1 from erasures where check_id = checks.id)",
            values![number],
        )
        .await?;
    let checks = open.len() as u64;
    let ends = open.into_iter().map(|row| row.of("checks").instant("expires_at"));
    let until = ends.collect::<Result<Vec<_>, _>>()?.into_iter().max();
    Ok(until.map(|until| StillOpen { checks, until }))
}

/// How many ids one statement names.
const CHUNK: usize = 500;

/// Which callbacks are erased with their checks.
#[derive(Clone, Copy)]
enum Callbacks {
    /// All of them. One that still waits has nothing left to say then, and is given up.
    AsTheyAre,
    /// Those that wait no more. The others are erased when they have come, or when they are old: until then whom they
    /// tell stays, and the tail of the number as a mark.
    WhenTheyHaveCome,
}

/// Erases what is kept of these ended checks.
async fn erase(tx: &mut dyn Tx, checks: Vec<Row>, callbacks: Callbacks) -> Result<Erased, StoreError> {
    // Whom a check told goes with the rest, and where its device was sent.
    let (waits, ripe) = match callbacks {
        Callbacks::AsTheyAre => ("1 = 0", "1 = 1"),
        Callbacks::WhenTheyHaveCome => {
            ("exists (select 1 from callbacks where check_id = checks.id and state = 'waiting')", "state <> 'waiting'")
        }
    };
    let mut ids = checks.into_iter().map(|row| row.of("checks").uuid("id")).collect::<Result<Vec<Uuid>, _>>()?;
    ids.sort_unstable();
    let mut erased = Erased::default();
    for ids in ids.chunks(CHUNK) {
        let values: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
        let places: Vec<String> = (1..=ids.len()).map(|number| format!("${number}")).collect();
        let places = places.join(", ");
        let mut run =
            async |sql: String, values: &[Value]| Ok::<_, StoreError>(tx.query(sql.into(), values).await?.len() as u64);
        erased.checks += run(
            format!(
                "update checks set number_hash = null, number_sealed = null, code_hash = null, redirect_url = null,
                        number_tail = case when {waits} then number_tail end,
                        callback_url = case when {waits} then callback_url end
                  where id in ({places})
                    and (number_tail is not null or callback_url is not null or redirect_url is not null)
                 returning 1"
            ),
            &values,
        )
        .await?;
        // A callback has its URL once more, which cannot be null: where there was one, there is an empty one then.
        let nowhere = Value::Bytes(Vec::new());
        erased.callbacks += run(
            format!(
                "update callbacks
                    set body = null, url = ${nowhere_at}, due_at = null,
                        state = case state when 'waiting' then 'given_up' else state end
                  where check_id in ({places}) and body is not null and {ripe}
                 returning 1",
                nowhere_at = ids.len() + 1
            ),
            &[&values[..], &[nowhere]].concat(),
        )
        .await?;
        // Attempts at a callback that still waits stay as numbers and times: the next attempt is counted from them.
        erased.attempts += run(
            format!(
                "delete from callback_attempts
                  where check_id in ({places})
                    and not exists (select 1 from callbacks
                                     where callbacks.check_id = callback_attempts.check_id and state = 'waiting')
                 returning 1"
            ),
            &values,
        )
        .await?;
        erased.attempts += run(
            format!(
                "update callback_attempts set exchange = null
                  where check_id in ({places}) and exchange is not null
                 returning 1"
            ),
            &values,
        )
        .await?;
        // Those of which nothing is left. A callback may have come, or be sent again, since the first of these statements.
        run(
            format!(
                "delete from erasures
                  where check_id in ({places})
                    and not exists (select 1 from checks where id = erasures.check_id and number_tail is not null)
                    and not exists (select 1 from callbacks
                                     where callbacks.check_id = erasures.check_id and state = 'waiting')"
            ),
            &values,
        )
        .await?;
    }
    Ok(erased)
}
