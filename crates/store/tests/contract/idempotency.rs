use futures_util::future::join_all;
use ringtrue_domain::{audit::Action, tenancy::CredentialOwner};
use ringtrue_engine::ports::{
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotentResponse},
    store::{StoreError, TenantLookup},
    tenants::CreateProjectOutcome,
};

use crate::{fixture::StoreFixture, sample};

pub async fn second_claim_is_in_progress(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let tenant = sample::uuid();
    assert_eq!(store.claim_idempotency_key(&sample::claim(tenant, 1, 1)).await.unwrap(), ClaimOutcome::Claimed);
    assert_eq!(store.claim_idempotency_key(&sample::claim(tenant, 1, 1)).await.unwrap(), ClaimOutcome::InProgress);
    assert_eq!(store.claim_idempotency_key(&sample::claim(tenant, 2, 1)).await.unwrap(), ClaimOutcome::Claimed);
}

pub async fn key_with_another_fingerprint_is_reused(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim_idempotency_key(&first).await.unwrap();
    let other = sample::claim(first.tenant, 1, 2);
    assert_eq!(store.claim_idempotency_key(&other).await.unwrap(), ClaimOutcome::KeyReused);
    complete(fixture, &first).await;
    assert_eq!(store.claim_idempotency_key(&other).await.unwrap(), ClaimOutcome::KeyReused);
    // A request with another fingerprint is also rejected after the lease has ended: the key belongs to the first
    // request until the key expires.
    let late = IdempotencyClaim { now: sample::later(31), ..sample::claim(first.tenant, 1, 2) };
    assert_eq!(store.claim_idempotency_key(&late).await.unwrap(), ClaimOutcome::KeyReused);
}

pub async fn completed_request_returns_the_stored_response(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim_idempotency_key(&first).await.unwrap();
    complete(fixture, &first).await;
    for seconds in [0, 31, 86_399] {
        let again = IdempotencyClaim { now: sample::later(seconds), ..sample::claim(first.tenant, 1, 1) };
        assert_eq!(store.claim_idempotency_key(&again).await.unwrap(), ClaimOutcome::Completed(b"sealed".to_vec()));
    }
}

pub async fn claim_with_an_expired_lease_is_taken_over(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim_idempotency_key(&first).await.unwrap();
    let early = IdempotencyClaim { now: sample::later(29), ..sample::claim(first.tenant, 1, 1) };
    assert_eq!(store.claim_idempotency_key(&early).await.unwrap(), ClaimOutcome::InProgress);
    let late = IdempotencyClaim {
        now: sample::later(30),
        lease_until: sample::later(60),
        ..sample::claim(first.tenant, 1, 1)
    };
    assert_eq!(store.claim_idempotency_key(&late).await.unwrap(), ClaimOutcome::Claimed);
    let third = IdempotencyClaim { now: sample::later(59), ..sample::claim(first.tenant, 1, 1) };
    assert_eq!(
        store.claim_idempotency_key(&third).await.unwrap(),
        ClaimOutcome::InProgress,
        "the second claim has the lease"
    );
}

pub async fn expired_key_can_be_claimed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim_idempotency_key(&first).await.unwrap();
    complete(fixture, &first).await;
    let next_day = IdempotencyClaim { now: sample::later(86_400), ..sample::claim(first.tenant, 1, 2) };
    assert_eq!(store.claim_idempotency_key(&next_day).await.unwrap(), ClaimOutcome::Claimed);
    let again = IdempotencyClaim { now: sample::later(0), ..sample::claim(first.tenant, 1, 2) };
    assert_eq!(
        store.claim_idempotency_key(&again).await.unwrap(),
        ClaimOutcome::InProgress,
        "the old response is gone"
    );
}

pub async fn keys_are_scoped_by_tenant(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for _ in 0..2 {
        assert_eq!(
            store.claim_idempotency_key(&sample::claim(sample::uuid(), 1, 1)).await.unwrap(),
            ClaimOutcome::Claimed
        );
    }
}

pub async fn released_key_can_be_claimed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim_idempotency_key(&first).await.unwrap();
    store.release_idempotency_key(first.tenant, first.key_digest, first.claim_id).await.unwrap();
    store.release_idempotency_key(first.tenant, first.key_digest, first.claim_id).await.unwrap();
    assert_eq!(store.claim_idempotency_key(&sample::claim(first.tenant, 1, 2)).await.unwrap(), ClaimOutcome::Claimed);
}

pub async fn claim_is_released_only_by_its_holder(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim_idempotency_key(&first).await.unwrap();
    store.release_idempotency_key(first.tenant, first.key_digest, sample::uuid()).await.unwrap();
    store.release_idempotency_key(sample::uuid(), first.key_digest, first.claim_id).await.unwrap();
    assert_eq!(
        store.claim_idempotency_key(&sample::claim(first.tenant, 1, 1)).await.unwrap(),
        ClaimOutcome::InProgress
    );
    // A key with a stored response cannot be released.
    complete(fixture, &first).await;
    store.release_idempotency_key(first.tenant, first.key_digest, first.claim_id).await.unwrap();
    let again = store.claim_idempotency_key(&sample::claim(first.tenant, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Completed(b"sealed".to_vec()));
}

pub async fn concurrent_claims_of_a_key_succeed_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    for round in 0..10 {
        let tenant = sample::uuid();
        // Every third request differs from the others: it has another fingerprint.
        let requests: Vec<_> = (0..60).map(|number| sample::claim(tenant, round, u8::from(number % 3 == 0))).collect();
        let attempts =
            requests.iter().zip(stores.iter().cycle()).map(|(request, store)| store.claim_idempotency_key(request));
        let outcomes: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<_> =
            requests.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == ClaimOutcome::Claimed).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        for (request, outcome) in requests.iter().zip(&outcomes).filter(|(request, _)| *request != winners[0].0) {
            let same = request.fingerprint == winners[0].0.fingerprint;
            assert_eq!(*outcome, if same { ClaimOutcome::InProgress } else { ClaimOutcome::KeyReused });
        }
    }
}

/// Batches of two nodes with the same keys in different orders must not deadlock.
pub async fn concurrent_claims_and_releases_do_not_deadlock(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let tenants: Vec<_> = (0..4).map(|_| sample::uuid()).collect();
    let rounds = (0..200_u8).map(|number| {
        let (store, tenants) = (&stores[usize::from(number % 2)], &tenants);
        async move {
            for step in 0..5_u8 {
                let key = if number % 2 == 0 { number.wrapping_add(step) } else { number.wrapping_sub(step) } % 16;
                let request = sample::claim(tenants[usize::from(key % 4)], key, 1);
                match store.claim_idempotency_key(&request).await.unwrap() {
                    ClaimOutcome::Claimed => {
                        store
                            .release_idempotency_key(request.tenant, request.key_digest, request.claim_id)
                            .await
                            .unwrap();
                    }
                    ClaimOutcome::InProgress => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    join_all(rounds).await;
    for key in 0..16 {
        let request = sample::claim(tenants[usize::from(key % 4)], key, 2);
        assert_eq!(fixture.store.claim_idempotency_key(&request).await.unwrap(), ClaimOutcome::Claimed);
    }
}

pub async fn response_is_stored_with_the_change(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let request = sample::claim(acme.id.0, 1, 1);
    store.claim_idempotency_key(&request).await.unwrap();
    let project = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
    let written = store.create_project(&project, &credential, &[], Some(&response(&request)), 1_000).await.unwrap();
    assert_eq!(written, CreateProjectOutcome::Created);
    let again = store.claim_idempotency_key(&sample::claim(acme.id.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Completed(b"sealed".to_vec()));

    // A request that changes nothing stores no response.
    let request = sample::claim(acme.id.0, 2, 1);
    store.claim_idempotency_key(&request).await.unwrap();
    let twin = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, twin.id));
    let written = store.create_project(&twin, &credential, &[], Some(&response(&request)), 1_000).await.unwrap();
    assert_eq!(written, CreateProjectOutcome::NameTaken);
    assert_eq!(store.claim_idempotency_key(&sample::claim(acme.id.0, 2, 1)).await.unwrap(), ClaimOutcome::InProgress);
}

pub async fn lost_claim_rolls_back_the_change(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let slow = sample::claim(acme.id.0, 1, 1);
    store.claim_idempotency_key(&slow).await.unwrap();
    let quick =
        IdempotencyClaim { now: sample::later(30), lease_until: sample::later(60), ..sample::claim(acme.id.0, 1, 1) };
    assert_eq!(store.claim_idempotency_key(&quick).await.unwrap(), ClaimOutcome::Claimed);

    let project = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
    let lost = store.create_project(&project, &credential, &[], Some(&response(&slow)), 1_000).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(store.find_project(acme.id, project.id).await.unwrap(), TenantLookup::NotFound);
    let written = store.create_project(&project, &credential, &[], Some(&response(&quick)), 1_000).await.unwrap();
    assert_eq!(written, CreateProjectOutcome::Created);
}

fn response(request: &IdempotencyClaim) -> IdempotentResponse {
    IdempotentResponse {
        tenant: request.tenant,
        key_digest: request.key_digest,
        claim_id: request.claim_id,
        sealed_response: b"sealed".to_vec(),
    }
}

/// Stores the response to a request, together with a minimal change.
async fn complete(fixture: &StoreFixture, request: &IdempotencyClaim) {
    let workspace = sample::stored_workspace(&*fixture.store).await;
    let credential = sample::credential(CredentialOwner::Workspace(workspace.id));
    let event = sample::event(workspace.id, Action::CredentialCreated);
    fixture.store.create_credential(&credential, &event, Some(&response(request)), sample::LIMITS).await.unwrap();
}
