//! Stores callbacks and their attempts.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    lifecycle::{CheckId, Sealed},
    product::Product,
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    callbacks::{
        AttemptSettlement, AttemptSummary, CallbackList, CallbackQuery, CallbackRecord, CallbackSelection,
        CallbackState, CallbackStore, LastAttempt, LeasedCallback, ListedCallback, MAX_LOGGED_ATTEMPTS, MAX_RESENDS,
        ResendOutcome, ResendProgress,
    },
    idempotency::IdempotentResponse,
    store::{Completeness, StoreError, TenantLookup},
};

use uuid::Uuid;

use super::{
    SqlStore,
    audit::insert_audit_event,
    bucket::{bucket_condition, buckets_condition},
    first_id_after, first_id_since, idempotency, placeholders,
};
use crate::{
    check_row_mapping::{self, attempt_columns, callback_columns, leased_columns},
    driver::{Database, Sql, TransactionEnd, Tx, work},
    row::{Row, Value, values},
};

/// How long one of several servers is left out after its callbacks could not be leased. Leasing them again may take
/// until a timeout, which delays the callbacks of the other servers.
const LEASE_PAUSE: Duration = Duration::from_secs(10);

#[async_trait]
impl<D: Database> CallbackStore for SqlStore<D> {
    async fn lease_due_callbacks(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError> {
        let skip: Vec<Uuid> = skip.iter().map(|project| project.0).collect();
        if self.database.has_one_server() {
            let skip_locked = self.database.skip_locked_sql();
            let lease = self.transact(work!(|tx| {
                lease_first_due::<D>(tx, skip_locked, now, lease_until, limit, &skip).await.map(TransactionEnd::Commit)
            }));
            return lease.await;
        }
        let due = self.due_callbacks(now, limit, &skip).await?;
        let leases = self.by_server(due.iter().copied(), |check| *check).into_iter().map(|(bucket, mut checks)| {
            checks.sort_unstable();
            let lease = self.database.transact_at_bucket(
                bucket,
                work!(|tx| {
                    let mut leased = Vec::with_capacity(checks.len());
                    for checks in checks.chunks(IDS_PER_STATEMENT) {
                        let buckets_condition = buckets_condition::<D>("", checks);
                        leased.extend(lease_checks(tx, now, lease_until, checks, &buckets_condition).await?);
                    }
                    Ok(TransactionEnd::Commit(leased))
                }),
            );
            async move { (self.database.server_index(bucket), lease.await) }
        });
        let mut leased = HashMap::with_capacity(due.len());
        for (server, lease) in join_all(leases).await {
            match lease {
                Ok(callbacks) => leased.extend(callbacks.into_iter().map(|callback| (callback.check, callback))),
                Err(error) if self.database.has_one_server() => return Err(error),
                // The callbacks of the other servers are leased all the same.
                Err(error) => {
                    tracing::warn!(%error, "failed to lease due callbacks of a database server; pausing it");
                    self.lease_pauses.lock().insert(server, Instant::now() + LEASE_PAUSE);
                }
            }
        }
        Ok(due.iter().filter_map(|check| leased.remove(check)).collect())
    }

    async fn next_callback_due_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let select =
            "select check_id, due_at from {callbacks} where state = 'waiting' order by due_at limit 1".to_owned();
        let rows = self.database.read_shards(select, Vec::new(), Completeness::Reachable).await?;
        Ok(self.leasable_callbacks(rows)?.into_iter().map(|(due_at, _)| due_at).min())
    }

    async fn settle_attempt(&self, settlement: AttemptSettlement) -> Result<bool, StoreError> {
        self.database.run(settlement).await
    }

    async fn give_up_overdue_callbacks(&self, due_before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let update = format!(
            "update callbacks set state = 'given_up', due_at = null where check_id in
               (select check_id from callbacks where state = 'waiting'
                   and (due_at < $1 or exists (select 1 from checks
                         where checks.id = callbacks.check_id {} and checks.expires_at < $1))
                 order by due_at, check_id limit $2)
               and state = 'waiting'
             returning 1",
            D::same_bucket_condition("checks", "callbacks")
        );
        Ok(self.execute(update, values![due_before, i64::from(limit)]).await?.len() as u64)
    }

    async fn release_leases(&self, leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError> {
        let releases = self.by_server(leases, |(check, _)| *check).into_iter().map(|(bucket, mut leases)| {
            leases.sort_unstable();
            self.database.transact_at_bucket(
                bucket,
                work!(|tx| {
                    for (check, lease_until) in leases {
                        let mut values = values![due_at, check, lease_until].to_vec();
                        let update = format!(
                            "update callbacks set due_at = $1 where check_id = $2 and due_at = $3 {}",
                            bucket_condition::<D>(check.bucket(), &mut values)
                        );
                        tx.query(Sql::cached(update), &values).await?;
                    }
                    Ok(TransactionEnd::Commit(()))
                }),
            )
        });
        join_all(releases).await.into_iter().collect()
    }

    async fn resend_callback(
        &self,
        project: ProjectId,
        check: CheckId,
        due_at: Timestamp,
        audit: &AuditEvent,
        response: Option<IdempotentResponse>,
    ) -> Result<TenantLookup<ResendOutcome>, StoreError> {
        let event = audit.clone();
        self.transact(work!(|tx| schedule_resend::<D>(tx, project, check, due_at, &event, response.as_ref()).await))
            .await
    }

    async fn find_callback(
        &self,
        project: ProjectId,
        check: CheckId,
    ) -> Result<TenantLookup<CallbackRecord>, StoreError> {
        self.database
            .read_at_bucket(
                check.bucket(),
                work!(|tx| {
                    let mut values = values![check].to_vec();
                    let select = format!(
                        concat!("select ", callback_columns!(), " from callbacks where check_id = $1 {}"),
                        bucket_condition::<D>(check.bucket(), &mut values)
                    );
                    let row = tx.query(Sql::cached(select), &values).await?.pop();
                    let Some((owner, mut record)) = row.map(check_row_mapping::callback_from_row).transpose()? else {
                        return Ok(TenantLookup::NotFound);
                    };
                    if owner != project {
                        return Ok(TenantLookup::OtherTenant);
                    }
                    let mut values = values![check].to_vec();
                    let bucket_condition = bucket_condition::<D>(check.bucket(), &mut values);
                    values.push(i64::from(MAX_LOGGED_ATTEMPTS).into());
                    let select = format!(
                        concat!(
                            "select ",
                            attempt_columns!(),
                            " from callback_attempts where check_id = $1 {} order by attempt desc limit ${}"
                        ),
                        bucket_condition,
                        values.len()
                    );
                    let attempts = tx.query(Sql::cached(select), &values).await?;
                    let attempts = attempts.into_iter().rev();
                    record.attempts = attempts.map(check_row_mapping::attempt_from_row).collect::<Result<_, _>>()?;
                    Ok(TenantLookup::Found(record))
                }),
            )
            .await
    }

    async fn list_callbacks(&self, query: CallbackQuery) -> Result<CallbackList, StoreError> {
        let CallbackQuery { project, selection, product, created_after, created_before, limit } = query;
        if selection == CallbackSelection::All {
            return self.list_all_callbacks(query).await;
        }
        let mut values = values![project, first_id_after(created_after), first_id_since(created_before)].to_vec();
        let mut of_product = "";
        if let Some(product) = product {
            values.push(product.into_str().into());
            of_product = "and c.product = $4";
        }
        values.push(i64::from(limit).into());
        let select = format!(
            "{} where c.project_id = $1 and c.check_id >= $2 and c.check_id < $3 and {} {of_product}
              order by c.check_id desc limit ${}",
            select_listed::<D>(),
            condition(selection),
            values.len()
        );
        let rows = self.read_for_list(project, work!(|tx| tx.query(select.into(), &values).await)).await?;
        let callbacks = rows.into_iter().map(listed_callback_from_row).collect::<Result<Vec<_>, _>>()?;
        let is_cut = is_limit_reached(callbacks.len(), limit);
        Ok(CallbackList { cut_at: callbacks.last().filter(|_| is_cut).map(|last| last.check), callbacks })
    }

    async fn list_attempts(
        &self,
        project: ProjectId,
        checks: Vec<CheckId>,
        limit: u32,
    ) -> Result<Vec<AttemptSummary>, StoreError> {
        let rows = self.read_for_list(
            project,
            work!(|tx| {
                let mut rows = vec![];
                for checks in checks.chunks(IDS_PER_STATEMENT) {
                    let remaining = i64::from(limit) - i64::try_from(rows.len()).unwrap_or(i64::MAX);
                    if remaining <= 0 {
                        break;
                    }
                    let select = format!(
                        "select a.check_id, a.started_at, a.ended_at, a.status, a.failure
                           from callbacks c join callback_attempts a on a.check_id = c.check_id {}
                          where c.project_id = $1 and c.check_id in ({})
                          order by a.check_id desc, a.attempt desc limit $2",
                        D::same_bucket_condition("a", "c"),
                        placeholders(3, checks.len())
                    );
                    let mut values = values![project, remaining].to_vec();
                    values.extend(checks.iter().map(|check| Value::from(*check)));
                    rows.extend(tx.query(select.into(), &values).await?);
                }
                Ok(rows)
            }),
        );
        rows.await?.into_iter().map(attempt_summary_from_row).collect()
    }

    async fn resend_progress(
        &self,
        project: ProjectId,
        checks: RangeInclusive<CheckId>,
        since: Timestamp,
    ) -> Result<ResendProgress, StoreError> {
        let (first, last) = checks.into_inner();
        let select = format!(
            "select c.state, count(*)
               from callbacks c left join callback_attempts a
                 on a.check_id = c.check_id {}
                and a.attempt = c.failed_attempts + (case c.state when 'delivered' then 1 else 0 end)
              where c.project_id = $1 and c.resends > 0 and c.check_id >= $2 and c.check_id <= $3
                and (c.state = 'waiting' or a.ended_at >= $4)
              group by c.state",
            D::same_bucket_condition("a", "c")
        );
        let values = values![project, first, last, since].to_vec();
        let rows = self.read_for_list(project, work!(|tx| tx.query(select.into(), &values).await));
        let mut progress = ResendProgress::default();
        for row in rows.await? {
            let mut row = row.reader("callbacks");
            let (state, count) = (row.text("state")?, row.int("count")?.unsigned_abs());
            match state.as_str() {
                "delivered" => progress.delivered = count,
                "waiting" => progress.waiting = count,
                "given_up" => progress.given_up = count,
                _ => return Err(row.corrupt("state", "not a state")),
            }
        }
        Ok(progress)
    }
}

impl<D: Database> SqlStore<D> {
    /// Returns the checks whose callbacks are due, in the order of their due times.
    async fn due_callbacks(&self, now: Timestamp, limit: u32, skip: &[Uuid]) -> Result<Vec<CheckId>, StoreError> {
        let mut values = values![now, i64::from(limit)].to_vec();
        let is_not_skipped = D::none_of_condition("project_id", skip, &mut values);
        let select = format!(
            "select check_id, due_at from {{callbacks}} where state = 'waiting' and due_at <= $1 and {is_not_skipped}
              order by due_at, check_id limit $2"
        );
        let rows = self.database.read_shards(select, values, Completeness::Reachable).await?;
        let mut due = self.leasable_callbacks(rows)?;
        // Each shard has its own order and limit.
        due.sort_unstable();
        let due = self.limit_evenly_by_server(due, usize::try_from(limit).unwrap_or(usize::MAX), |(_, check)| *check);
        Ok(due.into_iter().map(|(_, check)| check).collect())
    }

    /// Returns callbacks with their due times, except those of servers whose callbacks could not be leased recently.
    fn leasable_callbacks(&self, rows: Vec<Row>) -> Result<Vec<(Timestamp, CheckId)>, StoreError> {
        let mut callbacks = Vec::with_capacity(rows.len());
        let mut pauses = self.lease_pauses.lock();
        pauses.retain(|_, until| Instant::now() < *until);
        for row in rows {
            let mut row = row.reader("callbacks");
            let check = CheckId(row.uuid("check_id")?);
            if pauses.is_empty() || !pauses.contains_key(&self.database.server_index(check.bucket())) {
                callbacks.push((row.instant("due_at")?, check));
            }
        }
        Ok(callbacks)
    }

    /// Lists callbacks in any state. Finds them through the newest checks of each product, because most callbacks are
    /// in no index by project.
    async fn list_all_callbacks(&self, query: CallbackQuery) -> Result<CallbackList, StoreError> {
        let CallbackQuery { project, product, created_after, created_before, limit, .. } = query;
        let (first, end) = (first_id_after(created_after), first_id_since(created_before));
        let products: Vec<Product> = match product {
            Some(product) => vec![product],
            None => Product::WITH_CALLBACKS.to_vec(),
        };
        let rows = self.read_for_list(
            project,
            work!(|tx| {
                let mut ids = vec![];
                let mut oldest_considered: Option<Uuid> = None;
                for product in products {
                    let select = "select id from checks where project_id = $1 and product = $2 and id >= $3 and id < $4
                                   order by id desc limit $5";
                    let values = values![project, product.into_str(), first, end, i64::from(limit)];
                    let found = tx.run(select, values).await?;
                    let found = found.into_iter().map(|row| row.reader("checks").uuid("id"));
                    let found = found.collect::<Result<Vec<_>, _>>()?;
                    if is_limit_reached(found.len(), limit) {
                        oldest_considered = oldest_considered.max(found.last().copied());
                    }
                    ids.extend(found);
                }
                // Older checks of the other products are left out too, so that the list has no gaps.
                ids.retain(|id| oldest_considered.is_none_or(|oldest| *id >= oldest));
                ids.sort_unstable_by(|one, other| other.cmp(one));
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let mut rows = vec![];
                for ids in ids.chunks(IDS_PER_STATEMENT) {
                    if rows.len() >= limit {
                        break;
                    }
                    let select = format!(
                        "{} where c.check_id in ({}) order by c.check_id desc",
                        select_listed::<D>(),
                        placeholders(1, ids.len())
                    );
                    let values: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
                    rows.extend(tx.query(select.into(), &values).await?);
                }
                let is_cut = rows.len() >= limit;
                rows.truncate(limit);
                Ok((rows, is_cut, oldest_considered))
            }),
        );
        let (rows, is_cut, oldest_considered) = rows.await?;
        let callbacks = rows.into_iter().map(listed_callback_from_row).collect::<Result<Vec<_>, _>>()?;
        let last_listed = callbacks.last().filter(|_| is_cut).map(|last| last.check);
        Ok(CallbackList { callbacks, cut_at: last_listed.or(oldest_considered.map(CheckId)) })
    }
}

fn is_limit_reached(count: usize, limit: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count >= limit)
}

/// Selects callbacks `c` with their last attempt `a`. `failed_attempts` does not count a successful attempt, so the
/// last attempt of a delivered callback has the next number.
fn select_listed<D: Database>() -> String {
    format!(
        "select c.check_id, c.product, c.url, c.body is null, c.created_at, c.state, c.due_at, c.resends,
                a.attempt, a.ended_at, a.status, a.failure
           from callbacks c left join callback_attempts a
             on a.check_id = c.check_id {}
            and a.attempt = c.failed_attempts + (case c.state when 'delivered' then 1 else 0 end)",
        D::same_bucket_condition("a", "c")
    )
}

/// Returns the condition on the state of callbacks `c`. The state is a constant in the SQL text, so that the planner
/// can use the partial index.
fn condition(selection: CallbackSelection) -> &'static str {
    match selection {
        CallbackSelection::All => "true",
        CallbackSelection::GivenUp => "c.state = 'given_up'",
        CallbackSelection::Retrying => "c.failed_attempts > 0 and c.state = 'waiting'",
        CallbackSelection::Recovered => "c.failed_attempts > 0 and c.state = 'delivered'",
        // SQLite uses a partial index only if the query repeats its condition.
        CallbackSelection::Failing => {
            "(c.failed_attempts > 0 or c.resends > 0 or c.state = 'given_up') and c.state <> 'delivered'"
        }
    }
}

fn listed_callback_from_row(row: Row) -> Result<ListedCallback, StoreError> {
    let mut row = row.reader("callbacks");
    let (check, product) = (CheckId(row.uuid("check_id")?), row.parsed("product")?);
    let (url, is_erased) = (Sealed(row.bytes("url")?), row.boolean("body")?);
    let created_at = row.instant("created_at")?;
    let state = check_row_mapping::callback_state(&mut row)?;
    let resends = row.count("resends")?;
    let (number, ended_at) = (row.int_or_null("attempt")?, row.instant_or_null("ended_at")?);
    let (status, failure) = (row.int_or_null("status")?, row.text_or_null("failure")?);
    let last_attempt = number.zip(ended_at).map(|(number, ended_at)| LastAttempt {
        number: u32::try_from(number).unwrap_or(u32::MAX),
        ended_at,
        status: status.and_then(|status| u16::try_from(status).ok()),
        failure,
    });
    Ok(ListedCallback { check, product, url, is_erased, created_at, state, resends, last_attempt })
}

fn attempt_summary_from_row(row: Row) -> Result<AttemptSummary, StoreError> {
    let mut row = row.reader("callback_attempts");
    Ok(AttemptSummary {
        check: CheckId(row.uuid("check_id")?),
        started_at: row.instant("started_at")?,
        ended_at: row.instant("ended_at")?,
        status: row.int_or_null("status")?.and_then(|status| u16::try_from(status).ok()),
        failure: row.text_or_null("failure")?,
    })
}

const IDS_PER_STATEMENT: usize = 500;

/// Leases the callbacks that have been due longest, and that no other node is leasing.
async fn lease_first_due<D: Database>(
    tx: &mut dyn Tx,
    skip_locked: &str,
    now: Timestamp,
    lease_until: Timestamp,
    limit: u32,
    skip: &[Uuid],
) -> Result<Vec<LeasedCallback>, StoreError> {
    let mut values = values![now, i64::from(limit)].to_vec();
    let is_not_skipped = D::none_of_condition("project_id", skip, &mut values);
    let select = format!(
        "select check_id from callbacks where state = 'waiting' and due_at <= $1 and {is_not_skipped}
          order by due_at, check_id limit $2 {skip_locked}"
    );
    let due = tx.query(select.into(), &values).await?;
    let due = due.into_iter().map(|row| row.reader("callbacks").uuid("check_id").map(CheckId));
    let due = due.collect::<Result<Vec<_>, _>>()?;
    let mut sorted = due.clone();
    sorted.sort_unstable();
    let mut leased = HashMap::with_capacity(due.len());
    for checks in sorted.chunks(IDS_PER_STATEMENT) {
        let callbacks = lease_checks(tx, now, lease_until, checks, "").await?;
        leased.extend(callbacks.into_iter().map(|callback| (callback.check, callback)));
    }
    Ok(due.iter().filter_map(|check| leased.remove(check)).collect())
}

/// Leases the callbacks of these checks that are still due. Tests that, because if the database does not lock the
/// selected rows, another node may have leased some of these callbacks, or recorded the results of their attempts, in
/// the meantime. `buckets_condition` restricts the statements to the buckets of the checks.
async fn lease_checks(
    tx: &mut dyn Tx,
    now: Timestamp,
    lease_until: Timestamp,
    checks: &[CheckId],
    buckets_condition: &str,
) -> Result<Vec<LeasedCallback>, StoreError> {
    let ids = checks.iter().map(|check| Value::from(*check));
    let update = format!(
        "update callbacks set due_at = $1 where due_at <= $2 and check_id in ({}) {buckets_condition} returning {}",
        placeholders(3, checks.len()),
        leased_columns!()
    );
    let mut values = values![lease_until, now].to_vec();
    values.extend(ids.clone());
    let rows = tx.query(update.into(), &values).await?;
    let select =
        format!("select id, mode from checks where id in ({}) {buckets_condition}", placeholders(1, checks.len()));
    let mut modes = HashMap::with_capacity(checks.len());
    for row in tx.query(select.into(), &ids.collect::<Vec<_>>()).await? {
        let mut row = row.reader("checks");
        modes.insert(row.uuid("id")?, row.parsed("mode")?);
    }
    // If the check is missing, the sandbox mode is assumed, so that the callback is never signed as a live one.
    let mode = |check: CheckId| modes.get(&check.0).copied().unwrap_or(Mode::Sandbox);
    rows.into_iter().map(|row| check_row_mapping::leased_callback_from_row(row, mode)).collect()
}

async fn schedule_resend<D: Database>(
    tx: &mut dyn Tx,
    project: ProjectId,
    check: CheckId,
    due_at: Timestamp,
    event: &AuditEvent,
    response: Option<&IdempotentResponse>,
) -> Result<TransactionEnd<TenantLookup<ResendOutcome>>, StoreError> {
    let select = concat!("select ", callback_columns!(), " from callbacks where check_id = $1");
    let row = tx.first(select, values![check]).await?;
    let Some((owner, record)) = row.map(check_row_mapping::callback_from_row).transpose()? else {
        return Ok(TransactionEnd::Rollback(TenantLookup::NotFound));
    };
    let resends = tx.number("select resends from callbacks where check_id = $1", values![check]).await?;
    let refused = match (owner == project, record.state, record.body) {
        (false, ..) => Some(TenantLookup::OtherTenant),
        (true, CallbackState::Waiting { .. }, _) => Some(TenantLookup::Found(ResendOutcome::StillWaiting)),
        (true, _, None) => Some(TenantLookup::Found(ResendOutcome::Erased)),
        (true, _, Some(_)) if resends >= i64::from(MAX_RESENDS) => {
            Some(TenantLookup::Found(ResendOutcome::LimitReached))
        }
        (true, _, Some(_)) => None,
    };
    if let Some(refused) = refused {
        return Ok(TransactionEnd::Rollback(refused));
    }
    let select = "select coalesce(max(attempt), 0) from callback_attempts where check_id = $1";
    let attempts = tx.number(select, values![check]).await?;
    let update = "update callbacks set state = 'waiting', due_at = $1, failed_attempts = $2, earlier_attempts = $2,
                         resends = resends + 1
                   where check_id = $3 and state <> 'waiting' and body is not null and resends < $4
                  returning check_id";
    if !tx.exists(update, values![due_at, attempts, check, i64::from(MAX_RESENDS)]).await? {
        // A concurrent request has queued a resend first.
        return Ok(TransactionEnd::Rollback(TenantLookup::Found(ResendOutcome::StillWaiting)));
    }
    idempotency::store_response::<D>(tx, response).await?;
    insert_audit_event(tx, event).await?;
    Ok(TransactionEnd::Commit(TenantLookup::Found(ResendOutcome::Queued)))
}
