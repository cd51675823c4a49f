//! Failed logins by account and address, shared by all nodes.

use jiff::Timestamp;
use ringtrue_domain::login_throttle::{
    FREE_ATTEMPTS_PER_ACCOUNT, FREE_ATTEMPTS_PER_ADDRESS, FailedLogins, RESET_AFTER,
};
use ringtrue_engine::ports::{LoginAttempt, LoginBlocked, LoginThrottleKey, StoreError};

use crate::{
    driver::{TransactionEnd, Tx, values},
    row::Row,
};

/// Bounds the table against clients with many network addresses. The oldest entries are deleted early.
const MAX_ENTRIES: i64 = 100_000;

/// Counts an attempt for its account and its address, unless one of them is blocked.
pub(super) async fn count_attempt(
    tx: &mut dyn Tx,
    attempt: LoginAttempt,
) -> Result<TransactionEnd<Option<LoginBlocked>>, StoreError> {
    let mut entries = Vec::new();
    for (key, free_attempts) in sorted_keys(attempt) {
        entries.push((key, free_attempts, lock_entry(tx, key, attempt.at).await?));
    }
    let blocks = entries
        .iter()
        .map(|(key, free_attempts, failed)| LoginBlocked { key: *key, until: failed.blocked_until(*free_attempts) });
    if let Some(blocked) = blocks.max_by_key(|blocked| blocked.until).filter(|blocked| blocked.until > attempt.at) {
        return Ok(TransactionEnd::Rollback(Some(blocked)));
    }
    for (key, _, failed) in entries {
        let FailedLogins { count, last_at } = failed.with_failure(attempt.at);
        let update = "update login_throttle set failed_attempts = $1, last_attempt_at = $2 where key_hash = $3";
        tx.run(update, values![i64::from(count), last_at, key.0]).await?;
    }
    Ok(TransactionEnd::Commit(None))
}

/// Records a successful login: resets the account, and takes back the attempt counted for the address.
pub(super) async fn record_success(tx: &mut dyn Tx, attempt: LoginAttempt) -> Result<(), StoreError> {
    for (key, _) in sorted_keys(attempt) {
        let change = if key == attempt.account {
            "delete from login_throttle where key_hash = $1"
        } else {
            "update login_throttle set failed_attempts = failed_attempts - 1
              where key_hash = $1 and failed_attempts > 0"
        };
        tx.run(change, values![key.0]).await?;
    }
    Ok(())
}

/// Deletes a bounded number of expired entries, and of entries over the maximum. Returns the number of deleted rows.
pub(super) async fn delete_expired(tx: &mut dyn Tx, now: Timestamp) -> Result<usize, StoreError> {
    let expired_before = now.saturating_sub(RESET_AFTER).unwrap_or(Timestamp::MIN);
    let expired = tx
        .run(
            "delete from login_throttle where key_hash in
               (select key_hash from login_throttle where last_attempt_at < $1
                 order by last_attempt_at, key_hash limit 1000)
               and last_attempt_at < $1
             returning 1",
            values![expired_before],
        )
        .await?;
    let surplus = tx
        .run(
            "delete from login_throttle where key_hash in
               (select key_hash from login_throttle
                 order by last_attempt_at desc, key_hash desc limit 1000 offset $1)
             returning 1",
            values![MAX_ENTRIES],
        )
        .await?;
    Ok(expired.len() + surplus.len())
}

/// Sorted, so that concurrent transactions lock the rows in the same order.
fn sorted_keys(attempt: LoginAttempt) -> [(LoginThrottleKey, u32); 2] {
    let mut keys = [(attempt.account, FREE_ATTEMPTS_PER_ACCOUNT), (attempt.address, FREE_ATTEMPTS_PER_ADDRESS)];
    keys.sort_unstable();
    keys
}

/// Returns the entry of a key, and locks it until the end of the transaction.
async fn lock_entry(tx: &mut dyn Tx, key: LoginThrottleKey, now: Timestamp) -> Result<FailedLogins, StoreError> {
    let row = tx
        .first(
            "insert into login_throttle (key_hash, failed_attempts, last_attempt_at) values ($1, 0, $2)
             on conflict (key_hash) do update set failed_attempts = login_throttle.failed_attempts
             returning failed_attempts, last_attempt_at",
            values![key.0, now],
        )
        .await?;
    row.map_or(Ok(FailedLogins { count: 0, last_at: now }), failed_logins_from_row)
}

fn failed_logins_from_row(row: Row) -> Result<FailedLogins, StoreError> {
    let mut row = row.reader("login_throttle");
    let count = u32::try_from(row.int("failed_attempts")?).unwrap_or(u32::MAX);
    Ok(FailedLogins { count, last_at: row.instant("last_attempt_at")? })
}
