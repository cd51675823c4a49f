//! The verbs of the data plane, many at a time.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use ringtrue_domain::lifecycle::{AnyCheck, CheckId};
use ringtrue_engine::ports::{
    Admitted, ClaimOutcome, ClaimRequest, CodeHash, LeasedCallback, NewCheck, Recorded, Revocation, SetOut, Settlement,
    StoreError, UsageCount,
};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    Postgres,
    checks::{Find, FindByCode},
    connect::Connector,
    journeys::FindJourney,
    lane::{Batch, BatchError, Call, Lane, Running, Verb},
    listen::RAISE_VERSION,
};
use crate::{
    driver::{Abandoned, ComeBack, Conclusion, DataPlane, Decide, Lease, NewEnded},
    row::Row,
    verbs::Standing,
};

/// One lane for each kind of verb.
#[derive(Debug)]
pub(super) struct Lanes {
    revoke: Lane<Revocation>,
    count: Lane<Vec<UsageCount>>,
    claim: Lane<ClaimRequest>,
    abandon: Lane<Abandoned>,
    create: Lane<NewCheck>,
    create_ended: Lane<NewEnded>,
    find: Lane<Find>,
    find_by_code: Lane<FindByCode>,
    conclude: Lane<Conclusion>,
    find_journey: Lane<FindJourney>,
    set_out: Lane<SetOut>,
    come_back: Lane<ComeBack>,
    decide: Lane<Decide>,
    lease: Lane<Lease>,
    settle: Lane<Settlement>,
}

impl Lanes {
    pub(super) fn start(connector: &Connector) -> Self {
        Lanes {
            // Revocations raise the version, one batch after the other: a second connection would only wait.
            revoke: Lane::start(connector, 1),
            count: Lane::start(connector, 1),
            claim: Lane::start(connector, 1),
            abandon: Lane::start(connector, 1),
            // While one batch is being made durable the next is on its way; only for the counters it waits.
            create: Lane::start(connector, 2),
            create_ended: Lane::start(connector, 2),
            find: Lane::start(connector, 2),
            find_by_code: Lane::start(connector, 1),
            conclude: Lane::start(connector, 2),
            find_journey: Lane::start(connector, 1),
            set_out: Lane::start(connector, 1),
            come_back: Lane::start(connector, 1),
            decide: Lane::start(connector, 1),
            lease: Lane::start(connector, 1),
            settle: Lane::start(connector, 1),
        }
    }
}

impl DataPlane for Postgres {
    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.lanes.revoke.submit(revocation).await
    }

    async fn count(&self, counts: Vec<UsageCount>) -> Result<(), StoreError> {
        self.lanes.count.submit(counts).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        self.lanes.claim.submit(request).await
    }

    async fn abandon(&self, abandoned: Abandoned) -> Result<(), StoreError> {
        self.lanes.abandon.submit(abandoned).await
    }

    async fn create_check(&self, new: NewCheck) -> Result<Admitted, StoreError> {
        self.lanes.create.submit(new).await
    }

    async fn create_ended(&self, new: NewEnded) -> Result<(), StoreError> {
        self.lanes.create_ended.submit(new).await
    }

    async fn find_check(&self, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
        self.lanes.find.submit(Find(id)).await.flatten()
    }

    async fn check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        self.lanes.find_by_code.submit(FindByCode(codes)).await.flatten()
    }

    async fn conclude(&self, conclusion: Conclusion) -> Result<Recorded, StoreError> {
        self.lanes.conclude.submit(conclusion).await
    }

    async fn journey(&self, check: CheckId) -> Result<Option<Row>, StoreError> {
        self.lanes.find_journey.submit(FindJourney(check)).await.flatten()
    }

    async fn set_out(&self, step: SetOut) -> Result<bool, StoreError> {
        self.lanes.set_out.submit(step).await
    }

    async fn come_back(&self, back: ComeBack) -> Result<Option<Row>, StoreError> {
        self.lanes.come_back.submit(back).await.flatten()
    }

    async fn decide(&self, decide: Decide) -> Result<bool, StoreError> {
        self.lanes.decide.submit(decide).await
    }

    async fn lease_due(&self, lease: Lease) -> Result<Vec<LeasedCallback>, StoreError> {
        self.lanes.lease.submit(lease).await.flatten()
    }

    async fn settle(&self, settlement: Settlement) -> Result<bool, StoreError> {
        self.lanes.settle.submit(settlement).await
    }
}

impl Verb for Revocation {
    type Answer = ();
    const NAME: &'static str = "revoke";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, ()> {
        Box::pin(async move {
            let tokens: Vec<Uuid> = batch.iter().map(|revocation| revocation.token.0).collect();
            let ends: Vec<i64> = batch.iter().map(|revocation| revocation.expires_at.as_millisecond()).collect();
            let calls = [
                Call::new(RAISE_VERSION),
                Call::new(
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

impl Verb for ClaimRequest {
    type Answer = ClaimOutcome;
    const NAME: &'static str = "claim";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, ClaimOutcome> {
        Box::pin(async move {
            // The first of the batch with a key claims it, if anyone does, in the order of the keys.
            let mut firsts = BTreeMap::new();
            for request in batch {
                firsts.entry((request.tenant, request.key_digest)).or_insert(request);
            }
            let (rows, committed) = tx.commit(&[take_claims(&firsts), standings(&firsts)]).await?;
            let mut standings = HashMap::new();
            for row in rows.iter().skip(1).flatten() {
                let (key, standing) = standing(row)?;
                standings.insert(key, standing);
            }
            let vanished = || BatchError::Server(StoreError::Refused("a claim has vanished".to_owned()));
            let outcome = |request: &ClaimRequest| {
                let standing = standings.get(&(request.tenant, request.key_digest)).ok_or_else(vanished)?;
                Ok(standing.outcome(request))
            };
            let outcomes = batch.iter().map(outcome).collect::<Result<_, BatchError>>()?;
            Ok((outcomes, committed))
        })
    }
}

/// Claims keys that are free. Those that are not stay locked until the commit, so that the next statement sees them as
/// this one did.
fn take_claims(firsts: &BTreeMap<Key, &ClaimRequest>) -> Call<'static> {
    let digests = |of: fn(&ClaimRequest) -> [u8; 32]| column(firsts, |request| of(request).to_vec());
    let instants = |of: fn(&ClaimRequest) -> Timestamp| column(firsts, |request| of(request).as_millisecond());
    Call::new(
        "insert into idempotency_keys as held
                (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at)
         select * from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[])
         on conflict (tenant, key_digest) do update
            set fingerprint = excluded.fingerprint, claim = excluded.claim, claimed_at = excluded.claimed_at,
                lease_until = excluded.lease_until, expires_at = excluded.expires_at, answer = null
          where held.expires_at <= excluded.claimed_at
             or (held.answer is null and held.lease_until <= excluded.claimed_at
                 and held.fingerprint = excluded.fingerprint)",
    )
    .with(column(firsts, |request| request.tenant))
    .with(digests(|request| request.key_digest))
    .with(digests(|request| request.fingerprint))
    .with(column(firsts, |request| request.claim))
    .with(instants(|request| request.now))
    .with(instants(|request| request.lease_until))
    .with(instants(|request| request.expires_at))
}

type Key = (Uuid, [u8; 32]);

/// One value of each request, in the order of the keys.
fn column<T>(firsts: &BTreeMap<Key, &ClaimRequest>, of: impl Fn(&ClaimRequest) -> T) -> Vec<T> {
    firsts.values().map(|&request| of(request)).collect()
}

fn standings(firsts: &BTreeMap<Key, &ClaimRequest>) -> Call<'static> {
    Call::new(
        "select held.tenant, held.key_digest, held.claim, held.fingerprint, held.answer
           from idempotency_keys held
                join unnest($1::uuid[], $2::bytea[]) as wanted (tenant, key_digest)
                  on held.tenant = wanted.tenant and held.key_digest = wanted.key_digest",
    )
    .with(column(firsts, |request| request.tenant))
    .with(column(firsts, |request| request.key_digest.to_vec()))
}

fn standing(row: &PostgresRow) -> Result<(Key, Standing), BatchError> {
    let tenant: Uuid = row.try_get(0)?;
    let digest = |column: usize| {
        <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(column)?).map_err(|_| {
            BatchError::Server(StoreError::Inconsistent {
                table: "idempotency_keys",
                row: tenant.to_string(),
                problem: "a digest that is not 32 bytes".to_owned(),
            })
        })
    };
    let standing = Standing { claim: row.try_get(2)?, fingerprint: digest(3)?, answer: row.try_get(4)? };
    Ok(((tenant, digest(1)?), standing))
}

impl Verb for Abandoned {
    type Answer = ();
    const NAME: &'static str = "abandon";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, ()> {
        Box::pin(async move {
            // One statement each: a `delete` of many would take its locks in an order of its own.
            let mut sorted = batch.to_vec();
            sorted.sort_unstable();
            let calls: Vec<_> = sorted
                .into_iter()
                .map(|abandoned| {
                    Call::new(
                        "delete from idempotency_keys
                          where tenant = $1 and key_digest = $2 and claim = $3 and answer is null",
                    )
                    .with(abandoned.tenant)
                    .with(abandoned.key_digest.to_vec())
                    .with(abandoned.claim)
                })
                .collect();
            let (_, committed) = tx.commit(&calls).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}
