//! The life of a Reverse SMS check, as cases.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::{
    id::time_ordered,
    lifecycle::{CheckId, ClaimedNumber, Lifecycle, Open, Status},
    product::Product,
    tenancy::ProjectId,
};

const CLAIMED: NumberHash = NumberHash([1; 32]);
const OTHER: NumberHash = NumberHash([2; 32]);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn check(mode: Mode, tail: &str) -> ReverseSmsCheck {
    Check {
        id: CheckId(time_ordered(at(0), [1; 10])),
        project: ProjectId(time_ordered(at(0), [2; 10])),
        product: Product::ReverseSms,
        mode,
        network: "23410".parse().ok(),
        claimed: Some(ClaimedNumber { hash: CLAIMED, tail: tail.parse().unwrap() }),
        reference: None,
        callback_url: None,
        redirect_url: None,
        created_at: at(0),
        expires_at: at(300),
        state: Lifecycle::Open(Open::Accepted),
    }
}

fn end(check: ReverseSmsCheck, from: ReceivedFrom, seconds: i64) -> Option<(Status, Option<SenderMatch>, Timestamp)> {
    let check = check.receive(from, at(seconds)).unwrap()?.into_check();
    Some((check.status(), check.verdict().copied(), check.updated_at().unwrap()))
}

#[test]
fn an_sms_with_the_code_decides() {
    use ReceivedFrom::{Number, Unattributed};
    let live = |from, seconds| end(check(Mode::Live, "23"), from, seconds);
    assert_eq!(live(Number(CLAIMED), 10), Some((Status::Completed, Some(SenderMatch(true)), at(10))));
    assert_eq!(live(Number(OTHER), 10), Some((Status::Completed, Some(SenderMatch(false)), at(10))));
    assert_eq!(live(Unattributed, 10), Some((Status::Error, None, at(10))));
    assert_eq!(live(Number(CLAIMED), 299), Some((Status::Completed, Some(SenderMatch(true)), at(299))));
    assert_eq!(live(Number(CLAIMED), 300), Some((Status::Expired, None, at(300))), "time ends a check");
    assert_eq!(live(Unattributed, 900), Some((Status::Expired, None, at(300))));
}

#[test]
fn simulated_numbers_follow_their_script() {
    let simulated = |tail, from| end(check(Mode::Sandbox, tail), ReceivedFrom::Number(from), 10);
    for (tail, from, expected) in [
        ("00", CLAIMED, Some((Status::Completed, Some(SenderMatch(true)), at(10)))),
        ("00", OTHER, Some((Status::Completed, Some(SenderMatch(false)), at(10)))),
        ("96", CLAIMED, Some((Status::Completed, Some(SenderMatch(true)), at(10)))),
        ("01", CLAIMED, Some((Status::Completed, Some(SenderMatch(false)), at(10)))),
        ("95", CLAIMED, Some((Status::Completed, Some(SenderMatch(false)), at(10)))),
        ("99", CLAIMED, Some((Status::Error, None, at(10)))),
        ("98", CLAIMED, None),
    ] {
        assert_eq!(simulated(tail, from), expected, "{tail}");
    }
}

#[test]
fn a_check_ends_once() {
    let ended = check(Mode::Live, "23").expire().unwrap().into_check();
    assert_eq!(ended.clone().expire(), Err(AlreadyConcluded));
    assert_eq!(ended.receive(ReceivedFrom::Number(CLAIMED), at(10)), Err(AlreadyConcluded));
}

#[test]
fn a_pending_check_says_since_when_and_runs_out_like_any_other() {
    let mut pending = check(Mode::Live, "23");
    pending.state = Lifecycle::Open(Open::Pending { since: at(7) });
    assert_eq!((pending.status(), pending.updated_at()), (Status::Pending, Some(at(7))));
    assert!(!pending.is_overdue(at(299)));
    assert!(pending.is_overdue(at(300)));
    let ended = pending.expire().unwrap().into_check();
    assert_eq!((ended.status(), ended.updated_at(), ended.error_code()), (Status::Expired, Some(at(300)), None));
    assert!(!ended.is_overdue(at(999)));
}

proptest! {
    /// Whatever comes, and whenever: the end lies within the check's time, and only a completed check has a verdict.
    #[test]
    fn an_end_is_never_later_than_the_deadline(seconds in 0i64..1000, matches: bool, known: bool) {
        let from = match (known, matches) {
            (false, _) => ReceivedFrom::Unattributed,
            (true, true) => ReceivedFrom::Number(CLAIMED),
            (true, false) => ReceivedFrom::Number(OTHER),
        };
        let (status, verdict, ended) = end(check(Mode::Live, "23"), from, seconds).unwrap();
        prop_assert!(ended <= at(0) + SignedDuration::from_secs(300));
        prop_assert_eq!(status == Status::Expired, seconds >= 300);
        prop_assert_eq!(verdict.is_some(), status == Status::Completed);
    }
}
