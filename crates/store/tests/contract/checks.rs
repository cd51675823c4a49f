use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, CheckStatus, Lifecycle, OpenState, Provenance},
    phone::Msisdn,
    product::Product,
    reverse_sms::{HashedSender, ReverseSmsCheck, SmsEnvironment},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    checks::{ConcludeOutcome, CreateCheckOutcome, MarkedPending, NewCheck},
    hashes::CodeHash,
    idempotency::{ClaimOutcome, IdempotentResponse},
    store::{Completeness, StoreError, TenantLookup},
};

use crate::{check_sample, fixture::StoreFixture, sample};

pub async fn check_round_trips(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let full = check_sample::check(ProjectId(sample::uuid()), sample::now());
    let bare = Check {
        network: None,
        claimed: None,
        reference: None,
        callback_url: None,
        mode: Mode::Sandbox,
        ..check_sample::check(full.project, sample::later(1))
    };
    for check in [full, bare] {
        store.create_check(check_sample::new(check.clone())).await.unwrap();
        assert_eq!(check_sample::find(store, &check).await, check);
    }
}

pub async fn check_is_visible_only_to_its_project(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let check = check_sample::store_check(store, ProjectId(sample::uuid())).await;
    let other_project = ProjectId(sample::uuid());
    assert_eq!(
        store.find_check(other_project, Product::ReverseSms, check.id).await.unwrap(),
        TenantLookup::OtherTenant
    );
    let unknown = check_sample::check(check.project, sample::now()).id;
    assert_eq!(store.find_check(check.project, Product::ReverseSms, unknown).await.unwrap(), TenantLookup::NotFound);
}

pub async fn concurrent_lookups_find_their_checks(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..50).map(|_| check_sample::store_check(store, project))).await;
    let reads = checks.iter().cycle().take(300).map(|check| check_sample::find(store, check));
    for (check, found) in checks.iter().cycle().zip(join_all(reads).await) {
        assert_eq!(*check, found);
    }
}

pub async fn first_known_code_selects_the_check(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let new: Vec<_> =
        (0..2).map(|_| check_sample::new(check_sample::check(ProjectId(sample::uuid()), sample::now()))).collect();
    for new in &new {
        store.create_check(new.clone()).await.unwrap();
    }
    let unknown = CodeHash(sample::random());
    let code = |number: usize| check_sample::code(&new[number]);
    for (codes, expected) in [
        (vec![], None),
        (vec![unknown], None),
        (vec![unknown, code(0)], Some(&new[0].check)),
        (vec![code(1), unknown, code(0)], Some(&new[1].check)),
    ] {
        assert_eq!(store.find_check_by_code(codes).await.unwrap().as_ref(), expected);
    }
}

pub async fn open_check_is_preferred_over_concluded_one(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let [old, new] = [0, 1].map(|_| check_sample::new(check_sample::check(project, sample::now())));
    for check in [&old, &new] {
        store.create_check(check.clone()).await.unwrap();
    }
    let concluded = old.check.clone().expire().unwrap();
    store.conclude((&concluded).into(), None).await.unwrap();
    let found = store.find_check_by_code(vec![check_sample::code(&old), check_sample::code(&new)]).await.unwrap();
    assert_eq!(found, Some(new.check));
    assert_eq!(store.find_check_by_code(vec![check_sample::code(&old)]).await.unwrap(), Some(concluded.into_check()));
}

/// One check of the batch has the id of an existing check.
pub async fn duplicate_check_fails_only_itself(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let fresh = || check_sample::new(check_sample::check(project, sample::now()));
    let first = fresh();
    store.create_check(first.clone()).await.unwrap();
    let late = NewCheck { check: first.check.clone(), ..fresh() };
    let news: Vec<_> = (0..60).map(|number| if number == 43 { late.clone() } else { fresh() }).collect();
    let results = join_all(news.iter().map(|new| store.create_check(new.clone()))).await;
    for (number, (new, result)) in news.iter().zip(&results).enumerate() {
        if number == 43 {
            assert!(matches!(result, Err(StoreError::Refused(_))), "{number}: {result:?}");
        } else {
            assert_eq!(*result.as_ref().unwrap(), CreateCheckOutcome::Created);
            assert_eq!(check_sample::find(store, &new.check).await, new.check);
        }
    }
    let refused = NewCheck { check: Check { created_at: sample::later(1), ..fresh().check }, ..fresh() };
    let refused = store.create_check(refused).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "its id contains another time: {refused:?}");
}

pub async fn response_is_stored_with_the_check(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let request = sample::claim(project.0, 1, 1);
    store.claim_idempotency_key(&request).await.unwrap();
    let completion = IdempotentResponse {
        tenant: request.tenant,
        key_digest: request.key_digest,
        claim_id: request.claim_id,
        sealed_response: b"sealed".to_vec(),
    };
    let keyed = |completion: &IdempotentResponse| NewCheck {
        idempotent_response: Some(completion.clone()),
        ..check_sample::new(check_sample::check(project, sample::now()))
    };
    let (lost, good) =
        (keyed(&IdempotentResponse { claim_id: sample::uuid(), ..completion.clone() }), keyed(&completion));
    let plain = check_sample::new(check_sample::check(project, sample::now()));
    let results = join_all([&lost, &plain, &good].into_iter().map(|new| store.create_check(new.clone()))).await;
    assert!(
        matches!(
            &results[..],
            [Err(StoreError::Unavailable(_)), Ok(CreateCheckOutcome::Created), Ok(CreateCheckOutcome::Created)]
        ),
        "{results:?}"
    );
    assert_eq!(store.find_check(project, Product::ReverseSms, lost.check.id).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.find_check_by_code(vec![check_sample::code(&lost)]).await.unwrap(), None);
    let again = store.claim_idempotency_key(&sample::claim(project.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Completed(b"sealed".to_vec()));
}

pub async fn check_is_concluded_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let check = check_sample::store_check(&*fixture.store, ProjectId(sample::uuid())).await;
    let conclusions = (0..100).map(|number| match number % 3 {
        0 => check_sample::conclusion(check.clone().expire().unwrap()),
        1 => check_sample::conclusion(check_sample::received(&check, true)),
        _ => {
            check_sample::conclusion(check.clone().evaluate_sms(HashedSender::Unattributed, sample::later(9)).unwrap())
        }
    });
    let (conclusions, concluded): (Vec<_>, Vec<_>) = conclusions.unzip();
    let attempts =
        conclusions.into_iter().zip(stores.iter().cycle()).map(|(conclusion, store)| store.conclude(conclusion, None));
    let recorded: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> =
        (0..100).filter(|number| matches!(recorded[*number], ConcludeOutcome::Concluded { .. })).collect();
    assert_eq!(winners.len(), 1, "{recorded:?}");
    assert_eq!(check_sample::find(&*fixture.store, &check).await, concluded[winners[0]]);
}

pub async fn conclusions_round_trip(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for number in 0..4 {
        let check = check_sample::store_check(store, ProjectId(sample::uuid())).await;
        let (conclusion, concluded) = check_sample::conclusion(match number {
            0 => check.expire().unwrap(),
            1 => check_sample::received(&check, true),
            2 => check_sample::received(&check, false),
            _ => check.evaluate_sms(HashedSender::Unattributed, sample::later(9)).unwrap(),
        });
        assert_eq!(store.conclude(conclusion, None).await.unwrap(), ConcludeOutcome::Concluded { was_pending: false });
        assert_eq!(check_sample::find(store, &concluded).await, concluded);
    }
    let unknown = check_sample::check(ProjectId(sample::uuid()), sample::now());
    let (conclusion, _) = check_sample::conclusion(unknown.expire().unwrap());
    assert_eq!(store.conclude(conclusion, None).await.unwrap(), ConcludeOutcome::AlreadyConcluded);
}

pub async fn checks_awaiting_a_number_become_pending(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let check = check_sample::store_check(store, project).await;
    let number = check.claimed.unwrap().hash;
    let twin = Check { claimed: check.claimed, ..check_sample::check(project, sample::later(1)) };
    let sandbox = Check { mode: Mode::Sandbox, claimed: check.claimed, ..check_sample::check(project, sample::now()) };
    let concluded = Check { claimed: check.claimed, ..check_sample::check(project, sample::now()) };
    let other = check_sample::store_check(store, project).await;
    for check in [&twin, &sandbox, &concluded] {
        store.create_check(check_sample::new(check.clone())).await.unwrap();
    }
    store.conclude(check_sample::conclusion(check_sample::received(&concluded, true)).0, None).await.unwrap();

    let at = sample::later(5);
    let elsewhere = Msisdn::parse("+447700900001", Mode::Live).unwrap();
    assert_eq!(store.mark_pending(SmsEnvironment::Operator, number, &elsewhere, "acme", at).await.unwrap(), []);
    let receiver = check_sample::receiver();
    assert_eq!(
        store.mark_pending(SmsEnvironment::Operator, number, &receiver, "acme", sample::later(301)).await.unwrap(),
        []
    );
    let marked = |check: &ReverseSmsCheck| MarkedPending {
        project,
        product: check.product,
        network: check.network.clone(),
        created_at: check.created_at,
        verification: None,
    };
    let now_pending = store.mark_pending(SmsEnvironment::Operator, number, &receiver, "acme", at).await.unwrap();
    assert_eq!(now_pending, [marked(&check), marked(&twin)]);
    assert_eq!(
        store.mark_pending(SmsEnvironment::Operator, number, &receiver, "acme", sample::later(6)).await.unwrap(),
        []
    );
    for check in [&check, &twin] {
        let found = check_sample::find(store, check).await;
        assert_eq!(found.state, Lifecycle::Open(OpenState::Pending { since: at }));
    }
    for check in [&other, &sandbox] {
        assert_eq!(check_sample::find(store, check).await.status(), CheckStatus::Accepted);
    }
    // A simulated SMS reaches only the checks of its own project.
    let another = SmsEnvironment::Sandbox(ProjectId(sample::uuid()));
    assert_eq!(store.mark_pending(another, number, &receiver, "acme", at).await.unwrap(), []);
    let own = store.mark_pending(SmsEnvironment::Sandbox(project), number, &receiver, "acme", at).await.unwrap();
    assert_eq!(own, [marked(&sandbox)]);
    let pending = check_sample::find(store, &check).await;
    let (conclusion, concluded) = check_sample::conclusion(check_sample::received(&pending, true));
    assert_eq!(store.conclude(conclusion, None).await.unwrap(), ConcludeOutcome::Concluded { was_pending: true });
    assert_eq!(check_sample::find(store, &check).await, concluded);
}

pub async fn check_history_is_stored(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for _ in 0..4 {
        checks.push(check_sample::store_check(store, project).await);
    }
    let [answered, expired, straight, untouched] = &checks[..] else { panic!() };
    let at = sample::later(5);
    for check in [answered, expired] {
        let (number, receiver) = (check.claimed.unwrap().hash, check_sample::receiver());
        assert_eq!(store.mark_pending(SmsEnvironment::Operator, number, &receiver, "acme", at).await.unwrap().len(), 1);
    }
    let course = async |check: &ReverseSmsCheck| {
        store
            .find_check_history(project, check.product, check.id)
            .await
            .unwrap()
            .map(|course| (course.pending_at, course.connector))
    };
    let acme = || Some("acme".to_owned());
    assert_eq!(course(answered).await, Some((Some(at), acme())));

    // The checks are concluded concurrently, so that they are in the same batch.
    let by = |check: &ReverseSmsCheck, connector: &str| {
        let provenance = Provenance { connector: Some(connector.into()), ..Provenance::default() };
        check_sample::conclusion(check_sample::received(check, true)).0.with_provenance(provenance)
    };
    let (one, two, three) = tokio::join!(
        store.conclude(by(answered, "globex"), None),
        store.conclude(by(straight, "acme"), None),
        store.conclude(check_sample::conclusion(expired.clone().expire().unwrap()).0, None),
    );
    let concluded = [one, two, three].map(Result::unwrap);
    assert_eq!(concluded, [true, false, true].map(|was_pending| ConcludeOutcome::Concluded { was_pending }));
    assert_eq!(course(answered).await, Some((Some(at), Some("globex".to_owned()))), "the connector of the last SMS");
    assert_eq!(course(straight).await, Some((None, acme())));
    assert_eq!(course(expired).await, Some((Some(at), acme())), "an expiry keeps the history");
    assert_eq!(course(untouched).await, Some((None, None)));

    assert_eq!(store.find_check_history(ProjectId(sample::uuid()), answered.product, answered.id).await.unwrap(), None);
    assert_eq!(store.find_check_history(project, Product::Discovery, answered.id).await.unwrap(), None);
}

pub async fn overdue_checks_are_listed_oldest_first(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (mine, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let mut checks = Vec::new();
    for (seconds, project) in [(3, mine), (1, mine), (2, other), (4, mine)] {
        let check = check_sample::check(project, sample::later(seconds));
        store.create_check(check_sample::new(check.clone())).await.unwrap();
        checks.push(check);
    }
    let [third, first, second, fourth] = &checks[..] else { panic!() };
    let any = |check: &ReverseSmsCheck| check.clone().map(AnyVerdict::from);
    store.conclude(check_sample::conclusion(fourth.clone().expire().unwrap()).0, None).await.unwrap();
    let expired = |check: &ReverseSmsCheck| check.expires_at;
    let before = expired(first) - SignedDuration::from_millis(1);
    assert_eq!(store.overdue_checks(before, 9, Completeness::All).await.unwrap(), []);
    assert_eq!(store.overdue_checks(expired(second), 9, Completeness::All).await.unwrap(), [any(first), any(second)]);
    assert_eq!(
        store.overdue_checks(expired(fourth), 9, Completeness::All).await.unwrap(),
        [any(first), any(second), any(third)]
    );
    assert_eq!(store.overdue_checks(expired(fourth), 1, Completeness::All).await.unwrap(), [any(first)]);
    let of_mine = store.overdue_checks_of_project(mine, Product::ReverseSms, expired(fourth), 9).await.unwrap();
    assert_eq!(of_mine, [any(first), any(third)]);
    assert_eq!(store.overdue_checks_of_project(mine, Product::Discovery, expired(fourth), 9).await.unwrap(), []);
}

pub async fn checks_of_a_number_are_found(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (project, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let first = check_sample::store_check(store, project).await;
    let number = first.claimed.unwrap().hash;
    let second = Check { claimed: first.claimed, ..check_sample::check(project, sample::later(1)) };
    let elsewhere = Check { claimed: first.claimed, ..check_sample::check(other, sample::now()) };
    for check in [&second, &elsewhere] {
        store.create_check(check_sample::new(check.clone())).await.unwrap();
    }
    check_sample::store_check(store, project).await;
    let find = async |project, after, limit| {
        let found = store.find_checks_by_number(project, number, after, limit).await.unwrap();
        found.into_iter().map(|check| check.id).collect::<Vec<_>>()
    };
    assert_eq!(find(project, None, 9).await, [second.id, first.id]);
    assert_eq!(find(project, None, 1).await, [second.id]);
    assert_eq!(find(project, Some(first.created_at), 9).await, [second.id]);
    assert_eq!(find(other, None, 9).await, [elsewhere.id]);
    assert_eq!(find(ProjectId(sample::uuid()), None, 9).await, []);
}
