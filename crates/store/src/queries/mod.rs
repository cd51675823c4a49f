//! The engine's store ports, written once for both databases.
//!
//! A control-plane change first increments the version, whose row stays locked until the commit. Such changes are
//! therefore serialised, and may read before they write.
//!
//! Data-plane operations are forwarded to [`DataPlane`](crate::driver::DataPlane), because each database batches them
//! in its own way.

mod accounts;
mod activity;
mod audit;
mod callbacks;
mod check_list;
mod checks;
mod control_plane;
mod credentials;
pub(crate) mod idempotency;
mod keys;
mod login_throttle;
mod nodes;
pub(crate) mod privacy;
mod projects;
pub(crate) mod redirect_sessions;
mod requests;
pub(crate) mod usage;
mod workspaces;

use futures_util::future::BoxFuture;
use ringtrue_domain::page::{Page, PageRequest};
use ringtrue_engine::ports::{ControlPlaneVersion, Store, StoreError};

use crate::{
    driver::{Database, Sql, TransactionFuture, Tx, Value, values},
    row::Row,
};

pub(crate) use control_plane::next_version;
pub(crate) use idempotency::IdempotencyKeyRow;

/// Implements the store ports over a database.
#[derive(Debug)]
pub(crate) struct SqlStore<D> {
    database: D,
}

impl<D: Database> Store for SqlStore<D> {}

impl<D: Database> SqlStore<D> {
    pub(crate) fn new(database: D) -> Self {
        SqlStore { database }
    }

    /// Increments the control-plane version, runs `work` in the same transaction, and notifies listeners.
    async fn change_control_plane<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't), ControlPlaneVersion) -> TransactionFuture<'t, T> + Send + 'static,
    {
        let result = self
            .database
            .transact(move |tx| {
                Box::pin(async move {
                    let version = next_version::<D>(tx).await?;
                    work(tx, version).await
                })
            })
            .await?;
        self.database.notify_change();
        Ok(result)
    }

    /// Runs one statement and returns its first row.
    async fn read_first(&self, sql: &'static str, values: Vec<Value>) -> Result<Option<Row>, StoreError> {
        self.database.read(move |tx| Box::pin(async move { tx.first(sql, &values).await })).await
    }

    /// Reads a page and the total of a list, from one snapshot.
    async fn read_page<T: Send + 'static>(
        &self,
        query: PagedQuery,
        item: fn(Row) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        self.database.read_list(move |tx| Box::pin(async move { query.read(tx, item).await })).await
    }
}

/// A query whose rows are read in pages.
#[derive(Debug)]
struct PagedQuery {
    columns: &'static str,
    /// Table and condition: `projects where workspace_id = $1`.
    from: Sql,
    /// The parameters of `from`.
    values: Vec<Value>,
    order: &'static str,
    page: PageRequest,
}

impl PagedQuery {
    fn read<'t, T: Send + 'static>(
        self,
        tx: &'t mut (dyn Tx + 't),
        item: fn(Row) -> Result<T, StoreError>,
    ) -> BoxFuture<'t, Result<Page<T>, StoreError>> {
        Box::pin(async move {
            let PagedQuery { columns, from, mut values, order, page } = self;
            let total = tx.query(format!("select count(*) from {from}").into(), &values).await?;
            let total = total.into_iter().next().map_or(Ok(0), Row::into_int)?;

            let (limit, offset) = (values.len() + 1, values.len() + 2);
            values.extend_from_slice(values![i64::from(page.size()), i64::try_from(page.offset()).unwrap_or(i64::MAX)]);
            let select = format!("select {columns} from {from} order by {order} limit ${limit} offset ${offset}");
            let rows = tx.query(select.into(), &values).await?;
            let items = rows.into_iter().map(item).collect::<Result<_, _>>()?;
            Ok(Page { items, request: page, total_items: total.unsigned_abs() })
        })
    }
}
