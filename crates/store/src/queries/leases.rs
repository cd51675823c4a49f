//! Stores leases on resources that only one node may use at a time.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::{
    leases::{Lease, LeaseRequest, LeaseStore},
    node::NodeId,
    store::StoreError,
};

use super::SqlStore;
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, values},
};

const FIND_SQL: &str = "select name, holder_id, expires_at, links_up from leases where name = $1";

/// Takes or renews the lease, unless another node holds it. If another node takes the lease concurrently, this
/// statement waits for that node's commit and changes nothing.
const TAKE_SQL: &str = "insert into leases (name, holder_id, expires_at, links_up) values ($1, $2, $3, $4)
     on conflict (name) do update
       set holder_id = excluded.holder_id, expires_at = excluded.expires_at, links_up = excluded.links_up
       where leases.holder_id = excluded.holder_id or leases.expires_at <= $5";

/// Returns the database's time, as [`database_time`](ringtrue_engine::ports::node::NodeStore::database_time) does.
async fn database_now<D: Database>(tx: &mut dyn Tx, machine_now: Timestamp) -> Result<Timestamp, StoreError> {
    let Some(row) = tx.first(D::READ_TIME_SQL, &[]).await? else { return Ok(machine_now) };
    let mut row = row.reader("database_state");
    let latest_recorded = row.instant("latest_at")?;
    Ok(row.instant_or_null("clock")?.unwrap_or(machine_now).max(latest_recorded))
}

fn lease_from_row(row: Row) -> Result<Lease, StoreError> {
    let mut row = row.reader("leases");
    Ok(Lease {
        name: row.text("name")?,
        holder: NodeId(row.uuid("holder_id")?),
        expires_at: row.instant("expires_at")?,
        links_up: row.count("links_up")?,
    })
}

async fn find(tx: &mut dyn Tx, name: &str) -> Result<Option<Lease>, StoreError> {
    tx.first(FIND_SQL, values![name]).await?.map(lease_from_row).transpose()
}

#[async_trait]
impl<D: Database> LeaseStore for SqlStore<D> {
    async fn acquire_lease(&self, request: LeaseRequest, machine_now: Timestamp) -> Result<Lease, StoreError> {
        self.database
            .transact_reserved(work!(|tx| {
                let LeaseRequest { name, node, duration, links_up } = request;
                let now = database_now::<D>(tx, machine_now).await?;
                // If another node holds the lease, nothing is written.
                if let Some(lease) =
                    find(tx, &name).await?.filter(|lease| lease.holder != node && lease.expires_at > now)
                {
                    return Ok(TransactionEnd::Rollback(lease));
                }
                let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
                let expires_at = now.saturating_add(duration).unwrap_or(Timestamp::MAX);
                tx.run(TAKE_SQL, values![&*name, node, expires_at, i64::from(links_up), now]).await?;
                let lease = find(tx, &name).await?;
                let missing = || StoreError::Unavailable("the lease was released concurrently".to_owned());
                Ok(TransactionEnd::Commit(lease.ok_or_else(missing)?))
            }))
            .await
    }

    async fn release_lease(&self, name: &str, node: NodeId) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.database
            .transact_reserved(work!(|tx| {
                tx.run("delete from leases where name = $1 and holder_id = $2", values![name, node]).await?;
                Ok(TransactionEnd::Commit(()))
            }))
            .await
    }

    async fn find_lease(&self, name: &str, machine_now: Timestamp) -> Result<Option<Lease>, StoreError> {
        let name = name.to_owned();
        self.database
            .read_reserved(work!(|tx| {
                let now = database_now::<D>(tx, machine_now).await?;
                Ok(find(tx, &name).await?.filter(|lease| lease.expires_at > now))
            }))
            .await
    }
}
