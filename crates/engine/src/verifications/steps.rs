//! Moves a verification from one step to the next.
//!
//! A step ends when an SMS arrives, a device returns, a code is redeemed, its deadline passes, or it is given up.
//! Checks report the end of a step to [`Steps`], which is their [`CheckEndHandler`]. Every end leads to
//! [`Steps::end_step`], which makes one conditional write. If two tabs, devices or nodes end the same step, only the
//! first one therefore has an effect.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, Check, CheckConclusion, CheckId, CheckOutcome, CheckStatus, Concluded, ErrorCode,
        Lifecycle, OpenState, Provenance, Sealed,
    },
    product::Product,
    reverse_sms::{ReverseSmsCheck, SmsCode, SmsEnvironment},
    silent::{CHECK_TTL_SECONDS, SilentCheck},
    tenancy::{Mode, ProjectId, ReverseSmsTtl},
    verification::{
        Method, Move, Progress, StepEnd, VerificationCheck, VerificationVerdict,
        funnel::{Transition, events_of_transition},
    },
};

use super::{
    StepInstructions, Verification,
    input::{SmsInput, StepInput},
    page_token, page_url,
    sim_swap_queries::SimSwapQueries,
};
use crate::{
    activity::ActivityRecorder,
    checks::{CheckEndHandler, PendingCodeCache, downcast},
    context::Context,
    courier::{Outbox, payload},
    lookups::operator_access::{ExpectedSms, Operators},
    ports::{
        checks::{CheckStore, ConcludeOutcome, Expectation, NewCheck},
        hashes::CodeHash,
        idempotency::IdempotentResponse,
        store::{StoreError, TenantLookup},
        verifications::{
            Advance, AdvanceOptions, AdvanceOutcome, AdvanceTo, EndedStep, NewRedirectSession, OpenedSession,
            VerificationRecord, VerificationStore,
        },
    },
    silent::{
        StepSessions, VerificationReturn, device_url,
        operator_token::credential_request_for_apps,
        secrets::{SilentCheckInput, seal_redirect_url, unseal_redirect_url},
    },
};

/// Maximum number of random codes to try until the hash of one falls into the verification's bucket (database shard).
/// It is sixteen times the number of buckets, so about one search in nine million fails.
const MAX_CODE_DRAWS: u32 = 65_536;

/// The check of a new step, to be stored.
pub(super) struct NewStep {
    pub new: NewCheck,
    /// Hash of the SMS code, for the cache of pending codes. `None`: the step does not expect an SMS.
    pub code: Option<CodeHash>,
}

/// Function that encrypts the response to the request that ends a step, to be stored under the request's idempotency
/// key.
pub(super) type SealResponse<'a> = &'a (dyn Fn(&Verification) -> Result<Option<IdempotentResponse>, StoreError> + Sync);

/// The end of a step, before it is decided whether another step follows.
#[derive(Clone)]
pub(super) struct StepEnding<'a> {
    pub record: &'a VerificationRecord,
    ended: EndedStep,
    deadline: Timestamp,
    pub progress: Progress,
    pub at: Timestamp,
    options: AdvanceOptions,
    /// `None`: there is no response to store under an idempotency key.
    seal_response: Option<SealResponse<'a>>,
}

impl StepEnding<'_> {
    pub(super) fn into_advance(self, to: AdvanceTo) -> Advance {
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

/// The result of ending a step, after it was stored.
pub(super) struct Advanced {
    pub step_was_pending: bool,
    /// The verification after the end of the step. `None`: the operator is being asked about SIM changes.
    pub verification: Option<Verification>,
}

/// Moves verifications from step to step. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Steps {
    pub(super) context: Arc<Context>,
    pub(super) store: Arc<dyn VerificationStore>,
    pub(super) checks: Arc<dyn CheckStore>,
    pub(super) operators: Arc<Operators>,
    pub(super) outbox: Outbox,
    pub(super) activity: Arc<ActivityRecorder>,
    pub(super) pending_codes: Arc<PendingCodeCache>,
    pub(super) sim_swap_queries: Arc<SimSwapQueries>,
}

#[async_trait]
impl CheckEndHandler for Steps {
    fn handles(&self, check: &AnyCheck) -> bool {
        check.verification.is_some() || check.product == Product::Verification
    }

    /// Stores the conclusion of a step, and starts the next step or ends the verification.
    async fn conclude(
        &self,
        concluded: Concluded<AnyVerdict>,
        provenance: Provenance,
    ) -> Result<ConcludeOutcome, StoreError> {
        let Some(verification) = concluded.check().verification else {
            return Err(StoreError::Refused("a verification is concluded with its last step only".to_owned()));
        };
        match self.store.find_verification(verification).await? {
            Some(record) => self.conclude_step(&record, concluded, provenance).await,
            None => Ok(ConcludeOutcome::AlreadyConcluded),
        }
    }

    /// Expires a step. If `check` is a verification, expires its current step, which has the same deadline.
    async fn expire(&self, check: AnyCheck) -> Result<(), StoreError> {
        if check.product == Product::Verification {
            return self.expire_current_step(check.id).await;
        }
        match check.expire() {
            Ok(concluded) => self.conclude(concluded, Provenance::default()).await.map(drop),
            Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl StepSessions for Steps {
    async fn find_step_input(&self, step: &SilentCheck) -> Result<Option<SilentCheckInput>, StoreError> {
        let Some(verification) = step.verification else { return Ok(None) };
        let record = self.store.find_verification(verification).await?;
        let Some(record) = record.filter(|record| record.step == step.id) else { return Ok(None) };
        let StepInput { number, device_ip, .. } = StepInput::unseal(&self.context, &record)?;
        Ok(Some(SilentCheckInput { number: Some(number), expected_address: device_ip }))
    }

    async fn open_session(&self, step: &SilentCheck, input: Sealed) -> Result<bool, StoreError> {
        let Some(verification) = step.verification else { return Ok(false) };
        let session = NewRedirectSession { verification, step: step.id, input, at: self.context.now() };
        let Some(OpenedSession { pending }) = self.store.open_redirect_session(session).await? else {
            return Ok(false);
        };
        self.activity.record_pending(pending.as_slice());
        Ok(true)
    }

    fn verification_return(&self, step: &SilentCheck) -> Option<VerificationReturn> {
        let id = step.verification?;
        let page_token = page_token(&self.context, id).ok()?;
        Some(VerificationReturn { id, page_token, began_at_page: false })
    }
}

impl Steps {
    pub(crate) fn new(
        context: Arc<Context>,
        store: Arc<dyn VerificationStore>,
        checks: Arc<dyn CheckStore>,
        operators: Arc<Operators>,
        outbox: Outbox,
        activity: Arc<ActivityRecorder>,
        pending_codes: Arc<PendingCodeCache>,
    ) -> Self {
        let sim_swap_queries = Arc::default();
        Steps { context, store, checks, operators, outbox, activity, pending_codes, sim_swap_queries }
    }

    async fn conclude_step(
        &self,
        record: &VerificationRecord,
        concluded: Concluded<AnyVerdict>,
        provenance: Provenance,
    ) -> Result<ConcludeOutcome, StoreError> {
        let step = concluded.check();
        let Lifecycle::Concluded { outcome, .. } = &step.state else { return Ok(ConcludeOutcome::AlreadyConcluded) };
        if record.step != step.id {
            return Ok(ConcludeOutcome::AlreadyConcluded);
        }
        let ended = EndedStep::Concluded(CheckConclusion::from(&concluded).with_provenance(provenance.clone()));
        let mut ending = self.new_step_ending(record, ended, step.expires_at);
        // A way that failed does not discard the verdict to which the other way has led.
        ending.options.unless_verdict = provenance.way.is_some() && matches!(outcome, CheckOutcome::Error(_));
        let Some(advanced) = self.end_step(ending, StepEnd::from(outcome)).await? else {
            return Ok(ConcludeOutcome::AlreadyConcluded);
        };
        self.activity.record_concluded(step);
        self.activity.record_way(step, &provenance);
        Ok(ConcludeOutcome::Concluded { was_pending: advanced.step_was_pending })
    }

    /// Gives up the current step and returns the verification with its next step or its end. `None`: the step has
    /// already ended or has a verdict, and nothing has changed.
    pub(super) async fn give_up_step(
        &self,
        record: &VerificationRecord,
        step: AnyCheck,
        seal_response: Option<SealResponse<'_>>,
    ) -> Result<Option<Verification>, StoreError> {
        let deadline = step.expires_at;
        let Ok(concluded) = step.give_up(self.context.now()) else { return Ok(None) };
        let Lifecycle::Concluded { outcome, .. } = &concluded.check().state else { return Ok(None) };
        let mut ending =
            self.new_step_ending(record, EndedStep::Concluded(CheckConclusion::from(&concluded)), deadline);
        ending.options.unless_verdict = true;
        ending.seal_response = seal_response;
        let Some(advanced) = self.end_step(ending, StepEnd::from(outcome)).await? else { return Ok(None) };
        self.activity.record_concluded(concluded.check());
        Ok(advanced.verification)
    }

    /// Ends a verification and its current step, even if other methods were not tried yet. `None`: the step has already
    /// ended, or it has a verdict and `unless_verdict` is set.
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
                return self.expire_current_step(record.check.id).await.map(|()| None);
            }
            Some(Ok(concluded)) => {
                (EndedStep::Concluded(CheckConclusion::from(concluded)), concluded.check().expires_at)
            }
            Some(Err(_)) => return Ok(None),
            // The check of a SIM Swap step is stored only at its end, so there is nothing to conclude.
            None => (EndedStep::Unchanged, record.check.expires_at),
        };
        let mut ending = self.new_step_ending(record, ended, deadline);
        ending.options.unless_verdict = unless_verdict;
        let Ok(progress) = ending.progress.abandon_step() else { return Ok(None) };
        ending.progress = progress;
        let Some(advanced) = self.end_verification(ending, CheckOutcome::Error(code)).await? else { return Ok(None) };
        if let Some(Ok(concluded)) = &concluded {
            self.activity.record_concluded(concluded.check());
        }
        Ok(advanced.verification)
    }

    /// Builds the ending of the current step, at the current time and with default options.
    pub(super) fn new_step_ending<'a>(
        &self,
        record: &'a VerificationRecord,
        ended: EndedStep,
        deadline: Timestamp,
    ) -> StepEnding<'a> {
        let (progress, at) = (record.progress.clone(), self.context.now());
        StepEnding { record, ended, deadline, progress, at, options: AdvanceOptions::default(), seal_response: None }
    }

    /// Expires the current step of a verification if the step's deadline has passed. Does nothing if another request
    /// has ended the step meanwhile.
    pub(super) async fn expire_current_step(&self, id: CheckId) -> Result<(), StoreError> {
        let Some(record) = self.store.find_verification(id).await? else { return Ok(()) };
        let now = self.context.now();
        match record.progress.open_step() {
            Some((Product::SimSwap, _)) if record.check.is_overdue(now) => {
                // The node that asked the operator has stopped without storing an answer.
                let ending = self.new_step_ending(&record, EndedStep::Unchanged, record.check.expires_at);
                self.end_step(ending, StepEnd::Error(ErrorCode::InternalError)).await.map(drop)
            }
            Some((Product::SimSwap, _)) | None => Ok(()),
            Some((product, step)) => match self.checks.find_check(record.check.project, product, step).await? {
                TenantLookup::Found(step) if step.is_overdue(now) => match step.clone().expire() {
                    Ok(concluded) => self.conclude_step(&record, concluded, Provenance::default()).await.map(drop),
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

    /// Ends the current step, and then starts the next one, asks the operator about SIM changes, or ends the
    /// verification. `None`: another request or node has already ended the step.
    pub(super) async fn end_step(&self, ending: StepEnding<'_>, end: StepEnd) -> Result<Option<Advanced>, StoreError> {
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
            (progress, next) = progress.record_creation_failure(method, code, is_past_ttl);
        }
    }

    async fn start_step(&self, mut ending: StepEnding<'_>, method: Method) -> Result<StartOutcome, StoreError> {
        let verification: VerificationCheck = downcast(ending.record.check.clone())?;
        let mut input = StepInput::unseal(&self.context, ending.record)?;
        let is_second_text = ending
            .record
            .progress
            .open_step()
            .is_some_and(|(product, _)| (product, method) == (Product::ReverseSms, Method::ReverseSms));
        if is_second_text {
            // The first SMS came from another number, and the end-user may send a second one. The second SMS belongs to
            // the same attempt, which already counts towards the limit of checks for the phone number.
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
            next_step: self.instructions(&check, &input)?,
            page_url: Some(page_url(&self.context, verification.id)?),
        };
        ending.seal_response(&afterwards)?;
        let record = ending.record;
        let advance = ending.into_advance(AdvanceTo::Step(Box::new(new)));
        let (step_was_pending, was_pending) = match self.store.advance(advance).await? {
            AdvanceOutcome::Advanced { step_was_pending, was_pending } => (step_was_pending, was_pending),
            AdvanceOutcome::Lost => return Ok(StartOutcome::Lost),
            AdvanceOutcome::TooManyChecks => return Ok(StartOutcome::TooManyChecks),
        };
        self.activity.record_created(ActivityRecorder::key_of(&check));
        self.record_transition(record, &afterwards.progress, step_was_pending, None);
        if !was_pending {
            self.activity.record_seen(ActivityRecorder::key_of(&verification));
        }
        self.on_step_begun(check, code, &input)?;
        Ok(StartOutcome::Started(Box::new(Advanced { step_was_pending, verification: Some(afterwards) })))
    }

    /// Generates another code for a second SMS. Its hash must fall into the same bucket (database shard) as the first
    /// code's, where the verification is stored, so most random codes are rejected.
    fn replace_code(&self, verification: &VerificationCheck, sms: SmsInput) -> Result<SmsInput, StoreError> {
        let environment = SmsEnvironment::for_mode(verification.mode, verification.project);
        let before = sms.code.as_str();
        for _ in 0..MAX_CODE_DRAWS {
            let code = SmsCode::from_random(self.context.entropy.bytes());
            if self.context.hash_code(environment, &sms.receiver, &code)?.bucket() == verification.id.bucket() {
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

    /// Caches the check of a new step that expects an SMS, so that the SMS is matched without a database query. In a
    /// sandbox project, also lets the simulated operator send the SMS, if it does so automatically.
    pub(super) fn on_step_begun(
        &self,
        check: AnyCheck,
        code: Option<CodeHash>,
        input: &StepInput,
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
        let callback =
            self.outbox.prepare(concluded.check(), || payload::render_verification(&concluded, &ending.progress))?;
        let conclusion = CheckConclusion::from(&concluded);
        let (check, progress) = (concluded.check().clone(), ending.progress.clone());
        let afterwards = Verification { check, progress, step_status: None, next_step: None, page_url: None };
        ending.seal_response(&afterwards)?;
        let record = ending.record;
        let advance = ending.into_advance(AdvanceTo::End { conclusion, callback: callback.clone() });
        let AdvanceOutcome::Advanced { step_was_pending, was_pending } = self.store.advance(advance).await? else {
            return Ok(None);
        };
        self.activity.record_concluded(concluded.check());
        self.record_transition(record, &afterwards.progress, step_was_pending, Some(outcome));
        if !was_pending && concluded.check().status() != CheckStatus::Expired {
            self.activity.record_seen(ActivityRecorder::key_of(concluded.check()));
        }
        if let Some(callback) = callback {
            self.outbox.send(concluded.check(), callback);
        }
        Ok(Some(Advanced { step_was_pending, verification: Some(afterwards) }))
    }

    /// Counts a stored transition in the funnel of the project.
    pub(super) fn record_transition(
        &self,
        record: &VerificationRecord,
        after: &Progress,
        step_was_pending: bool,
        outcome: Option<CheckOutcome<VerificationVerdict>>,
    ) {
        let (before, is_opened) = (&record.progress, record.opening.is_some());
        let events = events_of_transition(&Transition { before, after, is_opened, step_was_pending, outcome });
        self.activity.record_funnel(&record.check, &events);
    }

    /// Builds the check of a step, in the verification's bucket (database shard). The check's deadline is not later
    /// than the verification's.
    pub(super) fn build_step(
        &self,
        verification: &VerificationCheck,
        input: &StepInput,
        method: Method,
        now: Timestamp,
    ) -> Result<NewStep, StoreError> {
        let missing = || StoreError::CorruptRow {
            table: "verifications",
            row: verification.id.to_string(),
            problem: format!("the input of {method} is missing"),
        };
        let id = CheckId(self.context.new_uuid(now)).with_bucket(verification.id.bucket());
        let (network, ttl, expectation, code) = match method {
            Method::SecureSna => {
                let network = input.silent_network.clone().ok_or_else(missing)?;
                (network, CHECK_TTL_SECONDS, Expectation::DeviceOfStep, None)
            }
            Method::ReverseSms => {
                let sms = input.sms.as_ref().ok_or_else(missing)?;
                let environment = SmsEnvironment::for_mode(verification.mode, verification.project);
                let code = self.context.hash_code(environment, &sms.receiver, &sms.code)?;
                let project = self.context.control_plane.project(verification.project);
                let ttl =
                    project.and_then(|project| project.configuration.reverse_sms.ttl).unwrap_or(ReverseSmsTtl::DEFAULT);
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

    /// Returns what the end-user's device has to do for an open step. `None`: nothing.
    pub(super) fn instructions(
        &self,
        step: &AnyCheck,
        input: &StepInput,
    ) -> Result<Option<StepInstructions>, StoreError> {
        Ok(match (Method::of_product(step.product), &input.sms) {
            (Some(Method::SecureSna), _) => {
                let project = self.context.control_plane.project(step.project);
                let digital_credential = match &project {
                    Some(project) => {
                        credential_request_for_apps(&self.context, &self.operators, project, step, &input.number)?
                    }
                    None => None,
                };
                let url = device_url(&self.context, step.product, step.id)?;
                Some(StepInstructions::SecureSna { url, digital_credential })
            }
            (Some(Method::ReverseSms), Some(sms)) => {
                Some(StepInstructions::ReverseSms { receiver: sms.receiver.clone(), sms_body: sms.sms_body.clone() })
            }
            (Some(Method::ReverseSms), None) | (None, _) => None,
        })
    }

    /// Returns the client's redirect URL, encrypted for the check of a Secure SNA step. The device is sent there after
    /// it has returned from its operator. `None`: the client has set no redirect URL, or the step uses another method.
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
}

enum StartOutcome {
    Started(Box<Advanced>),
    Lost,
    TooManyChecks,
}

pub(super) fn begin_step(progress: Progress, product: Product, check: CheckId) -> Result<Progress, StoreError> {
    progress.begin_step(product, check).map_err(|problem| StoreError::Refused(problem.to_string()))
}

/// Builds the open check of a step, without the fields that depend on its product.
pub(super) fn step_check<V>(
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
        // Callers replace this deadline for an open check. A SIM Swap check is stored already concluded, and only needs
        // an expiry that is later than its conclusion.
        expires_at: created_at.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX),
        state: Lifecycle::Open(OpenState::Accepted),
    }
}
