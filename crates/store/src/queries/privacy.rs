//! Erases personal data.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::NumberHash};
use ringtrue_engine::ports::{
    privacy::{DeferredErasure, ErasureCounts, PrivacyStore},
    store::StoreError,
};
use uuid::Uuid;

use super::{SqlStore, audit::insert_audit_event, placeholders};
use crate::{
    driver::{Database, Sql, TransactionEnd, Tx, work},
    row::{Row, Value, values},
};

#[async_trait]
impl<D: Database> PrivacyStore for SqlStore<D> {
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<ErasureCounts, StoreError> {
        let mut event = audit.clone();
        self.transact(work!(|tx| {
            if let Some(delete) = D::DELETE_NUMBER_LIMITS_SQL {
                tx.run(delete, values![number]).await?;
            }
            // Recorded before the selects below: if these still see a check as open, and it concludes later,
            // housekeeping erases it.
            let insert = "insert into erasures (check_id)
                          select id from checks where number_hash = $1 order by id
                          on conflict do nothing";
            tx.run(insert, values![number]).await?;
            let deferred = deferred_erasure(tx, number).await?;
            let select = "select id from checks
                           where number_hash = $1 and status not in ('ACCEPTED', 'PENDING') order by id";
            let ended = tx.run(select, values![number]).await?;
            let erased = ErasureCounts { deferred, ..erase::<D>(tx, ended, WaitingCallbackPolicy::Keep).await? };
            tx.run("delete from sign_in_sessions where number_hash = $1", values![number]).await?;
            event.changes = erased.audit_details();
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(erased))
        }))
        .await
    }

    async fn erase_deferred(&self, limit: u32) -> Result<ErasureCounts, StoreError> {
        self.erase_selected(select_erasable::<D>(), values![i64::from(limit)], WaitingCallbackPolicy::Keep).await
    }

    async fn erase_discovered_numbers(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError> {
        let select = "select id from checks
                       where product = 'discovery'
                         and (number_tail is not null or callback_url is not null or redirect_url is not null)
                         and created_at < $1 and concluded_at < $1
                       order by created_at, id limit $2";
        self.erase_selected(select, values![ended_before, i64::from(limit)], WaitingCallbackPolicy::GiveUp).await
    }

    async fn erase_old_checks(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError> {
        let select = "select id from checks
                       where number_tail is not null and created_at < $1 and concluded_at < $1
                       order by created_at, id limit $2";
        self.erase_selected(select, values![ended_before, i64::from(limit)], WaitingCallbackPolicy::GiveUp).await
    }
}

impl<D: Database> SqlStore<D> {
    async fn erase_selected(
        &self,
        select: impl Into<Sql>,
        values: &[Value],
        waiting: WaitingCallbackPolicy,
    ) -> Result<ErasureCounts, StoreError> {
        let (select, values) = (select.into(), values.to_vec());
        self.transact(work!(|tx| {
            let ended = tx.query(select, &values).await?;
            erase::<D>(tx, ended, waiting).await.map(TransactionEnd::Commit)
        }))
        .await
    }
}

/// Selects the checks with a pending erasure that can be erased now, at least in part. `order by check_id` makes the
/// planner scan the short table `erasures` instead of `checks`.
pub(crate) fn select_erasable<D: Database>() -> String {
    format!(
        "select id from erasures join checks on id = check_id
          where concluded_at is not null
            and (number_hash is not null
                 or not exists (select 1 from callbacks where callbacks.check_id = id {} and state = 'waiting'))
          order by check_id limit $1",
        D::same_bucket_condition("callbacks", "checks")
    )
}

/// Counts the open checks of a number that have a pending erasure, and returns when the last of them expires. `None`:
/// there is no such check.
async fn deferred_erasure(tx: &mut dyn Tx, number: NumberHash) -> Result<Option<DeferredErasure>, StoreError> {
    let select = "select expires_at from checks
                   where number_hash = $1 and status in ('ACCEPTED', 'PENDING')
                     and exists (select 1 from erasures where check_id = checks.id)";
    let open = tx.run(select, values![number]).await?;
    let checks = open.len() as u64;
    let ends = open.into_iter().map(|row| row.reader("checks").instant("expires_at"));
    let until = ends.collect::<Result<Vec<_>, _>>()?.into_iter().max();
    Ok(until.map(|until| DeferredErasure { checks, until }))
}

const IDS_PER_STATEMENT: usize = 500;

/// How an erasure treats callbacks that are still waiting.
#[derive(Clone, Copy)]
enum WaitingCallbackPolicy {
    /// Erases waiting callbacks and stops their delivery.
    GiveUp,
    /// Keeps waiting callbacks and their URLs until their delivery has ended or the retention period ends. The check
    /// keeps the last digits of its number, to mark that its erasure is incomplete.
    Keep,
}

/// Erases the personal data of concluded checks and their callbacks.
async fn erase<D: Database>(
    tx: &mut dyn Tx,
    checks: Vec<Row>,
    waiting: WaitingCallbackPolicy,
) -> Result<ErasureCounts, StoreError> {
    // SQL conditions. `is_waiting`: the check has a waiting callback, which is kept. `is_erasable`: the callback can be
    // erased.
    let same_bucket = D::same_bucket_condition("callbacks", "checks");
    let (is_waiting, is_erasable) = match waiting {
        WaitingCallbackPolicy::GiveUp => ("1 = 0".to_owned(), "1 = 1"),
        WaitingCallbackPolicy::Keep => (
            format!("exists (select 1 from callbacks where check_id = checks.id {same_bucket} and state = 'waiting')"),
            "state <> 'waiting'",
        ),
    };
    let mut ids = checks.into_iter().map(|row| row.reader("checks").uuid("id")).collect::<Result<Vec<Uuid>, _>>()?;
    ids.sort_unstable();
    let mut erased = ErasureCounts::default();
    for ids in ids.chunks(IDS_PER_STATEMENT) {
        let values: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
        let placeholders = placeholders(1, ids.len());
        let mut run =
            async |sql: String, values: &[Value]| Ok::<_, StoreError>(tx.query(sql.into(), values).await?.len() as u64);
        erased.checks += run(
            format!(
                "update checks set number_hash = null, number_sealed = null, code_hash = null, redirect_url = null,
                        number_tail = case when {is_waiting} then number_tail end,
                        callback_url = case when {is_waiting} then callback_url end
                  where id in ({placeholders})
                    and (number_tail is not null or callback_url is not null or redirect_url is not null)
                 returning 1"
            ),
            &values,
        )
        .await?;
        // The column is not nullable, so an erased URL is empty.
        let empty_url = Value::Bytes(Vec::new());
        erased.callbacks += run(
            format!(
                "update callbacks
                    set body = null, url = ${empty_url_index}, due_at = null,
                        state = case state when 'waiting' then 'given_up' else state end
                  where check_id in ({placeholders}) and body is not null and {is_erasable}
                 returning 1",
                empty_url_index = ids.len() + 1
            ),
            &[&values[..], &[empty_url]].concat(),
        )
        .await?;
        // Keeps the attempts of a waiting callback, because the next attempt continues their numbers and times.
        erased.attempts += run(
            format!(
                "delete from callback_attempts
                  where check_id in ({placeholders})
                    and not exists (select 1 from callbacks
                                     where callbacks.check_id = callback_attempts.check_id {same_bucket}
                                       and state = 'waiting')
                 returning 1",
                same_bucket = D::same_bucket_condition("callbacks", "callback_attempts")
            ),
            &values,
        )
        .await?;
        erased.attempts += run(
            format!(
                "update callback_attempts set exchange = null
                  where check_id in ({placeholders}) and exchange is not null
                 returning 1"
            ),
            &values,
        )
        .await?;
        delete_completed_erasures(tx, ids).await?;
    }
    Ok(erased)
}

/// Deletes the records of erasures that are complete. Reads the checks and callbacks again, because a callback may have
/// been delivered or resent in the meantime.
async fn delete_completed_erasures(tx: &mut dyn Tx, ids: &[Uuid]) -> Result<(), StoreError> {
    let values: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
    let all = placeholders(1, ids.len());
    let mut incomplete = BTreeSet::new();
    for select in [
        format!("select id from checks where id in ({all}) and number_tail is not null"),
        format!("select check_id from callbacks where check_id in ({all}) and state = 'waiting'"),
    ] {
        for row in tx.query(select.into(), &values).await? {
            incomplete.insert(row.reader("checks").uuid("id")?);
        }
    }
    let completed: Vec<Value> = ids.iter().filter(|id| !incomplete.contains(id)).map(|id| Value::from(*id)).collect();
    if !completed.is_empty() {
        let delete = format!("delete from erasures where check_id in ({})", placeholders(1, completed.len()));
        tx.query(delete.into(), &completed).await?;
    }
    Ok(())
}
