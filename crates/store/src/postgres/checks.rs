//! Batched lookups and operations of checks.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::lifecycle::{AnyCheck, CheckId, ClaimedNumber, ErrorCode};
use ringtrue_engine::ports::{CodeHash, ConcludeOutcome, NewCallback, StoreError};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    batch_queue::{BatchFuture, BatchStatement, BatchedOperation, PipelinedTransaction},
    error::store_error,
    rows_by_id::RowsById,
    transaction::to_row,
};
use crate::{
    check_row_mapping::{self, check_columns},
    driver::ConcludeCheck,
    queries::usage::{CounterKey, upsert_counters_sql},
};

#[derive(Debug)]
pub(super) struct FindCheck(pub CheckId);

/// A row that cannot be mapped fails only the operations that asked for it.
type FoundCheck = Result<Option<AnyCheck>, StoreError>;

impl BatchedOperation for FindCheck {
    type Output = FoundCheck;
    const NAME: &'static str = "find";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, FoundCheck> {
        Box::pin(async move {
            let (rows, committed) = tx.run_single(&select_checks(batch.iter().map(|find| find.0.0).collect())).await?;
            let checks = RowsById::index(&rows)?;
            Ok((batch.iter().map(|find| checks.get(find.0.0).map(check_from_row).transpose()).collect(), committed))
        })
    }
}

/// Finds the check of the first of these codes that is known.
#[derive(Debug)]
pub(super) struct FindCheckByCode(pub Vec<CodeHash>);

impl BatchedOperation for FindCheckByCode {
    type Output = FoundCheck;
    const NAME: &'static str = "find by code";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, FoundCheck> {
        Box::pin(async move {
            let hashes: Vec<Vec<u8>> = batch.iter().flat_map(|find| &find.0).map(|code| code.0.to_vec()).collect();
            let select = concat!(
                "select ",
                check_columns!(),
                ", code_hash from unnest($1::bytea[]) as requested (hash) join checks on code_hash = requested.hash"
            );
            let (rows, committed) = tx.run_single(&BatchStatement::new(select).with(hashes)).await?;
            let mut checks = HashMap::<&[u8], &PostgresRow>::new();
            for row in &rows {
                checks.insert(row.try_get("code_hash")?, row);
            }
            let found = |find: &FindCheckByCode| {
                let known = find.0.iter().filter_map(|code| checks.get(&code.0[..]));
                check_row_mapping::prefer_open_check(known.map(|row| check_from_row(row)))
            };
            Ok((batch.iter().map(found).collect(), committed))
        })
    }
}

fn select_checks(ids: Vec<Uuid>) -> BatchStatement<'static> {
    BatchStatement::new(concat!("select ", check_columns!(), " from checks where id = any($1)")).with(ids)
}

fn check_from_row(row: &PostgresRow) -> Result<AnyCheck, StoreError> {
    check_row_mapping::check_from_row(to_row(row).map_err(|error| store_error(&error))?)
}

impl BatchedOperation for ConcludeCheck {
    type Output = ConcludeOutcome;
    const NAME: &'static str = "conclude";
    const FIRST_COUNTER_SLOT: i16 = 3;

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ConcludeOutcome> {
        Box::pin(async move {
            // Of several operations of one check only the first of the batch is tried.
            let mut firsts = BTreeMap::<Uuid, (usize, &ConcludeCheck)>::new();
            for (position, operation) in batch.iter().enumerate() {
                firsts.entry(operation.conclusion.check().0).or_insert((position, operation));
            }
            let tried: Vec<&ConcludeCheck> = firsts.values().map(|(_, operation)| *operation).collect();
            let statement = conclude(&tried, tx.slot());
            let (concluded, committed) = tx.run_single(&statement).await?;
            let mut outcomes = vec![ConcludeOutcome::AlreadyConcluded; batch.len()];
            for row in &concluded {
                if let Some((position, _)) = firsts.get(&row.try_get::<_, Uuid>(0)?) {
                    outcomes[*position] = ConcludeOutcome::Concluded { was_pending: row.try_get(1)? };
                }
            }
            Ok((outcomes, committed))
        })
    }
}

/// One value of each operation.
pub(super) fn column_values<'a, O, T>(operations: &[&'a O], value: impl Fn(&'a O) -> T) -> Vec<T> {
    operations.iter().map(|operation| value(operation)).collect()
}

/// Concludes the checks that are open, and returns them. Inserts their callbacks, deletes their deadlines and redirect
/// sessions, and updates the counters. Changes no indexed column, which allows heap-only updates.
///
/// Counters move from the previous status: pending if `pending_at` is set. The network comes from the row, because a
/// device may have changed its network. Checks with the same counters are grouped.
///
/// `PostgreSQL` runs data-modifying `with` parts after the main statement, in this plan from the last to the first.
fn conclude<'a>(operations: &[&'a ConcludeCheck], slot: i16) -> BatchStatement<'a> {
    let (groups, group_of) = counter_groups(operations);
    BatchStatement::new(concat!(
        "with concluded as
              (update checks
                  set concluded_at = new.concluded_at, status = new.status, matched = new.matched,
                      error_code = new.error_code, number_hash = coalesce(new.number_hash, checks.number_hash),
                      number_tail = coalesce(new.number_tail, checks.number_tail), number_sealed = new.number_sealed,
                      connector = coalesce(new.connector, checks.connector)
                 from unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::bytea[], $7::text[],
                             $8::bytea[], $9::text[], $10::bigint[], $11::bytea[], $12::bytea[], $13::integer[])
                      as new (id, concluded_at, status, matched, error_code, number_hash, number_tail, number_sealed,
                              connector, callback_due_at, callback_url, callback_body, grp)
                where checks.id = new.id and checks.status in ('ACCEPTED', 'PENDING')
               returning checks.id, project_id, product, expires_at, pending_at, network_id, new.concluded_at,
                         callback_due_at, new.callback_url, callback_body, grp),
              counted as
              (select grp, pending_at is not null as was_pending, coalesce(network_id, '') as network_id, count(*) as checks
                 from concluded group by 1, 2, 3),
              changes as
              (select grp, case when was_pending then 'PENDING' else 'ACCEPTED' end as status, -1 as matched, network_id,
                      -checks as change
                 from counted
               union all
               select grp, ($17::text[])[grp], ($18::smallint[])[grp], network_id, checks from counted),
              days as (",
        upsert_counters_sql!(
            "usage_days",
            "day",
            "select ($14::uuid[])[grp], left(($15::text[])[grp], 10), ($16::text[])[grp], status, matched, network_id,
                    sum(change), $19::smallint
               from changes group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6"
        ),
        "), hours as (",
        upsert_counters_sql!(
            "usage_counters",
            "hour",
            "select ($14::uuid[])[grp], ($15::text[])[grp], ($16::text[])[grp], status, matched, network_id,
                    sum(change), $19::smallint
               from changes group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6"
        ),
        "),
              deleted_sessions as
              (delete from redirect_sessions
                where check_id = any (array(select id from concluded where product in ('secure_sna', 'discovery')))),
              deleted_deadlines as
              (delete from deadlines using concluded where deadlines.due_at = concluded.expires_at and check_id = concluded.id),
              inserted_callbacks as
              (insert into callbacks (check_id, project_id, created_at, due_at, product, url, body, failed_attempts, state)
               select id, project_id, concluded_at, callback_due_at, product, callback_url, callback_body, 0, 'waiting'
                 from concluded where callback_due_at is not null)
         select id, pending_at is not null from concluded"
    ))
    .with(column_values(operations, |operation| operation.conclusion.check().0))
    .with(column_values(operations, |operation| operation.conclusion.at().as_millisecond()))
    .with(column_values(operations, |operation| operation.conclusion.status().as_str()))
    .with(column_values(operations, |operation| operation.conclusion.matched()))
    .with(column_values(operations, |operation| operation.conclusion.error_code().map(ErrorCode::as_str)))
    .with(column_values(operations, |operation| discovered_number(operation).map(|number| number.hash.0.to_vec())))
    .with(column_values(operations, |operation| discovered_number(operation).map(|number| number.tail.to_string())))
    .with(column_values(operations, |operation| {
        operation.conclusion.discovered().and_then(|discovered| discovered.sealed.as_ref()).map(|sealed| sealed.0.clone())
    }))
    .with(column_values(operations, |operation| operation.conclusion.connector()))
    .with(column_values(operations, |operation| callback(operation, |callback| callback.due_at.as_millisecond())))
    .with(column_values(operations, |operation| callback(operation, |callback| &callback.url.0[..])))
    .with(column_values(operations, |operation| callback(operation, |callback| &callback.body.0[..])))
    .with(group_of)
    .with(groups.iter().map(|group| group.project.0).collect::<Vec<_>>())
    .with(groups.iter().map(|group| group.hour.clone()).collect::<Vec<_>>())
    .with(groups.iter().map(|group| group.product).collect::<Vec<_>>())
    .with(groups.iter().map(|group| group.status).collect::<Vec<_>>())
    .with(groups.iter().map(|group| group.matched).collect::<Vec<_>>())
    .with(slot)
}

/// The counters that concluded checks move to, without networks; and for each check the 1-based index of its counter.
fn counter_groups(operations: &[&ConcludeCheck]) -> (Vec<CounterKey>, Vec<i32>) {
    let key_of = |operation: &&ConcludeCheck| {
        let [_, concluded] = operation.usage_changes(false, None);
        CounterKey::from(&concluded)
    };
    let keys: Vec<CounterKey> = operations.iter().map(key_of).collect();
    let mut groups = keys.clone();
    groups.sort_unstable();
    groups.dedup();
    let index_of = |key: &CounterKey| groups.binary_search(key).map_or(0, |position| position + 1);
    let indexes = keys.iter().map(|key| i32::try_from(index_of(key)).unwrap_or_default()).collect();
    (groups, indexes)
}

fn callback<'a, T>(operation: &'a ConcludeCheck, of: impl Fn(&'a NewCallback) -> T) -> Option<T> {
    operation.callback.as_ref().map(of)
}

fn discovered_number(operation: &ConcludeCheck) -> Option<ClaimedNumber> {
    operation.conclusion.discovered().and_then(|discovered| discovered.number)
}
