//! Primary-key lookups on the calling thread.
//!
//! Such a lookup is faster than waking a reader thread. It is only for rows of open checks, which are minutes old at
//! most: their pages are in memory, so it does not block on the disk. Callers fall back to the [`reader_pool`].
//!
//! [`reader_pool`]: super::reader_pool

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ringtrue_engine::ports::StoreError;
use rusqlite::Connection;

use super::{
    connection::{Access, open, query_cached},
    error::store_error,
    thread_stopped_error,
};
use crate::{driver::Value, row::Row};

#[derive(Debug)]
pub(super) struct LookupPool(Mutex<Vec<Connection>>);

impl LookupPool {
    pub(super) async fn open(path: PathBuf, connections: usize) -> Result<Self, StoreError> {
        let open_all = move || (0..connections).map(|_| open_without_busy_wait(&path)).collect::<Result<Vec<_>, _>>();
        let idle = tokio::task::spawn_blocking(open_all).await.map_err(|_| thread_stopped_error())??;
        Ok(LookupPool(Mutex::new(idle)))
    }

    /// Returns the first row of a statement. `None`: no idle connection, or the database is locked.
    pub(super) fn first(&self, sql: &'static str, values: &[Value]) -> Option<Result<Option<Row>, StoreError>> {
        let connection = self.idle().pop()?;
        let found = query_cached(&connection, sql, values);
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

fn open_without_busy_wait(path: &std::path::Path) -> Result<Connection, StoreError> {
    let connection = open(path, Access::Read)?;
    connection.busy_timeout(Duration::ZERO).map_err(|error| store_error(&error))?;
    Ok(connection)
}
