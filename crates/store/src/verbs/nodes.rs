//! Liveness: of nodes, of the database, of what is kept only for a while.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::audit::AuditEvent;
use ringtrue_engine::ports::{
    DatabaseHistory, DatabaseTime, Heartbeat, Housekeeping, KnownDatabase, NodeId, NodeStore, Revocation,
    RevocationStore, StoreError,
};
use tokio::time::timeout;

use super::{SqlStore, accounts, audit, guesses};
use crate::{
    driver::{Database, Ending, Tx, values},
    migration::Migration,
    row::Row,
};

/// How long `ping` waits: whoever asks for readiness asks again soon.
const PING_PATIENCE: Duration = Duration::from_secs(2);

/// How far a restore raises the generation: more heartbeats than any node can have seen and remembered.
const GENERATIONS_PER_RESTORE: i64 = 1_000_000_000;

/// Locks the row for which heartbeats take turns, records the time, and compares the database with what is known of it.
/// Gives the generation, and when it was noticed that the database went back.
async fn record_heartbeat(
    tx: &mut dyn Tx,
    now: Timestamp,
    known: &KnownDatabase,
) -> Result<(i64, Option<Timestamp>), StoreError> {
    let row = tx
        .first(
            "update roll_call
                set calls = calls + 1,
                    latest_at = case when latest_at < $1 then $1 else latest_at end,
                    went_back_at = case when calls < $2 then $1
                                        when $2 = 0 and identity <> $3 then $1
                                        else went_back_at end,
                    identity = coalesce($3, identity)
              where id = 1
             returning calls, went_back_at",
            values![now, known.generation, known.identity.as_deref()],
        )
        .await?;
    let mut row = row.ok_or_else(missing)?.of("roll_call");
    Ok((row.int("calls")?, row.instant_or_null("went_back_at")?))
}

fn missing() -> StoreError {
    StoreError::Inconsistent { table: "roll_call", row: "1".to_owned(), problem: "the row is missing".to_owned() }
}

/// A write that costs next to nothing and cannot be done on a read-only or full database; and how many of the `known` migrations the database has behind it. Newer ones do not count: during an
/// upgrade the schema is expanded first, and nodes of the previous release go on until they are replaced.
async fn call_the_roll_and_count_steps(tx: &mut dyn Tx, known: &[Migration]) -> Result<Option<usize>, StoreError> {
    let newest = known.last().map_or(0, |step| step.version);
    let row = tx
        .first(
            "update roll_call set calls = calls + 1 where id = 1
             returning (select count(*) from schema_migrations where version <= $1)",
            values![newest],
        )
        .await?;
    Ok(row.map(Row::number).transpose()?.and_then(|steps| usize::try_from(steps).ok()))
}

#[async_trait]
impl<D: Database> NodeStore for SqlStore<D> {
    async fn database_time(&self, machine_now: Timestamp) -> Result<DatabaseTime, StoreError> {
        let row = self.database.read_apart(|tx| Box::pin(async move { tx.first(D::READ_TIME, &[]).await })).await?;
        let mut row = row.ok_or_else(missing)?.of("roll_call");
        let latest = row.instant("latest_at")?;
        let clock = row.instant_or_null("clock")?.unwrap_or(machine_now);
        Ok(DatabaseTime { clock, latest })
    }

    async fn heartbeat(
        &self,
        node: NodeId,
        now: Timestamp,
        dead_before: Timestamp,
        known: KnownDatabase,
    ) -> Result<Heartbeat, StoreError> {
        self.database
            .transact_apart(move |tx| {
                Box::pin(async move {
                    // Nodes take turns: after an outage each may take the other for dead, and two of them would wait
                    // for each other's row.
                    let (generation, went_back_at) = record_heartbeat(tx, now, &known).await?;
                    tx.run(
                        "insert into nodes (id, seen_at) values ($1, $2)
                         on conflict (id) do update set seen_at = excluded.seen_at",
                        values![node, now],
                    )
                    .await?;
                    tx.run("delete from nodes where seen_at < $1 and id <> $2", values![dead_before, node]).await?;
                    let rows = tx.run("select id from nodes order by id", &[]).await?;
                    let id = |row: Row| row.of("nodes").uuid("id").map(NodeId);
                    let nodes = rows.into_iter().map(id).collect::<Result<_, _>>()?;
                    Ok(Ending::Commit(Heartbeat { nodes, generation, went_back_at }))
                })
            })
            .await
    }

    async fn database_identity(&self) -> Result<Option<String>, StoreError> {
        let Some(sql) = D::IDENTITY else { return Ok(None) };
        let read = self.database.read_apart(move |tx| Box::pin(async move { tx.first(sql, &[]).await })).await;
        match read {
            Ok(row) => row.map_or(Ok(None), |row| row.of("(identity)").text_or_null("identity")),
            // Some managed servers allow nobody to ask.
            Err(StoreError::Refused(reason)) => {
                tracing::debug!(reason, "the database does not tell its identity");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn database_history(&self) -> Result<DatabaseHistory, StoreError> {
        let sql = "select calls, went_back_at, identity from roll_call where id = 1";
        let row = self.database.read_apart(move |tx| Box::pin(async move { tx.first(sql, &[]).await })).await?;
        let mut row = row.ok_or_else(missing)?.of("roll_call");
        Ok(DatabaseHistory {
            generation: row.int("calls")?,
            went_back_at: row.instant_or_null("went_back_at")?,
            identity: row.text_or_null("identity")?,
        })
    }

    async fn accept_restored_database(&self, audit: &AuditEvent) -> Result<u64, StoreError> {
        let (event, identity) = (audit.clone(), self.database_identity().await?);
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    tx.run(
                        "update roll_call set calls = calls + $1, went_back_at = null, identity = $2 where id = 1",
                        values![GENERATIONS_PER_RESTORE, identity.as_deref()],
                    )
                    .await?;
                    let sessions = tx.run("delete from sessions returning 1", &[]).await?.len();
                    tx.run("delete from account_links", &[]).await?;
                    // One of them may have been withdrawn since the backup.
                    tx.run("delete from invitations", &[]).await?;
                    audit::record(tx, &event).await?;
                    Ok(Ending::Commit(sessions as u64))
                })
            })
            .await
    }

    async fn reset_latest_time(&self) -> Result<(), StoreError> {
        self.database
            .transact(|tx| {
                Box::pin(async move {
                    tx.run("update roll_call set latest_at = 0 where id = 1", &[]).await?;
                    Ok(Ending::Commit(()))
                })
            })
            .await
    }

    async fn exchange_demand(
        &self,
        node: NodeId,
        demand: String,
        now: Timestamp,
        stale_before: Timestamp,
    ) -> Result<Vec<(NodeId, String)>, StoreError> {
        self.database
            .transact_apart(move |tx| {
                let demand = demand.clone();
                Box::pin(async move {
                    // Nodes take turns, as with heartbeats.
                    tx.run("update roll_call set calls = calls + 1 where id = 1", &[]).await?;
                    tx.run(
                        "insert into node_demand (node_id, published_at, demand) values ($1, $2, $3)
                         on conflict (node_id) do update
                           set published_at = excluded.published_at, demand = excluded.demand",
                        values![node, now, demand],
                    )
                    .await?;
                    tx.run("delete from node_demand where published_at < $1", values![stale_before]).await?;
                    let select = "select node_id, demand from node_demand where node_id <> $1";
                    let published = |row: Row| {
                        let mut row = row.of("node_demand");
                        Ok((NodeId(row.uuid("node_id")?), row.text("demand")?))
                    };
                    let rows = tx.run(select, values![node]).await?;
                    rows.into_iter().map(published).collect::<Result<_, StoreError>>().map(Ending::Commit)
                })
            })
            .await
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.database
            .transact_apart(move |tx| {
                Box::pin(async move {
                    tx.run("delete from nodes where id = $1", values![node]).await?;
                    tx.run("delete from node_demand where node_id = $1", values![node]).await?;
                    Ok(Ending::Commit(()))
                })
            })
            .await
    }
}

#[async_trait]
impl<D: Database> RevocationStore for SqlStore<D> {
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.database.revoke(revocation).await
    }
}

#[async_trait]
impl<D: Database> Housekeeping for SqlStore<D> {
    async fn ping(&self) -> Result<(), StoreError> {
        let write = self.database.transact_apart(|tx| {
            Box::pin(async move {
                let steps = call_the_roll_and_count_steps(tx, D::SCHEMA).await?;
                if steps != Some(D::SCHEMA.len()) {
                    return Err(StoreError::Refused(format!(
                        "{} of the {} migrations that this Ringtrue was built for are in the database: it is another \
                         or an older one; run `ringtrue migrate`",
                        steps.unwrap_or(0),
                        D::SCHEMA.len()
                    )));
                }
                Ok(Ending::Commit(()))
            })
        });
        let late = |_| StoreError::Unavailable("no write was done within 2 s".to_owned());
        timeout(PING_PATIENCE, write).await.map_err(late)?
    }

    async fn delete_audit_events(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let deleted = tx
                        .run(
                            "delete from audit_events where id in
                               (select id from audit_events where at < $1 order by at, id limit 1000)
                             returning 1",
                            values![before],
                        )
                        .await?;
                    Ok(Ending::Commit(deleted.len() as u64))
                })
            })
            .await
    }

    async fn forget_expired(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let revocations = tx
                        .run(
                            "delete from revocations where token_id in
                               (select token_id from revocations where expires_at < $1
                                 order by expires_at, token_id limit 1000)
                             returning 1",
                            values![now],
                        )
                        .await?;
                    let keys = tx
                        .run(
                            "delete from idempotency_keys where (tenant, key_digest) in
                               (select tenant, key_digest from idempotency_keys where expires_at <= $1
                                 order by expires_at, tenant, key_digest limit 1000)
                               and expires_at <= $1
                             returning 1",
                            values![now],
                        )
                        .await?;
                    let sessions = tx
                        .run(
                            "delete from sessions where token_hash in
                               (select token_hash from sessions where expires_at <= $1
                                 order by expires_at, token_hash limit 1000)
                             returning 1",
                            values![now],
                        )
                        .await?;
                    let links = tx
                        .run(
                            "delete from account_links where token_hash in
                               (select token_hash from account_links where expires_at <= $1
                                 order by expires_at, token_hash limit 1000)
                             returning 1",
                            values![now],
                        )
                        .await?;
                    let accounts = accounts::forget(tx, now).await?;
                    let guesses = guesses::forget(tx, now).await?;
                    let forgotten = [revocations, keys, sessions, links].iter().map(Vec::len).sum::<usize>();
                    Ok(Ending::Commit((forgotten + accounts + guesses) as u64))
                })
            })
            .await
    }
}
