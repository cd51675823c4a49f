//! Stores the state of a deployment: live nodes, the history of the database, and housekeeping.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::audit::AuditEvent;
use ringtrue_engine::ports::{
    node::{
        DatabaseHistory, DatabaseTime, DeletedChecks, HeartbeatResult, HousekeepingStore, LastSeenDatabase, NodeId,
        NodeStore, PublishedDemand,
    },
    store::StoreError,
};
use tokio::time::timeout;

use super::{SqlStore, accounts, audit::insert_audit_event, sessions};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    migration::{self, Migration},
    row::{Row, values},
};

/// Time limit of a ping. Short, because readiness probes are repeated.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Added to the generation, which counts heartbeats, when an administrator accepts a restored database. The sum exceeds
/// every generation that a node can have seen, so no node detects a rollback again.
const GENERATIONS_PER_RESTORE: i64 = 1_000_000_000;

/// Records a heartbeat. Locks the row that serialises heartbeats, records the time, and compares the database with the
/// state that the node has last seen. Returns the generation, and the time at which a rollback of the database was
/// detected, if any.
async fn record_heartbeat(
    tx: &mut dyn Tx,
    now: Timestamp,
    known: &LastSeenDatabase,
) -> Result<(i64, Option<Timestamp>), StoreError> {
    let update = "update database_state
                     set generation = generation + 1,
                         latest_at = case when latest_at < $1 then $1 else latest_at end,
                         rollback_detected_at = case when generation < $2 then $1
                                                     when $2 = 0 and identity <> $3 then $1
                                                     else rollback_detected_at end,
                         identity = coalesce($3, identity)
                   where id = 1
                  returning generation, rollback_detected_at";
    let row = tx.first(update, values![now, known.generation, known.identity.as_deref()]).await?;
    let mut row = row.ok_or_else(missing_row_error)?.reader("database_state");
    Ok((row.int("generation")?, row.instant_or_null("rollback_detected_at")?))
}

fn missing_row_error() -> StoreError {
    StoreError::CorruptRow { table: "database_state", row: "1".to_owned(), problem: "the row is missing".to_owned() }
}

/// Fails if the database is read-only, or if this release cannot use its schema. Tests this with a small write, which
/// adds a millisecond to the recorded time: `SQLite` would not write an unchanged page. Ignores newer migrations:
/// during an upgrade, nodes of the previous release keep running on the newer schema.
async fn write_and_check_schema(tx: &mut dyn Tx, known: &[Migration]) -> Result<(), StoreError> {
    let newest = migration::newest_version(known);
    let update = "update database_state set latest_at = latest_at + 1 where id = 1
                  returning (select count(*) from schema_migrations where version <= $1),
                            (select oldest_version from schema_compatibility where id = 1)";
    let row = tx.first(update, values![newest]).await?;
    let mut row = row.ok_or_else(missing_row_error)?.reader("schema_migrations");
    let applied = row.int("count")?;
    if usize::try_from(applied).ok() != Some(known.len()) {
        return Err(StoreError::Refused(format!(
            "the database has {applied} of the {} migrations of this release; run `ringtrue migrate`, or check the \
             store URL",
            known.len()
        )));
    }
    if row.int_or_null("oldest_version")?.is_some_and(|oldest| oldest > newest) {
        return Err(StoreError::Refused(
            "the database was migrated by a newer release of Ringtrue, beside which this one cannot run: replace this \
             server"
                .to_owned(),
        ));
    }
    Ok(())
}

#[async_trait]
impl<D: Database> NodeStore for SqlStore<D> {
    async fn database_time(&self, machine_now: Timestamp) -> Result<DatabaseTime, StoreError> {
        let row = self.database.read_reserved(work!(|tx| tx.first(D::READ_TIME_SQL, &[]).await)).await?;
        let mut row = row.ok_or_else(missing_row_error)?.reader("database_state");
        let latest_recorded = row.instant("latest_at")?;
        let clock = row.instant_or_null("clock")?.unwrap_or(machine_now);
        Ok(DatabaseTime { clock, latest_recorded })
    }

    async fn heartbeat(
        &self,
        node: NodeId,
        now: Timestamp,
        dead_before: Timestamp,
        known: LastSeenDatabase,
    ) -> Result<HeartbeatResult, StoreError> {
        self.database
            .transact_reserved(work!(|tx| {
                // Also serialises heartbeats. After an outage, nodes may consider each other dead, and could deadlock
                // by deleting each other's rows.
                let (generation, rollback_detected_at) = record_heartbeat(tx, now, &known).await?;
                let insert = "insert into nodes (id, seen_at) values ($1, $2)
                              on conflict (id) do update set seen_at = excluded.seen_at";
                tx.run(insert, values![node, now]).await?;
                tx.run("delete from nodes where seen_at < $1 and id <> $2", values![dead_before, node]).await?;
                tx.run("delete from node_demand where published_at < $1", values![dead_before]).await?;
                let rows = tx.run("select id from nodes order by id", &[]).await?;
                let id = |row: Row| row.reader("nodes").uuid("id").map(NodeId);
                let nodes = rows.into_iter().map(id).collect::<Result<_, _>>()?;
                Ok(TransactionEnd::Commit(HeartbeatResult { nodes, generation, rollback_detected_at }))
            }))
            .await
    }

    async fn database_identity(&self) -> Result<Option<String>, StoreError> {
        let Some(sql) = D::READ_IDENTITY_SQL else { return Ok(None) };
        let read = self.database.read_reserved(work!(|tx| tx.first(sql, &[]).await)).await;
        match read {
            Ok(row) => row.map_or(Ok(None), |row| row.reader("(identity)").text_or_null("identity")),
            // Some managed servers do not permit the functions in this query.
            Err(StoreError::Refused(reason)) => {
                tracing::debug!(reason, "database identity not available");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn database_history(&self) -> Result<DatabaseHistory, StoreError> {
        let sql = "select generation, rollback_detected_at, identity from database_state where id = 1";
        let row = self.database.read_reserved(work!(|tx| tx.first(sql, &[]).await)).await?;
        let mut row = row.ok_or_else(missing_row_error)?.reader("database_state");
        Ok(DatabaseHistory {
            generation: row.int("generation")?,
            rollback_detected_at: row.instant_or_null("rollback_detected_at")?,
            identity: row.text_or_null("identity")?,
        })
    }

    async fn accept_restored_database(&self, audit: &AuditEvent) -> Result<u64, StoreError> {
        let (event, identity) = (audit.clone(), self.database_identity().await?);
        self.transact(work!(|tx| {
            let update = "update database_state
                             set generation = generation + $1, rollback_detected_at = null, identity = $2
                           where id = 1";
            tx.run(update, values![GENERATIONS_PER_RESTORE, identity.as_deref()]).await?;
            let sessions = tx.run("delete from sessions returning 1", &[]).await?.len();
            tx.run("delete from account_links", &[]).await?;
            // Some of the restored invitations may have been withdrawn after the backup.
            tx.run("delete from invitations", &[]).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(sessions as u64))
        }))
        .await
    }

    async fn reset_latest_time(&self) -> Result<(), StoreError> {
        self.execute("update database_state set latest_at = 0 where id = 1", &[]).await.map(drop)
    }

    async fn exchange_demand(
        &self,
        node: NodeId,
        demand: String,
        now: Timestamp,
    ) -> Result<Vec<PublishedDemand>, StoreError> {
        self.database
            .transact_reserved(work!(|tx| {
                // Each node writes only its own row, so it neither waits for other nodes nor deadlocks with them.
                let insert = "insert into node_demand (node_id, published_at, demand) values ($1, $2, $3)
                                  on conflict (node_id) do update
                                    set published_at = excluded.published_at, demand = excluded.demand";
                tx.run(insert, values![node, now, demand]).await?;
                let select = "select node_id, published_at, demand from node_demand where node_id <> $1";
                let published = |row: Row| {
                    let mut row = row.reader("node_demand");
                    Ok(PublishedDemand {
                        node: NodeId(row.uuid("node_id")?),
                        published_at: row.instant("published_at")?,
                        demand: row.text("demand")?,
                    })
                };
                let rows = tx.run(select, values![node]).await?;
                rows.into_iter().map(published).collect::<Result<_, StoreError>>().map(TransactionEnd::Commit)
            }))
            .await
    }

    async fn count_live_nodes(&self, seen_since: Timestamp) -> Result<u64, StoreError> {
        let row = self.query_first("select count(*) from nodes where seen_at >= $1", values![seen_since]).await?;
        row.map_or(Ok(0), Row::into_int).map(i64::unsigned_abs)
    }

    async fn deregister_node(&self, node: NodeId) -> Result<(), StoreError> {
        self.database
            .transact_reserved(work!(|tx| {
                tx.run("delete from nodes where id = $1", values![node]).await?;
                tx.run("delete from node_demand where node_id = $1", values![node]).await?;
                tx.run("delete from leases where holder_id = $1", values![node]).await?;
                Ok(TransactionEnd::Commit(()))
            }))
            .await
    }
}

#[async_trait]
impl<D: Database> HousekeepingStore for SqlStore<D> {
    async fn ping(&self) -> Result<(), StoreError> {
        let write = async {
            let transaction = self.database.transact_reserved(work!(|tx| {
                write_and_check_schema(tx, D::MIGRATIONS).await?;
                Ok(TransactionEnd::Commit(()))
            }));
            transaction.await?;
            self.database.probe_disk().await
        };
        let late = |_| StoreError::Unavailable("write probe timed out after 2 s".to_owned());
        timeout(PING_TIMEOUT, write).await.map_err(late)?
    }

    async fn create_partitions(&self, from: Timestamp, until: Timestamp) -> Result<u64, StoreError> {
        let Some(sql) = D::CREATE_PARTITIONS_SQL else { return Ok(0) };
        let create = self.transact(work!(|tx| {
            // Locks a row, so that only one node creates partitions at a time.
            tx.run("update database_state set latest_at = latest_at where id = 1", &[]).await?;
            tx.number(sql, values![from, until]).await.map(TransactionEnd::Commit)
        }));
        Ok(create.await?.unsigned_abs())
    }

    async fn delete_audit_events_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        let delete = "delete from audit_events where id in
                        (select id from audit_events where at < $1 order by at, id limit 1000)
                      returning 1";
        Ok(self.execute(delete, values![before]).await?.len() as u64)
    }

    async fn delete_old_checks(&self, before: Timestamp, max_duration: Duration) -> Result<DeletedChecks, StoreError> {
        self.delete_checks_before(before, max_duration).await
    }

    async fn delete_expired(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.transact(work!(|tx| {
            let mut deleted = 0;
            for sql in DELETE_EXPIRED {
                deleted += tx.run(sql, values![now]).await?.len();
            }
            if let Some(sql) = D::DELETE_EXPIRED_NUMBER_LIMITS_SQL {
                deleted += tx.run(sql, values![now]).await?.len();
            }
            deleted += accounts::delete_expired(tx, now).await?;
            deleted += sessions::delete_expired_throttles(tx, now).await?;
            Ok(TransactionEnd::Commit(deleted as u64))
        }))
        .await
    }
}

/// Deletes expired rows. Each statement deletes a limited number.
const DELETE_EXPIRED: [&str; 9] = [
    // Connectors delete expired rows themselves, and count the SMS with missing parts. This statement deletes rows that
    // are still left an hour after they expired.
    "delete from concatenated_sms where sms_key in
       (select sms_key from concatenated_sms where expires_at <= $1 - cast(3600000 as bigint)
         order by expires_at, sms_key limit 1000)
     returning 1",
    "delete from revocations where token_id in
       (select token_id from revocations where expires_at < $1 order by expires_at, token_id limit 1000)
     returning 1",
    "delete from idempotency_keys where (tenant, key_digest) in
       (select tenant, key_digest from idempotency_keys where expires_at <= $1
         order by expires_at, tenant, key_digest limit 1000)
       and expires_at <= $1
     returning 1",
    "delete from sessions where token_hash in
       (select token_hash from sessions where expires_at <= $1 order by expires_at, token_hash limit 1000)
     returning 1",
    "delete from account_links where token_hash in
       (select token_hash from account_links where expires_at <= $1 order by expires_at, token_hash limit 1000)
     returning 1",
    "delete from sign_ins where id in
       (select id from sign_ins where expires_at <= $1 order by expires_at, id limit 1000)
     returning 1",
    "delete from pushed_authorizations where reference_hash in
       (select reference_hash from pushed_authorizations where expires_at <= $1
         order by expires_at, reference_hash limit 1000)
     returning 1",
    "delete from sign_in_sessions where token_hash in
       (select token_hash from sign_in_sessions where expires_at <= $1 order by expires_at, token_hash limit 1000)
     returning 1",
    "delete from used_assertions where assertion_hash in
       (select assertion_hash from used_assertions where expires_at <= $1
         order by expires_at, assertion_hash limit 1000)
     returning 1",
];
