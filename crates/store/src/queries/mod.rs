//! The engine's store ports, written once for both databases.
//!
//! A change of the control plane first increments its version. The row of the version stays locked until the commit, so
//! such changes run one after the other, and may read before they write.
//!
//! Frequent operations run in batches, which each database implements in its own way: see
//! [`operation`](crate::operation).

mod account_rows;
mod accounts;
mod activity;
mod audit;
pub(crate) mod bucket;
mod callbacks;
mod check_list;
mod checks;
mod control_plane;
mod deployment;
pub(crate) mod idempotency;
mod leases;
mod members;
mod memberships;
mod pending;
pub(crate) mod privacy;
mod requests;
mod retention;
mod row_macs;
mod sandbox;
mod sessions;
mod sign_ins;
mod signed_tables;
mod sms_parts;
mod tenants;
pub(crate) mod usage;
mod verifications;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use ringtrue_domain::{
    audit::AuditEvent,
    lifecycle::{CheckId, ShardBucket},
    page::{Page, PageRequest},
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    combined::Store,
    store::{ControlPlaneVersion, StoreError},
};
use uuid::Uuid;

use row_macs::Signer;

use crate::{
    driver::{Database, Sql, TransactionEnd, Tx, Work, work},
    list_turns::{ListOwner, ListTurns},
    row::{Row, Value, values},
    time_span::Span,
};

const MAX_CACHED_PROJECTS: usize = 10_000;

/// Implements the store ports over a database.
#[derive(Debug)]
pub(crate) struct SqlStore<D> {
    database: D,
    list_turns: ListTurns,
    /// Caches the workspace of each project, which never changes.
    workspaces: Cache<ProjectId, WorkspaceId>,
    signer: RwLock<Option<Signer>>,
    /// The servers of a cluster whose callbacks could not be leased recently, each with the time until which it is left
    /// out.
    lease_pauses: Mutex<HashMap<usize, Instant>>,
}

impl<D: Database> Store for SqlStore<D> {}

impl<D: Database> SqlStore<D> {
    pub(crate) fn new(database: D) -> Self {
        SqlStore {
            database,
            signer: RwLock::default(),
            lease_pauses: Mutex::default(),
            list_turns: ListTurns::default(),
            workspaces: Cache::new(MAX_CACHED_PROJECTS),
        }
    }

    /// Returns the signer that signs and verifies rows. Fails if no key is loaded.
    fn signer(&self) -> Result<Signer, StoreError> {
        let signer = self.signer.read().clone();
        signer.ok_or_else(|| StoreError::Refused("rows cannot be verified: no key is loaded".to_owned()))
    }

    async fn transact<T: Send + 'static>(&self, work: impl Work<TransactionEnd<T>>) -> Result<T, StoreError> {
        self.database.transact(work).await
    }

    /// Increments the control-plane version, runs `work` in the same transaction, and notifies listeners.
    async fn change_control_plane<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'t> FnOnce(
                &'t mut (dyn Tx + 't),
                ControlPlaneVersion,
            ) -> BoxFuture<'t, Result<TransactionEnd<T>, StoreError>>
            + Send
            + 'static,
    {
        let change = self.transact(work!(|tx| {
            let version = control_plane::increment_version::<D>(tx).await?;
            work(tx, version).await
        }));
        let result = change.await?;
        self.database.notify_change();
        Ok(result)
    }

    /// Runs one statement as a transaction, and returns its rows.
    async fn execute(&self, sql: impl Into<Sql>, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let (sql, values) = (sql.into(), values.to_vec());
        let write = self.transact(work!(|tx| tx.query(sql, &values).await.map(TransactionEnd::Commit)));
        write.await
    }

    /// As [`execute`](Self::execute), on the server of a cluster that has the rows of `bucket`.
    async fn execute_at_bucket(
        &self,
        bucket: ShardBucket,
        sql: Sql,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        self.database
            .transact_at_bucket(bucket, work!(|tx| tx.query(sql, &values).await.map(TransactionEnd::Commit)))
            .await
    }

    /// Runs one statement. If it changes a row, inserts the audit event and returns `true`.
    async fn execute_audited(
        &self,
        sql: &'static str,
        values: &[Value],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (values, event) = (values.to_vec(), audit.clone());
        self.transact(work!(|tx| {
            if !tx.exists(sql, &values).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            audit::insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    /// Runs one statement and returns its rows.
    async fn query(&self, sql: impl Into<Sql>, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let (sql, values) = (sql.into(), values.to_vec());
        self.database.read(work!(|tx| tx.query(sql, &values).await)).await
    }

    /// As [`query`](Self::query), on the server of a cluster that has the rows of `bucket`.
    async fn query_at_bucket(&self, bucket: ShardBucket, sql: Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.database.read_at_bucket(bucket, work!(|tx| tx.query(sql, &values).await)).await
    }

    /// Groups items by the server that has the rows of their check. Each group has a bucket of that server.
    fn by_server<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        check: impl Fn(&T) -> CheckId,
    ) -> Vec<(ShardBucket, Vec<T>)> {
        let mut by_server = BTreeMap::<usize, (ShardBucket, Vec<T>)>::new();
        for item in items {
            let bucket = check(&item).bucket();
            let server = by_server.entry(self.database.server_index(bucket));
            server.or_insert_with(|| (bucket, Vec::new())).1.push(item);
        }
        by_server.into_values().collect()
    }

    /// Returns the first items up to a limit, the same number from each server as far as it has them. A server whose
    /// rows can be read, but not written, would otherwise take up the whole limit.
    fn limit_evenly_by_server<T>(&self, sorted: Vec<T>, limit: usize, check: impl Fn(&T) -> CheckId) -> Vec<T> {
        if sorted.len() <= limit {
            return sorted;
        }
        let mut counts = HashMap::<usize, usize>::new();
        let rank = |item: &T| {
            let count = counts.entry(self.database.server_index(check(item).bucket())).or_default();
            *count += 1;
            *count
        };
        let ranks: Vec<(usize, usize)> = sorted.iter().map(rank).zip(0..).collect();
        let mut by_rank = ranks.clone();
        by_rank.sort_unstable();
        let end = by_rank[limit];
        sorted.into_iter().zip(ranks).filter(|(_, rank)| *rank < end).map(|(item, _)| item).collect()
    }

    /// Runs one statement and returns its first row.
    async fn query_first(&self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// Waits until the workspace of `owner` may read a list, and then runs `work` to read it.
    async fn read_for_list<T: Send + 'static>(
        &self,
        owner: impl Into<ListOwner>,
        work: impl Work<T>,
    ) -> Result<T, StoreError> {
        let workspace = match owner.into() {
            ListOwner::Workspace(workspace) => Some(workspace),
            ListOwner::Project(project) => Some(self.workspace_of(project).await?),
            ListOwner::Deployment => None,
        };
        let turn = self.list_turns.take(workspace).await?;
        self.database.read_for_list(turn, work).await
    }

    /// Returns the workspace of a project. A project that does not exist gets its own id as workspace, so that its
    /// lists have a queue too.
    async fn workspace_of(&self, project: ProjectId) -> Result<WorkspaceId, StoreError> {
        if let Some(workspace) = self.workspaces.get(&project) {
            return Ok(workspace);
        }
        let row = self.query_first("select workspace_id from projects where id = $1", values![project]).await?;
        let Some(row) = row else { return Ok(WorkspaceId(project.0)) };
        let workspace = WorkspaceId(row.reader("projects").uuid("workspace_id")?);
        self.workspaces.insert(project, workspace);
        Ok(workspace)
    }

    /// Reads a page of a list and the total number of its items, from one snapshot.
    async fn read_page<T: Send + 'static>(
        &self,
        owner: impl Into<ListOwner>,
        query: PagedQuery,
        item: fn(Row) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        self.read_for_list(owner, work!(|tx| query.read(tx, item).await)).await
    }
}

/// A query whose rows are read in pages.
#[derive(Debug)]
struct PagedQuery {
    columns: &'static str,
    /// Table and condition: `projects where workspace_id = $1`.
    from: Cow<'static, str>,
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
            let total = tx.number(format!("select count(*) from {from}"), &values).await?;

            let (limit, offset) = (values.len() + 1, values.len() + 2);
            values.extend_from_slice(values![i64::from(page.size()), i64::try_from(page.offset()).unwrap_or(i64::MAX)]);
            let select = format!("select {columns} from {from} order by {order} limit ${limit} offset ${offset}");
            let rows = tx.query(select.into(), &values).await?;
            let items = rows.into_iter().map(item).collect::<Result<_, _>>()?;
            Ok(Page { items, request: page, total_items: total.unsigned_abs() })
        })
    }
}

/// Returns the smallest possible id of a check that was created after this time.
fn first_id_after(created_after: Option<Timestamp>) -> Uuid {
    created_after.map_or(Uuid::nil(), |after| Span::since(after.as_millisecond().saturating_add(1)).first_id())
}

/// Returns the smallest possible id of a check that was not created before this time.
fn first_id_since(time: Option<Timestamp>) -> Uuid {
    time.map_or(Uuid::max(), |time| Span::since(time.as_millisecond()).first_id())
}

/// Returns placeholders for consecutive parameters, such as `$3, $4, $5`.
fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|index| format!("${index}")).collect::<Vec<_>>().join(", ")
}
