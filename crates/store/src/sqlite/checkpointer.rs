//! Checkpoints on a connection of their own.
//!
//! `SQLite` copies the log into the database file when a commit makes the log long: the writer then waits for the copy of
//! thousands of pages. After a bulk write, which changes many pages, another connection does this first. It blocks
//! neither the writer nor readers, and leaves little for the writer to copy.

use std::path::PathBuf;

use parking_lot::Mutex;
use ringtrue_engine::ports::store::StoreError;
use rusqlite::Connection;

use super::connection::{Access, open, store_error};

#[derive(Debug)]
pub(super) struct Checkpointer {
    path: PathBuf,
    /// Opened on first use.
    connection: Mutex<Option<Connection>>,
}

impl Checkpointer {
    pub(super) fn new(path: PathBuf) -> Self {
        Checkpointer { path, connection: Mutex::new(None) }
    }

    /// Copies what is in the log. Skips pages that a reader still needs, and does nothing if another connection is at it.
    pub(super) fn run(&self) -> Result<(), StoreError> {
        let mut connection = self.connection.lock();
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => none.insert(open(&self.path, Access::Write)?),
        };
        let checkpoint = connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()));
        checkpoint.map_err(|error| store_error(&error))
    }
}
