//! Runs checkpoints on a separate connection.
//!
//! If a commit makes the write-ahead log long, `SQLite` copies the log into the database file, and the writer waits
//! until thousands of pages are copied. After a bulk write, which changes many pages, this connection copies them
//! first. It blocks neither the writer nor readers, and leaves little for the writer to copy.

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

    /// Copies the log into the database file. Skips pages that a reader still needs. Does nothing if another connection
    /// is already running a checkpoint.
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
