use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::{Check, NumberHash, StoredNumber, Verdict},
    product::Product,
    reverse_sms::NumberLimit,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    checks::{CreateCheckOutcome, NewCheck},
    idempotency::{ClaimOutcome, IdempotentResponse},
    store::TenantLookup,
};

use crate::{check_sample, fixture::StoreFixture, sample, silent_sample};

/// Returns a new check for a number, created `seconds` from now.
fn check_of_number(project: ProjectId, number: NumberHash, seconds: i64) -> NewCheck {
    let claimed = Some(StoredNumber { hash: number, tail: "23".parse().unwrap() });
    NewCheck {
        number_limit: Some(NumberLimit { max_checks: 3, window_seconds: 600 }),
        ..check_sample::new(Check { claimed, ..check_sample::check(project, sample::later(seconds)) })
    }
}

pub async fn checks_per_number_are_limited_in_a_window(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    let rejected = |seconds| CreateCheckOutcome::TooManyChecks { retry_at: sample::later(seconds) };
    for (seconds, result) in [
        (0, CreateCheckOutcome::Created),
        (10, CreateCheckOutcome::Created),
        (20, CreateCheckOutcome::Created),
        (30, rejected(600)),
        (599, rejected(600)),
        (600, CreateCheckOutcome::Created),
        (601, rejected(610)),
        (700, CreateCheckOutcome::Created),
        (700, CreateCheckOutcome::Created),
        (700, rejected(1_200)),
    ] {
        let new = check_of_number(project, number, seconds);
        assert_eq!(store.create_check(new.clone()).await.unwrap(), result, "{seconds}");
        let found = store.find_check(project, Product::ReverseSms, new.check.id).await.unwrap();
        assert_eq!(matches!(found, TenantLookup::Found(_)), result == CreateCheckOutcome::Created, "{seconds}");
        assert_eq!(
            store.find_check_by_code(vec![check_sample::code(&new)]).await.unwrap().is_some(),
            result == CreateCheckOutcome::Created
        );
    }
    // Each number and each project is counted separately.
    for (project, number) in [(project, NumberHash(sample::random())), (ProjectId(sample::uuid()), number)] {
        assert_eq!(
            store.create_check(check_of_number(project, number, 700)).await.unwrap(),
            CreateCheckOutcome::Created
        );
    }
}

pub async fn limit_of_zero_rejects_every_check(fixture: &StoreFixture) {
    let mut new = check_of_number(ProjectId(sample::uuid()), NumberHash(sample::random()), 0);
    new.number_limit = Some(NumberLimit { max_checks: 0, window_seconds: 600 });
    let result = fixture.store.create_check(new).await.unwrap();
    assert_eq!(result, CreateCheckOutcome::TooManyChecks { retry_at: sample::later(600) });
}

pub async fn changed_limit_applies_immediately(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    for seconds in [0, 1, 2] {
        store.create_check(check_of_number(project, number, seconds)).await.unwrap();
    }
    let with = |creates| NewCheck {
        number_limit: Some(NumberLimit { max_checks: creates, window_seconds: 600 }),
        ..check_of_number(project, number, 3)
    };
    let narrower = store.create_check(with(2)).await.unwrap();
    assert_eq!(narrower, CreateCheckOutcome::TooManyChecks { retry_at: sample::later(601) });
    assert_eq!(store.create_check(with(4)).await.unwrap(), CreateCheckOutcome::Created);
}

/// Two nodes create many checks for the same numbers.
pub async fn concurrent_creations_respect_the_limit(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let project = ProjectId(sample::uuid());
    let numbers: Vec<_> = (0..5).map(|_| NumberHash(sample::random())).collect();
    let news: Vec<_> = (0..100).map(|number: usize| check_of_number(project, numbers[number % 5], 0)).collect();
    let attempts = news.iter().zip(stores.iter().cycle()).map(|(new, store)| store.create_check(new.clone()));
    let results: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    for number in 0..5 {
        let of_number: Vec<_> = results.iter().skip(number).step_by(5).collect();
        let count = |expected: CreateCheckOutcome| of_number.iter().filter(|result| ***result == expected).count();
        assert_eq!(count(CreateCheckOutcome::Created), 3);
        assert_eq!(count(CreateCheckOutcome::TooManyChecks { retry_at: sample::later(600) }), 17);
    }
    let listed =
        check_sample::list(&*fixture.store, project, Product::ReverseSms, None, sample::first_100()).await.unwrap();
    assert_eq!((listed.items.len(), listed.total_items), (15, 15), "rejected checks are not stored");
}

pub async fn rejected_check_stores_no_response(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    let news: Vec<_> = (0..8)
        .map(|key| {
            let request = sample::claim(project.0, key, 1);
            let completion = IdempotentResponse {
                tenant: request.tenant,
                key_digest: request.key_digest,
                claim_id: request.claim_id,
                sealed_response: b"sealed".to_vec(),
            };
            (request, NewCheck { idempotent_response: Some(completion), ..check_of_number(project, number, 0) })
        })
        .collect();
    for (request, _) in &news {
        store.claim_idempotency_key(request).await.unwrap();
    }
    let results = join_all(news.iter().map(|(_, new)| store.create_check(new.clone()))).await;
    assert_eq!(
        results.iter().filter(|result| matches!(result, Ok(CreateCheckOutcome::Created))).count(),
        3,
        "{results:?}"
    );
    for ((request, _), result) in news.iter().zip(results) {
        let again = store
            .claim_idempotency_key(&ringtrue_engine::ports::idempotency::IdempotencyClaim {
                claim_id: sample::uuid(),
                ..request.clone()
            })
            .await;
        let expected = match result.unwrap() {
            CreateCheckOutcome::Created => ClaimOutcome::Completed(b"sealed".to_vec()),
            CreateCheckOutcome::TooManyChecks { .. } => ClaimOutcome::InProgress,
        };
        assert_eq!(again.unwrap(), expected);
    }
}

pub async fn limit_is_counted_by_product(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let sms = check_of_number(project, NumberHash(sample::random()), 0);
    let claimed = sms.check.claimed;
    let number = claimed.unwrap().hash;
    let silent = |product: Product| {
        let check = silent_sample::check(project, product, sample::now());
        let claimed = claimed.filter(|_| product == Product::SecureSna);
        NewCheck { number_limit: sms.number_limit, ..silent_sample::new(Check { claimed, ..check }) }
    };
    for _ in 0..6 {
        assert_eq!(
            store.create_check(silent(Product::Discovery)).await.unwrap(),
            CreateCheckOutcome::Created,
            "no number"
        );
    }
    for _ in 0..3 {
        // The two checks are created concurrently, so that they are in the same batch.
        let both = join_all(
            [silent(Product::SecureSna), check_of_number(project, number, 0)].map(|new| store.create_check(new)),
        );
        assert_eq!(both.await.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [CreateCheckOutcome::Created; 2]);
    }
    for new in [silent(Product::SecureSna), check_of_number(project, number, 0)] {
        let id = new.check.id;
        let rejected = CreateCheckOutcome::TooManyChecks { retry_at: sample::later(600) };
        assert_eq!(store.create_check(new).await.unwrap(), rejected);
        assert_eq!(store.redirect_session(id).await.unwrap(), None, "nothing was written");
    }
    assert_eq!(store.create_check(silent(Product::Discovery)).await.unwrap(), CreateCheckOutcome::Created);
}

pub async fn check_without_a_limit_is_always_created(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    let free = || NewCheck { number_limit: None, ..check_of_number(project, number, 0) };
    let results = join_all((0..10).map(|_| store.create_check(free()))).await;
    assert!(results.iter().all(|result| matches!(result, Ok(CreateCheckOutcome::Created))), "{results:?}");
    assert_eq!(store.create_check(free()).await.unwrap(), CreateCheckOutcome::Created);
}

/// Only numbers that the client claims count towards the limit, not those that a check discovers.
pub async fn discovered_numbers_are_not_counted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let found = silent_sample::redeemed(store, project, Product::Discovery).await;
    let number = found.verdict().and_then(Verdict::discovered_number).and_then(|found| found.number).unwrap().hash;
    for _ in 0..5 {
        let check = silent_sample::store_check(store, project, Product::Discovery).await;
        let (conclusion, _) = check_sample::conclusion(
            check.conclude_with_verdict(found.verdict().unwrap().clone(), sample::later(7)).unwrap(),
        );
        store.conclude(conclusion, None).await.unwrap();
    }
    assert_eq!(store.create_check(check_of_number(project, number, 8)).await.unwrap(), CreateCheckOutcome::Created);
}
