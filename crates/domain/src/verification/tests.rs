//! Cases and properties of the state machine of verifications.

use proptest::prelude::*;

use super::*;
use Method::{ReverseSms, SecureSna};

fn id(number: u128) -> CheckId {
    CheckId(uuid::Uuid::from_u128(number))
}

fn period() -> SimSwapPeriod {
    SimSwapPeriod::DEFAULT
}

fn end(matched: bool, method: Method, no_sim_change: Option<bool>) -> CheckOutcome<VerificationVerdict> {
    CheckOutcome::Completed(VerificationVerdict { matched, method, no_sim_change })
}

/// Ends the steps of a verification one after the other. Returns the products of the started steps, and the outcome if
/// the verification has ended.
fn walk(
    mut progress: Progress,
    ends: &[(StepEnd, bool)],
) -> (Vec<Product>, Option<CheckOutcome<VerificationVerdict>>, Progress) {
    let mut next = progress.next_move(false);
    let (mut started, mut ends) = (Vec::new(), ends.iter());
    loop {
        let product = match next {
            Move::Start(method) => method.product(),
            Move::AskSimSwap(_) => Product::SimSwap,
            Move::End(outcome) => return (started, Some(outcome), progress),
        };
        progress = progress.begin_step(product, id(started.len() as u128)).unwrap();
        started.push(product);
        let Some((step_end, is_past_ttl)) = ends.next() else { return (started, None, progress) };
        (progress, next) = progress.end_step(*step_end, *is_past_ttl).unwrap();
    }
}

#[test]
fn method_has_the_name_of_its_product() {
    for &method in Method::VARIANTS {
        assert_eq!(method.into_str(), method.product().into_str());
        assert_eq!(Method::of_product(method.product()), Some(method));
    }
}

#[test]
fn wanted_methods_come_first_and_ineligible_ones_are_left_out() {
    let (sna_first, sms_first) = (&[SecureSna, ReverseSms][..], &[ReverseSms, SecureSna][..]);
    for (wanted, configured, eligible, selected) in [
        (None, None, sna_first, sna_first),
        (None, Some(sms_first), sna_first, sms_first),
        (Some(sna_first), Some(sms_first), sms_first, sna_first),
        (Some(&[ReverseSms, ReverseSms][..]), None, sna_first, &[ReverseSms][..]),
        (None, None, &[ReverseSms], &[ReverseSms]),
        (Some(&[SecureSna]), Some(sms_first), &[ReverseSms], &[]),
        (None, None, &[], &[]),
    ] {
        let found = select_methods(wanted, configured, |method| eligible.contains(&method));
        assert_eq!(found, selected, "{wanted:?} {configured:?} {eligible:?}");
    }
}

#[test]
fn ends_of_steps_lead_on_or_end_the_verification() {
    use StepEnd::{Error, Expired, Verdict};
    const NOT_MOBILE: StepEnd = Error(ErrorCode::NotMobileIp);
    let both = || Progress::new(vec![SecureSna, ReverseSms], false, None);
    let falling_back = || Progress { fall_back_on_mismatch: true, ..both() };
    let with_sim_swap = || Progress { sim_swap_period: Some(period()), ..both() };
    let silent_only = || Progress::new(vec![SecureSna], true, None);
    let sms_first = || Progress::new(vec![ReverseSms, SecureSna], true, None);
    let exhausted = CheckOutcome::Error(ErrorCode::MethodsExhausted);
    for (progress, ends, steps, expected) in [
        (both(), &[][..], 1, None),
        (both(), &[(Verdict(true), false)], 1, Some(end(true, SecureSna, None))),
        (both(), &[(Verdict(false), false)], 1, Some(end(false, SecureSna, None))),
        (both(), &[(NOT_MOBILE, false)], 2, None),
        (both(), &[(Expired, false), (Verdict(true), false)], 2, Some(end(true, ReverseSms, None))),
        // The SMS may have come from the phone's other SIM, so the end-user is asked to send another one.
        (both(), &[(NOT_MOBILE, false), (Verdict(false), false)], 3, None),
        (
            both(),
            &[(NOT_MOBILE, false), (Verdict(false), false), (Verdict(true), false)],
            3,
            Some(end(true, ReverseSms, None)),
        ),
        (
            both(),
            &[(NOT_MOBILE, false), (Verdict(false), false), (Verdict(false), false)],
            3,
            Some(end(false, ReverseSms, None)),
        ),
        (both(), &[(NOT_MOBILE, false), (Verdict(false), false), (Expired, false)], 3, Some(exhausted)),
        (both(), &[(NOT_MOBILE, false), (Verdict(false), false), (Expired, true)], 3, Some(CheckOutcome::Expired)),
        (both(), &[(NOT_MOBILE, false), (Verdict(false), true)], 2, Some(end(false, ReverseSms, None))),
        // An SMS whose sender does not identify a subscriber is an error, not a mismatch, so no second SMS step
        // follows.
        (both(), &[(NOT_MOBILE, false), (Error(ErrorCode::InternalError), false)], 2, Some(exhausted)),
        (both(), &[(NOT_MOBILE, false), (Expired, false)], 2, Some(exhausted)),
        (both(), &[(NOT_MOBILE, true)], 1, Some(CheckOutcome::Expired)),
        (both(), &[(NOT_MOBILE, false), (Expired, true)], 2, Some(CheckOutcome::Expired)),
        (falling_back(), &[(Verdict(false), false)], 2, None),
        (falling_back(), &[(Verdict(false), true)], 1, Some(CheckOutcome::Expired)),
        (falling_back(), &[(Verdict(false), false), (Verdict(true), false)], 2, Some(end(true, ReverseSms, None))),
        (falling_back(), &[(Verdict(false), false), (Verdict(false), false)], 3, None),
        (falling_back(), &[(Verdict(false), false); 3], 3, Some(end(false, ReverseSms, None))),
        (falling_back(), &[(Verdict(false), false), (Expired, false)], 2, Some(exhausted)),
        (falling_back(), &[(Verdict(false), false), (Expired, true)], 2, Some(CheckOutcome::Expired)),
        (silent_only(), &[(Verdict(false), false)], 1, Some(exhausted)),
        (sms_first(), &[(Verdict(false), false); 2], 2, Some(end(false, ReverseSms, None))),
        (
            sms_first(),
            &[(Verdict(false), false), (Expired, false), (Verdict(true), false)],
            3,
            Some(end(true, SecureSna, None)),
        ),
        (sms_first(), &[(Expired, false), (Verdict(false), false)], 2, Some(exhausted)),
        (with_sim_swap(), &[(Verdict(true), false)], 2, None),
        (with_sim_swap(), &[(Verdict(false), false)], 1, Some(end(false, SecureSna, None))),
        (with_sim_swap(), &[(Verdict(true), false), (Verdict(true), false)], 2, Some(end(true, SecureSna, Some(true)))),
        (with_sim_swap(), &[(Verdict(true), true), (Verdict(false), true)], 2, Some(end(true, SecureSna, Some(false)))),
        (
            with_sim_swap(),
            &[(NOT_MOBILE, false), (Verdict(true), false), (Error(ErrorCode::MnoTimeout), false)],
            3,
            Some(end(true, ReverseSms, None)),
        ),
    ] {
        let (started, outcome, _) = walk(progress.clone(), ends);
        assert_eq!((started.len(), outcome), (steps, expected), "{progress:?} {ends:?}");
    }
}

#[test]
fn abandoned_step_is_given_up() {
    let progress = Progress::new(vec![SecureSna, ReverseSms], false, None);
    assert_eq!(progress.clone().abandon_step(), Err(AlreadyConcluded));
    let abandoned = progress.begin_step(Product::SecureSna, id(1)).unwrap().abandon_step().unwrap();
    assert_eq!(abandoned.steps.last().unwrap().state, StepState::Error(ErrorCode::GivenUp));
    assert_eq!(abandoned.abandon_step(), Err(AlreadyConcluded));
}

#[test]
fn check_that_cannot_be_created_leads_on() {
    let progress = Progress::new(vec![SecureSna, ReverseSms], false, None);
    let (progress, next) = progress.record_creation_failure(SecureSna, ErrorCode::TooManyRequests, false);
    assert_eq!(next, Move::Start(ReverseSms));
    let (progress, next) = progress.record_creation_failure(ReverseSms, ErrorCode::TooManyRequests, false);
    assert_eq!(next, Move::End(CheckOutcome::Error(ErrorCode::MethodsExhausted)));
    assert!(progress.steps.iter().all(|step| step.state.error_code() == Some(ErrorCode::TooManyRequests)));
}

fn step_ends() -> impl Strategy<Value = StepEnd> {
    prop_oneof![
        any::<bool>().prop_map(StepEnd::Verdict),
        Just(StepEnd::Expired),
        prop::sample::select(ErrorCode::VARIANTS).prop_map(StepEnd::Error),
    ]
}

proptest! {
    #[test]
    fn verification_ends_once_and_has_one_open_step(
        methods in prop::sample::select(vec![
            vec![SecureSna], vec![ReverseSms], vec![SecureSna, ReverseSms], vec![ReverseSms, SecureSna],
        ]),
        fall_back_on_mismatch: bool,
        asks_sim_swap: bool,
        ends in prop::collection::vec((step_ends(), any::<bool>()), 5),
    ) {
        let progress = Progress::new(methods.clone(), fall_back_on_mismatch, asks_sim_swap.then(period));
        let (started, outcome, progress) = walk(progress, &ends);
        // A verification always ends, after at most one step of each method, a second SMS and the SIM Swap step.
        prop_assert!(outcome.is_some() && started.len() <= methods.len() + 2);
        let texts = progress.steps.iter().filter(|step| step.product == Product::ReverseSms);
        let texts: Vec<_> = texts.map(|step| step.state).collect();
        prop_assert!(texts.len() <= 2);
        // A second SMS step follows only a mismatch.
        let mismatch = StepState::Completed { matched: false };
        prop_assert!(texts.len() < 2 || texts[0] == mismatch);
        prop_assert_eq!(progress.open_step(), None);
        prop_assert_eq!(progress.clone().end_step(StepEnd::Expired, false), Err(AlreadyConcluded));
        for (index, (end, is_past_ttl)) in ends.iter().take(started.len()).enumerate() {
            let is_last = index + 1 == started.len();
            let is_verdict = matches!(end, StepEnd::Verdict(_));
            // After the TTL, only the SIM Swap step can follow.
            prop_assert!(is_last || !is_past_ttl || started[index + 1] == Product::SimSwap);
            // A step without a verdict leads to the next method, if one is left.
            let is_untried = |method: &Method| !started[..=index].contains(&method.product());
            let has_next = started[index] != Product::SimSwap && methods.iter().any(is_untried);
            prop_assert!(is_verdict || *is_past_ttl || !has_next || !is_last);
        }
        let has_verdict = progress.steps.iter().any(|step| matches!(step.state, StepState::Completed { .. }));
        let is_completed = matches!(outcome, Some(CheckOutcome::Completed(_)));
        prop_assert!(!is_completed || has_verdict);
    }

    #[test]
    fn no_second_step_begins_while_one_is_open(product in prop::sample::select(Product::VARIANTS)) {
        let progress = Progress::new(vec![SecureSna, ReverseSms], false, None);
        let progress = progress.begin_step(Product::SecureSna, id(1)).unwrap();
        prop_assert_eq!(progress.begin_step(product, id(2)), Err(AlreadyConcluded));
    }
}
