//! Batched operations on redirect sessions.

use std::collections::{BTreeMap, HashSet};

use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::ports::{BeginRedirect, StoreError};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    batch_queue::{BatchError, BatchFuture, BatchStatement, BatchedOperation, PipelinedTransaction},
    checks::column_values,
    counters::update_counters,
    error::store_error,
    rows_by_id::RowsById,
    transaction::to_row,
};
use crate::{
    check_row_mapping::check_columns,
    driver::{ConsumeState, StoreVerdict},
    queries::redirect_sessions::{redirect_session_columns, redirect_usage_changes},
    row::Row,
};

#[derive(Debug)]
pub(super) struct FindRedirectSession(pub CheckId);

/// A row that cannot be converted fails only the operations that asked for it.
type FoundRow = Result<Option<Row>, StoreError>;

impl BatchedOperation for FindRedirectSession {
    type Output = FoundRow;
    const NAME: &'static str = "find redirect session";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, FoundRow> {
        Box::pin(async move {
            let select = concat!(
                "select ",
                check_columns!(),
                ", ",
                redirect_session_columns!(),
                " from checks left join redirect_sessions on redirect_sessions.check_id = checks.id
                  where checks.id = any($1)"
            );
            let ids: Vec<Uuid> = batch.iter().map(|find| find.0.0).collect();
            let (rows, committed) = tx.run_single(&BatchStatement::new(select).with(ids)).await?;
            let sessions = RowsById::index(&rows)?;
            let read = |find: &FindRedirectSession| sessions.get(find.0.0).map(read).transpose();
            Ok((batch.iter().map(read).collect(), committed))
        })
    }
}

fn read(row: &PostgresRow) -> Result<Row, StoreError> {
    to_row(row).map_err(|error| store_error(&error))
}

/// Two round trips: the first locks the rows and sets the states, the second updates the checks and counters.
impl BatchedOperation for BeginRedirect {
    type Output = bool;
    const NAME: &'static str = "begin redirect";

    fn run<'a>(batch: &'a [Self], mut tx: PipelinedTransaction<'a>) -> BatchFuture<'a, bool> {
        Box::pin(async move {
            // Of several redirects of one check only the last state is valid.
            let lasts: BTreeMap<Uuid, &BeginRedirect> =
                batch.iter().map(|redirect| (redirect.check.0, redirect)).collect();
            let tried: Vec<&BeginRedirect> = lasts.values().copied().collect();
            let rows = tx.run(&[lock_checks(&tried), set_states(&tried)]).await?;
            let [locked, updated] = rows.as_slice() else { return Err(unexpected_rows()) };
            let updated = updated.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<Uuid>, _>>()?;
            let (mut begun, mut changed, mut counts) = (HashSet::new(), vec![], vec![]);
            for row in locked {
                let id: Uuid = row.try_get(0)?;
                let Some(&redirect) = lasts.get(&id).filter(|_| updated.contains(&id)) else { continue };
                begun.insert(id);
                if let Some(changes) = redirect_usage_changes(to_row(row)?, redirect).map_err(BatchError::Rows)? {
                    changed.push(redirect);
                    counts.extend(changes);
                }
            }
            let mut statements = vec![];
            if !changed.is_empty() {
                changed.sort_unstable_by_key(|redirect| redirect.check);
                statements.extend([mark_pending(&changed), update_counters(&counts, tx.slot())?]);
            }
            let (_, committed) = tx.commit(&statements).await?;
            Ok((batch.iter().map(|redirect| begun.contains(&redirect.check.0)).collect(), committed))
        })
    }
}

/// Locks the checks before the redirect sessions, as conclusions do: another order could deadlock.
///
/// An update that sets a column to itself locks the row and returns its current values.
fn lock_checks(redirects: &[&BeginRedirect]) -> BatchStatement<'static> {
    BatchStatement::new(
        "update checks set status = status
           from unnest($1::uuid[]) as requested (id)
          where checks.id = requested.id and status in ('ACCEPTED', 'PENDING')
         returning checks.id, project_id, product, created_at, status, network_id",
    )
    .with(column_values(redirects, |redirect| redirect.check.0))
}

/// A concluded check has no redirect session.
fn set_states(redirects: &[&BeginRedirect]) -> BatchStatement<'static> {
    BatchStatement::new(
        "update redirect_sessions set state_hash = new.state_hash, pending_redirect = new.pending_redirect
           from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as new (check_id, state_hash, pending_redirect)
          where redirect_sessions.check_id = new.check_id and code_hash is null
         returning redirect_sessions.check_id",
    )
    .with(column_values(redirects, |redirect| redirect.check.0))
    .with(column_values(redirects, |redirect| redirect.state_hash.0.to_vec()))
    .with(column_values(redirects, |redirect| redirect.pending_redirect.0.clone()))
}

fn mark_pending(redirects: &[&BeginRedirect]) -> BatchStatement<'static> {
    BatchStatement::new(
        "update checks set pending_at = coalesce(pending_at, greatest(new.at, created_at)), status = 'PENDING', network_id = new.network_id
           from unnest($1::uuid[], $2::bigint[], $3::text[]) as new (id, at, network_id)
          where checks.id = new.id",
    )
    .with(column_values(redirects, |redirect| redirect.check.0))
    .with(column_values(redirects, |redirect| redirect.at.as_millisecond()))
    .with(column_values(redirects, |redirect| redirect.network.as_str().to_owned()))
}

impl BatchedOperation for ConsumeState {
    type Output = FoundRow;
    const NAME: &'static str = "consume state";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, FoundRow> {
        Box::pin(async move {
            // Of several callers with the same state only the first is tried. A check may have several states.
            let mut firsts = BTreeMap::<(Uuid, [u8; 32]), usize>::new();
            for (position, consume) in batch.iter().enumerate() {
                firsts.entry((consume.check.0, consume.state_hash.0)).or_insert(position);
            }
            let (rows, committed) = tx.commit(&[select_by_state(&firsts), clear_states(&firsts)]).await?;
            let [found, cleared] = rows.as_slice() else { return Err(unexpected_rows()) };
            let mut outcomes: Vec<FoundRow> = batch.iter().map(|_| Ok(None)).collect();
            let found = RowsById::index(found)?;
            for row in cleared {
                // A row that was selected but not cleared was consumed by another batch.
                let (id, position) = (row.try_get::<_, Uuid>(0)?, row.try_get::<_, i64>(1)?);
                let outcome = usize::try_from(position).ok().and_then(|position| outcomes.get_mut(position));
                if let (Some(outcome), Some(row)) = (outcome, found.get(id)) {
                    *outcome = read(row).map(Some);
                }
            }
            Ok((outcomes, committed))
        })
    }
}

/// Selects checks with their redirect sessions by a valid state.
fn select_by_state(states: &BTreeMap<(Uuid, [u8; 32]), usize>) -> BatchStatement<'static> {
    bind_states(
        BatchStatement::new(concat!(
            "select ",
            check_columns!(),
            ", ",
            redirect_session_columns!(),
            ", redirect_sessions.pending_redirect
               from unnest($1::uuid[], $2::bytea[]) as requested (check_id, state_hash)
                    join redirect_sessions on redirect_sessions.check_id = requested.check_id
                                          and redirect_sessions.state_hash = requested.state_hash
                    join checks on checks.id = redirect_sessions.check_id"
        )),
        states,
    )
}

fn clear_states(states: &BTreeMap<(Uuid, [u8; 32]), usize>) -> BatchStatement<'static> {
    let positions: Vec<i64> = states.values().filter_map(|position| i64::try_from(*position).ok()).collect();
    bind_states(
        BatchStatement::new(
            "update redirect_sessions set state_hash = null, pending_redirect = null
               from unnest($1::uuid[], $2::bytea[], $3::bigint[]) as requested (check_id, state_hash, position)
              where redirect_sessions.check_id = requested.check_id and redirect_sessions.state_hash = requested.state_hash
             returning redirect_sessions.check_id, requested.position",
        ),
        states,
    )
    .with(positions)
}

fn bind_states(
    statement: BatchStatement<'static>,
    states: &BTreeMap<(Uuid, [u8; 32]), usize>,
) -> BatchStatement<'static> {
    statement
        .with(states.keys().map(|(check, _)| *check).collect::<Vec<_>>())
        .with(states.keys().map(|(_, state)| state.to_vec()).collect::<Vec<_>>())
}

impl BatchedOperation for StoreVerdict {
    type Output = bool;
    const NAME: &'static str = "store verdict";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, bool> {
        Box::pin(async move {
            // Of several verdicts for one check only the first of the batch is tried.
            let mut firsts = BTreeMap::<Uuid, (usize, &StoreVerdict)>::new();
            for (position, record) in batch.iter().enumerate() {
                firsts.entry(record.check.0).or_insert((position, record));
            }
            let tried: Vec<&StoreVerdict> = firsts.values().map(|(_, record)| *record).collect();
            let update = BatchStatement::new(
                "update redirect_sessions
                    set code_hash = new.code_hash, verdict = new.verdict, state_hash = null, pending_redirect = null
                   from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as new (check_id, code_hash, verdict)
                  where redirect_sessions.check_id = new.check_id and redirect_sessions.code_hash is null
                 returning redirect_sessions.check_id",
            )
            .with(column_values(&tried, |record| record.check.0))
            .with(column_values(&tried, |record| record.verdict.code_hash.0.to_vec()))
            .with(column_values(&tried, |record| record.verdict.verdict.0.clone()));
            let (rows, committed) = tx.run_single(&update).await?;
            let mut outcomes = vec![false; batch.len()];
            for row in &rows {
                if let Some((position, _)) = firsts.get(&row.try_get::<_, Uuid>(0)?) {
                    outcomes[*position] = true;
                }
            }
            Ok((outcomes, committed))
        })
    }
}

fn unexpected_rows() -> BatchError {
    BatchError::Server(StoreError::Refused("unexpected number of result sets".to_owned()))
}
