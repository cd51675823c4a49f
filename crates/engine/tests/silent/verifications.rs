//! Tests of verifications, which fall back from one method to the next without another request.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, ErrorCode},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    sim_swap::SimHistory,
    tenancy::Mode,
    verification::{Method, StepState, UserEnd, VerificationVerdict},
};
use ringtrue_engine::{
    checks::{CreateError, reverse_sms::CreateReverseSms},
    ports::{
        sim_swap::{SimSwapConnector, SimSwapRequest},
        sms::{Inbox as _, SmsOutcome},
    },
    silent::{BrowserKey, DeviceRequest, DeviceReturn, NextStep, RedeemError, RedirectError, RedirectOutcome},
    verifications::{
        CreateVerification, GiveUpError, PageFailure, PageState, Redeemed, StepInstructions, Verification,
    },
};
use ringtrue_test_support::engine::engine_settings;

use crate::world::{
    NOT_MOBILE, ON_OURS, OTHER, OURS, SMS_ONLY, UNCONNECTED, UNKNOWN_ADDRESS, World, address, expect_state,
};

const SANDBOX_NUMBER: &str = "+990123456700";
/// An address for which the sandbox simulates an unknown network.
const SANDBOX_UNKNOWN: &str = "192.0.2.7";
const CALLBACK_URL: &str = "https://acme.example/verified";

/// A verification, with methods that act as its end-user and its API client.
struct Walk<'w> {
    world: &'w World,
    mode: Mode,
    id: CheckId,
    number: &'static str,
    page_token: String,
}

impl<'w> Walk<'w> {
    async fn begin(world: &'w World, mode: Mode, request: CreateVerification) -> (Walk<'w>, Verification) {
        let number = if mode == Mode::Live { OURS } else { SANDBOX_NUMBER };
        let request = CreateVerification { phone_number: number.to_owned(), ..request };
        let created = world.engine.verifications.create(world.project(mode), request, None).await.unwrap();
        let (_, token) = created.page_url.as_deref().unwrap().rsplit_once("/v/").unwrap();
        let walk = Walk { world, mode, id: created.check.id, number, page_token: token.to_owned() };
        (walk, created)
    }

    async fn read(&self) -> Verification {
        self.world.engine.verifications.read(self.world.project(self.mode).id, self.id).await.unwrap()
    }

    async fn open_url(&self, from: &str) -> NextStep {
        let verification = self.read().await;
        let Some(StepInstructions::SecureSna { url, .. }) = verification.next_step else { panic!("{verification:?}") };
        let (_, token) = url.split_once("?t=").unwrap();
        let (product, check) = verification.progress.open_step().unwrap();
        let request = DeviceRequest { product, check, token, sim: None, address: address(from) };
        self.world.engine.silent.open_device_url(request).await.unwrap()
    }

    async fn return_with(&self, state: &str) -> RedirectOutcome {
        self.return_in_browser(state, &[]).await.unwrap()
    }

    async fn return_in_browser(&self, state: &str, keys: &[BrowserKey]) -> Result<RedirectOutcome, RedirectError> {
        let connector = if self.mode == Mode::Live { "ours" } else { "simulated" };
        let (address, peer) = (address(ON_OURS), "127.0.0.1:4711".parse().unwrap());
        let returned = DeviceReturn { connector, state, peer, address, query: &[], headers: &[] };
        self.world.engine.silent.handle_authorization_response(returned, keys).await
    }

    /// Completes the redirects of the silent step, and returns the code that the API client can redeem.
    async fn obtain_code(&self) -> String {
        let state = expect_state(Ok(self.open_url(ON_OURS).await));
        self.return_with(&state).await.result.expect("a code").0
    }

    async fn redeem(&self, code: &str) -> Result<Verification, RedeemError> {
        self.redeem_or_replay(code).await.map(|redeemed| redeemed.verification)
    }

    async fn redeem_or_replay(&self, code: &str) -> Result<Redeemed, RedeemError> {
        self.world.engine.verifications.redeem(self.world.project(self.mode).id, self.id, code).await
    }

    async fn give_up(&self) -> Result<Verification, GiveUpError> {
        self.give_up_method(None).await
    }

    async fn give_up_method(&self, method: impl Into<Option<Method>>) -> Result<Verification, GiveUpError> {
        let verifications = &self.world.engine.verifications;
        verifications
            .give_up_step(
                self.world.project(self.mode).id,
                self.id,
                method.into(),
                self.world.engine.clock().now(),
                None,
            )
            .await
    }

    async fn cancel(&self) -> Verification {
        self.world.engine.verifications.cancel(self.world.project(self.mode).id, self.id).await.unwrap()
    }

    /// Builds the SMS that the verification expects, sent by this number.
    async fn sms(&self, from: &str) -> InboundSms {
        let verification = self.read().await;
        let Some(StepInstructions::ReverseSms { receiver, sms_body }) = verification.next_step else {
            panic!("{verification:?}")
        };
        InboundSms {
            environment: SmsEnvironment::for_project(self.world.project(self.mode)),
            connector: "sms".into(),
            from: SmsSender::Number(Msisdn::parse(from, self.mode).unwrap()),
            to: receiver,
            text: sms_body,
            received_at: self.world.engine.clock().now(),
        }
    }

    async fn send_sms(&self, from: &str) -> SmsOutcome {
        let sms = self.sms(from).await;
        self.world.engine.checks.receive(sms).await.unwrap()
    }

    async fn page(&self) -> PageState {
        self.page_in_browser(&[]).await
    }

    async fn page_in_browser(&self, keys: &[BrowserKey]) -> PageState {
        self.world.engine.verifications.page(&self.page_token, keys).await.unwrap().expect("a page").state
    }

    /// Begins the silent step at the hosted page. Returns the `state` of the redirect, and the key of the browser.
    async fn begin_at_page(&self) -> (String, BrowserKey) {
        let verifications = &self.world.engine.verifications;
        let key = verifications.new_browser_key(self.id).unwrap();
        let begun = verifications.begin_silent(&self.page_token, &key, address(ON_OURS), None, false).await.unwrap();
        (expect_state(Ok(begun.expect("the silent step"))), key)
    }
}

fn verdict(matched: bool, method: Method) -> VerificationVerdict {
    VerificationVerdict { matched, method, no_sim_change: None }
}

fn with_callback() -> CreateVerification {
    CreateVerification { callback_url: Some(CALLBACK_URL.to_owned()), ..CreateVerification::default() }
}

const MODES: [Mode; 2] = [Mode::Live, Mode::Sandbox];

#[tokio::test]
async fn failed_silent_step_leads_to_reverse_sms_at_once() {
    let world = World::new().await;
    for mode in MODES {
        // The sandbox locates the device by the `device_ip` of the create request instead of its real address.
        let device_ip = (mode == Mode::Sandbox).then(|| SANDBOX_UNKNOWN.to_owned());
        let (walk, _) = Walk::begin(&world, mode, CreateVerification { device_ip, ..with_callback() }).await;
        let earlier = world.callbacks().await.len();
        let NextStep::Finish(outcome) = walk.open_url(NOT_MOBILE).await else { panic!("redirected") };
        let returned = outcome.verification.expect("a verification");
        assert_eq!(
            (returned.id, returned.page_token, returned.began_at_page),
            (walk.id, walk.page_token.clone(), false)
        );
        let fallen_back = walk.read().await;
        assert_eq!(fallen_back.check.status(), CheckStatus::Pending);
        let states: Vec<_> = fallen_back.progress.steps.iter().map(|step| (step.product, step.state)).collect();
        let code = if mode == Mode::Live { ErrorCode::NotMobileIp } else { ErrorCode::MnoNotSupported };
        let failed = StepState::Error(code);
        assert_eq!(states, [(Product::SecureSna, failed), (Product::ReverseSms, StepState::Open)]);
        assert_eq!(world.callbacks().await.len(), earlier, "a step has no callback");
        assert_eq!(walk.send_sms(walk.number).await, SmsOutcome::Concluded);
        let verified = walk.read().await;
        assert_eq!(verified.check.verdict().copied(), Some(verdict(true, Method::ReverseSms)));
        assert_eq!(world.callbacks().await.len(), earlier + 1);
    }
}

#[tokio::test]
async fn expiry_of_a_step_leads_on_and_that_of_the_verification_ends_it() {
    let world = World::new().await;
    for reads in [true, false] {
        let (walk, _) = Walk::begin(&world, Mode::Live, with_callback()).await;
        let earlier = world.callbacks().await.len();
        let settle = async || {
            if reads {
                walk.read().await;
            } else {
                world.engine.checks.sweep().await.unwrap();
            }
        };
        world.advance_seconds(120);
        settle().await;
        assert_eq!(walk.read().await.next_step.map(|step| step.method()), Some(Method::ReverseSms));
        world.advance_seconds(300);
        settle().await;
        assert_eq!(walk.read().await.check.error_code(), Some(ErrorCode::MethodsExhausted));
        assert_eq!(world.callbacks().await.len(), earlier + 1);

        // Nothing reads or expires the verification until its whole lifetime has passed, so the second method never
        // begins.
        let (walk, created) = Walk::begin(&world, Mode::Live, with_callback()).await;
        world.advance_seconds(700);
        let settle = async || {
            if reads {
                walk.read().await;
            } else {
                world.engine.checks.sweep().await.unwrap();
            }
        };
        settle().await;
        let expired = walk.read().await;
        assert_eq!((expired.check.status(), expired.progress.steps.len()), (CheckStatus::Expired, 1));
        assert_eq!(expired.check.updated_at(), Some(created.check.expires_at));
        assert_eq!(world.callbacks().await.len(), earlier + 2);
    }
}

#[tokio::test]
async fn methods_are_those_that_the_number_supports() {
    let world = World::new().await;
    let create = async |number: &str, methods: Option<Vec<Method>>| {
        let request = CreateVerification { phone_number: number.to_owned(), methods, ..CreateVerification::default() };
        world.engine.verifications.create(&world.live, request, None).await
    };
    for (number, wanted, methods) in [
        (OURS, None, &[Method::SecureSna, Method::ReverseSms][..]),
        (OURS, Some(vec![Method::ReverseSms, Method::SecureSna]), &[Method::ReverseSms, Method::SecureSna]),
        (OTHER, None, &[Method::SecureSna]),
        (SMS_ONLY, None, &[Method::ReverseSms]),
    ] {
        let created = create(number, wanted).await.unwrap();
        assert_eq!(created.progress.methods, methods, "{number}");
        assert_eq!(created.next_step.map(|step| step.method()), methods.first().copied());
    }
    for (number, wanted) in [(UNCONNECTED, None), (OTHER, Some(vec![Method::ReverseSms]))] {
        let refused = create(number, wanted).await;
        assert!(matches!(refused, Err(CreateError::MnoNotSupported)), "{refused:?}");
    }
}

#[tokio::test]
async fn cancelled_verification_ends_at_once() {
    let world = World::new().await;
    world.sandbox_access.set_sim_swap_connector(Arc::new(SimOperator::Hangs));
    for state in ["open", "with a verdict", "asking about SIM changes"] {
        let earlier = world.callbacks().await.len();
        let request = CreateVerification { sim_swap_period: Some(60.try_into()), ..with_callback() };
        let (walk, _) = Walk::begin(&world, Mode::Sandbox, request).await;
        match state {
            "with a verdict" => drop(walk.obtain_code().await),
            "asking about SIM changes" => {
                walk.give_up().await.unwrap();
                walk.send_sms(SANDBOX_NUMBER).await;
            }
            _ => {}
        }
        let cancelled = walk.cancel().await;
        assert_eq!(cancelled.check.error_code(), Some(ErrorCode::Cancelled), "{state}");
        let last = cancelled.progress.steps.last().unwrap().state;
        assert_eq!(last, StepState::Error(ErrorCode::GivenUp), "{state}");
        assert_eq!(walk.cancel().await.check, cancelled.check, "{state}");
        assert_eq!(walk.read().await.check, cancelled.check, "{state}");
        let callbacks = world.callbacks().await.split_off(earlier);
        assert!(
            matches!(&callbacks[..], [callback] if callback.contains(r#""error_code":"cancelled""#)),
            "{callbacks:?}"
        );
    }
    // Cancelling does not change a verification that has ended.
    let (walk, _) = Walk::begin(&world, Mode::Sandbox, CreateVerification::default()).await;
    let code = walk.obtain_code().await;
    let verified = walk.redeem(&code).await.unwrap();
    assert_eq!(walk.cancel().await.check, verified.check);
}

#[tokio::test]
async fn end_user_ends_the_verification_at_the_page() {
    let world = World::new().await;
    let verifications = &world.engine.verifications;
    for (end, code) in [(UserEnd::GivenUp, ErrorCode::GivenUp), (UserEnd::WrongNumber, ErrorCode::WrongNumber)] {
        let (walk, _) = Walk::begin(&world, Mode::Sandbox, CreateVerification::default()).await;
        assert!(!verifications.end_by_user("wrong", end).await.unwrap());
        assert!(verifications.end_by_user(&walk.page_token, end).await.unwrap());
        assert_eq!(walk.read().await.check.error_code(), Some(code));

        // After the operator has returned a verdict, the end-user can no longer end the verification.
        let (walk, _) = Walk::begin(&world, Mode::Sandbox, CreateVerification::default()).await;
        let code = walk.obtain_code().await;
        assert!(verifications.end_by_user(&walk.page_token, end).await.unwrap());
        assert!(walk.redeem(&code).await.unwrap().check.verdict().is_some_and(|verdict| verdict.matched));
    }
}

#[tokio::test]
async fn second_text_ignores_the_number_limit() {
    let world = World::new().await;
    let methods = Some(vec![Method::ReverseSms]);
    let mut walks = Vec::new();
    for _ in 0..engine_settings().number_limit.max_checks {
        let request = CreateVerification { methods: methods.clone(), ..CreateVerification::default() };
        walks.push(Walk::begin(&world, Mode::Live, request).await.0);
    }
    for walk in &walks {
        assert_eq!(walk.send_sms(OTHER).await, SmsOutcome::Concluded);
        assert_eq!(walk.send_sms(OURS).await, SmsOutcome::Concluded);
        assert_eq!(walk.read().await.check.verdict().copied(), Some(verdict(true, Method::ReverseSms)));
    }
}

#[tokio::test]
async fn address_that_is_known_not_to_be_mobile_leaves_secure_sna_out() {
    let world = World::new().await;
    for (mode, device_ip, methods) in [
        (Mode::Live, NOT_MOBILE, &[Method::ReverseSms][..]),
        (Mode::Live, ON_OURS, &[Method::SecureSna, Method::ReverseSms]),
        (Mode::Live, UNKNOWN_ADDRESS, &[Method::SecureSna, Method::ReverseSms]),
        (Mode::Sandbox, NOT_MOBILE, &[Method::ReverseSms]),
        (Mode::Sandbox, SANDBOX_UNKNOWN, &[Method::SecureSna, Method::ReverseSms]),
    ] {
        let request = CreateVerification { device_ip: Some(device_ip.to_owned()), ..CreateVerification::default() };
        let (_, created) = Walk::begin(&world, mode, request).await;
        assert_eq!(created.progress.methods, methods, "{device_ip}");
    }
}

#[tokio::test]
async fn step_over_the_number_limit_is_skipped() {
    let world = World::new().await;
    let (walk, _) = Walk::begin(&world, Mode::Live, CreateVerification::default()).await;
    let limit = engine_settings().number_limit.max_checks;
    let created = join_all((0..limit).map(|_| {
        let request = CreateReverseSms { phone_number: OURS.to_owned(), reference: None, callback_url: None };
        world.engine.checks.create_reverse_sms(&world.live, request, None)
    }));
    assert!(created.await.iter().all(Result::is_ok));
    let exhausted = walk.give_up().await.unwrap();
    assert_eq!(exhausted.check.error_code(), Some(ErrorCode::MethodsExhausted));
    let last = exhausted.progress.steps.last().unwrap();
    assert_eq!((last.check, last.state), (None, StepState::Error(ErrorCode::TooManyRequests)));
}

#[tokio::test]
async fn concurrent_ends_of_a_step_lead_on_once() {
    let world = World::new().await;
    for round in 0..6 {
        let earlier = world.callbacks().await.len();
        // Uses the sandbox, which does not limit the number of checks for a phone number.
        let (walk, _) = Walk::begin(&world, Mode::Sandbox, with_callback()).await;
        let code = walk.obtain_code().await;
        let (redeemed, given_up, opened) = tokio::join!(walk.redeem(&code), walk.give_up(), walk.give_up());
        let current = walk.read().await;
        assert_eq!(
            current.progress.steps.iter().filter(|step| step.product == Product::SecureSna).count(),
            1,
            "{round}: {redeemed:?} {given_up:?} {opened:?}"
        );
        if current.next_step.is_some() {
            world.advance_seconds(299);
            let sms = walk.sms(SANDBOX_NUMBER).await;
            world.advance_seconds(1);
            let (receive, sweep) = (world.engine.checks.receive(sms.clone()), world.engine.checks.sweep());
            let (first, second, swept) = tokio::join!(receive, world.engine.checks.receive(sms), sweep);
            assert!(first.is_ok() && second.is_ok() && swept.is_ok());
        }
        let ended = walk.read().await;
        assert!(ended.next_step.is_none(), "{round}: {ended:?}");
        assert_eq!(world.callbacks().await.len(), earlier + 1, "{round}: {ended:?}");
    }
}

const SIM_OPERATOR: &str = "sim-swap";

/// A test operator for SIM Swap that answers, fails, or never answers.
#[derive(Clone, Copy, Debug)]
enum SimOperator {
    Answers(SignedDuration),
    Fails,
    Hangs,
}

#[async_trait]
impl SimSwapConnector for SimOperator {
    fn name(&self) -> &str {
        SIM_OPERATOR
    }

    async fn sim_history(&self, _: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        match *self {
            SimOperator::Answers(no_change_for) => Ok(SimHistory::NoChangeFor(no_change_for)),
            SimOperator::Fails => Err(ErrorCode::MnoServerError),
            SimOperator::Hangs => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn match_is_followed_by_the_sim_swap_query() {
    let world = World::new().await;
    let day = SignedDuration::from_hours(24);
    for (operator, no_sim_change, state) in [
        (SimOperator::Answers(day), Some(true), StepState::Completed { matched: true }),
        (SimOperator::Fails, None, StepState::Error(ErrorCode::MnoServerError)),
    ] {
        world.sandbox_access.set_sim_swap_connector(Arc::new(operator));
        let earlier = world.callbacks().await.len();
        let request = CreateVerification { sim_swap_period: Some(60.try_into()), ..with_callback() };
        let (walk, _) = Walk::begin(&world, Mode::Sandbox, request).await;
        let code = walk.obtain_code().await;
        // The response to the redemption contains the operator's answer about SIM changes.
        let verified = walk.redeem(&code).await.unwrap();
        let expected = VerificationVerdict { matched: true, method: Method::SecureSna, no_sim_change };
        assert_eq!(verified.check.verdict(), Some(&expected), "{operator:?}");
        let last = verified.progress.steps.last().unwrap();
        assert_eq!((last.product, last.state), (Product::SimSwap, state));
        let swap = world.engine.checks.sim_swap_check(world.sandbox.id, last.check.unwrap()).await.unwrap();
        assert_eq!((swap.verification, swap.status()), (Some(walk.id), state.ended_status().unwrap()));
        assert_eq!(world.callbacks().await.len(), earlier + 1);
    }
}

#[tokio::test]
async fn lost_sim_swap_query_ends_at_its_deadline() {
    let world = World::new().await;
    world.sandbox_access.set_sim_swap_connector(Arc::new(SimOperator::Hangs));
    let request = CreateVerification { sim_swap_period: Some(60.try_into()), ..with_callback() };
    let (walk, _) = Walk::begin(&world, Mode::Sandbox, request).await;
    walk.give_up().await.unwrap();
    assert_eq!(walk.send_sms(SANDBOX_NUMBER).await, SmsOutcome::Concluded);
    let asking = walk.read().await;
    assert_eq!((asking.check.status(), asking.next_step), (CheckStatus::Pending, None));
    assert_eq!(walk.page().await, PageState::SimSwap);
    world.advance_seconds(20);
    world.engine.checks.sweep().await.unwrap();
    let verified = walk.read().await;
    assert_eq!(verified.check.verdict().copied(), Some(verdict(true, Method::ReverseSms)));
    let last = verified.progress.steps.last().unwrap();
    assert_eq!(last.state, StepState::Error(ErrorCode::InternalError));
    assert_eq!(world.callbacks().await.len(), 1);
}

#[tokio::test]
async fn page_shows_each_step_and_returns_with_a_code() {
    let world = World::new().await;
    let request = CreateVerification {
        redirect_url: Some("https://shop.example/back?session=1".to_owned()),
        reference: "order 7".parse().ok(),
        ..CreateVerification::default()
    };
    let (walk, _) = Walk::begin(&world, Mode::Sandbox, request).await;
    let verifications = &world.engine.verifications;
    let view = verifications.page(&walk.page_token, &[]).await.unwrap().unwrap();
    assert!(view.has_redirect_url);
    assert!(matches!(view.state, PageState::Silent { has_begun: false, .. }));
    for wrong in ["", "AAAA", &walk.page_token[1..], &walk.page_token.replace(&walk.page_token[..1], "_")] {
        assert!(verifications.page(wrong, &[]).await.unwrap().is_none(), "{wrong}");
        assert!(!verifications.page_give_up(wrong, Method::SecureSna).await.unwrap());
    }
    // A redirect that began at the hosted page ends at the hosted page.
    let (state, key) = walk.begin_at_page().await;
    assert!(matches!(walk.page().await, PageState::Silent { has_begun: true, .. }));
    let other = verifications.new_browser_key(walk.id).unwrap();
    for keys in [&[][..], &[other]] {
        assert!(matches!(walk.return_in_browser(&state, keys).await, Err(RedirectError::OtherBrowser)));
    }
    let keys = [key];
    let outcome = walk.return_in_browser(&state, &keys).await.unwrap();
    let returned = outcome.verification.unwrap();
    assert!(returned.began_at_page && returned.page_token == walk.page_token);
    assert!(outcome.redirect_url.is_some());
    // The page shows the code again only in the browser that began the redirect.
    let elsewhere = PageState::Returned { code: None, return_to: None };
    assert_eq!(walk.page().await, elsewhere);
    // A verification with a redirect URL is redeemed by the customer's backend: the page's attempt has no effect.
    let code = outcome.result.unwrap().0;
    assert!(
        matches!(walk.page_in_browser(&keys).await, PageState::Returned { code: Some(again), .. } if again == code)
    );
    verifications.page_redeem(&walk.page_token, &code).await.unwrap();
    assert_eq!(walk.page().await, elsewhere);

    // After the operator has returned a verdict, the step can no longer be given up.
    assert!(verifications.page_give_up(&walk.page_token, Method::SecureSna).await.unwrap());
    assert_eq!(walk.page().await, elsewhere);
    for _ in 0..3 {
        assert!(matches!(walk.redeem("wrong").await, Err(RedeemError::WrongCode { .. })));
    }
    assert!(matches!(walk.page().await, PageState::SendSms { has_arrived: false, .. }));
    assert!(
        verifications.begin_silent(&walk.page_token, &keys[0], address(ON_OURS), None, false).await.unwrap().is_none()
    );
    walk.send_sms(SANDBOX_NUMBER).await;
    let PageState::Done { matched: true, return_to: Some(return_to), .. } = walk.page().await else {
        panic!("{:?}", walk.page().await)
    };
    let expected = format!("https://shop.example/back?session=1&verification_id={}&code=", walk.id);
    let rest = return_to.strip_prefix(&expected).expect("the redirect URL");
    let code = rest.strip_suffix("&reference_id=order%207").expect("the reference");
    assert!(matches!(walk.redeem("wrong").await, Err(RedeemError::WrongCompletionCode)));
    let redeemed = walk.redeem(code).await.unwrap();
    assert_eq!(redeemed.check.verdict().copied(), Some(verdict(true, Method::ReverseSms)));
    let replayed = walk.redeem_or_replay(code).await.unwrap();
    assert!(replayed.is_replayed && replayed.verification.check == redeemed.check);
    assert!(matches!(walk.page().await, PageState::Done { matched: true, return_to: None, .. }));
    // The page exists for 15 minutes after the verification has ended.
    world.advance_seconds(16 * 60);
    assert!(verifications.page(&walk.page_token, &[]).await.unwrap().is_none());
}

#[tokio::test]
async fn page_without_redirect_url_redeems_the_code_itself() {
    let world = World::new().await;
    let (walk, _) = Walk::begin(&world, Mode::Sandbox, CreateVerification::default()).await;
    let verifications = &world.engine.verifications;
    let (state, key) = walk.begin_at_page().await;
    let code = walk.return_in_browser(&state, &[key]).await.unwrap().result.unwrap().0;
    assert!(verifications.page_redeem(&walk.page_token, "wrong").await.unwrap());
    assert!(verifications.page_redeem(&walk.page_token, &code).await.unwrap());
    assert!(matches!(walk.page().await, PageState::Done { matched: true, return_to: None, .. }));
}

#[tokio::test]
async fn page_of_a_failed_or_expired_verification_returns_with_its_error() {
    let world = World::new().await;
    let request = || CreateVerification {
        redirect_url: Some("https://shop.example/back".to_owned()),
        ..CreateVerification::default()
    };
    let (walk, _) = Walk::begin(&world, Mode::Sandbox, request()).await;
    walk.give_up().await.unwrap();
    walk.give_up_method(Method::ReverseSms).await.unwrap();
    let id = walk.id;
    let return_to = |error| Some(format!("https://shop.example/back?verification_id={id}&error={error}"));
    let reason = PageFailure::MethodsExhausted;
    assert_eq!(walk.page().await, PageState::Failed { reason, return_to: return_to("methods_exhausted") });
    let (walk, _) = Walk::begin(&world, Mode::Sandbox, request()).await;
    world.advance_seconds(700);
    let id = walk.id;
    let return_to = format!("https://shop.example/back?verification_id={id}&error=expired");
    assert_eq!(walk.page().await, PageState::Expired { return_to: Some(return_to) });
}
