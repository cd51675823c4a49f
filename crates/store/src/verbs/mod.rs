//! The engine's ports, each verb written once for both databases.
//!
//! A change of the control plane begins by raising the version, whose row stays locked until the commit. So such
//! changes take turns, and a verb may look before it writes: nobody comes in between.
//!
//! Verbs of the data plane are only passed on: how they are gathered is each database's own affair.

mod accounts;
mod activity;
mod audit;
mod callbacks;
mod check_list;
mod checks;
mod control_plane;
mod credentials;
mod guesses;
pub(crate) mod idempotency;
pub(crate) mod journeys;
mod keys;
mod nodes;
pub(crate) mod privacy;
mod projects;
mod requests;
pub(crate) mod usage;
mod workspaces;

use futures_util::future::BoxFuture;
use ringtrue_domain::page::{Page, PageRequest};
use ringtrue_engine::ports::{Store, StoreError, Version};

use crate::{
    driver::{Database, Ended, Sql, Tx, Value, values},
    row::Row,
};

pub(crate) use control_plane::next_version;
pub(crate) use idempotency::Standing;

/// The ports over a database.
#[derive(Debug)]
pub(crate) struct SqlStore<D> {
    database: D,
}

impl<D: Database> Store for SqlStore<D> {}

impl<D: Database> SqlStore<D> {
    pub(crate) fn over(database: D) -> Self {
        SqlStore { database }
    }

    /// Changes the control plane: raises its version, does `work`, tells whoever listens.
    async fn change<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't), Version) -> Ended<'t, T> + Send + 'static,
    {
        let answer = self
            .database
            .transact(move |tx| {
                Box::pin(async move {
                    let version = next_version::<D>(tx).await?;
                    work(tx, version).await
                })
            })
            .await?;
        self.database.has_changed();
        Ok(answer)
    }

    /// Reads the first row of one statement.
    async fn read_first(&self, sql: &'static str, values: Vec<Value>) -> Result<Option<Row>, StoreError> {
        self.database.read(move |tx| Box::pin(async move { tx.first(sql, &values).await })).await
    }

    /// Reads one page of a list and its total, both of one snapshot.
    async fn read_page<T: Send + 'static>(
        &self,
        list: List,
        item: fn(Row) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        self.database.read_list(move |tx| Box::pin(async move { list.read(tx, item).await })).await
    }
}

/// A list that can be read in pages.
#[derive(Debug)]
struct List {
    columns: &'static str,
    /// Table and condition: `projects where workspace_id = $1`.
    from: Sql,
    /// The values of `from`.
    values: Vec<Value>,
    order: &'static str,
    page: PageRequest,
}

impl List {
    fn read<'t, T: Send + 'static>(
        self,
        tx: &'t mut (dyn Tx + 't),
        item: fn(Row) -> Result<T, StoreError>,
    ) -> BoxFuture<'t, Result<Page<T>, StoreError>> {
        Box::pin(async move {
            let List { columns, from, mut values, order, page } = self;
            let total = tx.query(format!("select count(*) from {from}").into(), &values).await?;
            let total = total.into_iter().next().map_or(Ok(0), Row::number)?;

            let (limit, offset) = (values.len() + 1, values.len() + 2);
            values.extend_from_slice(values![i64::from(page.size()), i64::try_from(page.offset()).unwrap_or(i64::MAX)]);
            let select = format!("select {columns} from {from} order by {order} limit ${limit} offset ${offset}");
            let rows = tx.query(select.into(), &values).await?;
            let items = rows.into_iter().map(item).collect::<Result<_, _>>()?;
            Ok(Page { items, request: page, total_items: total.unsigned_abs() })
        })
    }
}
