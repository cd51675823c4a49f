//! The device's part of a silent check. The device opens the check's URL, is redirected to its operator, returns with a
//! `state`, and gets a one-time code (the redirect code), which the API client redeems for the result.
//!
//! Any failure concludes the check immediately. The operator's verdict stays encrypted until the redirect code is
//! redeemed.
//!
//! If a redirect began at a verification's hosted page, only the browser that began it can finish it. The `state`
//! contains the hash of that browser's key, and a return without the key changes nothing. A device that returns over
//! plain HTTP does not get its code in the response. It gets a handle, which it then presents over TLS to get the code.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, ErrorCode, Lifecycle, Provenance, Reference},
    phone::InvalidPhoneNumber,
    product::Product,
    silent::{SilentCheck, SilentWay},
    tenancy::ProjectId,
    web_url::RedirectUrl,
};
use tokio::time::timeout;

use super::{
    SilentFlow, VerificationReturn,
    secrets::{
        BrowserKey, OperatorAnswer, PendingRedirect, RedirectState, SilentCheckInput, corrupt_session_error,
        seal_input, unseal_redirect_url,
    },
};
use crate::{
    activity::ActivityRecorder,
    checks::downcast,
    lookups::operator_access::{DeviceVisit, SilentRoute, SilentRouteError},
    ports::{
        checks::ConcludeOutcome,
        silent::{
            BeginRedirect, OperatorAuthorizationRequest, OperatorAuthorizationResponse, RedirectSessionRecord,
            SealedVerdict, SilentConnector, SilentOperation, SilentResult,
        },
        store::StoreError,
    },
    rate_limits::RateLimitState,
};

/// Timeout of one request to the operator. The device waits for its response during that time.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// A device's request that opens the URL of a check, not yet authenticated.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("DeviceRequest({check})")]
pub struct DeviceRequest<'a> {
    pub product: Product,
    pub check: CheckId,
    pub token: &'a str,
    /// Number of the SIM in a simulated device. Sandbox only.
    pub sim: Option<&'a str>,
    pub address: IpAddr,
}

/// An authenticated request from a device that is to be redirected to its operator.
#[derive(Clone, Copy)]
pub(crate) struct DeviceArrival<'a> {
    pub product: Product,
    pub check: CheckId,
    pub sim: Option<&'a str>,
    pub address: IpAddr,
    /// Key in the browser's cookie. `None`: the redirect did not begin at the hosted page.
    pub browser: Option<&'a BrowserKey>,
    /// Whether the browser can ask the phone's wallet. Then a failure of the redirect leaves the check open.
    pub has_wallet: bool,
}

/// A device's request after its operator redirected it back to us.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("DeviceReturn({connector})")]
pub struct DeviceReturn<'a> {
    /// Name of the connector, from the URL to which the operator redirected the device.
    pub connector: &'a str,
    pub state: &'a str,
    pub peer: SocketAddr,
    pub address: IpAddr,
    pub query: &'a [(String, String)],
    pub headers: &'a [(String, Vec<u8>)],
}

/// The request with which a device that returned over plain HTTP presents its handle over TLS.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("HandleReturn")]
pub struct HandleReturn<'a> {
    pub handle: &'a str,
    pub address: IpAddr,
    pub browser_keys: &'a [BrowserKey],
}

/// What the response makes a device do next.
#[derive(Debug)]
pub enum NextStep {
    /// Redirects the device to this absolute URL at the operator. The URL is never logged.
    Redirect(String),
    Finish(RedirectOutcome),
}

/// The end of a device's redirects, as shown to the device.
#[derive(Debug)]
pub struct RedirectOutcome {
    pub check: CheckId,
    pub project: ProjectId,
    pub reference: Option<Reference>,
    /// The client's URL to which the device is redirected. `None`: the response itself shows the result.
    pub redirect_url: Option<RedirectUrl>,
    pub result: Result<RedirectCode, RedirectFailure>,
    /// Whether Reverse SMS is available for this end-user instead. `false` unless the check failed.
    pub may_use_reverse_sms: bool,
    /// The verification of which the check is a step. `None`: the check is not a step.
    pub verification: Option<VerificationReturn>,
    /// Whether the redirect has failed and the check stays open, because the phone's wallet may still verify the number.
    pub leaves_wallet: bool,
}

/// One-time code that the API client redeems for the check's result.
#[derive(derive_more::Debug)]
#[debug("RedirectCode(…)")]
pub struct RedirectCode(pub String);

/// Reason why the device gets no code for the API client to redeem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectFailure {
    /// The check was concluded with this error code, either by this request or when the same device returned over plain
    /// HTTP.
    Failed(ErrorCode),
    Expired,
    /// The check was concluded before this request, or the code for the API client was already issued.
    AlreadyCompleted,
}

/// Errors for which there is no [`RedirectOutcome`] to show.
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    #[error("check not found, or its redirect URL is invalid")]
    NotFound,
    #[error("`sim`: {0}")]
    Sim(#[from] InvalidPhoneNumber),
    #[error("invalid `state`: unknown, already used, or replaced by a newer one")]
    InvalidState,
    /// The redirect began at the hosted page in another browser, and this browser does not have its key.
    #[error("this was started in another browser, and nothing was confirmed")]
    OtherBrowser,
    #[error("too many requests with an already used `state` from this address")]
    TooManyReplays { retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// State of a redirect session when a request arrives.
pub(super) enum SessionState {
    /// The operator's verdict is not known yet.
    Open(SilentCheck, SilentCheckInput),
    Finished(RedirectOutcome),
}

/// Result of consuming the `state` with which a device returns from its operator.
enum Returned {
    Answered(Box<AnsweredSession>),
    Finished(RedirectOutcome),
}

/// A redirect session whose `state` is consumed, with the operator's answer.
struct AnsweredSession {
    check: SilentCheck,
    pending: PendingRedirect,
    /// The operator's verdict, or the error code with which the check is concluded.
    answer: Result<SilentResult, ErrorCode>,
}

/// Result of starting a redirect to the operator.
enum RedirectStart {
    /// Redirects the device to this absolute URL at the operator.
    Redirect(String),
    Failed(ErrorCode),
    /// The check was concluded or expired before the redirect was stored.
    Concluded,
}

impl SilentFlow {
    /// Handles a device's request that opens the URL of a check.
    pub async fn open_device_url(&self, request: DeviceRequest<'_>) -> Result<NextStep, RedirectError> {
        let DeviceRequest { product, check, token, sim, address } = request;
        if !self.is_device_token(check, token) {
            return Err(RedirectError::NotFound);
        }
        self.start_redirect(DeviceArrival { product, check, sim, address, browser: None, has_wallet: false }).await
    }

    /// Redirects a device to its operator.
    pub(crate) async fn start_redirect(&self, arrival: DeviceArrival<'_>) -> Result<NextStep, RedirectError> {
        let next = self.start_redirect_of_check(arrival).await?;
        Ok(match next {
            NextStep::Finish(outcome) => NextStep::Finish(outcome.with_began_at_page(arrival.browser.is_some())),
            redirect @ NextStep::Redirect(_) => redirect,
        })
    }

    async fn start_redirect_of_check(&self, arrival: DeviceArrival<'_>) -> Result<NextStep, RedirectError> {
        let record = self.store.redirect_session(arrival.check).await?;
        let record = record.filter(|record| record.check.product == arrival.product).ok_or(RedirectError::NotFound)?;
        let has_session = record.session.is_some();
        let (check, input) = match self.resume_session(record).await? {
            SessionState::Open(check, input) => (check, input),
            SessionState::Finished(outcome) => return Ok(NextStep::Finish(outcome)),
        };
        if self.context.has_left_sandbox(check.project, check.mode) {
            return self.fail_redirect(check, ErrorCode::InternalError, false).await.map(NextStep::Finish);
        }
        match self.begin_redirect(&check, &input, has_session, arrival).await? {
            RedirectStart::Redirect(location) => Ok(NextStep::Redirect(location)),
            RedirectStart::Failed(code) => {
                self.fail_redirect(check, code, arrival.has_wallet).await.map(NextStep::Finish)
            }
            RedirectStart::Concluded => self.current_outcome(check.id).await.map(NextStep::Finish),
        }
    }

    pub(super) async fn resume_session(&self, record: RedirectSessionRecord) -> Result<SessionState, StoreError> {
        let RedirectSessionRecord { check, session } = record;
        if check.is_overdue(self.context.now()) {
            self.checks.expire(check.clone()).await?;
            let outcome = self.build_outcome(&downcast(check)?, Err(RedirectFailure::Expired));
            return Ok(SessionState::Finished(outcome));
        }
        let check: SilentCheck = downcast(check)?;
        match session {
            Some(session) if session.verdict.is_none() => {
                let input = self.unseal_input(check.id, check.mode, &session.input)?;
                Ok(SessionState::Open(check, input))
            }
            // The redirect session of a verification's step is stored only when the device is redirected. Until then,
            // the input is stored with the verification.
            None if matches!(check.state, Lifecycle::Open(_)) => {
                match self.step_sessions.find_step_input(&check).await? {
                    Some(input) => Ok(SessionState::Open(check, input)),
                    None => Ok(SessionState::Finished(self.build_outcome(&check, Err(failure_of(&check))))),
                }
            }
            _ => Ok(SessionState::Finished(self.build_outcome(&check, Err(failure_of(&check))))),
        }
    }

    async fn begin_redirect(
        &self,
        check: &SilentCheck,
        input: &SilentCheckInput,
        has_session: bool,
        arrival: DeviceArrival<'_>,
    ) -> Result<RedirectStart, RedirectError> {
        let device_ip = arrival.address;
        let route = self.operators.for_mode(check.mode).silent_route(DeviceVisit {
            check,
            number: input.number.as_ref(),
            announced_ip: input.expected_address,
            device_ip,
            sim: arrival.sim,
        });
        let SilentRoute { network, connector, simulated_sim } = match route {
            Ok(route) => route,
            Err(SilentRouteError::InvalidSim(problem)) => return Err(problem.into()),
            Err(SilentRouteError::Failed(code)) => return Ok(RedirectStart::Failed(code)),
        };
        let now = self.context.now();
        let browser = arrival.browser.map(|key| self.browser_hash(check.id, key)).transpose()?;
        let (state, state_hash) = self.generate_state(RedirectState { check: check.id, browser })?;
        let redirect = connector.begin_authorization(OperatorAuthorizationRequest {
            check: check.id,
            operation: operation(check.product, input),
            state: &state,
            simulated_sim: simulated_sim.as_ref(),
            device_ip,
            now,
        });
        let redirect = match timeout(OPERATOR_TIMEOUT, redirect).await.unwrap_or(Err(ErrorCode::MnoTimeout)) {
            Ok(redirect) => redirect,
            Err(code) => return Ok(RedirectStart::Failed(code)),
        };
        if check.is_overdue(self.context.now()) {
            return Ok(RedirectStart::Concluded);
        }
        let pending_redirect =
            PendingRedirect::new(connector.name(), device_ip, &redirect.connector_data, arrival.has_wallet);
        let pending_redirect = self.seal_pending_redirect(check.id, &pending_redirect)?;
        if !has_session && !self.step_sessions.open_session(check, seal_input(&self.context, check.id, input)?).await? {
            return Ok(RedirectStart::Concluded);
        }
        let (check_id, network_id) = (check.id, network.clone());
        let begin =
            BeginRedirect { check: check_id, network: network_id, state_hash, pending_redirect, browser, at: now };
        if !self.store.begin_redirect(begin).await? {
            return Ok(RedirectStart::Concluded);
        }
        self.activity.record_redirect(check, &network);
        Ok(RedirectStart::Redirect(redirect.location))
    }

    /// Handles the return of a device over TLS: consumes the `state`, queries the operator and issues the redirect
    /// code. `browser_keys` are the keys in the device's cookies.
    pub async fn handle_authorization_response(
        &self,
        returned: DeviceReturn<'_>,
        browser_keys: &[BrowserKey],
    ) -> Result<RedirectOutcome, RedirectError> {
        let state = self.parse_state(returned.state).ok_or(RedirectError::InvalidState)?;
        self.require_browser(state, browser_keys)?;
        let outcome = match self.consume_return(state, returned).await? {
            Returned::Answered(session) => {
                let AnsweredSession { check, pending, answer } = *session;
                self.finish_redirect(check, state, answer, pending.has_wallet).await?
            }
            Returned::Finished(outcome) => outcome,
        };
        Ok(outcome.with_began_at_page(state.browser.is_some()))
    }

    /// Handles the return of a device over plain HTTP: consumes the `state` and queries the operator. The response
    /// contains neither the redirect code nor the address of the hosted page, because others on the network could read
    /// them. Returns a handle for [`finish_with_handle`](Self::finish_with_handle).
    pub async fn handle_plain_response(&self, returned: DeviceReturn<'_>) -> Result<String, RedirectError> {
        let state = self.parse_state(returned.state).ok_or(RedirectError::InvalidState)?;
        let (handle, handle_hash) = self.generate_handle(state)?;
        let session = match self.consume_return(state, returned).await? {
            Returned::Answered(session) => *session,
            Returned::Finished(_) => return Ok(handle),
        };
        let AnsweredSession { check, mut pending, answer } = session;
        if let (None, Err(code)) = (state.browser, &answer) {
            drop(self.fail_redirect(check, *code, false).await?);
            return Ok(handle);
        }
        // Only the browser that began the redirect at the hosted page may end the step, and a plain HTTP request does
        // not contain that browser's key. Errors are therefore stored too, until the browser presents its handle over
        // TLS.
        let network = check.network.clone().ok_or_else(|| corrupt_session_error(check.id))?;
        pending.answer = Some(OperatorAnswer::new(&answer));
        let begin = BeginRedirect {
            check: check.id,
            network,
            state_hash: handle_hash,
            pending_redirect: self.seal_pending_redirect(check.id, &pending)?,
            browser: state.browser,
            at: self.context.now(),
        };
        // If the check was concluded meanwhile, nothing is stored, and the device that presents the handle gets the
        // check's outcome.
        self.store.begin_redirect(begin).await?;
        Ok(handle)
    }

    /// Consumes the handle of a device that has returned over plain HTTP, and issues the redirect code.
    pub async fn finish_with_handle(&self, returned: HandleReturn<'_>) -> Result<RedirectOutcome, RedirectError> {
        let state = self.parse_state(returned.handle).ok_or(RedirectError::InvalidState)?;
        self.require_browser(state, returned.browser_keys)?;
        self.limit_return(returned.handle, returned.address)?;
        let id = state.check;
        let outcome = match self.store.consume_state(id, self.handle_hash(id, returned.handle)?).await? {
            Some(consumed) => {
                let pending = self.unseal_pending_redirect(id, &consumed.pending_redirect)?;
                let answer = pending.answer.as_ref().and_then(|answer| answer.read(consumed.record.check.mode));
                let answer = answer.ok_or_else(|| corrupt_session_error(id))?;
                match self.resume_session(consumed.record).await? {
                    SessionState::Open(check, input) => {
                        let answer = self.require_same_device(&check, &input, &pending, returned.address).and(answer);
                        self.finish_redirect(check, state, answer, pending.has_wallet).await?
                    }
                    SessionState::Finished(outcome) => outcome,
                }
            }
            None => self.handle_used_handle(state).await?,
        };
        Ok(outcome.with_began_at_page(state.browser.is_some()))
    }

    /// Fails if the redirect began at the hosted page in another browser. Called before the `state` is consumed, so
    /// that the browser that began it can still return.
    fn require_browser(&self, state: RedirectState, keys: &[BrowserKey]) -> Result<(), RedirectError> {
        match state.browser {
            Some(browser) if !self.is_initiating_browser(state.check, browser, keys)? => {
                Err(RedirectError::OtherBrowser)
            }
            _ => Ok(()),
        }
    }

    fn limit_return(&self, state: &str, address: IpAddr) -> Result<(), RedirectError> {
        match self.rate_limiter.limit_device_return(state, address, self.context.now()) {
            Some(RateLimitState { admitted: false, reset_seconds, .. }) => {
                Err(RedirectError::TooManyReplays { retry_after: reset_seconds })
            }
            _ => Ok(()),
        }
    }

    /// Consumes the `state`, and queries the operator.
    async fn consume_return(
        &self,
        state: RedirectState,
        returned: DeviceReturn<'_>,
    ) -> Result<Returned, RedirectError> {
        let id = state.check;
        let connector = self.operators.silent_connector(returned.connector).ok_or(RedirectError::InvalidState)?;
        self.limit_return(returned.state, returned.address)?;
        let Some(consumed) = self.store.consume_state(id, self.state_hash(id, returned.state)?).await? else {
            return self.handle_invalid_state(state).await.map(Returned::Finished);
        };
        let pending = self.unseal_pending_redirect(id, &consumed.pending_redirect)?;
        let (check, input) = match self.resume_session(consumed.record).await? {
            SessionState::Open(check, input) => (check, input),
            SessionState::Finished(outcome) => return Ok(Returned::Finished(outcome)),
        };
        if pending.connector != returned.connector {
            return Err(RedirectError::InvalidState);
        }
        let answer = self.query_operator(&check, &input, connector, &pending, returned).await;
        Ok(Returned::Answered(Box::new(AnsweredSession { check, pending, answer })))
    }

    fn require_same_device(
        &self,
        check: &SilentCheck,
        input: &SilentCheckInput,
        pending: &PendingRedirect,
        address: IpAddr,
    ) -> Result<(), ErrorCode> {
        if self.context.has_left_sandbox(check.project, check.mode) {
            return Err(ErrorCode::InternalError);
        }
        let operators = self.operators.for_mode(check.mode);
        let is_same = operators.may_be_same_device(pending.initial_ip, address, input.expected_address);
        if is_same { Ok(()) } else { Err(ErrorCode::IpMismatch) }
    }

    async fn query_operator(
        &self,
        check: &SilentCheck,
        input: &SilentCheckInput,
        connector: Arc<dyn SilentConnector>,
        pending: &PendingRedirect,
        returned: DeviceReturn<'_>,
    ) -> Result<SilentResult, ErrorCode> {
        let operation = operation(check.product, input);
        let response = OperatorAuthorizationResponse {
            check: check.id,
            operation,
            connector_data: &pending.connector_data(),
            initial_ip: pending.initial_ip,
            peer: returned.peer,
            device_ip: returned.address,
            query: returned.query,
            headers: returned.headers,
            now: self.context.now(),
        };
        connector.check_source(&response)?;
        self.require_same_device(check, input, pending, returned.address)?;
        let reply = timeout(OPERATOR_TIMEOUT, connector.complete_authorization(response))
            .await
            .unwrap_or(Err(ErrorCode::MnoTimeout))?;
        match (reply, operation) {
            (reply @ SilentResult::Match(_), SilentOperation::VerifyNumber(_))
            | (reply @ SilentResult::Number(_), SilentOperation::DiscoverNumber)
            | (reply @ SilentResult::Device(_), SilentOperation::AuthenticateDevice) => Ok(reply),
            // The result does not answer the question: it is a number instead of a match, for example.
            _ => Err(ErrorCode::MnoResponseError),
        }
    }

    /// Stores the operator's verdict and issues the redirect code. If `answer` is an error, concludes the check with
    /// that error.
    async fn finish_redirect(
        &self,
        check: SilentCheck,
        state: RedirectState,
        answer: Result<SilentResult, ErrorCode>,
        has_wallet: bool,
    ) -> Result<RedirectOutcome, RedirectError> {
        match answer {
            Ok(result) => self.store_result(check, state, &result, SilentWay::MobileData).await,
            Err(code) => self.fail_redirect(check, code, has_wallet).await,
        }
    }

    /// Stores the operator's verdict and issues the redirect code.
    pub(super) async fn store_result(
        &self,
        check: SilentCheck,
        state: RedirectState,
        result: &SilentResult,
        way: SilentWay,
    ) -> Result<RedirectOutcome, RedirectError> {
        let (code, code_hash) = self.generate_redirect_code(check.id)?;
        let decision = SealedVerdict { code_hash, verdict: self.seal_result(state, result, way, &code)? };
        if check.is_overdue(self.context.now()) || !self.store.store_verdict(check.id, decision).await? {
            return self.current_outcome(check.id).await;
        }
        Ok(self.build_outcome(&check, Ok(RedirectCode(code))))
    }

    /// Returns the outcome for a `state` that cannot be consumed, because the device has already returned with this
    /// `state`, or was redirected another time since.
    async fn handle_invalid_state(&self, state: RedirectState) -> Result<RedirectOutcome, RedirectError> {
        let record = self.store.redirect_session(state.check).await?.ok_or(RedirectError::NotFound)?;
        match self.resume_session(record).await? {
            SessionState::Open(check, _) => self.superseded_outcome(&check, state),
            SessionState::Finished(outcome) => Ok(outcome),
        }
    }

    /// Returns the outcome for a handle that cannot be consumed, because the handle was already used, its check has
    /// failed, or the device was redirected another time since.
    async fn handle_used_handle(&self, state: RedirectState) -> Result<RedirectOutcome, RedirectError> {
        let record = self.store.redirect_session(state.check).await?.ok_or(RedirectError::NotFound)?;
        let error_code = record.check.error_code();
        match self.resume_session(record).await? {
            SessionState::Open(check, _) => self.superseded_outcome(&check, state),
            SessionState::Finished(outcome) => Ok(match error_code {
                Some(code) => RedirectOutcome { result: Err(RedirectFailure::Failed(code)), ..outcome },
                None => outcome,
            }),
        }
    }

    /// Returns the outcome for a `state` that a newer redirect has replaced, for example in another tab. If the
    /// redirect began at the hosted page, the outcome leads the browser back to that page. Otherwise the `state` is
    /// invalid.
    fn superseded_outcome(&self, check: &SilentCheck, state: RedirectState) -> Result<RedirectOutcome, RedirectError> {
        match state.browser {
            Some(_) => Ok(self.build_outcome(check, Err(failure_of(check)))),
            None => Err(RedirectError::InvalidState),
        }
    }

    /// Concludes the check with the error of a redirect over mobile data. Leaves the check open if the browser can ask
    /// the phone's wallet, unless another device than the expected one has taken part.
    async fn fail_redirect(
        &self,
        check: SilentCheck,
        code: ErrorCode,
        has_wallet: bool,
    ) -> Result<RedirectOutcome, RedirectError> {
        if has_wallet && code != ErrorCode::IpMismatch && self.takes_wallet(&check.clone().map(Into::into)) {
            tracing::info!(check = %check.id, code = %code, "redirect of a silent check failed; the wallet is left");
            self.store.record_redirect_error(check.id, code).await?;
            let outcome = self.build_outcome(&check, Err(failure_of(&check)));
            return Ok(RedirectOutcome { leaves_wallet: true, ..outcome });
        }
        self.fail_check(check, code, SilentWay::MobileData.into()).await
    }

    /// Concludes the check with an error. If another request has already concluded the check, returns the outcome of
    /// that conclusion.
    pub(super) async fn fail_check(
        &self,
        check: SilentCheck,
        code: ErrorCode,
        provenance: Provenance,
    ) -> Result<RedirectOutcome, RedirectError> {
        tracing::info!(check = %check.id, product = %check.product, code = %code, "silent check failed");
        let at = self.context.now();
        if let Ok(concluded) = check.clone().conclude_with_error(code, at) {
            let is_in_time = concluded.check().status() != CheckStatus::Expired;
            let fault = if is_in_time { RedirectFailure::Failed(code) } else { RedirectFailure::Expired };
            if let ConcludeOutcome::Concluded { was_pending } =
                self.checks.conclude_with_provenance(concluded, provenance).await?
            {
                if !was_pending {
                    self.activity.record_seen(ActivityRecorder::key_of(&check));
                }
                return Ok(self.build_outcome(&check, Err(fault)));
            }
        }
        self.current_outcome(check.id).await
    }

    /// Returns the outcome of a check that another request has concluded, or that has expired.
    async fn current_outcome(&self, check: CheckId) -> Result<RedirectOutcome, RedirectError> {
        let record = self.store.redirect_session(check).await?.ok_or(RedirectError::NotFound)?;
        Ok(match self.resume_session(record).await? {
            SessionState::Open(check, _) => self.build_outcome(&check, Err(failure_of(&check))),
            SessionState::Finished(outcome) => outcome,
        })
    }

    fn build_outcome(&self, check: &SilentCheck, result: Result<RedirectCode, RedirectFailure>) -> RedirectOutcome {
        let may_use_reverse_sms = result.is_err() && self.may_use_reverse_sms(check);
        RedirectOutcome {
            check: check.id,
            project: check.project,
            reference: check.reference.clone(),
            redirect_url: check.redirect_url.as_ref().and_then(|url| unseal_redirect_url(&self.context, check.id, url)),
            result,
            may_use_reverse_sms,
            verification: self.step_sessions.verification_return(check),
            leaves_wallet: false,
        }
    }
}

impl RedirectOutcome {
    fn with_began_at_page(mut self, began_at_page: bool) -> Self {
        if let Some(verification) = &mut self.verification {
            verification.began_at_page = began_at_page;
        }
        self
    }
}

fn operation(product: Product, input: &SilentCheckInput) -> SilentOperation<'_> {
    match &input.number {
        Some(number) => SilentOperation::VerifyNumber(number),
        None if product == Product::Discovery => SilentOperation::DiscoverNumber,
        None => SilentOperation::AuthenticateDevice,
    }
}

fn failure_of(check: &SilentCheck) -> RedirectFailure {
    match check.state {
        Lifecycle::Concluded { .. } if check.status() == CheckStatus::Expired => RedirectFailure::Expired,
        _ => RedirectFailure::AlreadyCompleted,
    }
}
