//! Batched operations of the data plane.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use ringtrue_domain::lifecycle::{AnyCheck, CheckId};
use ringtrue_engine::ports::{
    AttemptSettlement, BeginRedirect, ClaimOutcome, CodeHash, ConcludeOutcome, CreateCheckOutcome, IdempotencyClaim,
    LeasedCallback, NewCheck, Revocation, StoreError, UsageDelta,
};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    Postgres,
    batch_queue::{BatchError, BatchFuture, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction},
    change_listener::INCREMENT_VERSION_SQL,
    checks::{FindCheck, FindCheckByCode},
    connect::PostgresConnector,
    redirect_sessions::FindRedirectSession,
};
use crate::{
    driver::{ConcludeCheck, ConsumeState, DataPlane, LeaseCallbacks, NewConcludedCheck, ReleaseClaim, StoreVerdict},
    queries::IdempotencyKeyRow,
    row::Row,
};

/// One queue for each kind of operation.
#[derive(Debug)]
pub(super) struct BatchQueues {
    revoke: BatchQueue<Revocation>,
    count: BatchQueue<Vec<UsageDelta>>,
    claim: BatchQueue<IdempotencyClaim>,
    release: BatchQueue<ReleaseClaim>,
    create: BatchQueue<NewCheck>,
    create_concluded: BatchQueue<NewConcludedCheck>,
    find: BatchQueue<FindCheck>,
    find_by_code: BatchQueue<FindCheckByCode>,
    conclude: BatchQueue<ConcludeCheck>,
    find_redirect_session: BatchQueue<FindRedirectSession>,
    begin_redirect: BatchQueue<BeginRedirect>,
    consume_state: BatchQueue<ConsumeState>,
    store_verdict: BatchQueue<StoreVerdict>,
    lease: BatchQueue<LeaseCallbacks>,
    settle: BatchQueue<AttemptSettlement>,
}

impl BatchQueues {
    pub(super) fn start(connector: &PostgresConnector) -> Self {
        BatchQueues {
            // Revocations lock the row of the version, so a second connection would only wait.
            revoke: BatchQueue::start(connector, 1),
            count: BatchQueue::start(connector, 1),
            claim: BatchQueue::start(connector, 1),
            release: BatchQueue::start(connector, 1),
            // The second connection prepares the next batch while one commits.
            create: BatchQueue::start(connector, 2),
            create_concluded: BatchQueue::start(connector, 2),
            find: BatchQueue::start(connector, 2),
            find_by_code: BatchQueue::start(connector, 1),
            conclude: BatchQueue::start(connector, 2),
            find_redirect_session: BatchQueue::start(connector, 1),
            begin_redirect: BatchQueue::start(connector, 1),
            consume_state: BatchQueue::start(connector, 1),
            store_verdict: BatchQueue::start(connector, 1),
            lease: BatchQueue::start(connector, 1),
            settle: BatchQueue::start(connector, 1),
        }
    }
}

impl DataPlane for Postgres {
    async fn revoke_token(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.queues.revoke.submit(revocation).await
    }

    async fn count_usage(&self, counts: Vec<UsageDelta>) -> Result<(), StoreError> {
        self.queues.count.submit(counts).await
    }

    async fn claim_idempotency_key(&self, request: IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        self.queues.claim.submit(request).await
    }

    async fn release_claim(&self, release: ReleaseClaim) -> Result<(), StoreError> {
        self.queues.release.submit(release).await
    }

    async fn create_check(&self, new: NewCheck) -> Result<CreateCheckOutcome, StoreError> {
        self.queues.create.submit(new).await
    }

    async fn create_concluded_check(&self, new: NewConcludedCheck) -> Result<(), StoreError> {
        self.queues.create_concluded.submit(new).await
    }

    async fn find_check(&self, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
        self.queues.find.submit(FindCheck(id)).await.flatten()
    }

    async fn find_check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        self.queues.find_by_code.submit(FindCheckByCode(codes)).await.flatten()
    }

    async fn conclude(&self, conclusion: ConcludeCheck) -> Result<ConcludeOutcome, StoreError> {
        self.queues.conclude.submit(conclusion).await
    }

    async fn find_redirect_session(&self, check: CheckId) -> Result<Option<Row>, StoreError> {
        self.queues.find_redirect_session.submit(FindRedirectSession(check)).await.flatten()
    }

    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError> {
        self.queues.begin_redirect.submit(redirect).await
    }

    async fn consume_state(&self, consume: ConsumeState) -> Result<Option<Row>, StoreError> {
        self.queues.consume_state.submit(consume).await.flatten()
    }

    async fn store_verdict(&self, record: StoreVerdict) -> Result<bool, StoreError> {
        self.queues.store_verdict.submit(record).await
    }

    async fn lease_due_callbacks(&self, lease: LeaseCallbacks) -> Result<Vec<LeasedCallback>, StoreError> {
        self.queues.lease.submit(lease).await.flatten()
    }

    async fn settle(&self, settlement: AttemptSettlement) -> Result<bool, StoreError> {
        self.queues.settle.submit(settlement).await
    }
}

impl BatchedOperation for Revocation {
    type Output = ();
    const NAME: &'static str = "revoke";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ()> {
        Box::pin(async move {
            let tokens: Vec<Uuid> = batch.iter().map(|revocation| revocation.token.0).collect();
            let ends: Vec<i64> = batch.iter().map(|revocation| revocation.expires_at.as_millisecond()).collect();
            let calls = [
                BatchStatement::new(INCREMENT_VERSION_SQL),
                BatchStatement::new(
                    "insert into revocations (token_id, expires_at, changed)
                     select new.token_id, new.expires_at, control.version
                       from unnest($1::uuid[], $2::bigint[]) as new (token_id, expires_at)
                            join control_version control on control.id = 1
                     on conflict (token_id) do nothing",
                )
                .with(tokens)
                .with(ends),
            ];
            let (_, committed) = tx.commit(&calls).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}

impl BatchedOperation for IdempotencyClaim {
    type Output = ClaimOutcome;
    const NAME: &'static str = "claim";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ClaimOutcome> {
        Box::pin(async move {
            // Of several requests with the same key only the first of the batch tries to claim it.
            let mut firsts = BTreeMap::new();
            for request in batch {
                firsts.entry((request.tenant, request.key_digest)).or_insert(request);
            }
            let (rows, committed) = tx.commit(&[insert_claims(&firsts), select_keys(&firsts)]).await?;
            let mut keys = HashMap::new();
            for row in rows.iter().skip(1).flatten() {
                let (id, key) = key_from_row(row)?;
                keys.insert(id, key);
            }
            let missing =
                || BatchError::Server(StoreError::Refused("a claimed idempotency key disappeared".to_owned()));
            let outcome = |request: &IdempotencyClaim| {
                let key = keys.get(&(request.tenant, request.key_digest)).ok_or_else(missing)?;
                Ok(key.outcome_for(request))
            };
            let outcomes = batch.iter().map(outcome).collect::<Result<_, BatchError>>()?;
            Ok((outcomes, committed))
        })
    }
}

/// Claims free keys. Keys that are taken stay locked until the commit, so that the next statement reads what this one
/// saw.
fn insert_claims(firsts: &BTreeMap<KeyId, &IdempotencyClaim>) -> BatchStatement<'static> {
    let digests = |of: fn(&IdempotencyClaim) -> [u8; 32]| column_values(firsts, |request| of(request).to_vec());
    let instants =
        |of: fn(&IdempotencyClaim) -> Timestamp| column_values(firsts, |request| of(request).as_millisecond());
    BatchStatement::new(
        "insert into idempotency_keys as held
                (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at)
         select * from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[])
         on conflict (tenant, key_digest) do update
            set fingerprint = excluded.fingerprint, claim = excluded.claim, claimed_at = excluded.claimed_at,
                lease_until = excluded.lease_until, expires_at = excluded.expires_at, response = null
          where held.expires_at <= excluded.claimed_at
             or (held.response is null and held.lease_until <= excluded.claimed_at
                 and held.fingerprint = excluded.fingerprint)",
    )
    .with(column_values(firsts, |request| request.tenant))
    .with(digests(|request| request.key_digest))
    .with(digests(|request| request.fingerprint))
    .with(column_values(firsts, |request| request.claim_id))
    .with(instants(|request| request.now))
    .with(instants(|request| request.lease_until))
    .with(instants(|request| request.expires_at))
}

type KeyId = (Uuid, [u8; 32]);

/// One value of each request, in the order of keys.
fn column_values<T>(firsts: &BTreeMap<KeyId, &IdempotencyClaim>, of: impl Fn(&IdempotencyClaim) -> T) -> Vec<T> {
    firsts.values().map(|&request| of(request)).collect()
}

fn select_keys(firsts: &BTreeMap<KeyId, &IdempotencyClaim>) -> BatchStatement<'static> {
    BatchStatement::new(
        "select held.tenant, held.key_digest, held.claim, held.fingerprint, held.response
           from idempotency_keys held
                join unnest($1::uuid[], $2::bytea[]) as requested (tenant, key_digest)
                  on held.tenant = requested.tenant and held.key_digest = requested.key_digest",
    )
    .with(column_values(firsts, |request| request.tenant))
    .with(column_values(firsts, |request| request.key_digest.to_vec()))
}

fn key_from_row(row: &PostgresRow) -> Result<(KeyId, IdempotencyKeyRow), BatchError> {
    let tenant: Uuid = row.try_get(0)?;
    let digest = |column: usize| {
        <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(column)?).map_err(|_| {
            BatchError::Server(StoreError::CorruptRow {
                table: "idempotency_keys",
                row: tenant.to_string(),
                problem: "digest is not 32 bytes".to_owned(),
            })
        })
    };
    let key = IdempotencyKeyRow { claim: row.try_get(2)?, fingerprint: digest(3)?, response: row.try_get(4)? };
    Ok(((tenant, digest(1)?), key))
}

impl BatchedOperation for ReleaseClaim {
    type Output = ();
    const NAME: &'static str = "release claim";

    fn run<'a>(batch: &'a [Self], tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ()> {
        Box::pin(async move {
            // One statement each: a `delete` of many rows would lock them in an undefined order.
            let mut sorted = batch.to_vec();
            sorted.sort_unstable();
            let calls: Vec<_> = sorted
                .into_iter()
                .map(|release| {
                    BatchStatement::new(
                        "delete from idempotency_keys
                          where tenant = $1 and key_digest = $2 and claim = $3 and response is null",
                    )
                    .with(release.tenant)
                    .with(release.key_digest.to_vec())
                    .with(release.claim)
                })
                .collect();
            let (_, committed) = tx.commit(&calls).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}
