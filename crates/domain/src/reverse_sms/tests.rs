//! Tests of the lifecycle of Reverse SMS checks.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::{
    id::uuid_v7,
    lifecycle::{CheckId, CheckStatus, Lifecycle, OpenState, StoredNumber},
    product::Product,
    tenancy::{Mode, ProjectId},
};

const CLAIMED: NumberHash = NumberHash([1; 32]);
const OTHER: NumberHash = NumberHash([2; 32]);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn check() -> ReverseSmsCheck {
    Check {
        id: CheckId(uuid_v7(at(0), [1; 10])),
        project: ProjectId(uuid_v7(at(0), [2; 10])),
        product: Product::ReverseSms,
        mode: Mode::Live,
        network: "23410".parse().ok(),
        claimed: Some(StoredNumber { hash: CLAIMED, tail: "23".parse().unwrap() }),
        reference: None,
        callback_url: None,
        verification: None,
        redirect_url: None,
        created_at: at(0),
        expires_at: at(300),
        state: Lifecycle::Open(OpenState::Accepted),
    }
}

fn end(from: HashedSender, seconds: i64) -> (CheckStatus, Option<SenderMatch>, Timestamp) {
    let check = check().evaluate_sms(from, at(seconds)).unwrap().into_check();
    (check.status(), check.verdict().copied(), check.updated_at().unwrap())
}

#[test]
fn sms_with_the_code_concludes_the_check() {
    use HashedSender::{Number, Unattributed};
    for (from, seconds, expected) in [
        (Number(CLAIMED), 10, (CheckStatus::Completed, Some(SenderMatch(true)), at(10))),
        (Number(OTHER), 10, (CheckStatus::Completed, Some(SenderMatch(false)), at(10))),
        (Unattributed, 10, (CheckStatus::Error, None, at(10))),
        (Number(CLAIMED), 299, (CheckStatus::Completed, Some(SenderMatch(true)), at(299))),
        (Number(CLAIMED), 300, (CheckStatus::Expired, None, at(300))),
        (Unattributed, 900, (CheckStatus::Expired, None, at(300))),
    ] {
        assert_eq!(end(from, seconds), expected, "{from:?} after {seconds} s");
    }
}

#[test]
fn check_is_concluded_once() {
    let ended = check().expire().unwrap().into_check();
    assert_eq!(ended.clone().expire(), Err(AlreadyConcluded));
    assert_eq!(ended.evaluate_sms(HashedSender::Number(CLAIMED), at(10)), Err(AlreadyConcluded));
}

#[test]
fn pending_check_expires_at_its_deadline() {
    let mut pending = check();
    pending.state = Lifecycle::Open(OpenState::Pending { since: at(7) });
    assert_eq!((pending.status(), pending.updated_at()), (CheckStatus::Pending, Some(at(7))));
    assert!(!pending.is_overdue(at(299)));
    assert!(pending.is_overdue(at(300)));
    let ended = pending.expire().unwrap().into_check();
    assert_eq!((ended.status(), ended.updated_at(), ended.error_code()), (CheckStatus::Expired, Some(at(300)), None));
    assert!(!ended.is_overdue(at(999)));
}

proptest! {
    #[test]
    fn conclusion_is_never_later_than_the_deadline(seconds in 0i64..1000, matches: bool, known: bool) {
        let from = match (known, matches) {
            (false, _) => HashedSender::Unattributed,
            (true, true) => HashedSender::Number(CLAIMED),
            (true, false) => HashedSender::Number(OTHER),
        };
        let (status, verdict, ended) = end(from, seconds);
        prop_assert!(ended <= at(0) + SignedDuration::from_secs(300));
        prop_assert_eq!(status == CheckStatus::Expired, seconds >= 300);
        prop_assert_eq!(verdict.is_some(), status == CheckStatus::Completed);
    }
}
