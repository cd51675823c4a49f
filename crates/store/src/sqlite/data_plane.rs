//! The verbs of the data plane, one at a time: the writer makes groups of them.

use ringtrue_domain::lifecycle::{AnyCheck, CheckId};
use ringtrue_engine::ports::{
    Admitted, ClaimOutcome, ClaimRequest, CodeHash, LeasedCallback, NewCheck, Recorded, Revocation, SetOut, Settlement,
    StoreError, UsageCount,
};

use super::{
    Sqlite, callbacks, checks,
    journeys::JOURNEY,
    writer::{Step, Turn},
};
use crate::{
    driver::{Abandoned, ComeBack, Conclusion, DataPlane, Database, Decide, Ending, Lease, NewEnded, Tx, values},
    row::Row,
    verbs::{Standing, next_version},
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
        self.step(counts).await
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

    async fn create_check(&self, new: NewCheck) -> Result<Admitted, StoreError> {
        self.step(new).await
    }

    async fn create_ended(&self, new: NewEnded) -> Result<(), StoreError> {
        self.step(new).await
    }

    async fn find_check(&self, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
        self.read(move |tx| Box::pin(async move { checks::find(tx, id).await })).await
    }

    async fn check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        self.read(move |tx| Box::pin(async move { checks::find_by_code(tx, &codes).await })).await
    }

    async fn conclude(&self, conclusion: Conclusion) -> Result<Recorded, StoreError> {
        self.step(conclusion).await
    }

    async fn journey(&self, check: CheckId) -> Result<Option<Row>, StoreError> {
        self.look_up(JOURNEY, [check.into()]).await
    }

    async fn set_out(&self, step: SetOut) -> Result<bool, StoreError> {
        self.step(step).await
    }

    async fn come_back(&self, back: ComeBack) -> Result<Option<Row>, StoreError> {
        self.step(back).await
    }

    async fn decide(&self, decide: Decide) -> Result<bool, StoreError> {
        self.step(decide).await
    }

    async fn lease_due(&self, lease: Lease) -> Result<Vec<LeasedCallback>, StoreError> {
        self.transact(move |tx| Box::pin(async move { callbacks::lease(tx, lease).await.map(Ending::Commit) })).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<bool, StoreError> {
        self.step(settlement).await
    }
}

impl Step for Vec<UsageCount> {
    type Answer = ();

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<()>, StoreError> {
        turn.count(self.iter().cloned());
        Ok(Ending::Commit(()))
    }
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
