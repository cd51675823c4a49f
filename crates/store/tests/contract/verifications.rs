use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Action,
    id::uuid_v7,
    lifecycle::{
        AnyCheck, AnyVerdict, Check, CheckConclusion, CheckId, CheckOutcome, CheckStatus, ErrorCode, Lifecycle,
        OpenState, Sealed,
    },
    product::Product,
    reverse_sms::{NumberLimit, Platform, SenderMatch},
    search::parse,
    silent::{OperatorVerdict, SilentCheck},
    sim_swap::{SimHistory, SimSwapPeriod, SimSwapVerdict},
    tenancy::{ProjectId, WorkspaceId},
    verification::{Method, Move, Progress, SEARCH_FIELDS, StepEnd, VerificationCheck, VerificationVerdict},
};
use ringtrue_engine::ports::{
    activity::{UsageFilter, UsagePeriod},
    callbacks::CallbackState,
    checks::{CreateCheckOutcome, Expectation, NewCheck, NewVerification},
    combined::Store,
    hashes::{CodeHash, TokenHash},
    idempotency::{ClaimOutcome, IdempotentResponse},
    silent::SealedVerdict,
    store::{Completeness, TenantLookup},
    verifications::{
        Advance, AdvanceOptions, AdvanceOutcome, AdvanceTo, EndedStep, ListedProgress, NewRedirectSession,
        NumberLimitQuery, OpenedSession, PageOpening, PageVersion, VerificationRecord,
    },
};

use strum::VariantArray as _;

use crate::{
    check_sample::{self, callback, find},
    fixture::StoreFixture,
    sample, silent_sample,
};

const FIRST_MOVE: AdvanceOutcome = AdvanceOutcome::Advanced { step_was_pending: false, was_pending: false };
const LATER_MOVE: AdvanceOutcome = AdvanceOutcome::Advanced { step_was_pending: false, was_pending: true };

/// A verification and its first step, as they are created.
#[derive(Clone)]
pub struct Sample {
    pub check: VerificationCheck,
    pub step: SilentCheck,
    pub new: NewCheck,
}

/// Returns a verification by Secure SNA, with Reverse SMS as the second method.
pub fn sample(project: ProjectId, created_at: Timestamp) -> Sample {
    let verdict = VerificationVerdict { matched: true, method: Method::SecureSna, no_sim_change: None };
    let check = check_sample::check(project, created_at).map(|_| verdict);
    let check = Check {
        product: Product::Verification,
        redirect_url: Some(Sealed(b"sealed redirect url".to_vec())),
        expires_at: created_at + SignedDuration::from_secs(600),
        ..check
    };
    let step = silent_sample::check(project, Product::SecureSna, created_at);
    let step = Check {
        id: step.id.with_bucket(check.id.bucket()),
        claimed: check.claimed,
        callback_url: None,
        verification: Some(check.id),
        ..step
    };
    let progress = Progress::new(vec![Method::SecureSna, Method::ReverseSms], true, Some(SimSwapPeriod::DEFAULT));
    let progress = progress.begin_step(Product::SecureSna, step.id).unwrap();
    let verification = NewVerification {
        check: check.clone().map(Into::into),
        progress,
        input: Sealed(b"sealed input".to_vec()),
        locale: Some("pt-BR".parse().unwrap()),
    };
    let new = NewCheck {
        verification: Some(Box::new(verification)),
        expectation: Expectation::DeviceOfStep,
        ..silent_sample::new(step.clone())
    };
    Sample { check, step, new }
}

pub async fn stored(store: &dyn Store, project: ProjectId) -> Sample {
    let sample = sample(project, sample::now());
    assert_eq!(store.create_check(sample.new.clone()).await.unwrap(), CreateCheckOutcome::Created);
    sample
}

async fn record(store: &dyn Store, sample: &Sample) -> VerificationRecord {
    store.find_verification(sample.check.id).await.unwrap().expect("a verification")
}

fn at(seconds: i64) -> Timestamp {
    sample::later(seconds)
}

/// Returns the redirect session of the first step.
fn session(sample: &Sample, at: Timestamp) -> NewRedirectSession {
    let input = Sealed(b"sealed input of the step".to_vec());
    NewRedirectSession { verification: sample.check.id, step: sample.step.id, input, at }
}

/// Returns the Reverse SMS check that follows the first step.
fn next_check(sample: &Sample, created_at: Timestamp) -> NewCheck {
    let check = check_sample::check(sample.check.project, created_at);
    let check = Check {
        id: CheckId(uuid_v7(created_at, sample::random())).with_bucket(sample.check.id.bucket()),
        claimed: sample.check.claimed,
        callback_url: None,
        verification: Some(sample.check.id),
        ..check
    };
    check_sample::new(check)
}

/// Returns the change by which the first step fails and Reverse SMS follows.
fn to_next_step(sample: &Sample, at: Timestamp) -> (Advance, NewCheck) {
    let new = next_check(sample, at);
    let progress = sample.new.verification.as_ref().unwrap().progress.clone();
    let (progress, next) = progress.end_step(StepEnd::Error(ErrorCode::NotMobileIp), false).unwrap();
    assert_eq!(next, Move::Start(Method::ReverseSms));
    let failed = sample.step.clone().conclude_with_error(ErrorCode::NotMobileIp, at).unwrap();
    let advance = Advance {
        verification: sample.check.id,
        from: sample.step.id,
        deadline: sample.step.expires_at,
        ended: EndedStep::Concluded(CheckConclusion::from(&failed)),
        progress: progress.begin_step(Product::ReverseSms, new.check.id).unwrap(),
        to: AdvanceTo::Step(Box::new(new.clone())),
        at,
        options: AdvanceOptions::default(),
    };
    (advance, new)
}

/// Returns the change by which the Reverse SMS step gets a verdict. It ends the verification with a callback.
fn to_end(sample: &Sample, step: &AnyCheck, progress: &Progress, matched: bool, at: Timestamp) -> Advance {
    let step: Check<SenderMatch> = step.clone().try_map(SenderMatch::try_from).unwrap();
    let (progress, _) = progress.clone().end_step(StepEnd::Verdict(matched), false).unwrap();
    let verdict = VerificationVerdict { matched, method: Method::ReverseSms, no_sim_change: None };
    let end = sample.check.clone().conclude_with_outcome(CheckOutcome::Completed(verdict), at).unwrap();
    Advance {
        verification: sample.check.id,
        from: step.id,
        deadline: step.expires_at,
        ended: EndedStep::Concluded(CheckConclusion::from(&check_sample::received(&step, matched))),
        progress,
        to: AdvanceTo::End { conclusion: CheckConclusion::from(&end), callback: Some(callback(at)) },
        at,
        options: AdvanceOptions::default(),
    }
}

/// Stores a verification whose first step has failed, so that Reverse SMS is its current step.
async fn fallen_back(store: &dyn Store, project: ProjectId) -> (Sample, AnyCheck, Progress) {
    let sample = stored(store, project).await;
    let (advance, new) = to_next_step(&sample, at(5));
    let progress = advance.progress.clone();
    assert_eq!(store.advance(advance).await.unwrap(), FIRST_MOVE);
    (sample, new.check, progress)
}

/// Stores a verification that has ended, with a callback.
pub async fn completed(store: &dyn Store, project: ProjectId) -> Sample {
    let (sample, step, progress) = fallen_back(store, project).await;
    assert_eq!(store.advance(to_end(&sample, &step, &progress, true, at(9))).await.unwrap(), LATER_MOVE);
    sample
}

/// Returns the number of checks by product, status and verdict.
async fn usage(store: &dyn Store, workspace: WorkspaceId) -> Vec<(Product, CheckStatus, Option<bool>, i64)> {
    let all = UsageFilter {
        from: "2026-01-01T00:00:00Z".parse().unwrap(),
        to: "2027-01-01T00:00:00Z".parse().unwrap(),
        period: UsagePeriod::Month,
        project: None,
    };
    let rows = store.usage(workspace, all).await.unwrap().into_iter();
    rows.map(|row| (row.product, row.status, row.matched, row.count)).collect()
}

async fn project(store: &dyn Store) -> (WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    (acme.id, sample::stored_project(store, acme.id, "Shop").await.0.id)
}

pub async fn verification_is_created_with_its_first_step(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let sample = stored(store, shop).await;
    assert_eq!(find(store, &sample.check).await, sample.check);
    assert_eq!(find(store, &sample.step).await, sample.step);
    let verification = *sample.new.verification.clone().unwrap();
    assert_eq!(
        record(store, &sample).await,
        VerificationRecord {
            check: verification.check,
            step: sample.step.id,
            progress: verification.progress.clone(),
            input: Some(verification.input),
            code_redeemed_at: None,
            code_hash: None,
            locale: verification.locale,
            opening: None,
        }
    );
    let unknown = CheckId(sample::uuid());
    assert_eq!(store.find_verification(unknown).await.unwrap(), None);
    let progress = store.verification_progress(vec![unknown, sample.check.id]).await.unwrap();
    let step_status = Some(CheckStatus::Accepted);
    assert_eq!(
        progress,
        [ListedProgress { verification: sample.check.id, progress: verification.progress, step_status }]
    );
    assert_eq!(store.redirect_session(sample.step.id).await.unwrap().unwrap().session, None);
    assert_eq!(
        usage(store, acme).await,
        [(Product::SecureSna, CheckStatus::Accepted, None, 1), (Product::Verification, CheckStatus::Accepted, None, 1)]
    );
    // The step has no deadline of its own: it is overdue when its verification is.
    let ids = |overdue: Vec<AnyCheck>| overdue.into_iter().map(|check| check.id).collect::<Vec<_>>();
    let early = sample.step.expires_at - SignedDuration::from_millis(1);
    assert_eq!(store.overdue_checks(early, 10, Completeness::All).await.unwrap(), []);
    assert_eq!(
        ids(store.overdue_checks(sample.step.expires_at, 10, Completeness::All).await.unwrap()),
        [sample.check.id]
    );
    for product in [Product::Verification, Product::SecureSna, Product::ReverseSms] {
        let overdue = store.overdue_checks_of_project(shop, product, sample.step.expires_at, 10).await.unwrap();
        assert_eq!(ids(overdue), [sample.check.id], "{product}");
    }
    assert_eq!(store.overdue_checks_of_project(shop, Product::Discovery, at(600), 10).await.unwrap(), []);
}

pub async fn first_opening_is_kept(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (_, shop) = project(store).await;
    let sample = stored(store, shop).await;
    let first = PageOpening { at: at(3), platform: Platform::Ios };
    assert!(store.record_opening(sample.check.id, first).await.unwrap());
    for platform in Platform::VARIANTS {
        let later = PageOpening { at: at(4), platform: *platform };
        assert!(!store.record_opening(sample.check.id, later).await.unwrap());
    }
    assert_eq!(record(store, &sample).await.opening, Some(first));
    assert!(!store.record_opening(CheckId(sample::uuid()), first).await.unwrap(), "no verification");
    store.advance(to_next_step(&sample, at(5)).0).await.unwrap();
    assert_eq!(record(store, &sample).await.opening, Some(first));
}

pub async fn step_leads_to_the_next_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let sample = stored(store, shop).await;
    let (advance, new) = to_next_step(&sample, at(5));
    assert_eq!(store.advance(advance.clone()).await.unwrap(), FIRST_MOVE);

    let failed = find(store, &sample.step).await;
    assert_eq!((failed.error_code(), failed.updated_at()), (Some(ErrorCode::NotMobileIp), Some(at(5))));
    assert_eq!(store.redirect_session(sample.step.id).await.unwrap().unwrap().session, None);
    let pending = Check { state: Lifecycle::Open(OpenState::Pending { since: at(5) }), ..sample.check.clone() };
    assert_eq!(find(store, &sample.check).await, pending);
    let stored = record(store, &sample).await;
    assert_eq!((stored.step, &stored.progress), (new.check.id, &advance.progress));
    assert!(stored.input.is_some());
    let found = store.find_check_by_code(vec![check_sample::code(&new)]).await.unwrap();
    assert_eq!(found, Some(new.check.clone()));
    let expected = [
        (Product::ReverseSms, CheckStatus::Accepted, None, 1),
        (Product::SecureSna, CheckStatus::Error, None, 1),
        (Product::Verification, CheckStatus::Pending, None, 1),
    ];
    assert_eq!(usage(store, acme).await, expected);

    // The same step cannot be left a second time.
    let (late, other) = to_next_step(&sample, at(6));
    assert_eq!(store.advance(late).await.unwrap(), AdvanceOutcome::Lost);
    let found = store.find_check(shop, Product::ReverseSms, other.check.id).await.unwrap();
    assert_eq!(found, TenantLookup::NotFound);
    assert_eq!(record(store, &sample).await, stored);
    assert_eq!(usage(store, acme).await, expected);
}

pub async fn end_is_stored_with_its_callback(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let (sample, step, progress) = fallen_back(store, shop).await;
    let end = to_end(&sample, &step, &progress, false, at(9));
    assert_eq!(store.advance(end.clone()).await.unwrap(), LATER_MOVE);

    let verdict = VerificationVerdict { matched: false, method: Method::ReverseSms, no_sim_change: None };
    let outcome = CheckOutcome::Completed(verdict);
    let concluded = Check { state: Lifecycle::Concluded { outcome, at: at(9) }, ..sample.check.clone() };
    assert_eq!(find(store, &sample.check).await, concluded);
    let stored = record(store, &sample).await;
    assert_eq!((stored.step, stored.input, stored.progress), (sample.check.id, None, end.progress.clone()));
    let TenantLookup::Found(sent) = store.find_callback(shop, sample.check.id).await.unwrap() else {
        panic!("no callback")
    };
    assert_eq!((sent.product, sent.state), (Product::Verification, CallbackState::Waiting { due_at: at(9) }));
    let of_step = store.find_callback(shop, step.id).await.unwrap();
    assert!(!matches!(of_step, TenantLookup::Found(_)), "a step has no callback: {of_step:?}");
    assert_eq!(store.overdue_checks(at(9_999), 10, Completeness::All).await.unwrap(), [], "no deadline is left");
    assert_eq!(
        usage(store, acme).await,
        [
            (Product::ReverseSms, CheckStatus::Completed, Some(false), 1),
            (Product::SecureSna, CheckStatus::Error, None, 1),
            (Product::Verification, CheckStatus::Completed, Some(false), 1),
        ]
    );
    assert_eq!(store.advance(end).await.unwrap(), AdvanceOutcome::Lost);

    let search = async |text: &str| {
        let filter = parse(text, &SEARCH_FIELDS).unwrap();
        let list = check_sample::list(store, shop, Product::Verification, Some(filter), sample::first_100()).await;
        list.unwrap().total_items
    };
    for (text, found) in [
        ("method==reverse_sms", 1),
        ("method==secure_sna", 0),
        ("verified==false;status==COMPLETED", 1),
        ("verified==true", 0),
    ] {
        assert_eq!(search(text).await, found, "{text}");
    }
}

pub async fn completion_code_is_redeemed_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let sample = completed(store, ProjectId(sample::uuid())).await;
    let code = TokenHash([7; 32]);
    let redeemed = join_all((0..5).map(|second| store.redeem_completion_code(sample.check.id, code, at(second)))).await;
    assert_eq!(redeemed.into_iter().filter(|redeemed| *redeemed.as_ref().unwrap()).count(), 1);
    let record = record(store, &sample).await;
    assert!(record.code_redeemed_at.is_some());
    assert_eq!(record.code_hash, Some(code));
    assert!(!store.redeem_completion_code(CheckId(sample::uuid()), code, at(1)).await.unwrap());
}

pub async fn page_mark_changes_with_what_the_page_shows(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let (sample, other) = (stored(store, shop).await, stored(store, shop).await);
    let (id, step) = (sample.check.id, sample.step.id);
    let versions = async || {
        let mut versions = store.page_versions(vec![CheckId(sample::uuid()), id, other.check.id]).await.unwrap();
        versions.retain(|(found, _)| *found != other.check.id);
        versions
    };
    let (accepted, pending) = (CheckStatus::Accepted, CheckStatus::Pending);
    let version = PageVersion { step, status: accepted, step_status: Some(accepted), has_verdict: false };
    assert_eq!(versions().await, [(id, version)]);
    assert_eq!(store.page_versions(vec![]).await.unwrap(), []);

    let session = session(&sample, at(2));
    let OpenedSession { pending: marked } = store.open_redirect_session(session.clone()).await.unwrap().unwrap();
    let marked = marked.expect("it was accepted");
    assert_eq!((marked.project, marked.product), (shop, Product::Verification));
    assert_eq!(
        store.redirect_session(step).await.unwrap().unwrap().session.map(|session| session.input),
        Some(session.input.clone())
    );
    // A second device gets the session that the first one has opened.
    let again = NewRedirectSession { input: Sealed(b"other".to_vec()), at: at(3), ..session.clone() };
    assert_eq!(store.open_redirect_session(again).await.unwrap(), Some(OpenedSession { pending: None }));
    assert_eq!(
        store.redirect_session(step).await.unwrap().unwrap().session.map(|session| session.input),
        Some(session.input.clone())
    );
    assert_eq!(versions().await, [(id, PageVersion { status: pending, ..version })]);
    assert!(usage(store, acme).await.contains(&(Product::Verification, pending, None, 1)));

    let verdict = SealedVerdict { code_hash: TokenHash([7; 32]), verdict: Sealed(b"sealed verdict".to_vec()) };
    assert!(store.store_verdict(step, verdict).await.unwrap());
    assert_eq!(versions().await, [(id, PageVersion { status: pending, has_verdict: true, ..version })]);

    let (advance, new) = to_next_step(&sample, at(5));
    assert_eq!(store.advance(advance.clone()).await.unwrap(), LATER_MOVE);
    let next = PageVersion { step: new.check.id, status: pending, ..version };
    assert_eq!(versions().await, [(id, next)]);
    store.advance(to_end(&sample, &new.check, &advance.progress, true, at(9))).await.unwrap();
    let end =
        PageVersion { step: id, status: CheckStatus::Completed, step_status: Some(CheckStatus::Completed), ..version };
    assert_eq!(versions().await, [(id, end)]);
    assert_eq!(store.open_redirect_session(session).await.unwrap(), None, "the step is concluded");
    assert_eq!(store.redirect_session(step).await.unwrap().unwrap().session, None);
}

pub async fn next_step_counts_towards_the_number_limit(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sample = stored(store, shop).await;
    let (advance, new) = to_next_step(&sample, at(5));
    let with_limit = |max_checks| {
        let number_limit = Some(NumberLimit { max_checks, window_seconds: 600 });
        Advance { to: AdvanceTo::Step(Box::new(NewCheck { number_limit, ..new.clone() })), ..advance.clone() }
    };
    let before = record(store, &sample).await;
    assert_eq!(store.advance(with_limit(0)).await.unwrap(), AdvanceOutcome::TooManyChecks);
    let earlier = check_sample::check(shop, at(1));
    let earlier = check_sample::new(Check { claimed: sample.check.claimed, ..earlier });
    assert_eq!(store.create_check(earlier).await.unwrap(), CreateCheckOutcome::Created);
    assert_eq!(store.advance(with_limit(1)).await.unwrap(), AdvanceOutcome::TooManyChecks);
    // The rejected change has written nothing.
    assert_eq!(record(store, &sample).await, before);
    assert_eq!(find(store, &sample.step).await, sample.step);
    assert_eq!(store.advance(with_limit(2)).await.unwrap(), FIRST_MOVE);
    // The new step counts towards the limit, like any check.
    let later = check_sample::check(shop, at(6));
    let later = check_sample::new(Check { claimed: sample.check.claimed, ..later });
    let number_limit = Some(NumberLimit { max_checks: 2, window_seconds: 600 });
    let refused = store.create_check(NewCheck { number_limit, ..later }).await.unwrap();
    assert!(matches!(refused, CreateCheckOutcome::TooManyChecks { .. }), "{refused:?}");
}

pub async fn second_text_counts_but_is_not_refused(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sample = stored(store, shop).await;
    let (advance, new) = to_next_step(&sample, at(5));
    let number_limit = Some(NumberLimit { max_checks: 1, window_seconds: 600 });
    let to = AdvanceTo::Step(Box::new(NewCheck { number_limit, ..new.clone() }));
    let input = Some(Sealed(b"input with another code".to_vec()));
    let options = AdvanceOptions { ignores_number_limit: true, input: input.clone(), ..AdvanceOptions::default() };
    let first = Advance { to, options: options.clone(), ..advance };
    assert_eq!(store.advance(first.clone()).await.unwrap(), FIRST_MOVE);
    assert_eq!(record(store, &sample).await.input, input);

    let second = next_check(&sample, at(8));
    let received = check_sample::received(&new.check.try_map(SenderMatch::try_from).unwrap(), false);
    let (progress, next) = first.progress.end_step(StepEnd::Verdict(false), false).unwrap();
    assert_eq!(next, Move::Start(Method::ReverseSms));
    let again = Advance {
        verification: sample.check.id,
        from: received.check().id,
        deadline: received.check().expires_at,
        ended: EndedStep::Concluded(CheckConclusion::from(&received)),
        progress: progress.begin_step(Product::ReverseSms, second.check.id).unwrap(),
        to: AdvanceTo::Step(Box::new(NewCheck { number_limit, ..second.clone() })),
        at: at(8),
        options: AdvanceOptions::default(),
    };
    assert_eq!(store.advance(again.clone()).await.unwrap(), AdvanceOutcome::TooManyChecks);
    assert_eq!(store.advance(Advance { options, ..again }).await.unwrap(), LATER_MOVE);
    // The step ignores the limit, but counts towards it: the next check is admitted ten minutes after the step.
    let later = check_sample::check(shop, at(606));
    let later = check_sample::new(Check { claimed: sample.check.claimed, ..later });
    let refused = store.create_check(NewCheck { number_limit, ..later }).await.unwrap();
    assert_eq!(refused, CreateCheckOutcome::TooManyChecks { retry_at: at(608) });
}

/// Returns the change by which the first step is given up and Reverse SMS follows.
fn to_give_up(sample: &Sample, at: Timestamp) -> Advance {
    let (advance, _) = to_next_step(sample, at);
    let given_up = sample.step.clone().give_up(at).unwrap();
    let ended = EndedStep::Concluded(CheckConclusion::from(&given_up));
    let options = AdvanceOptions { unless_verdict: true, ..AdvanceOptions::default() };
    Advance { ended, options, ..advance }
}

fn sealed_verdict() -> SealedVerdict {
    SealedVerdict { code_hash: TokenHash([7; 32]), verdict: Sealed(b"sealed verdict".to_vec()) }
}

pub async fn verdict_wins_over_giving_up(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    // A step can be given up without a session, and with a session that has no verdict.
    let sample = stored(store, shop).await;
    assert_eq!(store.advance(to_give_up(&sample, at(5))).await.unwrap(), FIRST_MOVE);
    let sample = stored(store, shop).await;
    store.open_redirect_session(session(&sample, at(2))).await.unwrap().unwrap();
    assert_eq!(store.advance(to_give_up(&sample, at(5))).await.unwrap(), LATER_MOVE);

    let sample = stored(store, shop).await;
    store.open_redirect_session(session(&sample, at(2))).await.unwrap().unwrap();
    assert!(store.store_verdict(sample.step.id, sealed_verdict()).await.unwrap());
    let before = record(store, &sample).await;
    assert_eq!(store.advance(to_give_up(&sample, at(5))).await.unwrap(), AdvanceOutcome::Lost);
    assert_eq!(record(store, &sample).await, before);
    assert_eq!(find(store, &sample.step).await.status(), CheckStatus::Accepted);
    let kept = store.redirect_session(sample.step.id).await.unwrap().unwrap().session.unwrap();
    assert_eq!(kept.verdict, Some(sealed_verdict()));

    // The verification keeps the hash of the redeemed code.
    let matched = sample.step.clone().conclude_with_verdict(OperatorVerdict::Match(false), at(6)).unwrap();
    let (advance, new) = to_next_step(&sample, at(6));
    let progress = sample.new.verification.as_ref().unwrap().progress.clone();
    let (progress, _) = progress.end_step(StepEnd::Verdict(false), false).unwrap();
    let redeemed = Advance {
        ended: EndedStep::Concluded(CheckConclusion::from(&matched)),
        progress: progress.begin_step(Product::ReverseSms, new.check.id).unwrap(),
        ..advance
    };
    assert_eq!(store.advance(redeemed).await.unwrap(), LATER_MOVE);
    assert_eq!(record(store, &sample).await.code_hash, Some(sealed_verdict().code_hash));
}

pub async fn verdict_and_giving_up_exclude_each_other(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    for round in 0..50 {
        let sample = stored(store, shop).await;
        store.open_redirect_session(session(&sample, at(2))).await.unwrap().unwrap();
        let verdict = store.store_verdict(sample.step.id, sealed_verdict());
        let give_up = store.advance(to_give_up(&sample, at(5)));
        let (stored, given_up) = if round % 2 == 0 {
            tokio::join!(verdict, give_up)
        } else {
            let (given_up, stored) = tokio::join!(give_up, verdict);
            (stored, given_up)
        };
        let (stored, given_up) = (stored.unwrap(), given_up.unwrap());
        // If the verdict was stored first, the step is not given up, so that the device can redeem its code.
        assert_eq!(stored, given_up == AdvanceOutcome::Lost, "{round}: {given_up:?}");
        let session = store.redirect_session(sample.step.id).await.unwrap().unwrap().session;
        assert_eq!(session.is_some(), stored, "{round}");
    }
}

pub async fn response_is_stored_with_the_move(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sample = stored(store, shop).await;
    let claim = sample::claim(shop.0, 1, 1);
    store.claim_idempotency_key(&claim).await.unwrap();
    let response = IdempotentResponse {
        tenant: claim.tenant,
        key_digest: claim.key_digest,
        claim_id: claim.claim_id,
        sealed_response: b"sealed".to_vec(),
    };
    let advance = to_give_up(&sample, at(5));
    let with_response = |response: &IdempotentResponse| {
        let options = AdvanceOptions { idempotent_response: Some(response.clone()), ..advance.options.clone() };
        Advance { options, ..advance.clone() }
    };
    // A request that has lost its claim on the idempotency key changes nothing.
    let lost = IdempotentResponse { claim_id: sample::uuid(), ..response.clone() };
    assert!(store.advance(with_response(&lost)).await.is_err());
    assert_eq!(record(store, &sample).await.step, sample.step.id);
    assert_eq!(store.advance(with_response(&response)).await.unwrap(), FIRST_MOVE);
    let again = store.claim_idempotency_key(&sample::claim(shop.0, 1, 1)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Completed(b"sealed".to_vec()));

    // The response of a request that does not advance the verification is stored too.
    let claim = sample::claim(shop.0, 2, 2);
    store.claim_idempotency_key(&claim).await.unwrap();
    let response = IdempotentResponse {
        key_digest: claim.key_digest,
        claim_id: claim.claim_id,
        sealed_response: b"other".to_vec(),
        ..response
    };
    store.complete_idempotency_key(response.clone()).await.unwrap();
    let again = store.claim_idempotency_key(&sample::claim(shop.0, 2, 2)).await.unwrap();
    assert_eq!(again, ClaimOutcome::Completed(b"other".to_vec()));
    assert!(store.complete_idempotency_key(response).await.is_err());
}

pub async fn reached_number_limits_are_found(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sample = sample(shop, sample::now());
    let limit = NumberLimit { max_checks: 2, window_seconds: 600 };
    let number = sample.check.claimed.unwrap().hash;
    let reached = async |project, seconds| {
        let products = vec![Product::SecureSna, Product::ReverseSms];
        let query = NumberLimitQuery { project, number, products, limit, at: at(seconds) };
        store.reached_number_limits(query).await.unwrap()
    };
    assert_eq!(reached(shop, 1).await, []);
    for second in [0, 10] {
        let check = check_sample::check(shop, at(second));
        let new = check_sample::new(Check { claimed: sample.check.claimed, ..check });
        let new = NewCheck { number_limit: Some(limit), ..new };
        assert_eq!(store.create_check(new).await.unwrap(), CreateCheckOutcome::Created);
        let expected: &[_] = if second == 0 { &[] } else { &[(Product::ReverseSms, at(600))] };
        assert_eq!(reached(shop, 20).await, expected);
    }
    assert_eq!(reached(ProjectId(sample::uuid()), 20).await, [], "limits belong to a project");
    assert_eq!(reached(shop, 599).await, [(Product::ReverseSms, at(600))]);
    assert_eq!(reached(shop, 600).await, []);
}

pub async fn first_step_over_the_number_limit_creates_nothing(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sample = sample(shop, sample::now());
    let earlier = silent_sample::check(shop, Product::SecureSna, at(-1));
    let earlier = silent_sample::new(Check { claimed: sample.check.claimed, ..earlier });
    assert_eq!(store.create_check(earlier).await.unwrap(), CreateCheckOutcome::Created);
    let number_limit = Some(NumberLimit { max_checks: 1, window_seconds: 600 });
    let refused = store.create_check(NewCheck { number_limit, ..sample.new }).await.unwrap();
    assert!(matches!(refused, CreateCheckOutcome::TooManyChecks { .. }), "{refused:?}");
    assert_eq!(store.find_verification(sample.check.id).await.unwrap(), None);
}

pub async fn expiry_ends_step_and_verification(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let sample = stored(store, shop).await;
    let progress = sample.new.verification.as_ref().unwrap().progress.clone();
    let (progress, next) = progress.end_step(StepEnd::Expired, true).unwrap();
    assert_eq!(next, Move::End(CheckOutcome::Expired));
    let advance = Advance {
        verification: sample.check.id,
        from: sample.step.id,
        deadline: sample.step.expires_at,
        ended: EndedStep::Concluded(CheckConclusion::from(&sample.step.clone().expire().unwrap())),
        progress,
        to: AdvanceTo::End {
            conclusion: CheckConclusion::from(&sample.check.clone().expire().unwrap()),
            callback: Some(callback(at(600))),
        },
        at: at(601),
        options: AdvanceOptions::default(),
    };
    assert_eq!(store.advance(advance).await.unwrap(), FIRST_MOVE);
    assert_eq!(find(store, &sample.check).await, sample.check.clone().expire().unwrap().into_check());
    assert_eq!(find(store, &sample.step).await, sample.step.clone().expire().unwrap().into_check());
    assert_eq!(
        usage(store, acme).await,
        [(Product::SecureSna, CheckStatus::Expired, None, 1), (Product::Verification, CheckStatus::Expired, None, 1)]
    );
    assert_eq!(store.overdue_checks(at(9_999), 10, Completeness::All).await.unwrap(), []);
}

pub async fn sim_swap_step_moves_the_deadline_and_ends_with_its_check(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    for is_answered in [true, false] {
        let sample = stored(store, shop).await;
        let matched = sample.step.clone().conclude_with_verdict(OperatorVerdict::Match(true), at(3)).unwrap();
        let progress = sample.new.verification.as_ref().unwrap().progress.clone();
        let (progress, next) = progress.end_step(StepEnd::Verdict(true), false).unwrap();
        assert_eq!(next, Move::AskSimSwap(SimSwapPeriod::DEFAULT));
        let swap_id = CheckId(uuid_v7(at(3), sample::random())).with_bucket(sample.check.id.bucket());
        let progress = progress.begin_step(Product::SimSwap, swap_id).unwrap();
        let ask = Advance {
            verification: sample.check.id,
            from: sample.step.id,
            deadline: sample.step.expires_at,
            ended: EndedStep::Concluded(CheckConclusion::from(&matched)),
            progress: progress.clone(),
            to: AdvanceTo::SimSwap { check: swap_id, deadline: at(18) },
            at: at(3),
            options: AdvanceOptions::default(),
        };
        assert_eq!(store.advance(ask).await.unwrap(), FIRST_MOVE);
        let asking = find(store, &sample.check).await;
        assert_eq!((asking.status(), asking.expires_at), (CheckStatus::Pending, at(18)));
        assert_eq!(store.overdue_checks(at(17), 10, Completeness::All).await.unwrap(), []);
        assert_eq!(store.overdue_checks(at(18), 10, Completeness::All).await.unwrap().len(), 1);

        let swap: Check<SimSwapVerdict> = Check {
            id: swap_id,
            product: Product::SimSwap,
            verification: Some(sample.check.id),
            claimed: None,
            reference: None,
            callback_url: None,
            redirect_url: None,
            created_at: at(3),
            expires_at: at(3_600),
            state: Lifecycle::Open(OpenState::Accepted),
            ..sample.step.clone().map(|_| unreachable!("the check is open"))
        };
        let history = Ok(SimHistory::NoChangeFor(SimSwapPeriod::DEFAULT.duration()));
        let swap = swap.conclude_with_history(history, SimSwapPeriod::DEFAULT, at(4)).unwrap();
        let (step_end, ended) = if is_answered {
            (StepEnd::Verdict(true), EndedStep::Created(Box::new(swap.clone().map(AnyVerdict::from))))
        } else {
            (StepEnd::Error(ErrorCode::InternalError), EndedStep::Unchanged)
        };
        let (progress, next) = progress.end_step(step_end, false).unwrap();
        let Move::End(outcome) = next else { panic!("{next:?}") };
        let concluded = asking.conclude_with_outcome(outcome, at(4)).unwrap();
        let conclusion = CheckConclusion::from(&concluded);
        let to = AdvanceTo::End { conclusion, callback: None };
        let (verification, deadline) = (sample.check.id, at(18));
        let end = Advance {
            verification,
            from: swap_id,
            deadline,
            ended,
            progress,
            to,
            at: at(4),
            options: AdvanceOptions::default(),
        };
        assert_eq!(store.advance(end).await.unwrap(), LATER_MOVE);
        let ended = find(store, &sample.check).await;
        assert_eq!(ended, concluded.into_check());
        assert_eq!(ended.verdict().unwrap().no_sim_change, is_answered.then_some(true));
        match store.find_check(shop, Product::SimSwap, swap_id).await.unwrap() {
            TenantLookup::Found(check) => assert_eq!(check, swap.into_check().map(AnyVerdict::from)),
            other => assert!(!is_answered, "{other:?}"),
        }
        assert_eq!(store.overdue_checks(at(9_999), 10, Completeness::All).await.unwrap(), []);
    }
    assert_eq!(
        usage(store, acme).await,
        [
            (Product::SecureSna, CheckStatus::Completed, Some(true), 2),
            (Product::SimSwap, CheckStatus::Completed, Some(true), 1),
            (Product::Verification, CheckStatus::Completed, Some(true), 2),
        ]
    );
}

pub async fn concurrent_moves_succeed_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let other_node = fixture.database.open().await;
    let (acme, shop) = project(store).await;
    for round in 0..8 {
        let sample = stored(store, shop).await;
        let attempts: Vec<_> = (0..6).map(|second| to_next_step(&sample, at(second))).collect();
        let moves = attempts.iter().enumerate().map(|(index, (advance, _))| {
            let node = if index % 2 == 0 { store } else { &*other_node };
            node.advance(advance.clone())
        });
        let outcomes = join_all(moves).await;
        let won: Vec<_> = (0..6).filter(|index| *outcomes[*index].as_ref().unwrap() == FIRST_MOVE).collect();
        assert_eq!(won.len(), 1, "round {round}: {outcomes:?}");
        let stored = record(store, &sample).await;
        assert_eq!(stored.step, attempts[won[0]].1.check.id);
        for (index, (_, new)) in attempts.iter().enumerate() {
            let found = store.find_check(shop, Product::ReverseSms, new.check.id).await.unwrap();
            assert_eq!(matches!(found, TenantLookup::Found(_)), won == [index]);
        }

        // Several requests end the step concurrently, with different verdicts.
        let step = &attempts[won[0]].1.check;
        let ends = [true, false, true, false].map(|matched| to_end(&sample, step, &stored.progress, matched, at(9)));
        let outcomes = join_all(ends.into_iter().map(|end| store.advance(end))).await;
        let won = outcomes.iter().filter(|outcome| *outcome.as_ref().unwrap() == LATER_MOVE).count();
        assert_eq!(won, 1, "round {round}: {outcomes:?}");
    }
    let counted: i64 = usage(store, acme).await.into_iter().map(|(.., count)| count).sum();
    assert_eq!(counted, 8 * 3);
    assert_eq!(fixture.database.count("select count(*) from callbacks").await, 8);
    drop(other_node);
}

pub async fn verification_of_a_number_is_erased(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let sample = completed(store, shop).await;
    let number = sample.check.claimed.unwrap().hash;
    store.erase_number(number, &sample::event(acme, Action::NumberErased)).await.unwrap();
    let erased = record(store, &sample).await;
    assert_eq!((erased.check.claimed, erased.check.redirect_url, erased.input), (None, None, None));
    assert_eq!(find(store, &sample.step).await.claimed, None);
}

pub async fn old_verifications_are_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sample = completed(store, shop).await;
    let open = stored(store, shop).await;
    // Settles the callback, so that the checks can be deleted.
    fixture.database.execute("update callbacks set state = 'delivered', due_at = null").await;
    let later = sample::now() + SignedDuration::from_hours(24 * 62);
    while !store.delete_old_checks(later, std::time::Duration::from_secs(1)).await.unwrap().is_complete {}
    assert_eq!(store.find_verification(sample.check.id).await.unwrap(), None);
    assert_eq!(record(store, &open).await.step, open.step.id);
    assert_eq!(fixture.database.count("select count(*) from verifications").await, 1);
}

/// A verification and its steps are on the same shard, so Citus runs each statement that advances it on one server.
pub async fn moves_stay_on_one_shard(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (sample, step, _) = fallen_back(store, ProjectId(sample::uuid())).await;
    let buckets = format!(
        "select count(distinct bucket) from checks where verification_id = '{id}' or id = '{id}'",
        id = sample.check.id
    );
    assert_eq!(fixture.database.query_one(&buckets).await.get::<_, i64>(0), 1);
    // Each table has its own shards. Those for this verification must be on the same node.
    let nodes = format!(
        "select count(distinct (nodename, nodeport)), count(*)
           from (values ('checks'), ('verifications'), ('deadlines'), ('redirect_sessions'), ('callbacks'))
                    as tables (name)
           join pg_dist_shard_placement
             on shardid = get_shard_id_for_distribution_column(name::regclass, {}::smallint)",
        step.id.bucket().number()
    );
    let nodes = fixture.database.query_one(&nodes).await;
    assert_eq!((nodes.get::<_, i64>(0), nodes.get::<_, i64>(1)), (1, 5));
    let colocated = "select count(distinct colocation_id) from citus_tables
                      where table_name::text
                             in ('checks', 'verifications', 'deadlines', 'redirect_sessions', 'callbacks')";
    assert_eq!(fixture.database.query_one(colocated).await.get::<_, i64>(0), 1);
}

pub async fn misplaced_step_is_rejected(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let sample = stored(store, ProjectId(sample::uuid())).await;
    let (advance, mut new) = to_next_step(&sample, at(5));
    let [low, ..] = sample.check.id.bucket().number().to_le_bytes();
    let other = ringtrue_domain::lifecycle::ShardBucket::of([0, low ^ 1]);
    new.check.id = new.check.id.with_bucket(other);
    let Expectation::Sms { code: CodeHash(code), .. } = &mut new.expectation else { panic!() };
    code[30..].copy_from_slice(&other.number().to_be_bytes());
    let misplaced = Advance { to: AdvanceTo::Step(Box::new(new)), ..advance };
    assert!(store.advance(misplaced).await.is_err());
    assert_eq!(record(store, &sample).await.step, sample.step.id);
}
