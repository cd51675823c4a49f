//! Leases and settlements of callbacks.

use ringtrue_engine::ports::{AttemptSettlement, LeasedCallback, MAX_LOGGED_ATTEMPTS, StoreError};

use super::writer::{BatchTransaction, WriteOp};
use crate::{
    check_row_mapping::{self, leased_columns},
    driver::{LeaseCallbacks, TransactionEnd, Tx, Value, values},
};

/// The only writer may read before it writes: nothing changes in between.
pub(super) async fn lease(tx: &mut dyn Tx, lease: LeaseCallbacks) -> Result<Vec<LeasedCallback>, StoreError> {
    let skipped: Vec<String> = (3..).take(lease.skip.len()).map(|index| format!("${index}")).collect();
    let sql = format!(
        "select {} from callbacks
          where state = 'waiting' and due_at <= $1 and project_id not in ({})
          order by due_at, check_id limit $2",
        leased_columns!(),
        skipped.join(", ")
    );
    let mut values = vec![Value::from(lease.now), Value::from(i64::from(lease.limit))];
    values.extend(lease.skip.iter().map(|project| Value::from(*project)));
    let due = tx.query(sql.into(), &values).await?;
    let due = due.into_iter().map(check_row_mapping::leased_callback_from_row).collect::<Result<Vec<_>, _>>()?;
    for callback in &due {
        tx.run("update callbacks set due_at = $1 where check_id = $2", values![lease.until, callback.check]).await?;
    }
    Ok(due)
}

impl WriteOp for AttemptSettlement {
    type Output = bool;

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<bool>, StoreError> {
        let AttemptSettlement { check, attempt, outcome, log } = self;
        let (state, failed_attempts, due_at) = check_row_mapping::columns_after_attempt(*attempt, *outcome);
        let settled = tx.execute(
            "update callbacks set state = $1, failed_attempts = $2, due_at = $3
              where check_id = $4 and state = 'waiting' and failed_attempts = $5",
            values![state, failed_attempts, due_at, *check, i64::from(*attempt) - 1],
        )?;
        if settled == 0 {
            return Ok(TransactionEnd::Rollback(false));
        }
        tx.execute(
            "insert into callback_attempts (check_id, attempt, started_at, ended_at, status, failure, exchange)
             values ($1, $2, $3, $4, $5, $6, $7)",
            values![
                *check,
                i64::from(*attempt),
                log.started_at,
                log.ended_at,
                log.status.map(i64::from),
                log.failure.as_deref(),
                log.exchange.as_ref(),
            ],
        )?;
        if *attempt > MAX_LOGGED_ATTEMPTS {
            tx.execute(
                "delete from callback_attempts where check_id = $1 and attempt <= $2",
                values![*check, i64::from(attempt - MAX_LOGGED_ATTEMPTS)],
            )?;
        }
        Ok(TransactionEnd::Commit(true))
    }
}
