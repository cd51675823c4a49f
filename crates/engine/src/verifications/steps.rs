//! Moving from one step of a verification to the next.
//!
//! Whatever ends a step (an SMS, a device, a redeemed code, the deadline, giving up) comes through
//! [`Checks::conclude_via_connector`] to [`Checks::conclude_step`], and from there to one conditional write. A step that
//! is ended twice, by two tabs, devices or nodes, therefore leads on once.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, Check, CheckConclusion, CheckId, CheckOutcome, CheckStatus, Concluded, ErrorCode,
        Lifecycle, OpenState, Sealed,
    },
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    reverse_sms::{ReverseSmsCheck, SmsCode, SmsOrigin},
    silent::{CHECK_TTL_SECONDS, SilentCheck},
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::{Mode, ProjectId, Ttl},
    verification::{Method, Move, Progress, StepEnd, VerificationCheck, VerificationVerdict},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    Verification,
    input::{SmsInput, VerificationInput},
    instructions, page_url,
};
use crate::{
    activity::ActivityRecorder,
    callback::{payload, sealing},
    checks::{Checks, CreateError, downcast},
    context::missing_seal_key,
    operator_access::{ExpectedSms, SimSwapRoute},
    ports::{
        Advance, AdvanceOptions, AdvanceOutcome, AdvanceTo, CodeHash, ConcludeOutcome, EndedStep, Expectation,
        IdempotentResponse, LeasedCallback, NewCallback, NewCheck, SimSwapRequest, StoreError, TenantLookup,
        VerificationRecord,
    },
    silent::secrets::{SilentCheckInput, seal_redirect_url, unseal_redirect_url},
};

/// Limit for the operator's response to the SIM Swap question. Leaves time for one `slow_down` of CIBA.
pub(super) const SIM_SWAP_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after which another node ends a verification whose SIM Swap question was lost with its node.
const SIM_SWAP_DEADLINE: SignedDuration = SignedDuration::from_secs(20);
/// Sixteen times the number of buckets: one code in nine million is not found.
const MAX_CODE_DRAWS: u32 = 65_536;

/// The check of a step, to be stored.
pub(super) struct NewStep {
    pub new: NewCheck,
    /// For the cache of pending codes.
    pub code: Option<CodeHash>,
}

/// A SIM Swap question to ask.
struct SimSwapQuestion {
    verification: CheckId,
    step: CheckId,
    project: ProjectId,
    mode: Mode,
    number: Msisdn,
    period: SimSwapPeriod,
    asked_at: Timestamp,
}

/// Seals the response to the request that ends a step.
pub(super) type SealResponse<'a> = &'a (dyn Fn(&Verification) -> Result<Option<IdempotentResponse>, StoreError> + Sync);

/// A step that ends, before what follows is known.
#[derive(Clone)]
struct StepEnding<'a> {
    record: &'a VerificationRecord,
    ended: EndedStep,
    deadline: Timestamp,
    progress: Progress,
    at: Timestamp,
    options: AdvanceOptions,
    /// `None`: no response is stored.
    seal_response: Option<SealResponse<'a>>,
}

impl StepEnding<'_> {
    fn into_advance(self, to: AdvanceTo) -> Advance {
        let StepEnding { record, ended, deadline, progress, at, options, .. } = self;
        Advance { verification: record.check.id, from: record.step, deadline, ended, progress, to, at, options }
    }

    fn seal_response(&mut self, verification: &Verification) -> Result<(), StoreError> {
        if let Some(seal) = self.seal_response {
            self.options.idempotent_response = seal(verification)?;
        }
        Ok(())
    }
}

/// A move that was stored.
struct Advanced {
    step_was_pending: bool,
    /// The verification afterwards. `None`: it asks about SIM changes.
    verification: Option<Verification>,
}

impl Checks {
    /// Ends a step of a verification and moves on.
    pub(crate) async fn conclude_step(
        &self,
        concluded: Concluded<AnyVerdict>,
        verification: CheckId,
        connector: Option<Arc<str>>,
    ) -> Result<ConcludeOutcome, StoreError> {
        match self.verifications.find_verification(verification).await? {
            Some(record) => self.conclude_step_of(&record, concluded, connector).await,
            None => Ok(ConcludeOutcome::AlreadyConcluded),
        }
    }

    async fn conclude_step_of(
        &self,
        record: &VerificationRecord,
        concluded: Concluded<AnyVerdict>,
        connector: Option<Arc<str>>,
    ) -> Result<ConcludeOutcome, StoreError> {
        let step = concluded.check();
        let Lifecycle::Concluded { outcome, .. } = &step.state else { return Ok(ConcludeOutcome::AlreadyConcluded) };
        if record.step != step.id {
            return Ok(ConcludeOutcome::AlreadyConcluded);
        }
        let ended = EndedStep::Concluded(CheckConclusion::from(&concluded).via_connector(connector));
        let ending = self.ending(record, ended, step.expires_at);
        let Some(advanced) = self.end_step(ending, StepEnd::from(outcome)).await? else {
            return Ok(ConcludeOutcome::AlreadyConcluded);
        };
        self.activity.record_concluded(step);
        Ok(ConcludeOutcome::Concluded { was_pending: advanced.step_was_pending })
    }

    /// Gives up the current step, unless it has a verdict. Returns the verification afterwards; `None`: the step has
    /// ended meanwhile, or has a verdict.
    pub(super) async fn give_up_step(
        &self,
        record: &VerificationRecord,
        step: AnyCheck,
        seal_response: Option<SealResponse<'_>>,
    ) -> Result<Option<Verification>, StoreError> {
        let deadline = step.expires_at;
        let Ok(concluded) = step.give_up(self.context.now()) else { return Ok(None) };
        let Lifecycle::Concluded { outcome, .. } = &concluded.check().state else { return Ok(None) };
        let mut ending = self.ending(record, EndedStep::Concluded(CheckConclusion::from(&concluded)), deadline);
        ending.options.unless_verdict = true;
        ending.seal_response = seal_response;
        let Some(advanced) = self.end_step(ending, StepEnd::from(outcome)).await? else { return Ok(None) };
        self.activity.record_concluded(concluded.check());
        Ok(advanced.verification)
    }

    /// Ends a verification and its current step, whatever methods are left. `None`: the step has ended meanwhile, or has
    /// a verdict that must stay.
    pub(super) async fn abandon(
        &self,
        record: &VerificationRecord,
        step: Option<AnyCheck>,
        code: ErrorCode,
        unless_verdict: bool,
    ) -> Result<Option<Verification>, StoreError> {
        let concluded = step.map(|step| step.give_up(self.context.now()));
        let (ended, deadline) = match &concluded {
            Some(Ok(concluded)) if concluded.check().status() == CheckStatus::Expired => {
                return self.expire_verification(record.check.id).await.map(|()| None);
            }
            Some(Ok(concluded)) => {
                (EndedStep::Concluded(CheckConclusion::from(concluded)), concluded.check().expires_at)
            }
            Some(Err(_)) => return Ok(None),
            // The question about SIM changes has no check yet.
            None => (EndedStep::Unchanged, record.check.expires_at),
        };
        let mut ending = self.ending(record, ended, deadline);
        ending.options.unless_verdict = unless_verdict;
        let Ok(progress) = ending.progress.abandon_step() else { return Ok(None) };
        ending.progress = progress;
        let Some(advanced) = self.end_verification(ending, CheckOutcome::Error(code)).await? else { return Ok(None) };
        if let Some(Ok(concluded)) = &concluded {
            self.activity.record_concluded(concluded.check());
        }
        Ok(advanced.verification)
    }

    /// A step of this progress that ends now.
    fn ending<'a>(&self, record: &'a VerificationRecord, ended: EndedStep, deadline: Timestamp) -> StepEnding<'a> {
        let (progress, at) = (record.progress.clone(), self.context.now());
        StepEnding { record, ended, deadline, progress, at, options: AdvanceOptions::default(), seal_response: None }
    }

    /// Ends the current step of a verification, whose deadline has passed. Another request may have moved on meanwhile.
    pub(crate) async fn expire_verification(&self, id: CheckId) -> Result<(), StoreError> {
        let Some(record) = self.verifications.find_verification(id).await? else { return Ok(()) };
        let now = self.context.now();
        match record.progress.open_step() {
            Some((Product::SimSwap, _)) if record.check.is_overdue(now) => {
                // The node that asked the operator has died.
                let ending = self.ending(&record, EndedStep::Unchanged, record.check.expires_at);
                self.end_step(ending, StepEnd::Error(ErrorCode::InternalError)).await.map(drop)
            }
            Some((Product::SimSwap, _)) | None => Ok(()),
            Some((product, step)) => match self.store.find_check(record.check.project, product, step).await? {
                TenantLookup::Found(step) if step.is_overdue(now) => match step.clone().expire() {
                    Ok(concluded) => self.conclude_step_of(&record, concluded, None).await.map(drop),
                    Err(_) => Ok(()),
                },
                TenantLookup::Found(_) => Ok(()),
                TenantLookup::OtherTenant | TenantLookup::NotFound => Err(StoreError::CorruptRow {
                    table: "verifications",
                    row: id.to_string(),
                    problem: "the check of the current step does not exist".to_owned(),
                }),
            },
        }
    }

    /// `None`: another request or node was first.
    async fn end_step(&self, ending: StepEnding<'_>, end: StepEnd) -> Result<Option<Advanced>, StoreError> {
        let record = ending.record;
        let is_past_ttl = record.check.expires_at <= ending.at;
        let Ok((mut progress, mut next)) = record.progress.clone().end_step(end, is_past_ttl) else {
            return Ok(None);
        };
        loop {
            let ending = StepEnding { progress: progress.clone(), ..ending.clone() };
            let method = match next {
                Move::Start(method) => method,
                Move::AskSimSwap(period) => return self.ask_sim_swap(ending, period).await,
                Move::End(outcome) => return self.end_verification(ending, outcome).await,
            };
            let code = match self.start_step(ending, method).await {
                Ok(StartOutcome::Started(advanced)) => return Ok(Some(*advanced)),
                Ok(StartOutcome::Lost) => return Ok(None),
                Ok(StartOutcome::TooManyChecks) => ErrorCode::TooManyRequests,
                Err(error @ StoreError::CorruptRow { .. }) => {
                    tracing::error!(verification = %record.check.id, %error, "next step of a verification cannot begin");
                    ErrorCode::InternalError
                }
                Err(error) => return Err(error),
            };
            (progress, next) = progress.skip_method(method, code, is_past_ttl);
        }
    }

    async fn start_step(&self, mut ending: StepEnding<'_>, method: Method) -> Result<StartOutcome, StoreError> {
        let verification: VerificationCheck = downcast(ending.record.check.clone())?;
        let mut input = VerificationInput::unseal(&self.context, ending.record)?;
        let is_second_text = ending
            .record
            .progress
            .open_step()
            .is_some_and(|(product, _)| (product, method) == (Product::ReverseSms, Method::ReverseSms));
        if is_second_text {
            // Part of the attempt that the first text counted for.
            ending.options.ignores_number_limit = true;
            input.sms = input.sms.map(|sms| self.replace_code(&verification, sms)).transpose()?;
            ending.options.input = Some(input.seal(&self.context, verification.id)?);
        }
        let NewStep { new, code } = self.build_step(&verification, &input, method, ending.at)?;
        let check = new.check.clone();
        ending.progress = begin_step(ending.progress, method.product(), check.id)?;
        let afterwards = Verification {
            check: verification.clone().into_pending(ending.at),
            progress: ending.progress.clone(),
            step_status: Some(check.status()),
            next_step: instructions(&self.context, &check, &input)?,
            page_url: Some(page_url(&self.context, verification.id)?),
        };
        ending.seal_response(&afterwards)?;
        let advance = ending.into_advance(AdvanceTo::Step(Box::new(new)));
        let (step_was_pending, was_pending) = match self.verifications.advance(advance).await? {
            AdvanceOutcome::Advanced { step_was_pending, was_pending } => (step_was_pending, was_pending),
            AdvanceOutcome::Lost => return Ok(StartOutcome::Lost),
            AdvanceOutcome::TooManyChecks => return Ok(StartOutcome::TooManyChecks),
        };
        self.activity.record_created(ActivityRecorder::key_of(&check));
        if !was_pending {
            self.activity.record_seen(ActivityRecorder::key_of(&verification));
        }
        self.on_step_begun(check, code, &input)?;
        Ok(StartOutcome::Started(Box::new(Advanced { step_was_pending, verification: Some(afterwards) })))
    }

    /// Draws another code for a second text. Its hash must lead to the bucket of the verification, so most are rejected.
    fn replace_code(&self, verification: &VerificationCheck, sms: SmsInput) -> Result<SmsInput, StoreError> {
        let origin = SmsOrigin::for_checks(verification.mode, verification.project);
        let before = sms.code.as_str();
        for _ in 0..MAX_CODE_DRAWS {
            let code = SmsCode::from_random(self.context.entropy.bytes());
            if self.hash_code(origin, &sms.receiver, &code)?.bucket() == verification.id.bucket() {
                let sms_body = sms.sms_body.replace(before, code.as_str());
                return Ok(SmsInput { code, sms_body, ..sms });
            }
        }
        Err(StoreError::CorruptRow {
            table: "verifications",
            row: verification.id.to_string(),
            problem: format!("no code of {MAX_CODE_DRAWS} leads to its bucket"),
        })
    }

    /// Prepares for the SMS of a step: an SMS for a cached check needs no query, and simulated end-users may send it.
    pub(super) fn on_step_begun(
        &self,
        check: AnyCheck,
        code: Option<CodeHash>,
        input: &VerificationInput,
    ) -> Result<(), StoreError> {
        let Some((code, sms)) = code.zip(input.sms.as_ref()) else { return Ok(()) };
        let (project, mode) = (self.context.control_plane.project(check.project), check.mode);
        let check: ReverseSmsCheck = downcast(check)?;
        self.pending_codes.insert(code, check);
        if let Some(project) = project {
            let expected = ExpectedSms { from: &input.number, to: &sms.receiver, body: &sms.sms_body };
            self.operators.for_mode(mode).on_sms_step_begun(&project, &expected);
        }
        Ok(())
    }

    async fn end_verification(
        &self,
        mut ending: StepEnding<'_>,
        outcome: CheckOutcome<VerificationVerdict>,
    ) -> Result<Option<Advanced>, StoreError> {
        let verification: VerificationCheck = downcast(ending.record.check.clone())?;
        let Ok(concluded) = verification.conclude_with_outcome(outcome, ending.at) else { return Ok(None) };
        let callback = self.build_verification_callback(&concluded, &ending.progress)?;
        let conclusion = CheckConclusion::from(&concluded);
        let (check, progress) = (concluded.check().clone(), ending.progress.clone());
        let afterwards = Verification { check, progress, step_status: None, next_step: None, page_url: None };
        ending.seal_response(&afterwards)?;
        let advance = ending.into_advance(AdvanceTo::End { conclusion, callback: callback.clone() });
        let AdvanceOutcome::Advanced { step_was_pending, was_pending } = self.verifications.advance(advance).await?
        else {
            return Ok(None);
        };
        self.activity.record_concluded(concluded.check());
        if !was_pending && concluded.check().status() != CheckStatus::Expired {
            self.activity.record_seen(ActivityRecorder::key_of(concluded.check()));
        }
        if let Some(NewCallback { url, body, due_at }) = callback {
            let Check { id: check, project, product, mode, .. } = concluded.into_check();
            let (failed_attempts, earlier_attempts) = (0, 0);
            let leased = LeasedCallback { check, project, product, mode, url, body, failed_attempts, earlier_attempts };
            self.courier.deliver(leased, due_at);
        }
        Ok(Some(Advanced { step_was_pending, verification: Some(afterwards) }))
    }

    fn build_verification_callback(
        &self,
        concluded: &Concluded<VerificationVerdict>,
        progress: &Progress,
    ) -> Result<Option<NewCallback>, StoreError> {
        let check = concluded.check();
        let Some(url) = check.callback_url.clone() else { return Ok(None) };
        let now = self.context.now();
        let body = payload::render_verification(concluded, progress);
        let body = sealing::seal_body(&self.context.keys(), &*self.context.entropy, now, check.id, &body);
        let body = body.ok_or_else(missing_seal_key)?;
        Ok(Some(NewCallback { url, body, due_at: self.courier.initial_due_at(check.project, now) }))
    }

    /// The check of a method, in the bucket of its verification. Its deadline is not later than that of the
    /// verification.
    pub(super) fn build_step(
        &self,
        verification: &VerificationCheck,
        input: &VerificationInput,
        method: Method,
        now: Timestamp,
    ) -> Result<NewStep, StoreError> {
        let missing = || StoreError::CorruptRow {
            table: "verifications",
            row: verification.id.to_string(),
            problem: format!("the input of {method} is missing"),
        };
        let id = CheckId(self.context.new_uuid(now)).in_bucket(verification.id.bucket());
        let (network, ttl, expectation, code) = match method {
            Method::SecureSna => {
                let network = input.silent_network.clone().ok_or_else(missing)?;
                (network, CHECK_TTL_SECONDS, Expectation::DeviceOfStep, None)
            }
            Method::ReverseSms => {
                let sms = input.sms.as_ref().ok_or_else(missing)?;
                let origin = SmsOrigin::for_checks(verification.mode, verification.project);
                let code = self.hash_code(origin, &sms.receiver, &sms.code)?;
                let project = self.context.control_plane.project(verification.project);
                let ttl = project.and_then(|project| project.configuration.reverse_sms.ttl).unwrap_or(Ttl::DEFAULT);
                let expectation = Expectation::Sms { receiver: sms.receiver.clone(), code };
                (sms.network.clone(), ttl.seconds(), expectation, Some(code))
            }
        };
        let own_deadline = now.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX);
        let check = Check {
            network: Some(network),
            redirect_url: self.redirect_url_of_step(verification, method, id)?,
            expires_at: own_deadline.min(verification.expires_at),
            ..step_check(verification.project, verification.mode, method.product(), verification.id, id, now)
        };
        let check = Check { claimed: verification.claimed, reference: verification.reference.clone(), ..check };
        let number_limit = self.operators.for_mode(verification.mode).number_limit();
        let new = NewCheck { check, expectation, number_limit, idempotent_response: None, verification: None };
        Ok(NewStep { new, code })
    }

    /// The input of an open silent step. `None`: the step has ended meanwhile.
    pub(crate) async fn silent_input_of_step(
        &self,
        step: &SilentCheck,
    ) -> Result<Option<SilentCheckInput>, StoreError> {
        let Some(verification) = step.verification else { return Ok(None) };
        let record = self.verifications.find_verification(verification).await?;
        let Some(record) = record.filter(|record| record.step == step.id) else { return Ok(None) };
        let VerificationInput { number, device_ip, .. } = VerificationInput::unseal(&self.context, &record)?;
        Ok(Some(SilentCheckInput { number: Some(number), expected_address: device_ip }))
    }

    /// The redirects of the device end at the redirect URL of the verification.
    fn redirect_url_of_step(
        &self,
        verification: &VerificationCheck,
        method: Method,
        step: CheckId,
    ) -> Result<Option<Sealed>, StoreError> {
        let Some(sealed) = verification.redirect_url.as_ref().filter(|_| method == Method::SecureSna) else {
            return Ok(None);
        };
        let url = unseal_redirect_url(&self.context, verification.id, sealed);
        url.map(|url| seal_redirect_url(&self.context, step, &url)).transpose()
    }

    async fn ask_sim_swap(
        &self,
        mut ending: StepEnding<'_>,
        period: SimSwapPeriod,
    ) -> Result<Option<Advanced>, StoreError> {
        let verification: VerificationCheck = downcast(ending.record.check.clone())?;
        let input = VerificationInput::unseal(&self.context, ending.record)?;
        let asked_at = ending.at;
        let step = CheckId(self.context.new_uuid(asked_at)).in_bucket(verification.id.bucket());
        ending.progress = begin_step(ending.progress, Product::SimSwap, step)?;
        let deadline = asked_at.saturating_add(SIM_SWAP_DEADLINE).unwrap_or(Timestamp::MAX);
        let advance = ending.into_advance(AdvanceTo::SimSwap { check: step, deadline });
        let AdvanceOutcome::Advanced { step_was_pending, was_pending } = self.verifications.advance(advance).await?
        else {
            return Ok(None);
        };
        if !was_pending {
            self.activity.record_seen(ActivityRecorder::key_of(&verification));
        }
        self.spawn_question(SimSwapQuestion {
            verification: verification.id,
            step,
            project: verification.project,
            mode: verification.mode,
            number: input.number,
            period,
            asked_at,
        });
        Ok(Some(Advanced { step_was_pending, verification: None }))
    }

    /// The caller does not wait for the operator: it may be the operator that delivers an SMS.
    fn spawn_question(&self, question: SimSwapQuestion) {
        let Some(checks) = self.itself.upgrade() else { return };
        let (done, waiting) = watch::channel(());
        let verification = question.verification;
        self.sim_swap_questions.insert(verification, waiting);
        self.tasks.spawn(async move {
            if let Err(error) = checks.answer_question(question).await {
                tracing::warn!(%verification, %error, "result of a SIM Swap step not stored; it ends at its deadline");
            }
            checks.sim_swap_questions.remove(verification);
            drop(done);
        });
    }

    async fn answer_question(&self, question: SimSwapQuestion) -> Result<(), StoreError> {
        let (network, history) = self.query_operator(&question).await;
        let SimSwapQuestion { verification, step, project, mode, period, asked_at, .. } = question;
        let check = Check { network, ..step_check(project, mode, Product::SimSwap, verification, step, asked_at) };
        let concluded = check.conclude_with_history(history, period, self.context.now().max(asked_at));
        let concluded = concluded.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let Some(record) = self.verifications.find_verification(verification).await? else { return Ok(()) };
        let Lifecycle::Concluded { outcome, .. } = &concluded.check().state else { return Ok(()) };
        if record.step != step {
            return Ok(());
        }
        let end = StepEnd::from(outcome);
        let check = concluded.check().clone();
        let ended = EndedStep::Created(Box::new(concluded.map(Into::into)));
        let ending = self.ending(&record, ended, record.check.expires_at);
        if self.end_step(ending, end).await?.is_some() {
            self.activity.record_created_and_concluded(&check);
        }
        Ok(())
    }

    async fn query_operator(&self, question: &SimSwapQuestion) -> (Option<NetworkId>, Result<SimHistory, ErrorCode>) {
        let deadline = Instant::now() + SIM_SWAP_TIMEOUT;
        let Some(project) = self.context.control_plane.project(question.project) else {
            return (None, Err(ErrorCode::InternalError));
        };
        if !project.products.contains(&Product::SimSwap) {
            return (None, Err(ErrorCode::MnoNotSupported));
        }
        let operators = self.operators.for_mode(question.mode);
        let route = match timeout_at(deadline, operators.sim_swap_route(&project, &question.number)).await {
            Ok(Ok(route)) => route,
            Ok(Err(refusal)) => return (None, Err(sim_swap_error(&refusal))),
            Err(_) => return (None, Err(ErrorCode::MnoTimeout)),
        };
        let SimSwapRoute { network, connector } = route;
        let request = SimSwapRequest {
            check: question.step,
            project: question.project,
            number: &question.number,
            period: question.period,
            now: question.asked_at,
            deadline,
        };
        let history = timeout_at(deadline, connector.sim_history(request)).await;
        (Some(network), history.unwrap_or(Err(ErrorCode::MnoTimeout)))
    }
}

enum StartOutcome {
    Started(Box<Advanced>),
    Lost,
    TooManyChecks,
}

fn sim_swap_error(refusal: &CreateError) -> ErrorCode {
    match refusal {
        CreateError::MnoNotSupported | CreateError::OnlyReverseSms | CreateError::NetworkNotAllowed => {
            ErrorCode::MnoNotSupported
        }
        CreateError::LookupUnavailable => ErrorCode::MnoServerError,
        _ => ErrorCode::InternalError,
    }
}

fn begin_step(progress: Progress, product: Product, check: CheckId) -> Result<Progress, StoreError> {
    progress.begin_step(product, check).map_err(|problem| StoreError::Refused(problem.to_string()))
}

/// An accepted check of a step, without what depends on its product.
fn step_check<V>(
    project: ProjectId,
    mode: Mode,
    product: Product,
    verification: CheckId,
    id: CheckId,
    created_at: Timestamp,
) -> Check<V> {
    Check {
        id,
        project,
        product,
        mode,
        verification: Some(verification),
        network: None,
        claimed: None,
        reference: None,
        callback_url: None,
        redirect_url: None,
        created_at,
        // Must only be later than the conclusion, for a check that is stored concluded.
        expires_at: created_at.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX),
        state: Lifecycle::Open(OpenState::Accepted),
    }
}
