use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, Lifecycle, Open, Status},
    phone::Msisdn,
    product::Product,
    reverse_sms::{Origin, ReceivedFrom, ReverseSmsCheck},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    Admitted, ClaimOutcome, CodeHash, Completion, Found, MarkedPending, NewCheck, Recorded, StoreError,
};

use crate::{bench::Bench, check_sample, sample};

pub async fn a_check_comes_back_as_it_was_stored(bench: &Bench) {
    let store = &*bench.store;
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
        assert_eq!(check_sample::found(store, &check).await, check);
    }
}

pub async fn a_check_is_found_by_its_project_alone(bench: &Bench) {
    let store = &*bench.store;
    let check = check_sample::stored(store, ProjectId(sample::uuid())).await;
    let stranger = ProjectId(sample::uuid());
    assert_eq!(store.find_check(stranger, Product::ReverseSms, check.id).await.unwrap(), Found::SomeoneElses);
    let unknown = check_sample::check(check.project, sample::now()).id;
    assert_eq!(store.find_check(check.project, Product::ReverseSms, unknown).await.unwrap(), Found::Nothing);
}

pub async fn many_find_their_checks_at_once(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let checks = join_all((0..50).map(|_| check_sample::stored(store, project))).await;
    let reads = checks.iter().cycle().take(300).map(|check| check_sample::found(store, check));
    for (check, found) in checks.iter().cycle().zip(join_all(reads).await) {
        assert_eq!(*check, found);
    }
}

pub async fn a_check_is_found_by_the_first_known_code(bench: &Bench) {
    let store = &*bench.store;
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
        assert_eq!(store.check_by_code(codes).await.unwrap().as_ref(), expected);
    }
}

pub async fn a_check_that_still_waits_goes_before_one_that_has_ended(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let [old, new] = [0, 1].map(|_| check_sample::new(check_sample::check(project, sample::now())));
    for check in [&old, &new] {
        store.create_check(check.clone()).await.unwrap();
    }
    let ended = old.check.clone().expire().unwrap();
    store.conclude((&ended).into(), None).await.unwrap();
    let found = store.check_by_code(vec![check_sample::code(&old), check_sample::code(&new)]).await.unwrap();
    assert_eq!(found, Some(new.check));
    assert_eq!(store.check_by_code(vec![check_sample::code(&old)]).await.unwrap(), Some(ended.into_check()));
}

/// A second check with an id that is taken.
pub async fn a_bad_check_fails_nobody_else(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let fresh = || check_sample::new(check_sample::check(project, sample::now()));
    let first = fresh();
    store.create_check(first.clone()).await.unwrap();
    let late = NewCheck { check: first.check.clone(), ..fresh() };
    let news: Vec<_> = (0..60).map(|number| if number == 43 { late.clone() } else { fresh() }).collect();
    let answers = join_all(news.iter().map(|new| store.create_check(new.clone()))).await;
    for (number, (new, answer)) in news.iter().zip(&answers).enumerate() {
        if number == 43 {
            assert!(matches!(answer, Err(StoreError::Refused(_))), "{number}: {answer:?}");
        } else {
            assert_eq!(*answer.as_ref().unwrap(), Admitted::Stored);
            assert_eq!(check_sample::found(store, &new.check).await, new.check);
        }
    }
    let refused = NewCheck { check: Check { created_at: sample::later(1), ..fresh().check }, ..fresh() };
    let refused = store.create_check(refused).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "its id tells another instant: {refused:?}");
}

pub async fn an_answer_is_kept_with_its_check(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let request = sample::claim(project.0, 1, 1);
    store.claim(&request).await.unwrap();
    let completion = Completion {
        tenant: request.tenant,
        key_digest: request.key_digest,
        claim: request.claim,
        sealed_answer: b"sealed".to_vec(),
    };
    let keyed = |completion: &Completion| NewCheck {
        completion: Some(completion.clone()),
        ..check_sample::new(check_sample::check(project, sample::now()))
    };
    let (lost, good) = (keyed(&Completion { claim: sample::uuid(), ..completion.clone() }), keyed(&completion));
    let plain = check_sample::new(check_sample::check(project, sample::now()));
    let answers = join_all([&lost, &plain, &good].into_iter().map(|new| store.create_check(new.clone()))).await;
    assert!(
        matches!(&answers[..], [Err(StoreError::Unavailable(_)), Ok(Admitted::Stored), Ok(Admitted::Stored)]),
        "{answers:?}"
    );
    assert_eq!(store.find_check(project, Product::ReverseSms, lost.check.id).await.unwrap(), Found::Nothing);
    assert_eq!(store.check_by_code(vec![check_sample::code(&lost)]).await.unwrap(), None);
    let again = store.claim(&sample::claim(project.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Answered(b"sealed".to_vec()));
}

pub async fn a_check_ends_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let check = check_sample::stored(&*bench.store, ProjectId(sample::uuid())).await;
    let endings = (0..100).map(|number| match number % 3 {
        0 => check_sample::ending(check.clone().expire().unwrap()),
        1 => check_sample::ending(check_sample::received(&check, true)),
        _ => {
            check_sample::ending(check.clone().receive(ReceivedFrom::Unattributed, sample::later(9)).unwrap().unwrap())
        }
    });
    let (endings, ended): (Vec<_>, Vec<_>) = endings.unzip();
    let attempts = endings.into_iter().zip(stores.iter().cycle()).map(|(ending, store)| store.conclude(ending, None));
    let recorded: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> = (0..100).filter(|number| matches!(recorded[*number], Recorded::Now { .. })).collect();
    assert_eq!(winners.len(), 1, "{recorded:?}");
    assert_eq!(check_sample::found(&*bench.store, &check).await, ended[winners[0]]);
}

pub async fn every_end_comes_back_as_it_was_recorded(bench: &Bench) {
    let store = &*bench.store;
    for number in 0..4 {
        let check = check_sample::stored(store, ProjectId(sample::uuid())).await;
        let (ending, ended) = check_sample::ending(match number {
            0 => check.expire().unwrap(),
            1 => check_sample::received(&check, true),
            2 => check_sample::received(&check, false),
            _ => check.receive(ReceivedFrom::Unattributed, sample::later(9)).unwrap().unwrap(),
        });
        assert_eq!(store.conclude(ending, None).await.unwrap(), Recorded::Now { was_pending: false });
        assert_eq!(check_sample::found(store, &ended).await, ended);
    }
    let unknown = check_sample::check(ProjectId(sample::uuid()), sample::now());
    let (ending, _) = check_sample::ending(unknown.expire().unwrap());
    assert_eq!(store.conclude(ending, None).await.unwrap(), Recorded::AlreadyConcluded);
}

pub async fn checks_that_wait_for_a_number_become_pending(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let check = check_sample::stored(store, project).await;
    let number = check.claimed.unwrap().hash;
    let twin = Check { claimed: check.claimed, ..check_sample::check(project, sample::later(1)) };
    let sandbox = Check { mode: Mode::Sandbox, claimed: check.claimed, ..check_sample::check(project, sample::now()) };
    let ended = Check { claimed: check.claimed, ..check_sample::check(project, sample::now()) };
    let other = check_sample::stored(store, project).await;
    for check in [&twin, &sandbox, &ended] {
        store.create_check(check_sample::new(check.clone())).await.unwrap();
    }
    store.conclude(check_sample::ending(check_sample::received(&ended, true)).0, None).await.unwrap();

    let at = sample::later(5);
    let elsewhere = Msisdn::parse("+447700900001", Mode::Live).unwrap();
    assert_eq!(store.mark_pending(Origin::Operator, number, &elsewhere, "acme", at).await.unwrap(), []);
    let receiver = check_sample::receiver();
    assert_eq!(store.mark_pending(Origin::Operator, number, &receiver, "acme", sample::later(301)).await.unwrap(), []);
    let marked = |check: &ReverseSmsCheck| MarkedPending {
        project,
        product: check.product,
        network: check.network.clone(),
        created_at: check.created_at,
    };
    let now_pending = store.mark_pending(Origin::Operator, number, &receiver, "acme", at).await.unwrap();
    assert_eq!(now_pending, [marked(&check), marked(&twin)]);
    assert_eq!(store.mark_pending(Origin::Operator, number, &receiver, "acme", sample::later(6)).await.unwrap(), []);
    for check in [&check, &twin] {
        let found = check_sample::found(store, check).await;
        assert_eq!(found.state, Lifecycle::Open(Open::Pending { since: at }));
    }
    for check in [&other, &sandbox] {
        assert_eq!(check_sample::found(store, check).await.status(), Status::Accepted);
    }
    // A simulated SMS reaches the checks of its own project.
    let another = Origin::Sandbox(ProjectId(sample::uuid()));
    assert_eq!(store.mark_pending(another, number, &receiver, "acme", at).await.unwrap(), []);
    let own = store.mark_pending(Origin::Sandbox(project), number, &receiver, "acme", at).await.unwrap();
    assert_eq!(own, [marked(&sandbox)]);
    // It ends as any other.
    let pending = check_sample::found(store, &check).await;
    let (ending, ended) = check_sample::ending(check_sample::received(&pending, true));
    assert_eq!(store.conclude(ending, None).await.unwrap(), Recorded::Now { was_pending: true });
    assert_eq!(check_sample::found(store, &check).await, ended);
}

/// What people are told, when all else of the check is over.
pub async fn a_check_tells_how_it_went(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let mut checks = Vec::new();
    for _ in 0..4 {
        checks.push(check_sample::stored(store, project).await);
    }
    let [answered, expired, straight, untouched] = &checks[..] else { panic!() };
    let at = sample::later(5);
    for check in [answered, expired] {
        let (number, receiver) = (check.claimed.unwrap().hash, check_sample::receiver());
        assert_eq!(store.mark_pending(Origin::Operator, number, &receiver, "acme", at).await.unwrap().len(), 1);
    }
    let course = async |check: &ReverseSmsCheck| {
        store
            .course_of(project, check.product, check.id)
            .await
            .unwrap()
            .map(|course| (course.pending_at, course.connector))
    };
    let acme = || Some("acme".to_owned());
    assert_eq!(course(answered).await, Some((Some(at), acme())));

    // At the same time, so that they are ended together where that is done.
    let by = |check: &ReverseSmsCheck, connector: &str| {
        check_sample::ending(check_sample::received(check, true)).0.brought_by(Some(connector.into()))
    };
    let (one, two, three) = tokio::join!(
        store.conclude(by(answered, "globex"), None),
        store.conclude(by(straight, "acme"), None),
        store.conclude(check_sample::ending(expired.clone().expire().unwrap()).0, None),
    );
    let ended = [one, two, three].map(Result::unwrap);
    assert_eq!(ended, [true, false, true].map(|was_pending| Recorded::Now { was_pending }));
    assert_eq!(course(answered).await, Some((Some(at), Some("globex".to_owned()))), "the last that brought an SMS");
    assert_eq!(course(straight).await, Some((None, acme())));
    assert_eq!(course(expired).await, Some((Some(at), acme())), "its end has brought nothing new");
    assert_eq!(course(untouched).await, Some((None, None)));

    assert_eq!(store.course_of(ProjectId(sample::uuid()), answered.product, answered.id).await.unwrap(), None);
    assert_eq!(store.course_of(project, Product::Discovery, answered.id).await.unwrap(), None);
}

pub async fn overdue_checks_are_found_longest_overdue_first(bench: &Bench) {
    let store = &*bench.store;
    let (mine, other) = (ProjectId(sample::uuid()), ProjectId(sample::uuid()));
    let mut checks = Vec::new();
    for (seconds, project) in [(3, mine), (1, mine), (2, other), (4, mine)] {
        let check = check_sample::check(project, sample::later(seconds));
        store.create_check(check_sample::new(check.clone())).await.unwrap();
        checks.push(check);
    }
    let [third, first, second, fourth] = &checks[..] else { panic!() };
    let any = |check: &ReverseSmsCheck| check.clone().map(AnyVerdict::from);
    store.conclude(check_sample::ending(fourth.clone().expire().unwrap()).0, None).await.unwrap();
    let expired = |check: &ReverseSmsCheck| check.expires_at;
    let before = expired(first) - SignedDuration::from_millis(1);
    assert_eq!(store.overdue(before, 9).await.unwrap(), []);
    assert_eq!(store.overdue(expired(second), 9).await.unwrap(), [any(first), any(second)]);
    assert_eq!(store.overdue(expired(fourth), 9).await.unwrap(), [any(first), any(second), any(third)]);
    assert_eq!(store.overdue(expired(fourth), 1).await.unwrap(), [any(first)]);
    let of_mine = store.overdue_of(mine, Product::ReverseSms, expired(fourth), 9).await.unwrap();
    assert_eq!(of_mine, [any(first), any(third)]);
    assert_eq!(store.overdue_of(mine, Product::Discovery, expired(fourth), 9).await.unwrap(), []);
}
