//! Redirect session of a silent check: the device opens the check's URL, is redirected to its operator, returns with a
//! `state`, and gets a redirect code.
//!
//! Any failure concludes the check immediately. The operator's verdict stays sealed until the code is redeemed.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, ErrorCode, Lifecycle, Reference},
    network::{IpLocation, NetworkId},
    phone::{InvalidPhoneNumber, Msisdn},
    product::Product,
    sandbox::{self, SandboxAddress},
    silent::{DeviceLocation, SilentCheck},
    tenancy::{Mode, Project},
    web_url::RedirectUrl,
};
use tokio::time::timeout;

use super::secrets::{PendingRedirect, SilentCheckInput};
use crate::{
    Engine,
    activity::ActivityRecorder,
    checks::{downcast, require_eligible, truncate_to_millis},
    ports::{
        AuthorizationRequest, AuthorizationResponse, BeginRedirect, ConcludeOutcome, RedirectSessionRecord,
        SealedVerdict, SilentConnector, SilentOperation, SilentResult, StoreError,
    },
    rate_limit::{RateLimitState, ip_bucket},
};

/// Limit for one connector call; the device does not wait longer.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// A device's request for the check's URL.
#[derive(Clone, Copy)]
pub struct DeviceRequest<'a> {
    pub product: Product,
    pub check: CheckId,
    pub token: &'a str,
    /// Number of the simulated SIM; sandbox only.
    pub sim: Option<&'a str>,
    pub address: IpAddr,
}

impl fmt::Debug for DeviceRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRequest").field("check", &self.check).finish_non_exhaustive()
    }
}

/// A device's request after its operator redirected it back to us.
#[derive(Clone, Copy)]
pub struct DeviceReturn<'a> {
    /// Connector named in the return URL.
    pub connector: &'a str,
    pub state: &'a str,
    pub peer: SocketAddr,
    pub address: IpAddr,
    pub query: &'a [(String, String)],
    pub headers: &'a [(String, Vec<u8>)],
}

impl fmt::Debug for DeviceReturn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceReturn").field("connector", &self.connector).finish_non_exhaustive()
    }
}

/// Next step of the device.
#[derive(Debug)]
pub enum NextStep {
    /// Absolute URL at the operator. Never logged.
    Redirect(String),
    Finish(RedirectOutcome),
}

/// End of a redirect session as shown to the device.
#[derive(Debug)]
pub struct RedirectOutcome {
    pub check: CheckId,
    pub reference: Option<Reference>,
    /// Redirect target for the device. `None`: the result is rendered in the response.
    pub redirect_url: Option<RedirectUrl>,
    pub result: Result<RedirectCode, RedirectFailure>,
    /// Reverse SMS is available to this end-user.
    pub may_use_reverse_sms: bool,
}

/// Code that the API client redeems. Its `Debug` is masked.
pub struct RedirectCode(pub String);

impl fmt::Debug for RedirectCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedirectCode(…)")
    }
}

/// Reason why the device gets no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectFailure {
    /// This request concluded the check with this error code.
    Failed(ErrorCode),
    Expired,
    /// The check was concluded earlier, or its code was already issued.
    AlreadyCompleted,
}

/// Errors that have no [`RedirectOutcome`].
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    #[error("check not found, or its redirect URL is invalid")]
    NotFound,
    #[error("`sim`: {0}")]
    Sim(#[from] InvalidPhoneNumber),
    #[error("invalid `state`: unknown, already used, or replaced by a newer one")]
    InvalidState,
    #[error("too many requests with an already used `state` from this address")]
    TooManyReplays { retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The device's network and the connector to its operator.
struct OperatorRoute {
    network: NetworkId,
    connector: Arc<dyn SilentConnector>,
    /// Simulated SIM; sandbox only.
    sim: Option<Msisdn>,
}

impl Engine {
    /// Handles a device's request for the check's URL.
    pub async fn open_device_url(&self, request: DeviceRequest<'_>) -> Result<NextStep, RedirectError> {
        if !self.is_device_token(request.check, request.token)? {
            return Err(RedirectError::NotFound);
        }
        let record = self.store().redirect_session(request.check).await?;
        let record = record.filter(|record| record.check.product == request.product).ok_or(RedirectError::NotFound)?;
        let (check, input) = match self.load_open_session(record).await? {
            Ok(open) => open,
            Err(end) => return Ok(NextStep::Finish(end)),
        };
        if self.has_left_sandbox(check.project, check.mode) {
            return self.fail_check(check, ErrorCode::InternalError).await.map(NextStep::Finish);
        }
        let sim = request.sim.filter(|_| check.mode == Mode::Sandbox);
        let sim = sim.map(|sim| Msisdn::parse(sim, Mode::Sandbox)).transpose()?;
        match self.begin_redirect(&check, &input, sim, request.address).await? {
            Ok(Some(location)) => Ok(NextStep::Redirect(location)),
            Ok(None) => self.current_outcome(check.id).await.map(NextStep::Finish),
            Err(code) => self.fail_check(check, code).await.map(NextStep::Finish),
        }
    }

    /// The check and its input while the verdict is pending, otherwise the outcome for the device.
    async fn load_open_session(
        &self,
        record: RedirectSessionRecord,
    ) -> Result<Result<(SilentCheck, SilentCheckInput), RedirectOutcome>, StoreError> {
        let RedirectSessionRecord { check, session: progress } = record;
        if check.is_overdue(self.clock().now()) {
            self.expire(check.clone()).await?;
            return Ok(Err(self.build_outcome(&downcast(check)?, Err(RedirectFailure::Expired))));
        }
        let check: SilentCheck = downcast(check)?;
        match progress {
            Some(progress) if progress.verdict.is_none() => {
                let input = self.open_input(check.id, check.mode, &progress.input)?;
                Ok(Ok((check, input)))
            }
            _ => Ok(Err(self.build_outcome(&check, Err(failure_of(&check))))),
        }
    }

    /// Returns the operator URL for the device. `None`: the check was concluded or expired meanwhile.
    async fn begin_redirect(
        &self,
        check: &SilentCheck,
        input: &SilentCheckInput,
        sim: Option<Msisdn>,
        device: IpAddr,
    ) -> Result<Result<Option<String>, ErrorCode>, StoreError> {
        let OperatorRoute { network, connector, sim } = match self.select_route(check, input, sim, device) {
            Ok(selected) => selected,
            Err(code) => return Ok(Err(code)),
        };
        let now = truncate_to_millis(self.clock().now());
        let (state, state_hash) = self.generate_state(check.id)?;
        let question = to_question(input);
        let request = AuthorizationRequest {
            check: check.id,
            operation: question,
            state: &state,
            simulated_sim: sim.as_ref(),
            device_ip: device,
            now,
        };
        let redirect = timeout(OPERATOR_TIMEOUT, connector.begin_authorization(request))
            .await
            .unwrap_or(Err(ErrorCode::MnoTimeout));
        let redirect = match redirect {
            Ok(redirect) => redirect,
            Err(code) => return Ok(Err(code)),
        };
        if check.is_overdue(self.clock().now()) {
            return Ok(Ok(None));
        }
        let pending_redirect = self.seal_pending_redirect(
            check.id,
            &PendingRedirect::new(connector.name(), device, &redirect.connector_data),
        )?;
        let begin = BeginRedirect { check: check.id, network: network.clone(), state_hash, pending_redirect, at: now };
        if !self.store().begin_redirect(begin).await? {
            return Ok(Ok(None));
        }
        self.activity_recorder().record_redirect(check, &network);
        Ok(Ok(Some(redirect.location)))
    }

    /// Selects the device's network and the connector to its operator.
    fn select_route(
        &self,
        check: &SilentCheck,
        input: &SilentCheckInput,
        sim: Option<Msisdn>,
        device: IpAddr,
    ) -> Result<OperatorRoute, ErrorCode> {
        if check.mode == Mode::Sandbox {
            check_simulated_address(input.expected_address, device)?;
            let network = sandbox::NETWORK_ID.parse().map_err(|_| ErrorCode::InternalError)?;
            let connector = self.networks().simulated_route().ok_or(ErrorCode::MnoRedirectUnsupported)?;
            let sim = sim.or_else(|| input.number.clone());
            return Ok(OperatorRoute { network, connector, sim });
        }
        let located = self.networks().locate(device);
        let claimed = input.number.as_ref().and(check.network.as_ref());
        let location = DeviceLocation {
            ip: device,
            location: &located,
            announced_ip: input.expected_address,
            claimed_network: claimed,
        };
        let shared_connector = |claimed: &NetworkId, device: &NetworkId| {
            self.networks().shared_silent_route(claimed, device, check.product)
        };
        let network = location.resolve_network(|claimed, device| shared_connector(claimed, device).is_some())?;
        let is_allowed = |project: &Project| require_eligible(project, check.product, &network, true).is_ok();
        // For a claimed number, eligibility was checked at creation.
        if input.number.is_none() && !self.control_plane().has_project_where(check.project, is_allowed) {
            return Err(ErrorCode::MnoNotSupported);
        }
        let connector = match claimed {
            Some(claimed) => shared_connector(claimed, &network),
            None => self.networks().silent_route(&network, check.product),
        };
        let connector = connector.ok_or(ErrorCode::MnoRedirectUnsupported)?;
        // A claimed number keeps its serving network, even if the device is on the host network of its brand.
        Ok(OperatorRoute { network: claimed.cloned().unwrap_or(network), connector, sim: None })
    }

    /// Compares the addresses before and after the redirect, to detect a redirect URL passed to another device. Without
    /// an announced address, any address of the same network is accepted: mobile networks change them per request.
    fn may_be_same_device(&self, check: &SilentCheck, input: &SilentCheckInput, left: IpAddr, back: IpAddr) -> bool {
        if check.mode == Mode::Sandbox || ip_bucket(left) == ip_bucket(back) {
            return true;
        }
        let located = self.networks().locate(back);
        input.expected_address.is_none()
            && matches!(located, IpLocation::Mobile(_))
            && located == self.networks().locate(left)
    }

    /// Consumes the `state`, queries the operator and issues the redirect code.
    pub async fn handle_authorization_response(
        &self,
        returned: DeviceReturn<'_>,
    ) -> Result<RedirectOutcome, RedirectError> {
        let id = self.check_of_state(returned.state)?.ok_or(RedirectError::InvalidState)?;
        let connector = self.networks().silent_route_by_name(returned.connector).ok_or(RedirectError::InvalidState)?;
        let rate_limit = self.rate_limiter().limit_device_return(returned.state, returned.address, self.clock().now());
        if let Some(RateLimitState { admitted: false, reset_seconds: reset, .. }) = rate_limit {
            return Err(RedirectError::TooManyReplays { retry_after: reset });
        }
        let Some(consumed) = self.store().consume_state(id, self.state_hash(id, returned.state)?).await? else {
            return self.handle_invalid_state(id).await;
        };
        let (check, input) = match self.load_open_session(consumed.record).await? {
            Ok(open) => open,
            Err(end) => return Ok(end),
        };
        if self.has_left_sandbox(check.project, check.mode) {
            return self.fail_check(check, ErrorCode::InternalError).await;
        }
        let pending = self.open_pending_redirect(id, &consumed.pending_redirect)?;
        if pending.connector != returned.connector {
            return Err(RedirectError::InvalidState);
        }
        if !self.may_be_same_device(&check, &input, pending.initial_ip, returned.address) {
            return self.fail_check(check, ErrorCode::IpMismatch).await;
        }
        let response = AuthorizationResponse {
            check: id,
            operation: to_question(&input),
            connector_data: &pending.connector_data(),
            initial_ip: pending.initial_ip,
            peer: returned.peer,
            device_ip: returned.address,
            query: returned.query,
            headers: returned.headers,
            now: self.clock().now(),
        };
        let reply = timeout(OPERATOR_TIMEOUT, connector.complete_authorization(response))
            .await
            .unwrap_or(Err(ErrorCode::MnoTimeout));
        let reply = match (reply, &input.number) {
            (Ok(reply @ SilentResult::Match(_)), Some(_)) | (Ok(reply @ SilentResult::Number(_)), None) => reply,
            // The connector answered the wrong operation.
            (Ok(_), _) => return self.fail_check(check, ErrorCode::MnoResponseError).await,
            (Err(code), _) => return self.fail_check(check, code).await,
        };
        let (code, hash) = self.generate_redirect_code(id)?;
        let decision = SealedVerdict { code_hash: hash, verdict: self.seal_reply(id, &reply)? };
        if check.is_overdue(self.clock().now()) || !self.store().store_verdict(id, decision).await? {
            return self.current_outcome(id).await;
        }
        Ok(self.build_outcome(&check, Ok(RedirectCode(code))))
    }

    /// A device that repeats its return gets the outcome of its check.
    async fn handle_invalid_state(&self, check: CheckId) -> Result<RedirectOutcome, RedirectError> {
        let record = self.store().redirect_session(check).await?.ok_or(RedirectError::NotFound)?;
        match self.load_open_session(record).await? {
            Ok(_) => Err(RedirectError::InvalidState),
            Err(end) => Ok(end),
        }
    }

    /// Concludes the check with an error, unless it is already concluded.
    async fn fail_check(&self, check: SilentCheck, code: ErrorCode) -> Result<RedirectOutcome, RedirectError> {
        tracing::info!(check = %check.id, product = %check.product, code = %code, "silent check failed");
        let at = truncate_to_millis(self.clock().now());
        if let Ok(concluded) = check.clone().conclude_with_error(code, at) {
            let is_in_time = concluded.check().status() != CheckStatus::Expired;
            let fault = if is_in_time { RedirectFailure::Failed(code) } else { RedirectFailure::Expired };
            if let ConcludeOutcome::Concluded { was_pending } = self.conclude(concluded).await? {
                if !was_pending {
                    self.activity_recorder().record_seen(ActivityRecorder::key_of(&check));
                }
                return Ok(self.build_outcome(&check, Err(fault)));
            }
        }
        self.current_outcome(check.id).await
    }

    /// The outcome after another request, or the expiry, concluded the check first.
    async fn current_outcome(&self, check: CheckId) -> Result<RedirectOutcome, RedirectError> {
        let record = self.store().redirect_session(check).await?.ok_or(RedirectError::NotFound)?;
        Ok(match self.load_open_session(record).await? {
            Ok((check, _)) => self.build_outcome(&check, Err(failure_of(&check))),
            Err(end) => end,
        })
    }

    fn build_outcome(&self, check: &SilentCheck, result: Result<RedirectCode, RedirectFailure>) -> RedirectOutcome {
        let project = self.control_plane().project(check.project);
        let may_use_reverse_sms = match (&result, project, &check.network) {
            (Err(_), Some(project), Some(network)) => self.supports_reverse_sms_fallback(&project, network),
            _ => false,
        };
        RedirectOutcome {
            check: check.id,
            reference: check.reference.clone(),
            redirect_url: check.redirect_url.as_ref().and_then(|url| self.open_redirect_url(check.id, url)),
            result,
            may_use_reverse_sms,
        }
    }
}

fn to_question(input: &SilentCheckInput) -> SilentOperation<'_> {
    input.number.as_ref().map_or(SilentOperation::DiscoverNumber, SilentOperation::VerifyNumber)
}

fn failure_of(check: &SilentCheck) -> RedirectFailure {
    match check.state {
        Lifecycle::Concluded { .. } if check.status() == CheckStatus::Expired => RedirectFailure::Expired,
        _ => RedirectFailure::AlreadyCompleted,
    }
}

/// Sandbox devices may use any address. An announced test address simulates the location; any other announced address
/// must equal the device's.
fn check_simulated_address(announced: Option<IpAddr>, device: IpAddr) -> Result<(), ErrorCode> {
    let Some(announced) = announced else { return Ok(()) };
    match SandboxAddress::of(announced) {
        Some(SandboxAddress::Mobile) => Ok(()),
        Some(SandboxAddress::NotMobile) => Err(ErrorCode::NotMobileIp),
        Some(SandboxAddress::MobileWithoutProducts | SandboxAddress::Unknown) => Err(ErrorCode::MnoNotSupported),
        None if announced.to_canonical() == device.to_canonical() => Ok(()),
        None => Err(ErrorCode::IpMismatch),
    }
}
