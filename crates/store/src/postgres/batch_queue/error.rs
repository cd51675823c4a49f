//! Why a batch failed, and what that means for its operations.

use ringtrue_engine::ports::store::StoreError;
use tokio_postgres::error::SqlState;

use super::super::connect::{ErrorOrigin, error_origin, is_conflict, store_error};

#[derive(Debug)]
pub enum BatchError {
    /// An operation is invalid. The other operations may succeed without it.
    Rows(StoreError),
    /// Another transaction keeps a row locked that an operation needs. The other operations may succeed without it.
    Locked(StoreError),
    /// An operation needs a Citus worker that is down. The other operations may succeed without it.
    Outage(StoreError),
    /// A shard is not on this server any more. Nothing was written.
    Misplaced(StoreError),
    /// A phone number has reached its limit of checks.
    NumberLimitReached,
    /// The transaction was rolled back because it conflicted with a concurrent one.
    Conflict(StoreError),
    /// The server failed. The transaction may or may not have been committed.
    Server(StoreError),
}

impl From<tokio_postgres::Error> for BatchError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error_origin(&error) {
            _ if is_number_limit_reached(&error) => BatchError::NumberLimitReached,
            _ if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => BatchError::Locked(store_error(&error)),
            _ if is_conflict(&error) => BatchError::Conflict(store_error(&error)),
            _ if is_outage_of_worker(&error) => BatchError::Outage(store_error(&error)),
            _ if is_misplaced(&error) => BatchError::Misplaced(store_error(&error)),
            ErrorOrigin::Server => BatchError::Server(store_error(&error)),
            ErrorOrigin::Statement => BatchError::Rows(store_error(&error)),
        }
    }
}

/// Whether a phone number has reached its limit of checks, which shows as a violated `not null` constraint of
/// `number_limits`. Searches the message, because Citus forwards only the code and the message of a worker's error. The
/// message has the name of the shard, which begins with the name of the table.
fn is_number_limit_reached(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::NOT_NULL_VIOLATION && error.message().contains("\"number_limits")
    })
}

/// Whether the coordinator could not reach a Citus worker. Rows on the other workers can still be changed.
fn is_outage_of_worker(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| error.code().code().starts_with("08"))
}

/// Whether a shard has moved: the test of the placement fails (`TEST_SHARDS`), or the table of the shard is gone.
fn is_misplaced(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| [SqlState::DIVISION_BY_ZERO, SqlState::UNDEFINED_TABLE].contains(code))
}

impl BatchError {
    pub fn wrong_results() -> Self {
        BatchError::Server(StoreError::Refused("the server returned unexpected results".to_owned()))
    }

    pub fn into_store_error(self) -> StoreError {
        match self {
            BatchError::Rows(error)
            | BatchError::Locked(error)
            | BatchError::Outage(error)
            | BatchError::Misplaced(error)
            | BatchError::Conflict(error)
            | BatchError::Server(error) => error,
            // `InsertCheck::run` handles this error, so it does not get here.
            BatchError::NumberLimitReached => StoreError::Refused("the limit of a number is reached".to_owned()),
        }
    }
}
