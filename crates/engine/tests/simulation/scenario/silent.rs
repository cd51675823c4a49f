//! Scenario steps for silent checks: devices are redirected, and API clients redeem codes.

use ringtrue_domain::{
    lifecycle::{CheckOutcome, CheckStatus, ErrorCode, Lifecycle},
    product::Product,
};
use ringtrue_engine::{
    Engine,
    ports::silent::SilentResult,
    silent::{
        CreateSilent, DeviceRequest, DeviceReturn, NextStep, RedeemError, RedirectError, RedirectFailure,
        RedirectOutcome,
    },
};

use super::Scenario;
use crate::{
    model::{ModelCheck, ModelVerdict},
    operator::{LOCATION, NAME, Operator},
    receivers::{HOSTS, Receivers},
};

const OPERATOR_ERRORS: [ErrorCode; 3] = [ErrorCode::MnoTimeout, ErrorCode::MnoUserNotFound, ErrorCode::MnoServerError];
const MAX_WRONG_CODES: u32 = 3;
const DEVICE: [u8; 4] = [127, 0, 0, 1];

#[derive(Debug, PartialEq, Eq)]
enum RedemptionResult {
    Revealed,
    Wrong { left: u32 },
    NotReady,
    AlreadyCompleted,
    Expired,
}

impl Scenario {
    pub(super) fn step_silent(&mut self) {
        let is_new = self.rng.percent_chance(25);
        match self.pick_check(ModelCheck::has_device).filter(|_| !is_new) {
            None => self.create_silent(),
            Some(index) => {
                for _ in 0..=self.rng.below(4) {
                    self.step_silent_check(index);
                    self.process().run_until_idle();
                }
            }
        }
    }

    /// Performs the next step of a check's regular sequence, or sometimes one that is out of order.
    fn step_silent_check(&mut self, index: usize) {
        let device = self.models[index].device();
        let next = match (&device.code, device.is_redirected) {
            (None, false) => 0,
            (None, true) => 1,
            (Some(_), _) => 2,
        };
        match if self.rng.percent_chance(75) { next } else { self.rng.below(3) } {
            0 => self.open_url(index),
            1 => self.return_from_operator(index),
            _ => match self.rng.below(10) {
                0 | 1 => self.redeem_right_code(index),
                2 => self.redeem_right_code_concurrently_with_sweep(index),
                3..7 => self.redeem_wrong_code(index),
                _ => self.crash_during_redemption(index),
            },
        }
    }

    fn create_silent(&mut self) {
        let product = self.rng.pick(&[Product::SecureSna, Product::Discovery]);
        let number = self.number();
        let host = self.rng.percent_chance(85).then(|| self.rng.below(HOSTS));
        self.log_step(&format!("create a {product} check for {}, receiver {host:?}", number.as_str()));
        let request = CreateSilent {
            phone_number: (product == Product::SecureSna).then(|| number.as_str().to_owned()),
            callback_url: host.map(Receivers::url),
            ..CreateSilent::default()
        };
        let project = self.project.clone();
        let create = async |engine: &Engine| engine.silent.create_silent(&project, product, request, None).await;
        let created = self.process().run(create).unwrap();
        self.models.push(ModelCheck::silent(created, number, host.is_some()));
    }

    fn open_url(&mut self, index: usize) {
        let operator_error = self.rng.percent_chance(10).then(|| self.rng.pick(&OPERATOR_ERRORS));
        self.log_step(&format!("open the URL of check {index}, operator error {operator_error:?}"));
        let expected_failure = self.expected_failure_for_device(index);
        self.operator().set_next_result(operator_error.map_or(Ok(SilentResult::Match(true)), Err));
        let model = self.models[index].clone();
        let request = DeviceRequest {
            product: model.product,
            check: model.id,
            token: &model.device().token,
            sim: None,
            address: DEVICE.into(),
        };
        let step = self.process().run(async |engine| engine.silent.open_device_url(request).await).unwrap();
        match (expected_failure, operator_error, step) {
            (Some(expected_failure), _, NextStep::Finish(end)) => assert_eq!(failure_of(&end), Some(expected_failure)),
            (None, Some(code), NextStep::Finish(end)) => {
                assert_eq!(failure_of(&end), Some(RedirectFailure::Failed(code)));
                self.conclude_with(index, CheckOutcome::Error(code));
            }
            (None, None, NextStep::Redirect(location)) => {
                let device = self.models[index].device_mut();
                device.states.push(location.strip_prefix(LOCATION).unwrap().to_owned());
                device.is_redirected = true;
            }
            (expected_failure, operator_error, step) => panic!("{expected_failure:?} {operator_error:?} {step:?}"),
        }
    }

    /// The device returns from the operator, usually with the newest `state`, sometimes with an earlier one.
    fn return_from_operator(&mut self, index: usize) {
        let model = self.models[index].clone();
        let states = &model.device().states;
        let Some(newest) = states.len().checked_sub(1) else { return };
        let chosen = if self.rng.percent_chance(75) { newest } else { self.rng.below(states.len()) };
        let is_valid = chosen == newest && model.device().is_redirected;
        let operator_error = self.rng.percent_chance(15).then(|| self.rng.pick(&OPERATOR_ERRORS));
        let verdict = if model.product == Product::Discovery {
            ModelVerdict::OwnNumber
        } else {
            ModelVerdict::Match(self.rng.percent_chance(70))
        };
        self.log_step(&format!("return to check {index} with state {chosen}: {operator_error:?} {verdict:?}"));
        let expected_failure = self.expected_failure_for_device(index);
        self.operator().set_next_result(match (operator_error, verdict) {
            (Some(code), _) => Err(code),
            (None, ModelVerdict::Match(matched)) => Ok(SilentResult::Match(matched)),
            (None, _) => Ok(SilentResult::Number(model.number.clone())),
        });
        let back = DeviceReturn {
            connector: NAME,
            state: &states[chosen],
            peer: (DEVICE, 4711).into(),
            address: DEVICE.into(),
            query: &[],
            headers: &[],
        };
        let result = self.process().run(async |engine| engine.silent.handle_authorization_response(back, &[]).await);
        match (expected_failure, result) {
            (Some(expected_failure), Ok(end)) => assert_eq!(failure_of(&end), Some(expected_failure)),
            (None, Err(RedirectError::InvalidState)) => assert!(!is_valid),
            (None, Ok(end)) => {
                assert!(is_valid, "an invalid state was accepted");
                assert_eq!(failure_of(&end), operator_error.map(RedirectFailure::Failed));
                let device = self.models[index].device_mut();
                device.is_redirected = false;
                device.code = end.result.ok().map(|code| (code.0, verdict));
                if let Some(code) = operator_error {
                    self.conclude_with(index, CheckOutcome::Error(code));
                }
            }
            (expected_failure, result) => panic!("{expected_failure:?} {result:?}"),
        }
    }

    /// Returns the failure that every request from the device gets, because the check is concluded or already has a
    /// code. `None`: the outcome depends on the request.
    fn expected_failure_for_device(&mut self, index: usize) -> Option<RedirectFailure> {
        self.expire_check_if_overdue(index);
        let model = &self.models[index];
        match model.end.map(|end| status(end.state)) {
            Some(CheckStatus::Expired) => Some(RedirectFailure::Expired),
            Some(_) => Some(RedirectFailure::AlreadyCompleted),
            None => model.device().code.as_ref().map(|_| RedirectFailure::AlreadyCompleted),
        }
    }

    fn redeem_right_code(&mut self, index: usize) {
        let code = self.right_code(index);
        self.log_step(&format!("redeem the code of check {index}"));
        let expected = self.expected_redemption(index, &code);
        assert_eq!(self.redeem(index, &code), expected);
    }

    fn redeem_right_code_concurrently_with_sweep(&mut self, index: usize) {
        let code = self.right_code(index);
        self.log_step(&format!("redeem the code of check {index} three times during a sweep"));
        self.expire_overdue_checks();
        let expected = self.expected_redemption(index, &code);
        let (project, ModelCheck { id, product, .. }) = (self.project.id, &self.models[index]);
        let results = self.process().run(async |engine| {
            let [one, two, three] = [(); 3].map(|()| engine.silent.redeem(project, *product, *id, &code));
            let (swept, one, two, three) = tokio::join!(engine.checks.sweep(), one, two, three);
            swept.unwrap();
            [one, two, three]
        });
        let revealed = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(revealed, usize::from(expected == RedemptionResult::Revealed), "{results:?}");
    }

    /// Redeems an invented code, or the code of another check.
    fn redeem_wrong_code(&mut self, index: usize) {
        let code = self.wrong_code(index);
        self.log_step(&format!("redeem a wrong code of check {index}"));
        let expected = self.expected_redemption(index, &code);
        assert_eq!(self.redeem(index, &code), expected);
    }

    /// Kills the process while a code is redeemed. The API client gets no response, and redeems the code again.
    fn crash_during_redemption(&mut self, index: usize) {
        let is_right = self.rng.percent_chance(50);
        let code = if is_right { self.right_code(index) } else { self.wrong_code(index) };
        let polls = self.rng.below(12);
        self.log_step(&format!("crash while a code of check {index} is redeemed, right: {is_right}"));
        let before = self.models[index].clone();
        let project = self.project.id;
        self.process().poll_partially(polls, async |engine| {
            engine.silent.redeem(project, before.product, before.id, &code).await
        });
        self.restart();
        // How far the redemption got before the crash depends on timing. The test reads it from the database, and
        // asserts that the model allows it.
        let expected = self.expected_redemption(index, &code);
        let after = self.models[index].clone();
        self.models[index] = before.clone();
        if !matches!(self.state_of(&before), Lifecycle::Open(_)) {
            self.models[index] = after;
        } else if let RedemptionResult::Wrong { .. } = expected {
            let record =
                self.process().run(async |engine| engine.store().redirect_session(before.id).await).unwrap().unwrap();
            let count = record.session.unwrap().wrong_codes;
            assert!([0, 1].map(|more| before.device().wrong_codes + more).contains(&count));
            self.models[index].device_mut().wrong_codes = count;
        }
        let expected = self.expected_redemption(index, &code);
        assert_eq!(self.redeem(index, &code), expected);
    }

    /// Returns the expected result of a redemption, and updates the model.
    fn expected_redemption(&mut self, index: usize, code: &str) -> RedemptionResult {
        self.expire_check_if_overdue(index);
        let model = &mut self.models[index];
        if let Some(end) = model.end {
            return if status(end.state) == CheckStatus::Expired {
                RedemptionResult::Expired
            } else {
                RedemptionResult::AlreadyCompleted
            };
        }
        let device = model.device_mut();
        let Some((right, verdict)) = device.code.clone() else { return RedemptionResult::NotReady };
        if device.wrong_codes >= MAX_WRONG_CODES {
            self.conclude_with(index, CheckOutcome::Error(ErrorCode::CodeAttemptsExceeded));
            return RedemptionResult::AlreadyCompleted;
        }
        if code == right {
            self.conclude_with(index, CheckOutcome::Completed(verdict));
            return RedemptionResult::Revealed;
        }
        device.wrong_codes += 1;
        let left = MAX_WRONG_CODES - device.wrong_codes;
        if left == 0 {
            self.conclude_with(index, CheckOutcome::Error(ErrorCode::CodeAttemptsExceeded));
        }
        RedemptionResult::Wrong { left }
    }

    fn redeem(&self, index: usize, code: &str) -> RedemptionResult {
        let (project, ModelCheck { id, product, .. }) = (self.project.id, &self.models[index]);
        match self.process().run(async |engine| engine.silent.redeem(project, *product, *id, code).await) {
            Ok(check) => {
                assert_eq!(check.status(), CheckStatus::Completed);
                RedemptionResult::Revealed
            }
            Err(RedeemError::WrongCode { remaining_attempts: left }) => RedemptionResult::Wrong { left },
            Err(RedeemError::NotReady) => RedemptionResult::NotReady,
            Err(RedeemError::AlreadyCompleted { .. }) => RedemptionResult::AlreadyCompleted,
            Err(RedeemError::Expired) => RedemptionResult::Expired,
            Err(
                error @ (RedeemError::WrongCompletionCode
                | RedeemError::InvalidCredential(_)
                | RedeemError::UsedCredential
                | RedeemError::SupersededCredential
                | RedeemError::NotSecureSna
                | RedeemError::Read(_)),
            ) => panic!("{error:?}"),
        }
    }

    fn right_code(&self, index: usize) -> String {
        self.models[index].device().code.as_ref().map_or_else(|| "no code yet".to_owned(), |(code, _)| code.clone())
    }

    fn wrong_code(&mut self, index: usize) -> String {
        let has_code = |model: &ModelCheck| model.has_device() && model.device().code.is_some();
        let other = self.pick_check(has_code).filter(|other| *other != index);
        other.map_or_else(|| "invented".to_owned(), |other| self.right_code(other))
    }

    fn expire_check_if_overdue(&mut self, index: usize) {
        let now = self.now();
        self.record_lease_time(&[index]);
        self.models[index].expire_if_overdue(now);
    }

    fn conclude_with(&mut self, index: usize, outcome: CheckOutcome<ModelVerdict>) {
        let end = self.models[index].expected_conclusion(outcome, self.now());
        self.record_conclusion(index, end);
    }

    fn operator(&self) -> &Operator {
        &self.machine.environment.operator
    }
}

fn failure_of(end: &RedirectOutcome) -> Option<RedirectFailure> {
    end.result.as_ref().err().copied()
}

fn status(state: Lifecycle<ModelVerdict>) -> CheckStatus {
    match state {
        Lifecycle::Concluded { outcome, .. } => outcome.status(),
        Lifecycle::Open(_) => panic!("the check is open"),
    }
}
