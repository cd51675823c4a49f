//! Looking a row up by its key, on the thread that asks.
//!
//! That is over before another thread would be awake. It is for rows that are at work, a few minutes old at most: their
//! pages are in memory, and nobody waits for a disk. Whoever cannot be served at once goes to the [`readers`].
//!
//! [`readers`]: super::readers

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ringtrue_engine::ports::StoreError;
use rusqlite::Connection;

use super::{
    connection::{Access, open, rows},
    error::store_error,
    stopped,
};
use crate::{driver::Value, row::Row};

#[derive(Debug)]
pub(super) struct Lookups(Mutex<Vec<Connection>>);

impl Lookups {
    pub(super) async fn open(path: PathBuf, connections: usize) -> Result<Self, StoreError> {
        let open_all = move || (0..connections).map(|_| open_impatient(&path)).collect::<Result<Vec<_>, _>>();
        let idle = tokio::task::spawn_blocking(open_all).await.map_err(|_| stopped())??;
        Ok(Lookups(Mutex::new(idle)))
    }

    /// The first row of a statement. `None`: not now.
    pub(super) fn first(&self, sql: &'static str, values: &[Value]) -> Option<Result<Option<Row>, StoreError>> {
        let connection = self.idle().pop()?;
        let found = rows(&connection, sql, values);
        self.idle().push(connection);
        match found {
            Err(StoreError::Unavailable(_)) => None,
            found => Some(found.map(|rows| rows.into_iter().next())),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that waits for no lock.
fn open_impatient(path: &std::path::Path) -> Result<Connection, StoreError> {
    let connection = open(path, Access::Read)?;
    connection.busy_timeout(Duration::ZERO).map_err(|error| store_error(&error))?;
    Ok(connection)
}
