//! Checks that have ended as soon as they were made.

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, Concluded, ErrorCode, Lifecycle, Open, Status},
    product::Product,
    sim_swap::{Period, SimHistory, SimSwapCheck},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{ClaimOutcome, Completion, Found, StoreError, UsageFilter, UsageGrouping};

use crate::{bench::Bench, check_sample, sample};

/// Unlike any other.
fn check(project: ProjectId) -> SimSwapCheck {
    let check = check_sample::check(project, sample::now());
    Check {
        id: check.id,
        project,
        product: Product::SimSwap,
        mode: Mode::Live,
        network: check.network,
        claimed: None,
        reference: check.reference,
        callback_url: None,
        redirect_url: None,
        created_at: check.created_at,
        expires_at: check.expires_at,
        state: Lifecycle::Open(Open::Accepted),
    }
}

/// Its end, and the check as it is then.
fn ended(check: SimSwapCheck, said: Result<SimHistory, ErrorCode>) -> (Concluded<AnyVerdict>, SimSwapCheck) {
    let ended = check.answer(said, Period::DEFAULT, sample::later(1)).unwrap();
    let check = ended.check().clone();
    (ended.map(Into::into), check)
}

fn changed(seconds_ago: i64) -> SimHistory {
    SimHistory::ChangedAt(sample::later(-seconds_ago))
}

pub async fn a_check_made_with_its_end_comes_back_as_it_was_stored(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let bare = Check { network: None, reference: None, mode: Mode::Sandbox, ..check(project) };
    for (check, said) in [
        (bare, Ok(changed(60))),
        (check(project), Ok(changed(90 * 86_400))),
        (check(project), Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(2)))),
        (check(project), Ok(SimHistory::ChangedWithin(SignedDuration::from_hours(2)))),
        (check(project), Err(ErrorCode::MnoTimeout)),
    ] {
        let (concluded, check) = ended(check, said);
        store.create_ended(concluded, None).await.unwrap();
        assert_eq!(check_sample::found(store, &check).await, check);
    }
    assert_eq!(store.overdue(sample::later(86_400), 9).await.unwrap(), [], "none of them waits");
}

/// One with an id that is taken, and those after it.
pub async fn many_are_made_with_their_end_and_a_bad_one_fails_alone(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let acme = sample::stored_workspace(&*bench.store).await;
    let (shop, _) = sample::stored_project(&*bench.store, acme.id, "Shop").await;
    let (first, taken) = ended(check(shop.id), Ok(changed(60)));
    bench.store.create_ended(first, None).await.unwrap();
    let news: Vec<_> = (0..60_usize)
        .map(|number| match number {
            43 => ended(Check { id: taken.id, ..check(shop.id) }, Ok(changed(60))),
            number if number.is_multiple_of(3) => ended(check(shop.id), Err(ErrorCode::MnoServerError)),
            _ => ended(check(shop.id), Ok(changed(60))),
        })
        .collect();
    let attempts =
        news.iter().zip(stores.iter().cycle()).map(|((new, _), store)| store.create_ended(new.clone(), None));
    for (number, (answer, (_, check))) in join_all(attempts).await.iter().zip(&news).enumerate() {
        if number == 43 {
            assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
        } else {
            assert!(answer.is_ok(), "{number}: {answer:?}");
            assert_eq!(check_sample::found(&*bench.store, check).await, *check);
        }
    }
    let usage = UsageFilter {
        from: sample::later(-86_400),
        to: sample::later(86_400),
        grouping: UsageGrouping::Day,
        project: None,
    };
    let counted = bench.store.usage(acme.id, usage).await.unwrap();
    let counted: Vec<_> = counted.iter().map(|row| (row.product, row.status, row.matched, row.count)).collect();
    let of = |status, matched, count| (Product::SimSwap, status, matched, count);
    assert_eq!(counted, [of(Status::Completed, Some(false), 40), of(Status::Error, None, 20)]);
}

pub async fn an_answer_is_kept_with_a_check_made_with_its_end(bench: &Bench) {
    let store = &*bench.store;
    let project = ProjectId(sample::uuid());
    let request = sample::claim(project.0, 1, 1);
    store.claim(&request).await.unwrap();
    let good = Completion {
        tenant: request.tenant,
        key_digest: request.key_digest,
        claim: request.claim,
        sealed_answer: b"sealed".to_vec(),
    };
    let lost = Completion { claim: sample::uuid(), ..good.clone() };
    let news: Vec<_> = (0..3).map(|_| ended(check(project), Ok(changed(60)))).collect();
    let attempts = news.iter().zip([Some(lost), None, Some(good)]);
    let answers = join_all(attempts.map(|((new, _), completion)| store.create_ended(new.clone(), completion))).await;
    assert!(matches!(&answers[..], [Err(StoreError::Unavailable(_)), Ok(()), Ok(())]), "{answers:?}");
    let first = &news[0].1;
    assert_eq!(store.find_check(project, Product::SimSwap, first.id).await.unwrap(), Found::Nothing);
    for (_, check) in &news[1..] {
        assert_eq!(check_sample::found(store, check).await, *check);
    }
    let again = store.claim(&sample::claim(project.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Answered(b"sealed".to_vec()));
}
