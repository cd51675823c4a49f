//! The ports over `SQLite`: one writer thread, one that syncs the log, a pool of readers for tenants, and a reserved
//! reader for the node. Lists and searches have their own threads, so that nothing else waits for them.
//!
//! Another process, such as the command line, may write to the file too. The two alternate by `SQLite`'s lock, and
//! waiting for it longer than [`connection::BUSY_TIMEOUT`] fails with `StoreError::Unavailable`.

mod connection;
mod operations;
mod readers;
mod schema;
#[cfg(test)]
mod tests;
mod wal_syncer;
mod writer;

use std::{path::Path, sync::Arc, time::Duration};

use ringtrue_engine::{ports::StoreError, search_limit::SearchPermit};
use tokio::sync::Notify;

use crate::{
    StoreOptions,
    driver::{Database, TransactionEnd, Work},
    migration::{self, Migration},
    operation::Run,
    row::{Row, Value},
};

pub(crate) use schema::{migrate, schema_state};

/// Limit of a call, from the queue to the durable commit.
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
    change_notification: Arc<Notify>,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        // The writer first: it creates the files that readers open.
        let (writer, durability) = writer::Writer::start(path.to_owned()).await?;
        let readers = readers::ReaderPool::start(path, "reader", options.readers.max(1), None).await?;
        let reserved_reader = readers::ReaderPool::start(path, "node-reader", 1, None).await?;
        let search_timeout = options.search_timeout;
        let lists = readers::ReaderPool::start(path, "list", LIST_THREADS, Some(search_timeout)).await?;
        let searches =
            readers::ReaderPool::start(path, "search", options.searches.max(1), Some(search_timeout)).await?;
        let lookups = readers::LookupPool::open(path.to_owned(), options.readers.max(1)).await?;
        Ok(Sqlite {
            writer,
            durability,
            lookups,
            readers,
            reserved_reader,
            lists,
            searches,
            search_timeout,
            change_notification: Arc::default(),
        })
    }

    /// Looks up a recently written row without waiting for durability. For callers that write next, and report nothing
    /// before that write is durable.
    async fn look_up<const N: usize>(&self, sql: &'static str, values: [Value; N]) -> Result<Option<Row>, StoreError> {
        if let Ok(found) = self.lookups.first(sql, &values) {
            return Ok(found);
        }
        let read = self.readers.run(move |tx| Box::pin(async move { tx.first(sql, &values).await }));
        with_call_timeout(read).await
    }

    /// Waits until everything that the read may have seen is durable: a reported result must survive a power failure.
    async fn read_durable<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        with_call_timeout(self.wait_durable_after(read)).await
    }

    /// As [`read_durable`](Sqlite::read_durable), for lists and searches, which wait for a thread and then run to their
    /// deadline.
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

impl<O: writer::WriteOp> Run<O> for Sqlite {
    fn run(&self, op: O) -> impl Future<Output = Result<O::Output, StoreError>> + Send {
        with_call_timeout(self.writer.run_op(op))
    }
}

impl Database for Sqlite {
    const MIGRATIONS: &'static [Migration] = migration::SQLITE;

    /// Without a notification: another process polls.
    const INCREMENT_VERSION_SQL: &'static str =
        "update control_version set version = version + 1 where id = 1 returning version";

    const MIN_ID_SQL: &'static str = "min(id)";

    const READ_IDENTITY_SQL: Option<&'static str> = None;

    const SKIP_LOCKED_SQL: &'static str = "";

    const READ_TIME_SQL: &'static str = "select latest_at, null from database_state where id = 1";

    async fn transact<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        with_call_timeout(self.writer.run(work)).await
    }

    async fn read<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.read_durable(self.readers.run(work)).await
    }

    /// The writer is shared. Its transactions are short, because tenants' queries run elsewhere.
    async fn transact_reserved<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        self.transact(work).await
    }

    async fn read_reserved<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.read_durable(self.reserved_reader.run(work)).await
    }

    async fn read_list<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.list_durable(self.lists.run(work)).await
    }

    async fn search<T: Send + 'static>(&self, permit: SearchPermit, work: impl Work<T>) -> Result<T, StoreError> {
        self.list_durable(self.searches.run_with_permit(permit, work)).await
    }

    fn change_notification(&self) -> &Arc<Notify> {
        &self.change_notification
    }

    fn notify_change(&self) {
        self.change_notification.notify_one();
    }
}

async fn with_call_timeout<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable(format!("timed out after {} s", CALL_TIMEOUT.as_secs()))),
    }
}

/// The error of a job whose thread ended, or panicked in it.
fn thread_stopped_error() -> StoreError {
    StoreError::Unavailable("the database thread stopped".to_owned())
}
