//! The verbs of the data plane, one at a time: the writer makes groups of them.

use ringtrue_engine::ports::{ClaimOutcome, ClaimRequest, Revocation, StoreError, UsageCount};

use super::Sqlite;
use crate::{
    driver::{Abandoned, DataPlane, Database, Ending, Tx, values},
    verbs::{CounterKey, Standing, next_version},
};

impl DataPlane for Sqlite {
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.transact(move |tx| {
            Box::pin(async move {
                let version = next_version::<Sqlite>(tx).await?;
                tx.run(
                    "insert into revocations (token_id, expires_at, changed) values ($1, $2, $3) on conflict do nothing",
                    values![revocation.token.0, revocation.expires_at, version.0],
                )
                .await?;
                Ok(Ending::Commit(()))
            })
        })
        .await?;
        self.has_changed();
        Ok(())
    }

    async fn count(&self, counts: Vec<UsageCount>) -> Result<(), StoreError> {
        self.transact(move |tx| {
            Box::pin(async move {
                for count in &counts {
                    add(tx, &CounterKey::from(count), count.change).await?;
                }
                Ok(Ending::Commit(()))
            })
        })
        .await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.transact(move |tx| Box::pin(async move { claim(tx, &request).await.map(Ending::Commit) })).await
    }

    async fn abandon(&self, Abandoned { tenant, key_digest, claim }: Abandoned) -> Result<(), StoreError> {
        self.transact(move |tx| {
            Box::pin(async move {
                tx.run(
                    "delete from idempotency_keys
                      where tenant = $1 and key_digest = $2 and claim = $3 and answer is null",
                    values![tenant, key_digest, claim],
                )
                .await?;
                Ok(Ending::Commit(()))
            })
        })
        .await
    }
}

async fn add(tx: &mut dyn Tx, key: &CounterKey, change: i64) -> Result<(), StoreError> {
    tx.run(
        "insert into usage_counters (project_id, hour, product, status, matched, network_id, count)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (project_id, hour, product, status, matched, network_id)
         do update set count = usage_counters.count + excluded.count",
        values![
            key.project,
            key.hour.as_str(),
            key.product,
            key.status,
            i64::from(key.matched),
            key.network.as_str(),
            change
        ],
    )
    .await?;
    Ok(())
}

async fn claim(tx: &mut dyn Tx, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
    tx.run(
        "insert into idempotency_keys
                (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (tenant, key_digest) do update
            set fingerprint = excluded.fingerprint, claim = excluded.claim, claimed_at = excluded.claimed_at,
                lease_until = excluded.lease_until, expires_at = excluded.expires_at, answer = null
          where idempotency_keys.expires_at <= excluded.claimed_at
             or (idempotency_keys.answer is null and idempotency_keys.lease_until <= excluded.claimed_at
                 and idempotency_keys.fingerprint = excluded.fingerprint)",
        values![
            request.tenant,
            request.key_digest,
            request.fingerprint,
            request.claim,
            request.now,
            request.lease_until,
            request.expires_at,
        ],
    )
    .await?;
    let row = tx
        .first(
            "select claim, fingerprint, answer from idempotency_keys where tenant = $1 and key_digest = $2",
            values![request.tenant, request.key_digest],
        )
        .await?;
    let Some(row) = row else { return Err(StoreError::Refused("a claim has vanished".to_owned())) };
    let mut row = row.of("idempotency_keys");
    let standing = Standing {
        claim: row.uuid("claim")?,
        fingerprint: row.digest("fingerprint")?,
        answer: row.bytes_or_null("answer")?,
    };
    Ok(standing.outcome(request))
}
