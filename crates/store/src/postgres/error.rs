//! Which of `PostgreSQL`'s errors pass by themselves, and which are some row's fault.
//!
//! What `PostgreSQL` says under `DETAIL` quotes values, so it is never passed on.

use std::{error::Error as _, io};

use deadpool_postgres::PoolError;
use ringtrue_engine::ports::StoreError;
use tokio_postgres::{Error, error::SqlState};

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server is away, full, read-only, overloaded: nobody's statement would have worked.
    Server,
    /// The statement or one of its rows. Another statement may well work.
    Statement,
}

pub(super) fn fault(error: &Error) -> Fault {
    let Some(answer) = error.as_db_error() else {
        // What the driver itself refuses, a value that does not fit its parameter for instance, has a cause that is
        // not the network.
        let is_the_statement = error.source().is_some_and(|cause| !cause.is::<io::Error>()) && !error.is_closed();
        return if is_the_statement { Fault::Statement } else { Fault::Server };
    };
    let code = answer.code();
    let class = code.code().get(..2).unwrap_or_default();
    let passes = matches!(class, "08" | "53" | "57" | "58" | "F0" | "XX")
        || [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code);
    if passes { Fault::Server } else { Fault::Statement }
}

/// Whether another transaction was in the way, so that the same statement may work the next time.
pub(super) fn is_collision(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

pub(super) fn store_error(error: &Error) -> StoreError {
    let text = describe(error);
    if fault(error) == Fault::Server || is_collision(error) {
        StoreError::Unavailable(text)
    } else {
        StoreError::Refused(text)
    }
}

pub(super) fn pool_error(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => StoreError::Unavailable(describe(error)),
        PoolError::Timeout(_) => StoreError::Unavailable("no connection within 2 s".to_owned()),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::Unavailable(error.to_string())
        }
    }
}

fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(answer) => match answer.constraint() {
            Some(constraint) => format!("{} ({}, {constraint})", answer.message(), answer.code().code()),
            None => format!("{} ({})", answer.message(), answer.code().code()),
        },
        None => match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
