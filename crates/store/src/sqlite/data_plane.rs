//! Data-plane writes for one caller each. The writer thread batches them.

use ringtrue_domain::lifecycle::{AnyCheck, CheckId};
use ringtrue_engine::ports::{
    AttemptSettlement, BeginRedirect, ClaimOutcome, CodeHash, ConcludeOutcome, CreateCheckOutcome, IdempotencyClaim,
    LeasedCallback, NewCheck, Revocation, StoreError, UsageDelta,
};

use super::{
    Sqlite, callbacks, checks,
    redirect_sessions::SELECT_REDIRECT_SESSION,
    writer::{BatchTransaction, WriteOp},
};
use crate::{
    driver::{
        ConcludeCheck, ConsumeState, DataPlane, Database, LeaseCallbacks, NewConcludedCheck, ReleaseClaim,
        StoreVerdict, TransactionEnd, Tx, values,
    },
    queries::{IdempotencyKeyRow, next_version},
    row::Row,
};

impl DataPlane for Sqlite {
    async fn revoke_token(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.transact(move |tx| {
            Box::pin(async move {
                let version = next_version::<Sqlite>(tx).await?;
                tx.run(
                    "insert into revocations (token_id, expires_at, changed) values ($1, $2, $3) on conflict do nothing",
                    values![revocation.token.0, revocation.expires_at, version.0],
                )
                .await?;
                Ok(TransactionEnd::Commit(()))
            })
        })
        .await?;
        self.notify_change();
        Ok(())
    }

    async fn count_usage(&self, counts: Vec<UsageDelta>) -> Result<(), StoreError> {
        self.run_op(counts).await
    }

    async fn claim_idempotency_key(&self, request: IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        self.transact(move |tx| Box::pin(async move { claim(tx, &request).await.map(TransactionEnd::Commit) })).await
    }

    async fn release_claim(&self, ReleaseClaim { tenant, key_digest, claim }: ReleaseClaim) -> Result<(), StoreError> {
        self.transact(move |tx| {
            Box::pin(async move {
                tx.run(
                    "delete from idempotency_keys
                      where tenant = $1 and key_digest = $2 and claim = $3 and response is null",
                    values![tenant, key_digest, claim],
                )
                .await?;
                Ok(TransactionEnd::Commit(()))
            })
        })
        .await
    }

    async fn create_check(&self, new: NewCheck) -> Result<CreateCheckOutcome, StoreError> {
        self.run_op(new).await
    }

    async fn create_concluded_check(&self, new: NewConcludedCheck) -> Result<(), StoreError> {
        self.run_op(new).await
    }

    async fn find_check(&self, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
        self.read(move |tx| Box::pin(async move { checks::find(tx, id).await })).await
    }

    async fn find_check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        self.read(move |tx| Box::pin(async move { checks::find_by_code(tx, &codes).await })).await
    }

    async fn conclude(&self, conclusion: ConcludeCheck) -> Result<ConcludeOutcome, StoreError> {
        self.run_op(conclusion).await
    }

    async fn find_redirect_session(&self, check: CheckId) -> Result<Option<Row>, StoreError> {
        self.look_up(SELECT_REDIRECT_SESSION, [check.into()]).await
    }

    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError> {
        self.run_op(redirect).await
    }

    async fn consume_state(&self, consume: ConsumeState) -> Result<Option<Row>, StoreError> {
        self.run_op(consume).await
    }

    async fn store_verdict(&self, record: StoreVerdict) -> Result<bool, StoreError> {
        self.run_op(record).await
    }

    async fn lease_due_callbacks(&self, lease: LeaseCallbacks) -> Result<Vec<LeasedCallback>, StoreError> {
        self.transact(move |tx| Box::pin(async move { callbacks::lease(tx, lease).await.map(TransactionEnd::Commit) }))
            .await
    }

    async fn settle(&self, settlement: AttemptSettlement) -> Result<bool, StoreError> {
        self.run_op(settlement).await
    }
}

impl WriteOp for Vec<UsageDelta> {
    type Output = ();

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<()>, StoreError> {
        tx.defer_counts(self.iter().cloned());
        Ok(TransactionEnd::Commit(()))
    }
}

async fn claim(tx: &mut dyn Tx, request: &IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
    tx.run(
        "insert into idempotency_keys
                (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (tenant, key_digest) do update
            set fingerprint = excluded.fingerprint, claim = excluded.claim, claimed_at = excluded.claimed_at,
                lease_until = excluded.lease_until, expires_at = excluded.expires_at, response = null
          where idempotency_keys.expires_at <= excluded.claimed_at
             or (idempotency_keys.response is null and idempotency_keys.lease_until <= excluded.claimed_at
                 and idempotency_keys.fingerprint = excluded.fingerprint)",
        values![
            request.tenant,
            request.key_digest,
            request.fingerprint,
            request.claim_id,
            request.now,
            request.lease_until,
            request.expires_at,
        ],
    )
    .await?;
    let row = tx
        .first(
            "select claim, fingerprint, response from idempotency_keys where tenant = $1 and key_digest = $2",
            values![request.tenant, request.key_digest],
        )
        .await?;
    let Some(row) = row else { return Err(StoreError::Refused("a claimed idempotency key disappeared".to_owned())) };
    let mut row = row.reader("idempotency_keys");
    let key = IdempotencyKeyRow {
        claim: row.uuid("claim")?,
        fingerprint: row.digest("fingerprint")?,
        response: row.bytes_or_null("response")?,
    };
    Ok(key.outcome_for(request))
}
