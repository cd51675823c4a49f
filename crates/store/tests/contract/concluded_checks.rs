//! Tests checks that are concluded on creation.

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, CheckStatus, Concluded, ErrorCode, Lifecycle, OpenState},
    product::Product,
    sim_swap::{SimHistory, SimSwapCheck, SimSwapPeriod},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    activity::{UsageFilter, UsagePeriod},
    idempotency::{ClaimOutcome, IdempotentResponse},
    store::{Completeness, StoreError, TenantLookup},
};

use crate::{check_sample, fixture::StoreFixture, sample};

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
        verification: None,
        redirect_url: None,
        created_at: check.created_at,
        expires_at: check.expires_at,
        state: Lifecycle::Open(OpenState::Accepted),
    }
}

/// Returns the conclusion to store, and the check that a later read must return.
fn concluded(check: SimSwapCheck, history: Result<SimHistory, ErrorCode>) -> (Concluded<AnyVerdict>, SimSwapCheck) {
    let ended = check.conclude_with_history(history, SimSwapPeriod::DEFAULT, sample::later(1)).unwrap();
    let check = ended.check().clone();
    (ended.map(Into::into), check)
}

fn changed(seconds_ago: i64) -> SimHistory {
    SimHistory::ChangedAt(sample::later(-seconds_ago))
}

pub async fn concluded_check_round_trips(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let bare = Check { network: None, reference: None, mode: Mode::Sandbox, ..check(project) };
    for (check, history) in [
        (bare, Ok(changed(60))),
        (check(project), Ok(changed(90 * 86_400))),
        (check(project), Ok(SimHistory::NoChangeFor(SignedDuration::from_hours(2)))),
        (check(project), Ok(SimHistory::ChangedWithin(SignedDuration::from_hours(2)))),
        (check(project), Err(ErrorCode::MnoTimeout)),
    ] {
        let (concluded, check) = concluded(check, history);
        store.create_concluded_check(concluded, None).await.unwrap();
        assert_eq!(check_sample::find(store, &check).await, check);
    }
    assert_eq!(
        store.overdue_checks(sample::later(86_400), 9, Completeness::All).await.unwrap(),
        [],
        "none has a deadline"
    );
}

/// One check of the batch has the id of an existing check.
pub async fn duplicate_concluded_check_fails_only_itself(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let (shop, _) = sample::stored_project(&*fixture.store, acme.id, "Shop").await;
    let (first, taken) = concluded(check(shop.id), Ok(changed(60)));
    fixture.store.create_concluded_check(first, None).await.unwrap();
    let news: Vec<_> = (0..60_usize)
        .map(|number| match number {
            43 => concluded(Check { id: taken.id, ..check(shop.id) }, Ok(changed(60))),
            number if number.is_multiple_of(3) => concluded(check(shop.id), Err(ErrorCode::MnoServerError)),
            _ => concluded(check(shop.id), Ok(changed(60))),
        })
        .collect();
    let attempts =
        news.iter().zip(stores.iter().cycle()).map(|((new, _), store)| store.create_concluded_check(new.clone(), None));
    for (number, (result, (_, check))) in join_all(attempts).await.iter().zip(&news).enumerate() {
        if number == 43 {
            assert!(matches!(result, Err(StoreError::Refused(_))), "{result:?}");
        } else {
            assert!(result.is_ok(), "{number}: {result:?}");
            assert_eq!(check_sample::find(&*fixture.store, check).await, *check);
        }
    }
    let usage = UsageFilter {
        from: sample::later(-86_400),
        to: sample::later(86_400),
        period: UsagePeriod::Day,
        project: None,
    };
    let counted = fixture.store.usage(acme.id, usage).await.unwrap();
    let counted: Vec<_> = counted.iter().map(|row| (row.product, row.status, row.matched, row.count)).collect();
    let of = |status, matched, count| (Product::SimSwap, status, matched, count);
    assert_eq!(counted, [of(CheckStatus::Completed, Some(false), 40), of(CheckStatus::Error, None, 20)]);
}

pub async fn response_is_stored_with_the_concluded_check(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    let request = sample::claim(project.0, 1, 1);
    store.claim_idempotency_key(&request).await.unwrap();
    let good = IdempotentResponse {
        tenant: request.tenant,
        key_digest: request.key_digest,
        claim_id: request.claim_id,
        sealed_response: b"sealed".to_vec(),
    };
    let lost = IdempotentResponse { claim_id: sample::uuid(), ..good.clone() };
    let news: Vec<_> = (0..3).map(|_| concluded(check(project), Ok(changed(60)))).collect();
    let attempts = news.iter().zip([Some(lost), None, Some(good)]);
    let results =
        join_all(attempts.map(|((new, _), completion)| store.create_concluded_check(new.clone(), completion))).await;
    assert!(matches!(&results[..], [Err(StoreError::Unavailable(_)), Ok(()), Ok(())]), "{results:?}");
    let first = &news[0].1;
    assert_eq!(store.find_check(project, Product::SimSwap, first.id).await.unwrap(), TenantLookup::NotFound);
    for (_, check) in &news[1..] {
        assert_eq!(check_sample::find(store, check).await, *check);
    }
    let again = store.claim_idempotency_key(&sample::claim(project.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Completed(b"sealed".to_vec()));
}
