use futures_util::future::join_all;
use ringtrue_domain::{audit::Action, tenancy::CredentialOwner};
use ringtrue_engine::ports::{ClaimOutcome, ClaimRequest, Completion, Found, ProjectWritten, StoreError};

use crate::{bench::Bench, sample};

pub async fn the_first_claims_and_the_others_wait(bench: &Bench) {
    let store = &*bench.store;
    let tenant = sample::uuid();
    assert_eq!(store.claim(&sample::claim(tenant, 1, 1)).await.unwrap(), ClaimOutcome::Claimed);
    assert_eq!(store.claim(&sample::claim(tenant, 1, 1)).await.unwrap(), ClaimOutcome::InProgress);
    assert_eq!(store.claim(&sample::claim(tenant, 2, 1)).await.unwrap(), ClaimOutcome::Claimed);
}

pub async fn a_key_stands_for_one_request(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim(&first).await.unwrap();
    let other = sample::claim(first.tenant, 1, 2);
    assert_eq!(store.claim(&other).await.unwrap(), ClaimOutcome::Reused);
    complete(bench, &first).await;
    assert_eq!(store.claim(&other).await.unwrap(), ClaimOutcome::Reused);
    // Not even after the lease: the key has an owner until it expires.
    let late = ClaimRequest { now: sample::later(31), ..sample::claim(first.tenant, 1, 2) };
    assert_eq!(store.claim(&late).await.unwrap(), ClaimOutcome::Reused);
}

pub async fn a_completed_request_is_answered_again(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim(&first).await.unwrap();
    complete(bench, &first).await;
    for seconds in [0, 31, 86_399] {
        let again = ClaimRequest { now: sample::later(seconds), ..sample::claim(first.tenant, 1, 1) };
        assert_eq!(store.claim(&again).await.unwrap(), ClaimOutcome::Answered(b"sealed".to_vec()));
    }
}

pub async fn a_dead_claim_is_taken_over(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim(&first).await.unwrap();
    let early = ClaimRequest { now: sample::later(29), ..sample::claim(first.tenant, 1, 1) };
    assert_eq!(store.claim(&early).await.unwrap(), ClaimOutcome::InProgress);
    let late =
        ClaimRequest { now: sample::later(30), lease_until: sample::later(60), ..sample::claim(first.tenant, 1, 1) };
    assert_eq!(store.claim(&late).await.unwrap(), ClaimOutcome::Claimed);
    let third = ClaimRequest { now: sample::later(59), ..sample::claim(first.tenant, 1, 1) };
    assert_eq!(store.claim(&third).await.unwrap(), ClaimOutcome::InProgress, "the lease is the second one's");
}

pub async fn an_expired_key_is_free(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim(&first).await.unwrap();
    complete(bench, &first).await;
    let next_day = ClaimRequest { now: sample::later(86_400), ..sample::claim(first.tenant, 1, 2) };
    assert_eq!(store.claim(&next_day).await.unwrap(), ClaimOutcome::Claimed);
    let again = ClaimRequest { now: sample::later(0), ..sample::claim(first.tenant, 1, 2) };
    assert_eq!(store.claim(&again).await.unwrap(), ClaimOutcome::InProgress, "the old answer is gone");
}

pub async fn tenants_have_keys_of_their_own(bench: &Bench) {
    let store = &*bench.store;
    for _ in 0..2 {
        assert_eq!(store.claim(&sample::claim(sample::uuid(), 1, 1)).await.unwrap(), ClaimOutcome::Claimed);
    }
}

pub async fn an_abandoned_key_is_free(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim(&first).await.unwrap();
    store.abandon(first.tenant, first.key_digest, first.claim).await.unwrap();
    store.abandon(first.tenant, first.key_digest, first.claim).await.unwrap();
    assert_eq!(store.claim(&sample::claim(first.tenant, 1, 2)).await.unwrap(), ClaimOutcome::Claimed);
}

pub async fn only_its_holder_abandons_a_claim(bench: &Bench) {
    let store = &*bench.store;
    let first = sample::claim(sample::uuid(), 1, 1);
    store.claim(&first).await.unwrap();
    store.abandon(first.tenant, first.key_digest, sample::uuid()).await.unwrap();
    store.abandon(sample::uuid(), first.key_digest, first.claim).await.unwrap();
    assert_eq!(store.claim(&sample::claim(first.tenant, 1, 1)).await.unwrap(), ClaimOutcome::InProgress);
    // Nor is an answer taken back.
    complete(bench, &first).await;
    store.abandon(first.tenant, first.key_digest, first.claim).await.unwrap();
    let again = store.claim(&sample::claim(first.tenant, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Answered(b"sealed".to_vec()));
}

pub async fn of_many_who_claim_a_key_one_gets_it(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    for round in 0..10 {
        let tenant = sample::uuid();
        // Some of them ask for something else.
        let requests: Vec<_> = (0..60).map(|number| sample::claim(tenant, round, u8::from(number % 3 == 0))).collect();
        let attempts = requests.iter().zip(stores.iter().cycle()).map(|(request, store)| store.claim(request));
        let outcomes: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<_> =
            requests.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == ClaimOutcome::Claimed).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        for (request, outcome) in requests.iter().zip(&outcomes).filter(|(request, _)| *request != winners[0].0) {
            let same = request.fingerprint == winners[0].0.fingerprint;
            assert_eq!(*outcome, if same { ClaimOutcome::InProgress } else { ClaimOutcome::Reused });
        }
    }
}

/// Batches of two nodes with the same keys in different orders must not wait for each other.
pub async fn many_claim_and_abandon_many_keys(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let tenants: Vec<_> = (0..4).map(|_| sample::uuid()).collect();
    let rounds = (0..200_u8).map(|number| {
        let (store, tenants) = (&stores[usize::from(number % 2)], &tenants);
        async move {
            for step in 0..5_u8 {
                let key = if number % 2 == 0 { number.wrapping_add(step) } else { number.wrapping_sub(step) } % 16;
                let request = sample::claim(tenants[usize::from(key % 4)], key, 1);
                match store.claim(&request).await.unwrap() {
                    ClaimOutcome::Claimed => {
                        store.abandon(request.tenant, request.key_digest, request.claim).await.unwrap();
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
        assert_eq!(bench.store.claim(&request).await.unwrap(), ClaimOutcome::Claimed);
    }
}

pub async fn a_completion_is_written_with_what_was_done(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let request = sample::claim(acme.id.0, 1, 1);
    store.claim(&request).await.unwrap();
    let project = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
    let written = store.create_project(&project, &credential, &[], Some(&completion(&request)), 1_000).await.unwrap();
    assert_eq!(written, ProjectWritten::Done);
    let again = store.claim(&sample::claim(acme.id.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Answered(b"sealed".to_vec()));

    // A request that did nothing leaves no answer.
    let request = sample::claim(acme.id.0, 2, 1);
    store.claim(&request).await.unwrap();
    let twin = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, twin.id));
    let written = store.create_project(&twin, &credential, &[], Some(&completion(&request)), 1_000).await.unwrap();
    assert_eq!(written, ProjectWritten::NameTaken);
    assert_eq!(store.claim(&sample::claim(acme.id.0, 2, 1)).await.unwrap(), ClaimOutcome::InProgress);
}

pub async fn a_lost_claim_undoes_what_was_done(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let slow = sample::claim(acme.id.0, 1, 1);
    store.claim(&slow).await.unwrap();
    let quick =
        ClaimRequest { now: sample::later(30), lease_until: sample::later(60), ..sample::claim(acme.id.0, 1, 1) };
    assert_eq!(store.claim(&quick).await.unwrap(), ClaimOutcome::Claimed);

    let project = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
    let lost = store.create_project(&project, &credential, &[], Some(&completion(&slow)), 1_000).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(store.find_project(acme.id, project.id).await.unwrap(), Found::Nothing);
    let written = store.create_project(&project, &credential, &[], Some(&completion(&quick)), 1_000).await.unwrap();
    assert_eq!(written, ProjectWritten::Done);
}

fn completion(request: &ClaimRequest) -> Completion {
    Completion {
        tenant: request.tenant,
        key_digest: request.key_digest,
        claim: request.claim,
        sealed_answer: b"sealed".to_vec(),
    }
}

/// Completes a request by the smallest thing that can be done with one.
async fn complete(bench: &Bench, request: &ClaimRequest) {
    let workspace = sample::stored_workspace(&*bench.store).await;
    let credential = sample::credential(CredentialOwner::Workspace(workspace.id));
    let event = sample::event(workspace.id, Action::CredentialCreated);
    bench.store.create_credential(&credential, &event, Some(&completion(request)), sample::LIMITS).await.unwrap();
}
