//! Silent checks (Secure SNA and Discovery) as API clients use them: creating, reading, listing and redeeming checks.
//! [`redirect_session`] handles the requests of the devices, and [`operator_token`] the answers of their wallets.

mod authenticated_device;
pub(crate) mod operator_token;
mod redirect_session;
pub(crate) mod secrets;
mod step_sessions;

use std::{net::IpAddr, sync::Arc};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    camara::NETWORK_AUTHENTICATION_SECONDS,
    lifecycle::{Check, CheckId, CheckStatus, DiscoveredNumber, ErrorCode, Lifecycle, OpenState, Reference},
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    search::Filter,
    silent::{CHECK_TTL_SECONDS, MAX_WRONG_CODES, OperatorVerdict, SilentCheck, SilentWay},
    tenancy::{Project, ProjectId},
    web_url::{CallbackUrl, RedirectUrl},
};

pub(crate) use authenticated_device::{VerifyDeviceError, VerifyTokenError};
pub(crate) use redirect_session::DeviceArrival;
pub use redirect_session::{
    DeviceRequest, DeviceReturn, HandleReturn, NextStep, RedirectError, RedirectFailure, RedirectOutcome,
};

pub use secrets::BrowserKey;
pub(crate) use step_sessions::StepSessions;
pub use step_sessions::VerificationReturn;

use crate::{
    activity::ActivityRecorder,
    checks::{Checks, CreateError, ReadError, downcast, require_enabled_project},
    context::Context,
    courier::sealing::seal_callback_url,
    idempotency::{Idempotency, IdempotentRequest, companion_row},
    lookups::operator_access::Operators,
    ports::{
        checks::{ConcludeOutcome, Expectation, NewCheck},
        operator_tokens::DigitalCredential,
        sign_in::SignInStore,
        silent::{RedirectSession, RedirectSessionRecord, RedirectSessionStore, SilentResult},
        store::StoreError,
    },
    rate_limits::RateLimiter,
};
use operator_token::credential_request_for_apps;
use secrets::{SilentCheckInput, device_token, seal_input, seal_redirect_url};

/// Request to create a check. Number, address and URLs are unparsed, because their validation depends on the project's
/// mode.
#[derive(Clone, Default, derive_more::Debug)]
pub struct CreateSilent {
    /// The number to verify. `None`: a Discovery check, which finds the number.
    #[debug(skip)]
    pub phone_number: Option<String>,
    #[debug(skip)]
    pub device_ip: Option<String>,
    pub reference: Option<Reference>,
    #[debug(skip)]
    pub callback_url: Option<String>,
    #[debug(skip)]
    pub redirect_url: Option<String>,
}

#[derive(Clone, derive_more::Debug)]
pub struct CreatedSilent {
    pub check: SilentCheck,
    /// URL that the device opens, returned only at creation. Debug output omits it, because it is a credential.
    #[debug(skip)]
    pub url: String,
    /// Seconds until the check expires.
    pub ttl: u16,
    /// Request to the phone's wallet, with which an app can verify the number without mobile data. `None`: the number's
    /// operator or the project does not support it, or it is a Discovery check.
    #[debug(skip)]
    pub digital_credential: Option<DigitalCredential>,
}

#[derive(Debug, thiserror::Error)]
pub enum RedeemError {
    #[error("wrong code")]
    WrongCode { remaining_attempts: u32 },
    /// The verification is already completed, and this is not its code. The verification stays completed.
    #[error("wrong code")]
    WrongCompletionCode,
    #[error("the device has not completed its redirects yet")]
    NotReady,
    #[error("the check is already concluded")]
    AlreadyCompleted {
        error_code: Option<ErrorCode>,
        /// Whether Reverse SMS is available for this end-user instead.
        may_use_reverse_sms: bool,
    },
    #[error("the check has expired")]
    Expired,
    /// The wallet's answer fails this test. The check stays open.
    #[error("invalid digital credential: {0}")]
    InvalidCredential(&'static str),
    #[error("this digital credential was used before; ask the wallet again with a new request")]
    UsedCredential,
    /// The wallet's answer came after the operator's verdict over mobile data. The check stays open.
    #[error("the operator has verified the device in another way; redeem the code that the device got")]
    SupersededCredential,
    /// The verification has no open Secure SNA step.
    #[error("the current step of the verification is not Secure SNA, so it takes no digital credential")]
    NotSecureSna,
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for RedeemError {
    fn from(error: StoreError) -> Self {
        RedeemError::Read(error.into())
    }
}

/// Service for silent checks, from creation to the redemption of their code.
#[derive(derive_more::Debug)]
#[debug("SilentFlow")]
pub struct SilentFlow {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn RedirectSessionStore>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) operators: Arc<Operators>,
    pub(crate) rate_limiter: Arc<RateLimiter>,
    pub(crate) activity: Arc<ActivityRecorder>,
    pub(crate) step_sessions: Arc<dyn StepSessions>,
    /// Records the used nonces of requests to wallets.
    pub(crate) assertions: Arc<dyn SignInStore>,
}

fn path_segment(product: Product) -> &'static str {
    if product == Product::Discovery { "discovery-checks" } else { "secure-sna-checks" }
}

fn expiry(created_at: Timestamp) -> Timestamp {
    created_at.saturating_add(SignedDuration::from_secs(CHECK_TTL_SECONDS.into())).unwrap_or(Timestamp::MAX)
}

/// Returns the URL that the device opens to begin a check.
pub(crate) fn device_url(context: &Context, product: Product, check: CheckId) -> Result<String, StoreError> {
    let (base_url, token) = (&context.settings.base_url, device_token(context, check)?);
    Ok(format!("{base_url}/v1/number-verification/{}/{check}/redirect?t={token}", path_segment(product)))
}

impl SilentFlow {
    pub async fn create_silent(
        &self,
        project: &Project,
        product: Product,
        request: CreateSilent,
        idempotency: Option<IdempotentRequest<'_, CreatedSilent>>,
    ) -> Result<CreatedSilent, CreateError> {
        require_enabled_project(project)?;
        let configuration = &project.configuration;
        let settings = if product == Product::Discovery { &configuration.discovery } else { &configuration.secure_sna };
        let policy = self.context.settings.url_policy.for_mode(project.mode);
        let callback_url = request.callback_url.as_deref().map(|url| CallbackUrl::parse(url, &policy));
        let callback_url = callback_url.transpose().map_err(CreateError::CallbackUrl)?;
        let redirect_url = request.redirect_url.as_deref().map(|url| RedirectUrl::parse(url, &policy));
        let redirect_url = redirect_url.transpose().map_err(CreateError::RedirectUrl)?;
        let expected_address = request.device_ip.as_deref().map(str::parse::<IpAddr>);
        let expected_address = expected_address.transpose().map_err(|_| CreateError::DeviceIp)?;
        let number = request.phone_number.as_deref().map(|text| Msisdn::parse(text, project.mode)).transpose()?;
        let operators = self.operators.for_mode(project.mode);
        let network = match &number {
            Some(number) => Some(operators.silent_network(project, product, number).await?),
            None => None,
        };

        let now = self.context.now();
        let claimed = number.as_ref().map(|number| self.context.hash_number_with_tail(number)).transpose()?;
        let number_limit = operators.number_limit();
        let limited = claimed.filter(|_| number_limit.is_some()).map(|claimed| claimed.hash);
        let id = self.checks.generate_colocated_id(companion_row(limited, idempotency.as_ref()), now)?;
        let callback_url = callback_url.as_ref().or(configuration.callback_url(product));
        let redirect_url = redirect_url.as_ref().or(settings.redirect_url.as_ref());
        let check = Check {
            id,
            project: project.id,
            product,
            mode: project.mode,
            verification: None,
            network,
            claimed,
            reference: request.reference,
            callback_url: callback_url.map(|url| seal_callback_url(&self.context, id, url)).transpose()?,
            redirect_url: redirect_url.map(|url| seal_redirect_url(&self.context, id, url)).transpose()?,
            created_at: now,
            expires_at: expiry(now),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let url = device_url(&self.context, product, id)?;
        let digital_credential = match &number {
            Some(number) => credential_request_for_apps(&self.context, &self.operators, project, &check, number)?,
            None => None,
        };
        let created = CreatedSilent { check, url, ttl: CHECK_TTL_SECONDS, digital_credential };
        let new = NewCheck {
            check: created.check.clone().map(Into::into),
            expectation: Expectation::Device {
                input: seal_input(&self.context, id, &SilentCheckInput { number, expected_address })?,
            },
            number_limit,
            idempotent_response: self.idempotency.seal_response(idempotency.as_ref(), &created)?,
            verification: None,
        };
        self.checks.store_check(new).await?;
        Ok(created)
    }

    /// Stores a check of [`new_check_without_number`](Self::new_check_without_number).
    pub(crate) async fn create_without_number(&self, new: NewCheck) -> Result<(), CreateError> {
        self.checks.store_check(new).await
    }

    /// Builds a check for a client of the authorization endpoint, whose browser returns to `return_url`: a Discovery
    /// check, or a Secure SNA check whose number follows later. It sends no callback, because the project learns the
    /// result from an ID token or from CAMARA's API.
    pub(crate) fn new_check_without_number(
        &self,
        project: &Project,
        product: Product,
        return_url: &RedirectUrl,
    ) -> Result<NewCheck, CreateError> {
        require_enabled_project(project)?;
        let now = self.context.now();
        let id = CheckId(self.context.new_uuid(now));
        let expires_at = if product == Product::Discovery {
            expiry(now)
        } else {
            let lifetime = SignedDuration::from_secs(NETWORK_AUTHENTICATION_SECONDS.into());
            now.saturating_add(lifetime).unwrap_or(Timestamp::MAX)
        };
        let check: SilentCheck = Check {
            id,
            project: project.id,
            product,
            mode: project.mode,
            verification: None,
            network: None,
            claimed: None,
            reference: None,
            callback_url: None,
            redirect_url: Some(seal_redirect_url(&self.context, id, return_url)?),
            created_at: now,
            expires_at,
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let input = SilentCheckInput { number: None, expected_address: None };
        Ok(NewCheck {
            check: check.map(Into::into),
            expectation: Expectation::Device { input: seal_input(&self.context, id, &input)? },
            number_limit: None,
            idempotent_response: None,
            verification: None,
        })
    }

    pub async fn silent_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<SilentCheck, ReadError> {
        self.checks.read_check(project, product, id).await
    }

    /// Lists the project's checks of a product, newest first.
    pub async fn silent_checks(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<SilentCheck>, StoreError> {
        self.checks.list_checks(project, product, filter, page).await
    }

    /// Returns the redirect session of a check, which is the stored state of its OAuth flow. `None`: the check is
    /// concluded, or it is a step of a verification whose device was not redirected yet.
    pub(crate) async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSession>, StoreError> {
        Ok(self.store.redirect_session(check).await?.and_then(|record| record.session))
    }

    /// Concludes the check with the operator's verdict if `code` is the one that the device got when it returned from
    /// its operator.
    pub async fn redeem(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
        code: &str,
    ) -> Result<SilentCheck, RedeemError> {
        let (check, result, way) = self.unseal_verdict(project, product, id, code).await?;
        let proof = match result {
            SilentResult::Match(matched) => OperatorVerdict::Match(matched),
            SilentResult::Number(number) => OperatorVerdict::Number(DiscoveredNumber {
                number: Some(self.context.hash_number_with_tail(&number)?),
                sealed: Some(self.seal_number(id, &number)?),
            }),
            // The operator has not been asked about a number yet.
            SilentResult::Device(_) => return Err(RedeemError::NotReady),
        };
        let Ok(concluded) = check.conclude_with_verdict(proof, self.context.now()) else {
            return Err(self.redeem_error(project, product, id).await);
        };
        let redeemed = concluded.check().clone();
        match (self.checks.conclude_with_provenance(concluded, way.into()).await?, redeemed.status()) {
            (ConcludeOutcome::Concluded { .. }, CheckStatus::Completed) => Ok(redeemed),
            // The check expired, or another request concluded it first.
            _ => Err(self.redeem_error(project, product, id).await),
        }
    }

    /// Decrypts the operator's verdict about an open check if `code` is the one that the device got.
    async fn unseal_verdict(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
        code: &str,
    ) -> Result<(SilentCheck, SilentResult, SilentWay), RedeemError> {
        let record = self.store.redirect_session(id).await?.filter(|RedirectSessionRecord { check, .. }| {
            let is_own = check.project == project && check.product == product;
            is_own && !check.is_overdue(self.context.now())
        });
        // The check belongs to another project, is unknown, expired or concluded, or its device was not redirected yet.
        // `redeem_error` reads the check on behalf of the project, and tells these cases apart.
        let Some(RedirectSessionRecord { check, session: Some(progress) }) = record else {
            return Err(self.redeem_error(project, product, id).await);
        };
        let check: SilentCheck = downcast(check)?;
        if self.context.has_left_sandbox(project, check.mode) {
            self.conclude_with_error(check, ErrorCode::InternalError).await?;
            return Err(self.redeem_error(project, product, id).await);
        }
        let Some(decision) = progress.verdict else { return Err(RedeemError::NotReady) };
        if progress.wrong_codes >= MAX_WRONG_CODES {
            // The request that counted the last allowed wrong code failed before it could conclude the check, so this
            // request concludes it.
            self.conclude_with_error(check, ErrorCode::CodeAttemptsExceeded).await?;
            return Err(self.redeem_error(project, product, id).await);
        }
        let given = self.redirect_code_hash(id, code)?;
        if verify_slices_are_equal(&given.0, &decision.code_hash.0).is_err() {
            return Err(self.count_wrong_code(check).await?);
        }
        let (result, way) = self.unseal_result(id, check.mode, &decision.verdict)?;
        Ok((check, result, way))
    }

    async fn count_wrong_code(&self, check: SilentCheck) -> Result<RedeemError, StoreError> {
        let (project, product, id) = (check.project, check.product, check.id);
        let Some(wrong) = self.store.count_wrong_code(id).await? else {
            return Ok(self.redeem_error(project, product, id).await);
        };
        let remaining_attempts = MAX_WRONG_CODES.saturating_sub(wrong);
        if remaining_attempts == 0 {
            self.conclude_with_error(check, ErrorCode::CodeAttemptsExceeded).await?;
        }
        Ok(RedeemError::WrongCode { remaining_attempts })
    }

    async fn conclude_with_error(&self, check: SilentCheck, code: ErrorCode) -> Result<(), StoreError> {
        match check.conclude_with_error(code, self.context.now()) {
            Ok(concluded) => self.checks.conclude(concluded).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Returns the reason why a check cannot be redeemed, according to its current status.
    async fn redeem_error(&self, project: ProjectId, product: Product, id: CheckId) -> RedeemError {
        let check = match self.silent_check(project, product, id).await {
            Ok(check) => check,
            Err(error) => return error.into(),
        };
        match check.status() {
            CheckStatus::Accepted | CheckStatus::Pending => RedeemError::NotReady,
            CheckStatus::Expired => RedeemError::Expired,
            CheckStatus::Completed | CheckStatus::Error => {
                let error_code = check.error_code();
                let may_use_reverse_sms = error_code.is_some() && self.may_use_reverse_sms(&check);
                RedeemError::AlreadyCompleted { error_code, may_use_reverse_sms }
            }
        }
    }

    /// Whether the project and the network of a check support Reverse SMS, so that the end-user can use it instead.
    fn may_use_reverse_sms(&self, check: &SilentCheck) -> bool {
        let project = self.context.control_plane.project(check.project);
        project.zip(check.network.as_ref()).is_some_and(|(project, network)| {
            self.operators.for_mode(project.mode).supports_reverse_sms(&project, network)
        })
    }
}
