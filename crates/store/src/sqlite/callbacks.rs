//! Callbacks, one at a time.

use ringtrue_engine::ports::{LeasedCallback, MAX_ATTEMPTS_KEPT, Settlement, StoreError};

use super::writer::{Step, Turn};
use crate::{
    check_rows::{self, leased_columns},
    driver::{Ending, Lease, Tx, Value, values},
};

/// There is one writer: what is due when it looks is still due when it writes.
pub(super) async fn lease(tx: &mut dyn Tx, lease: Lease) -> Result<Vec<LeasedCallback>, StoreError> {
    let skipped: Vec<String> = (3..).take(lease.skip.len()).map(|place| format!("${place}")).collect();
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
    let due = due.into_iter().map(check_rows::leased).collect::<Result<Vec<_>, _>>()?;
    for callback in &due {
        tx.run("update callbacks set due_at = $1 where check_id = $2", values![lease.until, callback.check]).await?;
    }
    Ok(due)
}

impl Step for Settlement {
    type Answer = bool;

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<bool>, StoreError> {
        let Settlement { check, attempt, then, log } = self;
        let (state, failed_attempts, due_at) = check_rows::after_attempt(*attempt, *then);
        let settled = turn.change(
            "update callbacks set state = $1, failed_attempts = $2, due_at = $3
              where check_id = $4 and state = 'waiting' and failed_attempts = $5",
            values![state, failed_attempts, due_at, *check, i64::from(*attempt) - 1],
        )?;
        if settled == 0 {
            return Ok(Ending::Rollback(false));
        }
        turn.change(
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
        if *attempt > MAX_ATTEMPTS_KEPT {
            turn.change(
                "delete from callback_attempts where check_id = $1 and attempt <= $2",
                values![*check, i64::from(attempt - MAX_ATTEMPTS_KEPT)],
            )?;
        }
        Ok(Ending::Commit(true))
    }
}
