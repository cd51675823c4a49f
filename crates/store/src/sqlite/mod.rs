//! Implements the engine's store ports over `SQLite`. One thread writes, and one syncs the write-ahead log. A pool of
//! reader threads serves tenants, and a reserved reader serves the node itself. Lists and searches have their own
//! threads, so that no other read waits for them.
//!
//! Another process, such as the command line, may write to the file too. `SQLite`'s lock lets only one of the processes
//! write at a time. A wait for this lock that exceeds [`connection::BUSY_TIMEOUT`] fails with
//! `StoreError::Unavailable`.

mod backup;
mod batch_transaction;
mod checkpointer;
mod concluded_check_rows;
mod connection;
mod disk_probe;
mod job;
mod operations;
mod readers;
mod schema;
#[cfg(test)]
mod tests;
mod wal_syncer;
mod writer;

use std::{path::Path, sync::Arc, time::Duration};

use ringtrue_engine::ports::{search_limit::SearchPermit, store::StoreError};
use tokio::sync::Notify;

use crate::{
    StoreOptions,
    driver::{Database, TransactionEnd, Work, work},
    list_turns::ListTurn,
    migration::{self, Migration},
    operation::Run,
    row::{Row, Value},
};

pub(crate) use backup::back_up;
pub(crate) use connection::{store_error, to_value};
pub(crate) use schema::{migrate, schema_state};

/// Time limit of a call, from entering the queue to the durable commit.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const LIST_THREADS: usize = 2;

#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: writer::Writer,
    durability: wal_syncer::DurabilityWatch,
    lookups: readers::LookupPool,
    readers: readers::ReaderPool,
    reserved_reader: readers::ReaderPool,
    lists: readers::ReaderPool,
    searches: readers::ReaderPool,
    search_timeout: Duration,
    checkpointer: Arc<checkpointer::Checkpointer>,
    disk_probe: disk_probe::DiskProbe,
    change_notification: Arc<Notify>,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        // The writer starts first, because it creates the files that readers open.
        let (writer, durability) = writer::Writer::start(path.to_owned()).await?;
        let search_timeout = options.search_timeout;
        let (threads, searches) = (options.readers.max(1), options.searches.max(1));
        let (readers, reserved_reader, lists, searches, lookups) = tokio::try_join!(
            readers::ReaderPool::start(path, "reader", threads, None),
            readers::ReaderPool::start(path, "node-reader", 1, None),
            readers::ReaderPool::start(path, "list", LIST_THREADS, Some(search_timeout)),
            readers::ReaderPool::start(path, "search", searches, Some(search_timeout)),
            readers::LookupPool::open(path.to_owned(), threads),
        )?;
        Ok(Sqlite {
            writer,
            durability,
            lookups,
            readers,
            reserved_reader,
            lists,
            searches,
            search_timeout,
            checkpointer: Arc::new(checkpointer::Checkpointer::new(path.to_owned())),
            disk_probe: disk_probe::DiskProbe::new(
                path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned(),
            ),
            change_notification: Arc::default(),
        })
    }

    /// Waits for a read to finish, and then until every commit that it may have seen is durable, because a reported
    /// result must survive a power failure.
    async fn read_durable<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        with_call_timeout(self.wait_durable_after(read)).await
    }

    /// As [`read_durable`](Sqlite::read_durable), with a longer timeout for lists and searches: they may wait for a
    /// thread, and then run to their own deadline.
    async fn list_durable<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let limit = self.search_timeout;
        let late = |_| StoreError::DeadlineExceeded(limit);
        tokio::time::timeout(CALL_TIMEOUT + limit, self.wait_durable_after(read)).await.map_err(late).flatten()
    }

    async fn wait_durable_after<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = read.await?;
        self.durability.wait_durable().await?;
        Ok(result)
    }
}

impl<O: batch_transaction::WriteOp> Run<O> for Sqlite {
    fn run(&self, op: O) -> impl Future<Output = Result<O::Output, StoreError>> + Send {
        with_call_timeout(self.writer.run_op(op))
    }
}

impl Database for Sqlite {
    const MIGRATIONS: &'static [Migration] = migration::SQLITE;

    /// Sends no notification: other processes poll.
    const INCREMENT_VERSION_SQL: &'static str =
        "update control_version set version = version + 1 where id = 1 returning version";

    const MIN_ID_SQL: &'static str = "min(id)";

    const READ_IDENTITY_SQL: Option<&'static str> = None;

    const CREATE_PARTITIONS_SQL: Option<&'static str> = None;

    const DROP_PARTITIONS_SQL: Option<&'static str> = None;

    const DELETE_NUMBER_LIMITS_SQL: Option<&'static str> = None;

    const DELETE_EXPIRED_NUMBER_LIMITS_SQL: Option<&'static str> = None;

    const READ_TIME_SQL: &'static str = "select latest_at, null from database_state where id = 1";

    async fn transact<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        with_call_timeout(self.writer.run(work)).await
    }

    async fn read<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.read_durable(self.readers.run(work)).await
    }

    async fn look_up<const N: usize>(&self, sql: &'static str, values: [Value; N]) -> Result<Option<Row>, StoreError> {
        if let Ok(found) = self.lookups.first(sql, &values) {
            return Ok(found);
        }
        let read = self.readers.run(work!(|tx| tx.first(sql, &values).await));
        with_call_timeout(read).await
    }

    /// Uses the same writer as tenants. The writer's transactions are short, because queries of tenants run on other
    /// threads.
    async fn transact_reserved<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        self.transact(work).await
    }

    async fn read_reserved<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.read_durable(self.reserved_reader.run(work)).await
    }

    async fn read_for_list<T: Send + 'static>(&self, turn: ListTurn, work: impl Work<T>) -> Result<T, StoreError> {
        self.list_durable(self.lists.run_with_permit(turn, work)).await
    }

    async fn search<T: Send + 'static>(&self, permit: SearchPermit, work: impl Work<T>) -> Result<T, StoreError> {
        self.list_durable(self.searches.run_with_permit(permit, work)).await
    }

    const HAS_BUCKETS: bool = false;

    fn same_bucket_condition(_: &str, _: &str) -> String {
        String::new()
    }

    /// Returns nothing: SQLite has one writer at a time, so no other transaction locks rows.
    fn skip_locked_sql(&self) -> &'static str {
        ""
    }

    async fn checkpoint(&self) -> Result<(), StoreError> {
        let checkpointer = Arc::clone(&self.checkpointer);
        tokio::task::spawn_blocking(move || checkpointer.run()).await.map_err(|_| thread_stopped_error())?
    }

    async fn probe_disk(&self) -> Result<(), StoreError> {
        self.disk_probe.run().await
    }

    fn change_notification(&self) -> &Arc<Notify> {
        &self.change_notification
    }

    fn notify_change(&self) {
        self.change_notification.notify_one();
    }
}

/// Opens a read-only connection.
pub(crate) fn open_for_reading(path: &Path) -> Result<rusqlite::Connection, StoreError> {
    connection::open(path, connection::Access::Read)
}

/// Opens a connection that creates a missing file, and whose commits are durable when they return.
pub(crate) fn open_for_migration(path: &Path) -> Result<rusqlite::Connection, StoreError> {
    connection::open(path, connection::Access::Create)
}

async fn with_call_timeout<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable(format!("timed out after {} s", CALL_TIMEOUT.as_secs()))),
    }
}

/// The error for a job whose thread has stopped or has panicked.
fn thread_stopped_error() -> StoreError {
    StoreError::Unavailable("the database thread stopped".to_owned())
}
