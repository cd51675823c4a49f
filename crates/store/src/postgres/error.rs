//! Maps `PostgreSQL` errors to temporary (`Unavailable`) and permanent (`Refused`) store errors.
//!
//! The `DETAIL` of an error quotes values, so it is never passed on.

use std::{error::Error as _, io};

use deadpool_postgres::PoolError;
use ringtrue_engine::ports::StoreError;
use tokio_postgres::{Error, error::SqlState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorOrigin {
    /// The server is unreachable, full, read-only or overloaded. Any statement would have failed.
    Server,
    /// The statement or one of its rows is invalid. Other statements may succeed.
    Statement,
}

pub(super) fn error_origin(error: &Error) -> ErrorOrigin {
    let Some(response) = error.as_db_error() else {
        // An error of the driver itself, such as a value that does not fit its parameter, has a cause other than I/O.
        let is_the_statement = error.source().is_some_and(|cause| !cause.is::<io::Error>()) && !error.is_closed();
        return if is_the_statement { ErrorOrigin::Statement } else { ErrorOrigin::Server };
    };
    let code = response.code();
    let class = code.code().get(..2).unwrap_or_default();
    let is_temporary = matches!(class, "08" | "53" | "57" | "58" | "F0" | "XX")
        || [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code);
    if is_temporary { ErrorOrigin::Server } else { ErrorOrigin::Statement }
}

/// Whether a concurrent transaction caused the error, so that a retry may succeed.
pub(super) fn is_conflict(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

pub(super) fn store_error(error: &Error) -> StoreError {
    let text = describe(error);
    if error_origin(error) == ErrorOrigin::Server || is_conflict(error) {
        StoreError::Unavailable(text)
    } else {
        StoreError::Refused(text)
    }
}

pub(super) fn pool_error(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => StoreError::Unavailable(describe(error)),
        PoolError::Timeout(_) => StoreError::Unavailable("no free connection within 2 s".to_owned()),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::Unavailable(error.to_string())
        }
    }
}

fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(response) => match response.constraint() {
            Some(constraint) => format!("{} ({}, {constraint})", response.message(), response.code().code()),
            None => format!("{} ({})", response.message(), response.code().code()),
        },
        None => match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
