//! The ports over `SQLite`: one thread that writes, one that sees to the disk, a few that read for tenants, and one that
//! reads for the node. Lists and searches have threads of their own: nothing else waits for them.
//!
//! The file may be written by another process too, the command line for instance: `SQLite`'s own lock makes the two take
//! turns, and whoever waits longer than [`connection::BUSY_TIMEOUT`] is told that the database is unavailable.

mod callbacks;
mod checks;
mod connection;
mod counters;
mod data_plane;
mod disk;
mod ended_checks;
mod error;
mod journeys;
mod lookups;
mod readers;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::Path, sync::Arc, time::Duration};

use ringtrue_engine::{ports::StoreError, search_limit::SearchPermit};
use tokio::sync::Notify;

use crate::{
    StoreOptions,
    driver::{Database, Ended, Reading, Tx, Value},
    migration::{self, Migration},
    row::Row,
};

pub(crate) use schema::{migrate, schema_state};

/// How long a caller waits for its answer, from the queue to the commit.
const PATIENCE: Duration = Duration::from_secs(5);
const LIST_THREADS: usize = 2;

#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: writer::Writer,
    tide: disk::Tide,
    lookups: lookups::Lookups,
    readers: readers::Readers,
    reader_apart: readers::Readers,
    lists: readers::Readers,
    searches: readers::Readers,
    search_timeout: Duration,
    change_hint: Arc<Notify>,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        // The writer first: it makes the files that a reader needs to find.
        let (writer, tide) = writer::Writer::start(path.to_owned()).await?;
        let readers = readers::Readers::start(path, "reader", options.readers.max(1), None).await?;
        let reader_apart = readers::Readers::start(path, "node-reader", 1, None).await?;
        let search_timeout = options.search_timeout;
        let lists = readers::Readers::start(path, "list", LIST_THREADS, Some(search_timeout)).await?;
        let searches = readers::Readers::start(path, "search", options.searches.max(1), Some(search_timeout)).await?;
        let lookups = lookups::Lookups::open(path.to_owned(), options.readers.max(1)).await?;
        Ok(Sqlite {
            writer,
            tide,
            lookups,
            readers,
            reader_apart,
            lists,
            searches,
            search_timeout,
            change_hint: Arc::default(),
        })
    }

    fn step<S: writer::Step>(&self, step: S) -> impl Future<Output = Result<S::Answer, StoreError>> + use<'_, S> {
        within_patience(self.writer.step(step))
    }

    /// Looks up a row that is at work, for somebody who goes on to write, and promises nothing before that: no need to
    /// wait for the disk.
    async fn look_up<const N: usize>(&self, sql: &'static str, values: [Value; N]) -> Result<Option<Row>, StoreError> {
        if let Some(found) = self.lookups.first(sql, &values) {
            return found;
        }
        let read = self.readers.run(move |tx| Box::pin(async move { tx.first(sql, &values).await }));
        within_patience(read).await
    }

    /// What was read is told: it must not be undone by a machine that loses its power.
    async fn told<T>(&self, reading: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        within_patience(self.read_durable(reading)).await
    }

    /// As [`told`](Sqlite::told), for lists and searches: they wait for a thread, and then run to their deadline.
    async fn listed<T>(&self, reading: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let limit = self.search_timeout;
        let late = |_| StoreError::DeadlineExceeded(limit);
        tokio::time::timeout(PATIENCE + limit, self.read_durable(reading)).await.map_err(late).flatten()
    }

    async fn read_durable<T>(&self, reading: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let read = reading.await?;
        self.tide.has_come().await?;
        Ok(read)
    }
}

impl Database for Sqlite {
    const SCHEMA: &'static [Migration] = migration::SQLITE;

    /// Nobody listens in another process: there the poll must do.
    const RAISE_VERSION: &'static str =
        "update control_version set version = version + 1 where id = 1 returning version";

    const MIN_ID: &'static str = "min(id)";

    const IDENTITY: Option<&'static str> = None;

    const READ_TIME: &'static str = "select latest_at, null from roll_call where id = 1";

    async fn transact<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
    {
        within_patience(self.writer.run(work)).await
    }

    async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        self.told(self.readers.run(work)).await
    }

    /// There is one writer for everybody, and a turn with it is short: no query of a tenant runs there.
    async fn transact_apart<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
    {
        self.transact(work).await
    }

    async fn read_apart<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        self.told(self.reader_apart.run(work)).await
    }

    async fn read_list<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        self.listed(self.lists.run(work)).await
    }

    async fn search<T, W>(&self, permit: SearchPermit, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static,
    {
        self.listed(self.searches.run_holding(permit, work)).await
    }

    fn change_hint(&self) -> &Arc<Notify> {
        &self.change_hint
    }

    fn has_changed(&self) {
        self.change_hint.notify_one();
    }
}

async fn within_patience<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// For a thread that is gone, or a verb that it could not finish.
fn stopped() -> StoreError {
    StoreError::Unavailable("the thread that serves the database has stopped".to_owned())
}
