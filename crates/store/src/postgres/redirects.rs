//! Changes redirect sessions in batches.

use ringtrue_domain::lifecycle::{CheckId, ShardBucket};
use ringtrue_engine::ports::silent::BeginRedirect;

use super::{
    BatchQueues,
    batch_queue::{
        BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, rows_by_id, update_counters,
    },
    value_mapping::to_row,
};
use crate::{
    check_row_mapping::{check_columns, redirect_session_columns},
    operation::{RedirectOperation, redirect_usage_changes},
    row::Row,
};

/// Takes one round trip. If redirects begin in the batch, a second one updates the checks and counters.
impl BatchedOperation for RedirectOperation {
    const NAME: &'static str = "redirect";
    const CONNECTIONS: usize = 2;
    const FIRST_COUNTER_SLOT: i16 = 5;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.redirect
    }

    fn bucket(&self) -> Option<ShardBucket> {
        Some(RedirectOperation::check(self).bucket())
    }

    fn changed_check(&self) -> Option<CheckId> {
        Some(RedirectOperation::check(self))
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<Option<Row>>, BatchError> {
        let begin_redirects: Vec<&BeginRedirect> = batch.iter().copied().filter_map(as_begin_redirect).collect();
        let bucket_of_redirect = |redirect: &&BeginRedirect| redirect.check.bucket();
        let bucket = |operation: &&RedirectOperation| RedirectOperation::check(operation).bucket();
        let lock = tx.statements_by_shard(begin_redirects.iter().copied(), bucket_of_redirect, lock_checks);
        let select = tx.statements_by_shard(batch.iter().copied(), bucket, select_sessions);
        let update = tx.statements_by_shard(batch.iter().copied(), bucket, update_sessions);
        let (locks, selects) = (lock.len(), select.len());
        let statements: Vec<_> = lock.into_iter().chain(select).chain(update).collect();
        let rows = if begin_redirects.is_empty() { tx.commit(&statements).await? } else { tx.run(&statements).await? };
        let (locked, rows) = rows.split_at(locks);
        let (found, updated) = rows.split_at(selects);
        let (locked, found, updated) = (locked.concat(), found.concat(), updated.concat());
        let (locked, found, updated) = (rows_by_id(&locked)?, rows_by_id(&found)?, rows_by_id(&updated)?);

        let mut outcomes: Vec<Option<Row>> = Vec::with_capacity(batch.len());
        let (mut changed, mut counts) = (Vec::new(), Vec::new());
        for operation in batch {
            let check = RedirectOperation::check(operation).0;
            let updated = updated.get(&check);
            let row = match operation {
                RedirectOperation::ConsumeState { .. } | RedirectOperation::TakeVerdict(_) => {
                    updated.and(found.get(&check))
                }
                RedirectOperation::Begin(_) | RedirectOperation::StoreVerdict { .. } => updated,
            };
            outcomes.push(row.map(|row| to_row(row)).transpose()?);
            if let (Some(redirect), Some(_), Some(before)) = (as_begin_redirect(operation), updated, locked.get(&check))
                && let Some(changes) = redirect_usage_changes(to_row(before)?, redirect).map_err(BatchError::Rows)?
            {
                changed.push(redirect);
                counts.extend(changes);
            }
        }
        if begin_redirects.is_empty() {
            return Ok(outcomes);
        }
        let mut statements = Vec::new();
        if !changed.is_empty() {
            statements.extend(tx.statements_by_shard(changed, bucket_of_redirect, mark_pending));
            statements.extend(update_counters(&counts, tx.counters())?);
        }
        tx.commit(&statements).await?;
        Ok(outcomes)
    }
}

fn as_begin_redirect(operation: &RedirectOperation) -> Option<&BeginRedirect> {
    match operation {
        RedirectOperation::Begin(redirect) => Some(redirect),
        _ => None,
    }
}

/// Locks the checks before their redirect sessions, as the conclusion of checks does. In another order, the two could
/// deadlock.
///
/// An update that sets a column to its own value locks the row and returns its current values.
fn lock_checks(redirects: &[&BeginRedirect]) -> BatchStatement<'static> {
    BatchStatement::new(
        "update {checks} checks set status = status
           from unnest($1::uuid[], $2::smallint[]) as requested (id, bucket)
          where checks.id = requested.id and checks.bucket = requested.bucket and checks.bucket = any($2)
            and status in ('ACCEPTED', 'PENDING')
         returning checks.id, project_id, product, created_at, status, network_id",
    )
    .keys(redirects.iter().map(|redirect| redirect.check))
}

/// Selects the checks and redirect sessions whose current `state` is the one to be consumed, or whose verdict is to be
/// taken.
fn select_sessions(operations: &[&RedirectOperation]) -> BatchStatement<'static> {
    let wanted = operations.iter().filter_map(|operation| match operation {
        RedirectOperation::ConsumeState { check, state_hash } => Some((*check, Some(state_hash.0.to_vec()))),
        RedirectOperation::TakeVerdict(check) => Some((*check, None)),
        RedirectOperation::Begin(_) | RedirectOperation::StoreVerdict { .. } => None,
    });
    let (checks, states): (Vec<CheckId>, Vec<Option<Vec<u8>>>) = wanted.unzip();
    BatchStatement::new(concat!(
        "select ",
        check_columns!(),
        ", ",
        redirect_session_columns!(),
        ", redirect_sessions.pending_redirect
           from unnest($1::uuid[], $2::smallint[], $3::bytea[]) as requested (check_id, bucket, state_hash)
                join {redirect_sessions} redirect_sessions
                                       on redirect_sessions.check_id = requested.check_id
                                      and redirect_sessions.bucket = requested.bucket
                                      and case when requested.state_hash is null
                                               then redirect_sessions.code_hash is not null
                                               else redirect_sessions.state_hash = requested.state_hash end
                join {checks} checks on checks.id = redirect_sessions.check_id and checks.bucket = redirect_sessions.bucket
          where checks.bucket = any($2)"
    ))
    .keys(checks)
    .with(states)
}

/// Applies each operation whose condition holds, and returns the ids of the changed sessions. A `state` is consumed
/// only if it is the current one of its session. A redirect begins, and a verdict is stored, only if the session has no
/// verdict yet. A verdict is taken only if there is one. Concluded checks have no session.
fn update_sessions<'a>(operations: &[&'a RedirectOperation]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update {redirect_sessions} held
            set state_hash = new.state_hash, pending_redirect = new.pending_redirect,
                began_at = coalesce(new.began_at, held.began_at),
                browser_hash = case when new.began_at is null then held.browser_hash else new.browser_hash end,
                code_hash = case when new.takes_verdict then null else coalesce(new.code_hash, held.code_hash) end,
                verdict = case when new.takes_verdict then null else coalesce(new.verdict, held.verdict) end
           from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::smallint[],
                       $8::bigint[], $9::bytea[], $10::boolean[])
                as new (check_id, consumed_hash, state_hash, pending_redirect, code_hash, verdict, bucket, began_at,
                        browser_hash, takes_verdict)
          where held.check_id = new.check_id and held.bucket = new.bucket and held.bucket = any($7)
            and case when new.takes_verdict then held.code_hash is not null
                     when new.consumed_hash is null then held.code_hash is null
                     else held.state_hash = new.consumed_hash end
         returning held.check_id",
    )
    .column(operations, |operation| operation.check().0)
    .column(operations, |operation| match operation {
        RedirectOperation::ConsumeState { state_hash, .. } => Some(&state_hash.0[..]),
        _ => None,
    })
    .column(operations, |operation| as_begin_redirect(operation).map(|redirect| &redirect.state_hash.0[..]))
    .column(operations, |operation| as_begin_redirect(operation).map(|redirect| &redirect.pending_redirect.0[..]))
    .column(operations, |operation| match operation {
        RedirectOperation::StoreVerdict { verdict, .. } => Some(&verdict.code_hash.0[..]),
        _ => None,
    })
    .column(operations, |operation| match operation {
        RedirectOperation::StoreVerdict { verdict, .. } => Some(&verdict.verdict.0[..]),
        _ => None,
    })
    .column(operations, |operation| operation.check().bucket().number())
    .column(operations, |operation| as_begin_redirect(operation).map(|redirect| redirect.at.as_millisecond()))
    .column(operations, |operation| {
        as_begin_redirect(operation).and_then(|redirect| redirect.browser.as_ref()).map(|hash| &hash.0[..])
    })
    .column(operations, |operation| matches!(operation, RedirectOperation::TakeVerdict(_)))
}

fn mark_pending<'a>(redirects: &[&'a BeginRedirect]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update {checks} checks
            set pending_at = coalesce(pending_at, greatest(new.at, created_at)), status = 'PENDING',
                network_id = new.network_id
           from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::text[]) as new (id, bucket, at, network_id)
          where checks.id = new.id and checks.bucket = new.bucket and checks.bucket = any($2)",
    )
    .keys(redirects.iter().map(|redirect| redirect.check))
    .column(redirects, |redirect| redirect.at.as_millisecond())
    .column(redirects, |redirect| redirect.network.as_str())
}
