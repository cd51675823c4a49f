use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::{Check, ClaimedNumber, NumberHash, Verdict},
    product::Product,
    reverse_sms::NumberGuard,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{Admitted, ClaimOutcome, Completion, Found, NewCheck};

use crate::{bench::Bench, check_sample, sample, silent_sample};

/// A check about a number, some seconds from now.
fn about(project: ProjectId, number: NumberHash, seconds: i64) -> NewCheck {
    let claimed = Some(ClaimedNumber { hash: number, tail: "23".parse().unwrap() });
    NewCheck {
        guard: Some(NumberGuard { creates: 3, within_seconds: 600 }),
        ..check_sample::new(Check { claimed, ..check_sample::check(project, sample::later(seconds)) })
    }
}

pub async fn a_number_is_asked_about_so_often_in_a_while(bench: &Bench) {
    let store = &*bench.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    let closed = |seconds| Admitted::TooOften { until: sample::later(seconds) };
    for (seconds, answer) in [
        (0, Admitted::Stored),
        (10, Admitted::Stored),
        (20, Admitted::Stored),
        (30, closed(600)),
        (599, closed(600)),
        (600, Admitted::Stored),
        (601, closed(610)),
        (700, Admitted::Stored),
        (700, Admitted::Stored),
        (700, closed(1_200)),
    ] {
        let new = about(project, number, seconds);
        assert_eq!(store.create_check(new.clone()).await.unwrap(), answer, "{seconds}");
        let found = store.find_check(project, Product::ReverseSms, new.check.id).await.unwrap();
        assert_eq!(matches!(found, Found::Mine(_)), answer == Admitted::Stored, "{seconds}");
        assert_eq!(
            store.check_by_code(vec![check_sample::code(&new)]).await.unwrap().is_some(),
            answer == Admitted::Stored
        );
    }
    // Other numbers and other projects have counts of their own.
    for (project, number) in [(project, NumberHash(sample::random())), (ProjectId(sample::uuid()), number)] {
        assert_eq!(store.create_check(about(project, number, 700)).await.unwrap(), Admitted::Stored);
    }
}

pub async fn a_guard_of_nothing_lets_nothing_pass(bench: &Bench) {
    let mut new = about(ProjectId(sample::uuid()), NumberHash(sample::random()), 0);
    new.guard = Some(NumberGuard { creates: 0, within_seconds: 600 });
    let answer = bench.store.create_check(new).await.unwrap();
    assert_eq!(answer, Admitted::TooOften { until: sample::later(600) });
}

pub async fn a_guard_that_was_changed_holds_at_once(bench: &Bench) {
    let store = &*bench.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    for seconds in [0, 1, 2] {
        store.create_check(about(project, number, seconds)).await.unwrap();
    }
    let with =
        |creates| NewCheck { guard: Some(NumberGuard { creates, within_seconds: 600 }), ..about(project, number, 3) };
    let narrower = store.create_check(with(2)).await.unwrap();
    assert_eq!(narrower, Admitted::TooOften { until: sample::later(601) });
    assert_eq!(store.create_check(with(4)).await.unwrap(), Admitted::Stored);
}

/// Batches of two nodes, with several numbers many times in each.
pub async fn many_who_ask_about_a_number_pass_no_more_than_one(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let project = ProjectId(sample::uuid());
    let numbers: Vec<_> = (0..5).map(|_| NumberHash(sample::random())).collect();
    let news: Vec<_> = (0..100).map(|number: usize| about(project, numbers[number % 5], 0)).collect();
    let attempts = news.iter().zip(stores.iter().cycle()).map(|(new, store)| store.create_check(new.clone()));
    let answers: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    for number in 0..5 {
        let of_number: Vec<_> = answers.iter().skip(number).step_by(5).collect();
        let count = |wanted: Admitted| of_number.iter().filter(|answer| ***answer == wanted).count();
        assert_eq!(count(Admitted::Stored), 3);
        assert_eq!(count(Admitted::TooOften { until: sample::later(600) }), 17);
    }
    let listed =
        check_sample::listed(&*bench.store, project, Product::ReverseSms, None, sample::whole()).await.unwrap();
    assert_eq!((listed.items.len(), listed.total_items), (15, 15), "what was refused was not stored");
}

pub async fn what_was_refused_leaves_no_answer(bench: &Bench) {
    let store = &*bench.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    let news: Vec<_> = (0..8)
        .map(|key| {
            let request = sample::claim(project.0, key, 1);
            let completion = Completion {
                tenant: request.tenant,
                key_digest: request.key_digest,
                claim: request.claim,
                sealed_answer: b"sealed".to_vec(),
            };
            (request, NewCheck { completion: Some(completion), ..about(project, number, 0) })
        })
        .collect();
    for (request, _) in &news {
        store.claim(request).await.unwrap();
    }
    let answers = join_all(news.iter().map(|(_, new)| store.create_check(new.clone()))).await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Admitted::Stored))).count(), 3, "{answers:?}");
    for ((request, _), answer) in news.iter().zip(answers) {
        let again =
            store.claim(&ringtrue_engine::ports::ClaimRequest { claim: sample::uuid(), ..request.clone() }).await;
        let expected = match answer.unwrap() {
            Admitted::Stored => ClaimOutcome::Answered(b"sealed".to_vec()),
            Admitted::TooOften { .. } => ClaimOutcome::InProgress,
        };
        assert_eq!(again.unwrap(), expected);
    }
}

pub async fn each_product_has_a_count_of_its_own(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let sms = about(project, NumberHash(sample::random()), 0);
    let claimed = sms.check.claimed;
    let number = claimed.unwrap().hash;
    let silent = |product: Product| {
        let check = silent_sample::check(project, product, sample::now());
        let claimed = claimed.filter(|_| product == Product::SecureSna);
        NewCheck { guard: sms.guard, ..silent_sample::new(Check { claimed, ..check }) }
    };
    for _ in 0..6 {
        assert_eq!(store.create_check(silent(Product::Discovery)).await.unwrap(), Admitted::Stored, "no number");
    }
    for _ in 0..3 {
        // In one batch, too.
        let both = join_all([silent(Product::SecureSna), about(project, number, 0)].map(|new| store.create_check(new)));
        assert_eq!(both.await.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Admitted::Stored; 2]);
    }
    for new in [silent(Product::SecureSna), about(project, number, 0)] {
        let id = new.check.id;
        let closed = Admitted::TooOften { until: sample::later(600) };
        assert_eq!(store.create_check(new).await.unwrap(), closed);
        assert_eq!(store.journey(id).await.unwrap(), None, "nothing was written");
    }
    assert_eq!(store.create_check(silent(Product::Discovery)).await.unwrap(), Admitted::Stored);
}

pub async fn without_a_guard_nothing_is_counted(bench: &Bench) {
    let store = &*bench.store;
    let (project, number) = (ProjectId(sample::uuid()), NumberHash(sample::random()));
    let free = || NewCheck { guard: None, ..about(project, number, 0) };
    let answers = join_all((0..10).map(|_| store.create_check(free()))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Admitted::Stored))), "{answers:?}");
    let guarded = store.create_check(about(project, number, 0)).await.unwrap();
    assert_eq!(guarded, Admitted::TooOften { until: sample::later(600) });
    assert_eq!(store.create_check(free()).await.unwrap(), Admitted::Stored);
}

/// Numbers that were found out are no numbers that anybody asked about.
pub async fn what_was_discovered_does_not_count(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let found = silent_sample::redeemed(store, project, Product::Discovery).await;
    let number = found.verdict().and_then(Verdict::discovered).and_then(|found| found.number).unwrap().hash;
    for _ in 0..5 {
        let check = silent_sample::stored(store, project, Product::Discovery).await;
        let (ending, _) =
            check_sample::ending(check.redeem(found.verdict().unwrap().clone(), sample::later(7)).unwrap());
        store.conclude(ending, None).await.unwrap();
    }
    assert_eq!(store.create_check(about(project, number, 8)).await.unwrap(), Admitted::Stored);
}
