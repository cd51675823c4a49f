//! Finds and concludes checks in batches.

use std::collections::HashMap;

use ringtrue_domain::lifecycle::{CheckId, ShardBucket, StoredNumber};
use ringtrue_engine::ports::{callbacks::NewCallback, checks::ConcludeOutcome, hashes::CodeHash};
use tokio_postgres::Row as PostgresRow;

use super::{
    BatchQueues,
    batch_queue::{
        BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, rows_by_id, update_counters,
    },
    value_mapping::to_row,
};
use crate::{
    check_row_mapping::{check_columns, redirect_session_columns},
    operation::{ConcludeCheck, FindCheck, OpenCheck, open_check_columns},
    row::Row,
};

impl BatchedOperation for FindCheck {
    const NAME: &'static str = "find";
    const CONNECTIONS: usize = 2;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.find
    }

    fn bucket(&self) -> Option<ShardBucket> {
        match self {
            FindCheck::ById(check) | FindCheck::WithRedirectSession(check) => Some(check.bucket()),
            FindCheck::ByCodes(codes) => codes.first().map(|code| code.bucket()),
        }
    }

    fn other_buckets(&self) -> Vec<ShardBucket> {
        match self {
            FindCheck::ById(_) | FindCheck::WithRedirectSession(_) => Vec::new(),
            FindCheck::ByCodes(codes) => codes.iter().skip(1).map(|code| code.bucket()).collect(),
        }
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<Vec<Option<Row>>>, BatchError> {
        let (mut ids, mut codes, mut silent_ids) = (Vec::new(), Vec::new(), Vec::new());
        for find in batch {
            match find {
                FindCheck::ById(id) => ids.push(*id),
                FindCheck::ByCodes(hashes) => codes.extend(hashes.iter().copied()),
                FindCheck::WithRedirectSession(id) => silent_ids.push(*id),
            }
        }
        ids.sort_unstable();
        silent_ids.sort_unstable();
        let bucket = |id: &CheckId| id.bucket();
        let selects = [
            tx.statements_by_shard(ids, bucket, |ids| BatchStatement::new(SELECT_BY_ID).keys_and_range(ids)),
            tx.statements_by_shard(codes, |code| code.bucket(), select_by_code),
            tx.statements_by_shard(silent_ids, bucket, |ids| {
                BatchStatement::new(SELECT_WITH_SESSION).keys_and_range(ids)
            }),
        ];
        let numbers = selects.each_ref().map(Vec::len);
        let selects: Vec<_> = selects.into_iter().flatten().collect();
        let mut rows = tx.run_autocommitted(&selects).await?.into_iter();
        let [by_id, by_code, with_session] =
            numbers.map(|number| rows.by_ref().take(number).flatten().collect::<Vec<_>>());
        let (checks, sessions) = (rows_by_id(&by_id)?, rows_by_id(&with_session)?);
        let mut checks_by_code = HashMap::<&[u8], &PostgresRow>::new();
        for row in &by_code {
            checks_by_code.insert(row.try_get("code_hash")?, row);
        }
        let one = |row: Option<&&PostgresRow>| row.map(|row| to_row(row)).transpose();
        let found = |find: &FindCheck| match find {
            FindCheck::ById(id) => Ok(vec![one(checks.get(&id.0))?]),
            FindCheck::ByCodes(codes) => codes.iter().map(|code| one(checks_by_code.get(&code.0[..]))).collect(),
            FindCheck::WithRedirectSession(id) => Ok(vec![one(sessions.get(&id.0))?]),
        };
        batch.iter().map(|find| found(find).map_err(|error: tokio_postgres::Error| error.into())).collect()
    }
}

const SELECT_BY_ID: &str = concat!(
    "select ",
    check_columns!(),
    " from {checks} checks where id = any($1) and bucket = any($2) and id between $3 and $4"
);
const SELECT_WITH_SESSION: &str = concat!(
    "select ",
    check_columns!(),
    ", ",
    redirect_session_columns!(),
    " from {checks} checks left join {redirect_sessions} redirect_sessions
                  on redirect_sessions.check_id = checks.id and redirect_sessions.bucket = checks.bucket
     where checks.id = any($1) and checks.bucket = any($2) and checks.id between $3 and $4"
);

const SELECT_BY_CODE: &str = concat!(
    "select ",
    check_columns!(),
    ", code_hash from {checks} checks where code_hash = any($1) and bucket = any($2)"
);

/// Selects checks by code in all partitions, which takes about 13 µs for a code and 16 partitions. A condition with a
/// lower bound for ids would be slower: in a new partition, the planner would read all rows above the bound.
fn select_by_code(codes: &[CodeHash]) -> BatchStatement<'static> {
    let hashes: Vec<Vec<u8>> = codes.iter().map(|code| code.0.to_vec()).collect();
    BatchStatement::new(SELECT_BY_CODE).with(hashes).column(codes, |code| code.bucket().number())
}

/// Takes two round trips: the first concludes the checks that are open, the second writes the rows that belong to them.
impl BatchedOperation for ConcludeCheck {
    const NAME: &'static str = "conclude";
    const CONNECTIONS: usize = 2;
    const FIRST_COUNTER_SLOT: i16 = 3;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.conclude
    }

    fn bucket(&self) -> Option<ShardBucket> {
        Some(self.conclusion.check.bucket())
    }

    fn changed_check(&self) -> Option<CheckId> {
        Some(self.conclusion.check)
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<ConcludeOutcome>, BatchError> {
        let mut outcomes = vec![ConcludeOutcome::AlreadyConcluded; batch.len()];
        let updates = tx.statements_by_shard(
            batch.iter().copied(),
            |operation| operation.conclusion.check.bucket(),
            update_checks,
        );
        let rows = tx.run(&updates).await?.concat();
        let rows = rows_by_id(&rows)?;
        let (mut concluded, mut counts) = (Vec::with_capacity(rows.len()), Vec::with_capacity(2 * rows.len()));
        for (outcome, &operation) in outcomes.iter_mut().zip(batch) {
            let Some(row) = rows.get(&operation.conclusion.check.0) else { continue };
            let before = OpenCheck::from_row(to_row(row)?).map_err(BatchError::Rows)?;
            *outcome = ConcludeOutcome::Concluded { was_pending: before.was_pending };
            counts.extend(operation.usage_changes(&before));
            concluded.push((operation, before));
        }
        let mut statements = Vec::new();
        if !concluded.is_empty() {
            let callbacks =
                concluded.iter().filter_map(|(operation, _)| Some((*operation, operation.callback.as_ref()?)));
            let silent = concluded.iter().filter(|(operation, _)| operation.conclusion.product.facts().is_silent);
            let silent = silent.map(|(operation, _)| operation.conclusion.check);
            statements.extend(tx.statements_by_shard(
                callbacks,
                |(operation, _)| operation.conclusion.check.bucket(),
                insert_callbacks,
            ));
            statements.extend(tx.statements_by_shard(
                &concluded,
                |(operation, _)| operation.conclusion.check.bucket(),
                delete_deadlines,
            ));
            statements.extend(tx.statements_by_shard(silent, |check| check.bucket(), delete_redirect_sessions));
            statements.extend(update_counters(&counts, tx.counters())?);
        }
        tx.commit(&statements).await?;
        Ok(outcomes)
    }
}

/// Concludes the checks that are open, and returns the columns of [`OpenCheck`]. Changes no indexed column, so that the
/// server can use heap-only (HOT) updates.
fn update_checks<'a>(operations: &[&'a ConcludeCheck]) -> BatchStatement<'a> {
    BatchStatement::new(concat!(
        "update {checks} checks
            set concluded_at = new.concluded_at, status = new.status, matched = new.matched,
                error_code = new.error_code, number_hash = coalesce(new.number_hash, checks.number_hash),
                number_tail = coalesce(new.number_tail, checks.number_tail), number_sealed = new.number_sealed,
                connector = coalesce(new.connector, checks.connector), way = new.way, wallet_failure = new.wallet_failure
           from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::text[], $5::boolean[], $6::text[], $7::bytea[],
                       $8::text[], $9::bytea[], $10::text[], $11::text[], $12::text[])
                as new (id, bucket, concluded_at, status, matched, error_code, number_hash, number_tail, number_sealed,
                        connector, way, wallet_failure)
          where checks.id = new.id and checks.bucket = new.bucket and checks.bucket = any($2)
            and checks.status in ('ACCEPTED', 'PENDING')
         returning ",
        open_check_columns!()
    ))
    .keys(operations.iter().map(|operation| operation.conclusion.check))
    .column(operations, |operation| operation.conclusion.at.as_millisecond())
    .column(operations, |operation| operation.conclusion.status.into_str())
    .column(operations, |operation| operation.conclusion.matched)
    .column(operations, |operation| operation.conclusion.error_code.map(|code| code.into_str()))
    .column(operations, |operation| discovered_number(operation).map(|number| number.hash.0.to_vec()))
    .column(operations, |operation| discovered_number(operation).map(|number| number.tail.to_string()))
    .column(operations, |operation| {
        operation
            .conclusion
            .discovered
            .as_ref()
            .and_then(|discovered| discovered.sealed.as_ref())
            .map(|sealed| &sealed.0[..])
    })
    .column(operations, |operation| operation.conclusion.provenance.connector.as_deref())
    .column(operations, |operation| operation.conclusion.provenance.way.map(|way| way.into_str()))
    .column(operations, |operation| operation.conclusion.provenance.wallet_failure.map(|failure| failure.into_str()))
}

fn discovered_number(operation: &ConcludeCheck) -> Option<StoredNumber> {
    operation.conclusion.discovered.as_ref().and_then(|discovered| discovered.number)
}

fn insert_callbacks<'a>(callbacks: &[(&'a ConcludeCheck, &'a NewCallback)]) -> BatchStatement<'a> {
    BatchStatement::new(
        "insert into {callbacks} (check_id, project_id, created_at, due_at, product, url, body, bucket, failed_attempts,
                                  state)
         select new.*, 0, 'waiting'
           from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[],
                       $8::smallint[]) as new",
    )
    .column(callbacks, |(operation, _)| operation.conclusion.check.0)
    .column(callbacks, |(operation, _)| operation.conclusion.project.0)
    .column(callbacks, |(operation, _)| operation.conclusion.at.as_millisecond())
    .column(callbacks, |(_, callback)| callback.due_at.as_millisecond())
    .column(callbacks, |(operation, _)| operation.conclusion.product.into_str())
    .column(callbacks, |(_, callback)| &callback.url.0[..])
    .column(callbacks, |(_, callback)| &callback.body.0[..])
    .column(callbacks, |(operation, _)| operation.conclusion.check.bucket().number())
}

fn delete_deadlines(concluded: &[&(&ConcludeCheck, OpenCheck)]) -> BatchStatement<'static> {
    BatchStatement::new(
        "delete from {deadlines} deadlines
          using unnest($1::bigint[], $2::uuid[], $3::smallint[]) as old (due_at, check_id, bucket)
          where deadlines.due_at = old.due_at and deadlines.check_id = old.check_id
            and deadlines.bucket = old.bucket and deadlines.bucket = any($3)",
    )
    .column(concluded, |(_, before)| before.expires_at.as_millisecond())
    .column(concluded, |(operation, _)| operation.conclusion.check.0)
    .column(concluded, |(operation, _)| operation.conclusion.check.bucket().number())
}

fn delete_redirect_sessions(checks: &[CheckId]) -> BatchStatement<'static> {
    let delete = "delete from {redirect_sessions} redirect_sessions
                   using unnest($1::uuid[], $2::smallint[]) as old (check_id, bucket)
                   where redirect_sessions.check_id = old.check_id and redirect_sessions.bucket = old.bucket
                     and redirect_sessions.bucket = any($2)";
    BatchStatement::new(delete).keys(checks.iter().copied())
}
