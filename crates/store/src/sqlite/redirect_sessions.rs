//! Write ops on redirect sessions.

use ringtrue_engine::ports::{BeginRedirect, StoreError};

use super::writer::{BatchTransaction, WriteOp};
use crate::{
    check_row_mapping::check_columns,
    driver::{ConsumeState, StoreVerdict, TransactionEnd, values},
    queries::redirect_sessions::{redirect_session_columns, redirect_usage_changes},
    row::Row,
};

pub(super) const SELECT_REDIRECT_SESSION: &str = concat!(
    "select ",
    check_columns!(),
    ", ",
    redirect_session_columns!(),
    " from checks left join redirect_sessions on redirect_sessions.check_id = checks.id where checks.id = $1"
);

/// The only writer may read before it writes: nothing changes in between.
impl WriteOp for BeginRedirect {
    type Output = bool;

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<bool>, StoreError> {
        let before = tx.query_first(
            "select id, project_id, product, created_at, status, network_id from checks
              where id = $1 and status in ('ACCEPTED', 'PENDING')",
            values![self.check],
        )?;
        let Some(before) = before else { return Ok(TransactionEnd::Rollback(false)) };
        let counts = redirect_usage_changes(before, self)?;
        let updated = tx.execute(
            "update redirect_sessions set state_hash = $1, pending_redirect = $2
              where check_id = $3 and code_hash is null",
            values![self.state_hash, &self.pending_redirect, self.check],
        )?;
        if updated == 0 {
            return Ok(TransactionEnd::Rollback(false));
        }
        if let Some(counts) = counts {
            tx.execute(
                "update checks set pending_at = coalesce(pending_at, max($1, created_at)), status = 'PENDING', network_id = $2
                  where id = $3",
                values![self.at, &self.network, self.check],
            )?;
            tx.defer_counts(counts);
        }
        Ok(TransactionEnd::Commit(true))
    }
}

/// Nothing is reported outside before the verdict, whose commit makes this one durable too.
impl WriteOp for ConsumeState {
    type Output = Option<Row>;
    const WAIT_FOR_SYNC: bool = false;

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<Option<Row>>, StoreError> {
        let found = tx.query_first(
            concat!(
                "select ",
                check_columns!(),
                ", ",
                redirect_session_columns!(),
                ", redirect_sessions.pending_redirect
                   from checks join redirect_sessions on redirect_sessions.check_id = checks.id
                  where checks.id = $1 and redirect_sessions.state_hash = $2"
            ),
            values![self.check, self.state_hash],
        )?;
        if found.is_some() {
            tx.execute(
                "update redirect_sessions set state_hash = null, pending_redirect = null where check_id = $1",
                values![self.check],
            )?;
        }
        Ok(TransactionEnd::Commit(found))
    }
}

impl WriteOp for StoreVerdict {
    type Output = bool;

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<bool>, StoreError> {
        let updated = tx.execute(
            "update redirect_sessions set code_hash = $1, verdict = $2, state_hash = null, pending_redirect = null
              where check_id = $3 and code_hash is null",
            values![self.verdict.code_hash, &self.verdict.verdict, self.check],
        )?;
        Ok(TransactionEnd::Commit(updated > 0))
    }
}
