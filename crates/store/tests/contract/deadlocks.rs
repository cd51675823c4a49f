//! Tests batches of two nodes that change the same rows.

use futures_util::future::{BoxFuture, FutureExt, join_all};
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::CheckStatus, product::Product, reverse_sms::ReverseSmsCheck, reverse_sms::SmsEnvironment,
    silent::SilentCheck, tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    activity::UsageDelta,
    callbacks::{AttemptOutcome, AttemptRecord, AttemptSettlement},
    combined::Store,
    sign_in::SignInRecord,
    store::StoreError,
};
use strum::VariantArray as _;
use uuid::Uuid;

use crate::{check_sample, fixture::StoreFixture, sample, sign_ins, silent_sample};

const ROUNDS: usize = 12;
const CHECKS: usize = 30;

type Call<'a> = BoxFuture<'a, Result<(), StoreError>>;

/// The two nodes make the same calls in opposite orders.
pub async fn batches_of_two_nodes_do_not_deadlock(fixture: &StoreFixture) {
    let nodes = [fixture.store.clone(), fixture.database.open().await];
    let (tenant, project) = (sample::uuid(), ProjectId(sample::uuid()));
    for _ in 0..ROUNDS {
        let sms = join_all((0..CHECKS).map(|number| check_sample::store_check(&*nodes[number % 2], project))).await;
        let silent = join_all(
            (0..CHECKS).map(|number| silent_sample::store_check(&*nodes[number % 2], project, Product::SecureSna)),
        )
        .await;
        run_on_both(&nodes, |store| changes(store, tenant, &sms, &silent)).await;
        run_on_both(&nodes, |store| settlements(store, &sms)).await;
        let records: Vec<_> = (0..CHECKS).map(|_| SignInRecord { project, ..sign_ins::record() }).collect();
        join_all(records.iter().map(|record| nodes[0].create_sign_in(record.clone()))).await;
        run_on_both(&nodes, |store| ends_of_sign_ins(store, &records)).await;
    }
    assert_eq!(fixture.database.deadlocks().await, 0);
}

async fn run_on_both<'a>(nodes: &'a [std::sync::Arc<dyn Store>; 2], calls: impl Fn(&'a dyn Store) -> Vec<Call<'a>>) {
    let mut backwards = calls(&*nodes[1]);
    backwards.reverse();
    for result in join_all(calls(&*nodes[0]).into_iter().chain(backwards)).await {
        result.unwrap();
    }
}

/// Returns calls that change checks, redirect sessions, counters and idempotency keys.
fn changes<'a>(
    store: &'a dyn Store,
    tenant: Uuid,
    sms: &'a [ReverseSmsCheck],
    silent: &'a [SilentCheck],
) -> Vec<Call<'a>> {
    let mut calls: Vec<Call<'a>> = Vec::new();
    for (number, (sms, silent)) in sms.iter().zip(silent).enumerate() {
        let claimed = sms.claimed.unwrap().hash;
        let receiver = check_sample::receiver();
        calls.push(
            async move {
                store.mark_pending(SmsEnvironment::Operator, claimed, &receiver, "smpp", sample::now()).await.map(drop)
            }
            .boxed(),
        );
        let (conclusion, _) = check_sample::conclusion(check_sample::received(sms, true));
        let callback = Some(check_sample::callback(sample::now()));
        calls.push(store.conclude(conclusion, callback).map(|recorded| recorded.map(drop)).boxed());

        let network = ["23410", "23420", "310004"][number % 3];
        let redirect = silent_sample::redirect(silent, network);
        let state = redirect.state_hash;
        calls.push(store.begin_redirect(redirect).map(|result| result.map(drop)).boxed());
        calls.push(store.consume_state(silent.id, state).map(|consumed| consumed.map(drop)).boxed());
        calls.push(
            store.store_verdict(silent.id, silent_sample::sealed_verdict()).map(|stored| stored.map(drop)).boxed(),
        );
        let (conclusion, _) = check_sample::conclusion(silent.clone().expire().unwrap());
        calls.push(store.conclude(conclusion, None).map(|recorded| recorded.map(drop)).boxed());

        let key = u8::try_from(number).unwrap();
        let claim = sample::claim(tenant, key, 1);
        calls.push(
            async move {
                store.claim_idempotency_key(&claim).await?;
                store.release_idempotency_key(claim.tenant, claim.key_digest, claim.claim_id).await
            }
            .boxed(),
        );
        let count = UsageDelta {
            project: sms.project,
            product: Product::VARIANTS[number % Product::VARIANTS.len()],
            at: sample::now(),
            status: CheckStatus::VARIANTS[number % CheckStatus::VARIANTS.len()],
            matched: None,
            network: None,
            via: None,
            delta: 1,
        };
        calls.push(async move { store.add_usage(&[count]).await }.boxed());
    }
    calls
}

/// Returns calls that replace the checks of sign-ins and end them, which changes counters too.
fn ends_of_sign_ins<'a>(store: &'a dyn Store, records: &'a [SignInRecord]) -> Vec<Call<'a>> {
    let mut calls: Vec<Call<'a>> = Vec::new();
    for record in records {
        let check = sign_ins::check(Product::Discovery);
        let replaced = store.replace_sign_in_check(record.id, None, check, None);
        calls.push(replaced.map(|replaced| replaced.map(drop)).boxed());
        let ended = store.end_sign_in(sign_ins::ended(record, sign_ins::proven(), None));
        calls.push(ended.map(|ended| ended.map(drop)).boxed());
    }
    calls
}

/// Returns calls that change callbacks and their attempts.
fn settlements<'a>(store: &'a dyn Store, checks: &'a [ReverseSmsCheck]) -> Vec<Call<'a>> {
    let mut calls: Vec<Call<'a>> = Vec::new();
    for check in checks {
        for attempt in 1..=2 {
            let log = AttemptRecord {
                started_at: sample::now(),
                ended_at: sample::now() + SignedDuration::from_millis(5),
                status: Some(500),
                failure: None,
                exchange: None,
            };
            let outcome = AttemptOutcome::RetryAt(sample::now());
            let settlement = AttemptSettlement { check: check.id, attempt, outcome, log };
            calls.push(store.settle_attempt(settlement).map(|settled| settled.map(drop)).boxed());
        }
    }
    let lease = store.lease_due_callbacks(sample::now(), sample::later(30), 1_000, &[]);
    calls.insert(calls.len() / 2, lease.map(|leased| leased.map(drop)).boxed());
    calls
}
