//! Verifications: creating, reading, listing and cancelling them, giving up the current step, and redeeming codes.
//!
//! [`steps`] moves a verification from one step to the next, [`page`] implements the hosted page, and [`followers`]
//! notifies open pages.

mod followers;
mod input;
mod page;
mod sim_swap_queries;
mod sim_swap_step;
mod steps;

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, Check, CheckId, CheckStatus, Concluded, ErrorCode, Lifecycle, NumberHash, OpenState, Reference,
        Verdict,
    },
    network::NetworkId,
    page::{Page, PageRequest},
    phone::{Country, Msisdn},
    product::Product,
    reverse_sms::{SmsCode, SmsEnvironment},
    search::Filter,
    sim_swap::{InvalidSimSwapPeriod, SimSwapPeriod},
    tenancy::{Project, ProjectId, SmsPrefix},
    verification::{Locale, Method, Progress, UserEnd, VerificationCheck, VerificationTtl, select_methods},
    web_url::{CallbackUrl, RedirectUrl},
};

use tokio::time::Instant;

pub(crate) use followers::PageFollowers;
pub use followers::{PageFollower, TooManyFollowers};
pub use page::{PageFailure, PageState, PageView};
pub(crate) use steps::Steps;

use crate::{
    activity::ActivityRecorder,
    checks::{CheckEndHandler as _, Checks, CreateError, ReadError, downcast, require_enabled_project},
    context::Context,
    courier::{payload, sealing::seal_callback_url},
    idempotency::{Idempotency, IdempotentRequest, companion_row},
    lookups::{
        eligibility::EligibilityError,
        operator_access::{RouteError, SmsRoute},
    },
    ports::{
        checks::NewVerification,
        operator_tokens::DigitalCredential,
        store::{StoreError, TenantLookup},
        verifications::{ListedProgress, NumberLimitQuery, PageOpening, VerificationRecord, VerificationStore},
    },
    silent::{RedeemError, SilentFlow, secrets::seal_redirect_url},
};
use input::{SmsInput, StepInput};
use page::{is_completion_code, page_token};
use sim_swap_step::SIM_SWAP_TIMEOUT;
use steps::NewStep;

/// Requests to give up a step that arrive within this time of each other count as one, unless they name a method or
/// have an idempotency key.
const REPEAT_WINDOW: SignedDuration = SignedDuration::from_secs(1);
/// How often a request polls the database while another node waits for the operator's answer about SIM changes.
const SIM_SWAP_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of attempts to read a verification. An attempt fails if another request changes the verification at
/// the same time, or if the current step is overdue and must be expired first.
const MAX_READ_ATTEMPTS: usize = 5;

/// Request to create a verification. Number, address and URLs are unparsed, because their validation depends on the
/// project's mode.
#[derive(Clone, Default, derive_more::Debug)]
pub struct CreateVerification {
    /// Phone number as people write it, in international or national form.
    #[debug(skip)]
    pub phone_number: String,
    /// Country of a number in national form. `None`: the number is in international form.
    pub country: Option<Country>,
    /// Methods to try, in this order. `None`: the project's methods.
    pub methods: Option<Vec<Method>>,
    #[debug(skip)]
    pub device_ip: Option<String>,
    pub reference: Option<Reference>,
    #[debug(skip)]
    pub callback_url: Option<String>,
    #[debug(skip)]
    pub redirect_url: Option<String>,
    /// Period within which a SIM change is reported. `None`: the operator is not asked about SIM changes.
    pub sim_swap_period: Option<Result<SimSwapPeriod, InvalidSimSwapPeriod>>,
    /// Language of the hosted page. `None`: the browser's language.
    pub locale: Option<Locale>,
}

/// The ways in which the user's device may prove its SIM silently, as far as they are known before it opens the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SilentWays {
    All,
    /// The device is outside of mobile networks, so that Secure SNA needs the phone's wallet.
    WalletOnly,
    /// The device is outside of mobile networks, and has no wallet with tokens of operators.
    None,
}

/// A valid request to create a verification, completed with the project's settings.
#[derive(Clone)]
struct ParsedVerification {
    number: Msisdn,
    methods: Option<Vec<Method>>,
    device_ip: Option<IpAddr>,
    silent_ways: SilentWays,
    reference: Option<Reference>,
    callback_url: Option<CallbackUrl>,
    redirect_url: Option<RedirectUrl>,
    sim_swap_period: Option<SimSwapPeriod>,
    locale: Option<Locale>,
}

/// Request of a sign-in to verify a number.
pub(crate) struct SignInVerification {
    pub number: Msisdn,
    pub silent_ways: SilentWays,
    /// Our own URL, at which the sign-in continues.
    pub redirect_url: RedirectUrl,
    pub sim_swap_period: Option<SimSwapPeriod>,
    pub locale: Option<Locale>,
}

/// A verification as API responses show it.
#[derive(Clone, derive_more::Debug)]
pub struct Verification {
    pub check: VerificationCheck,
    pub progress: Progress,
    /// Status of the open step's check. `None`: no step is open, or the step's check is not stored yet.
    pub step_status: Option<CheckStatus>,
    /// What the end-user's device has to do now. `None` in lists, after the end of the verification, and while the
    /// operator is being asked about SIM changes.
    #[debug(skip)]
    pub next_step: Option<StepInstructions>,
    /// URL of the hosted page. `None` in lists and after the end. Hidden in debug output, because the URL is a
    /// credential.
    #[debug(skip)]
    pub page_url: Option<String>,
}

/// The result of redeeming a code.
#[derive(Clone, Debug)]
pub struct Redeemed {
    pub verification: Verification,
    /// Whether this code was already redeemed by an earlier request.
    pub is_replayed: bool,
}

impl Verification {
    /// Seconds from creation to expiry.
    pub fn ttl(&self) -> i64 {
        self.check.expires_at.duration_since(self.check.created_at).as_secs()
    }
}

/// What the end-user's device has to do. Debug output omits the contents, because anyone who knows them can complete
/// the step.
#[derive(Clone, PartialEq, derive_more::Debug)]
pub enum StepInstructions {
    #[debug("SecureSna")]
    SecureSna {
        /// URL that the device opens.
        url: String,
        /// Request to the phone's wallet, with which the client's app can verify the number without mobile data.
        /// `None`: the number's operator or the project does not support it.
        digital_credential: Option<DigitalCredential>,
    },
    #[debug("ReverseSms")]
    ReverseSms { receiver: Msisdn, sms_body: String },
}

impl StepInstructions {
    pub fn method(&self) -> Method {
        match self {
            StepInstructions::SecureSna { .. } => Method::SecureSna,
            StepInstructions::ReverseSms { .. } => Method::ReverseSms,
        }
    }
}

/// Details of a verification's history that only the console shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationMilestones {
    /// `None`: the hosted page was not opened.
    pub opening: Option<PageOpening>,
    /// When the completion code was redeemed. `None`: not yet, or the verification was not decided by an SMS.
    pub code_redeemed_at: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum GiveUpError {
    #[error("the verification is already concluded")]
    Concluded(CheckStatus),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for GiveUpError {
    fn from(error: StoreError) -> Self {
        GiveUpError::Read(error.into())
    }
}

/// Service for verifications, from creation to the redemption of their code.
#[derive(derive_more::Debug)]
#[debug("Verifications")]
pub struct Verifications {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn VerificationStore>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) steps: Steps,
    pub(crate) silent: Arc<SilentFlow>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) followers: Arc<PageFollowers>,
}

/// The methods that a new verification can use, with the networks and the receiver that they need.
struct MethodRoutes {
    methods: Vec<Method>,
    silent: Option<NetworkId>,
    sms: Option<SmsRoute>,
}

impl Verifications {
    pub async fn create(
        &self,
        project: &Project,
        request: CreateVerification,
        idempotency: Option<IdempotentRequest<'_, Verification>>,
    ) -> Result<Verification, CreateError> {
        let request = self.parse_request(project, request)?;
        self.create_parsed(project, &request, idempotency.as_ref()).await
    }

    async fn create_parsed(
        &self,
        project: &Project,
        request: &ParsedVerification,
        idempotency: Option<&IdempotentRequest<'_, Verification>>,
    ) -> Result<Verification, CreateError> {
        match self.try_create(project, request, idempotency).await? {
            Ok(verification) => Ok(verification),
            // The first attempt failed because a concurrent request used up the first method's limit of checks for this
            // phone number. This second attempt leaves that method out.
            Err(_) => self.try_create(project, request, idempotency).await?,
        }
    }

    /// Creates a verification for a sign-in. It sends no callback, because the project learns the result from the ID
    /// token.
    pub(crate) async fn create_for_sign_in(
        &self,
        project: &Project,
        request: SignInVerification,
    ) -> Result<Verification, CreateError> {
        let SignInVerification { number, silent_ways, redirect_url, sim_swap_period, locale } = request;
        let new = ParsedVerification {
            number,
            methods: None,
            device_ip: None,
            silent_ways,
            reference: None,
            callback_url: None,
            redirect_url: Some(redirect_url),
            sim_swap_period,
            locale,
        };
        require_enabled_project(project)?;
        self.create_parsed(project, &new, None).await
    }

    /// Returns the URL of the hosted page of a verification, also after its end.
    pub(crate) fn page_url(&self, id: CheckId) -> Result<String, StoreError> {
        page_url(&self.context, id)
    }

    /// Validates a request by the rules of the project's mode, and completes it with the project's settings.
    fn parse_request(&self, project: &Project, request: CreateVerification) -> Result<ParsedVerification, CreateError> {
        require_enabled_project(project)?;
        let settings = &project.configuration.verification;
        let policy = self.context.settings.url_policy.for_mode(project.mode);
        let callback_url = request.callback_url.as_deref().map(|url| CallbackUrl::parse(url, &policy));
        let callback_url = callback_url.transpose().map_err(CreateError::CallbackUrl)?;
        let redirect_url = request.redirect_url.as_deref().map(|url| RedirectUrl::parse(url, &policy));
        let redirect_url = redirect_url.transpose().map_err(CreateError::RedirectUrl)?;
        if let Some(url) = &redirect_url {
            settings.check_redirect(url).map_err(CreateError::RedirectUrl)?;
        }
        let device_ip = request.device_ip.as_deref().map(str::parse::<IpAddr>);
        let device_ip = device_ip.transpose().map_err(|_| CreateError::DeviceIp)?;
        let operators = self.steps.operators.for_mode(project.mode);
        let is_not_mobile = device_ip.is_some_and(|address| {
            matches!(operators.eligibility_of_address(project, address), Err(EligibilityError::NotMobile))
        });
        let sim_swap_period = request.sim_swap_period.transpose()?;
        Ok(ParsedVerification {
            number: Msisdn::parse_written(&request.phone_number, request.country, project.mode)?,
            methods: request.methods,
            device_ip,
            silent_ways: if is_not_mobile { SilentWays::WalletOnly } else { SilentWays::All },
            reference: request.reference,
            callback_url: callback_url.or_else(|| project.configuration.callback_url(Product::Verification).cloned()),
            redirect_url: redirect_url.or_else(|| settings.redirect_url.clone()),
            sim_swap_period,
            locale: request.locale,
        })
    }

    /// Tries to create a verification. Returns `Ok(Err(_))` if the store refuses the first step because the limit of
    /// checks for this phone number is reached.
    async fn try_create(
        &self,
        project: &Project,
        request: &ParsedVerification,
        idempotency: Option<&IdempotentRequest<'_, Verification>>,
    ) -> Result<Result<Verification, CreateError>, CreateError> {
        let settings = &project.configuration.verification;
        let ParsedVerification { number, device_ip, silent_ways, sim_swap_period, .. } = request.clone();
        let claimed = self.context.hash_number_with_tail(&number)?;
        let mut routes = self.find_routes(project, request.methods.as_deref(), &number, silent_ways).await?;
        let now = self.context.now();
        let reached = self.reached_limits(project, &routes.methods, claimed.hash, now).await?;
        routes.methods.retain(|method| !reached.iter().any(|(product, _)| *product == method.product()));
        let Some(&first) = routes.methods.first() else {
            let retry_at = reached.iter().map(|(_, until)| *until).min();
            return Err(retry_at.map_or(CreateError::MnoNotSupported, |until| CreateError::too_many_checks(now, until)));
        };
        let has_method = |method| routes.methods.contains(&method);
        let silent = routes.silent.filter(|_| has_method(Method::SecureSna));
        let sms = routes.sms.filter(|_| has_method(Method::ReverseSms));

        // An SMS finds its step by the hash of its code, so the verification must be in the bucket (database shard) of that
        // hash.
        let number_limit = self.steps.operators.for_mode(project.mode).number_limit();
        let row = companion_row(number_limit.map(|_| claimed.hash), idempotency);
        let (id, sms) = match sms {
            None => (self.checks.generate_colocated_id(row, now)?, None),
            Some(route) => {
                let (bucket, sms) = self.checks.generate_colocated(row, || {
                    let sms = self.sms_input(project, route.clone());
                    let code =
                        self.context.hash_code(SmsEnvironment::for_project(project), &sms.receiver, &sms.code)?;
                    Ok((code.bucket(), (code.bucket(), sms)))
                })?;
                (CheckId(self.context.new_uuid(now)).with_bucket(bucket), Some(sms))
            }
        };
        let network = match first {
            Method::SecureSna => silent.clone(),
            Method::ReverseSms => sms.as_ref().map(|sms| sms.network.clone()),
        };
        let (callback_url, redirect_url) = (request.callback_url.as_ref(), request.redirect_url.as_ref());
        let ttl = settings.ttl.unwrap_or(VerificationTtl::DEFAULT).seconds();
        let check: VerificationCheck = Check {
            id,
            project: project.id,
            product: Product::Verification,
            mode: project.mode,
            verification: None,
            network,
            claimed: Some(claimed),
            reference: request.reference.clone(),
            callback_url: callback_url.map(|url| seal_callback_url(&self.context, id, url)).transpose()?,
            redirect_url: redirect_url.map(|url| seal_redirect_url(&self.context, id, url)).transpose()?,
            created_at: now,
            expires_at: now.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let input = StepInput { number, device_ip, silent_network: silent, sms };
        let NewStep { mut new, code } = self.steps.build_step(&check, &input, first, now)?;
        let step = new.check.clone();
        let progress = Progress::new(routes.methods, settings.fall_back_on_mismatch, sim_swap_period);
        let progress = progress.begin_step(first.product(), step.id);
        let progress = progress.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let verification = Verification {
            next_step: self.steps.instructions(&step, &input)?,
            page_url: Some(page_url(&self.context, id)?),
            step_status: Some(step.status()),
            check,
            progress,
        };
        new.idempotent_response = self.idempotency.seal_response(idempotency, &verification)?;
        new.verification = Some(Box::new(NewVerification {
            check: verification.check.clone().map(Into::into),
            progress: verification.progress.clone(),
            input: input.seal(&self.context, id)?,
            locale: request.locale.clone(),
        }));
        match self.checks.store_check(new).await {
            Err(refused @ CreateError::TooManyChecks { .. }) => return Ok(Err(refused)),
            stored => stored?,
        }
        self.steps.activity.record_created(ActivityRecorder::key_of(&verification.check));
        self.steps.on_step_begun(step, code, &input)?;
        Ok(Ok(verification))
    }

    /// Finds the methods that the number's operator supports and the project allows. If a lookup fails, returns an
    /// error instead of fewer methods, because a later request may find more.
    async fn find_routes(
        &self,
        project: &Project,
        wanted: Option<&[Method]>,
        number: &Msisdn,
        silent_ways: SilentWays,
    ) -> Result<MethodRoutes, CreateError> {
        let operators = self.steps.operators.for_mode(project.mode);
        let configured = project.configuration.verification.methods.as_deref();
        let candidates = select_methods(wanted, configured, |_| true);
        let (mut silent, mut sms) = (None, None);
        if candidates.contains(&Method::SecureSna) {
            silent = if_eligible(operators.silent_network(project, Product::SecureSna, number).await)?;
            silent = silent.filter(|network| match silent_ways {
                SilentWays::All => true,
                SilentWays::WalletOnly => operators.available_operator_token_connector(network).is_some(),
                SilentWays::None => false,
            });
        }
        if candidates.contains(&Method::ReverseSms) {
            sms = if_eligible(operators.sms_route(project, number).await)?;
        }
        let methods = select_methods(wanted, configured, |method| {
            project.products.contains(&method.product())
                && match method {
                    Method::SecureSna => silent.is_some(),
                    Method::ReverseSms => sms.is_some(),
                }
        });
        Ok(MethodRoutes { methods, silent, sms })
    }

    /// Returns the products for which this phone number has reached its limit of checks, each with the time when the
    /// next check is possible.
    async fn reached_limits(
        &self,
        project: &Project,
        methods: &[Method],
        number: NumberHash,
        at: Timestamp,
    ) -> Result<Vec<(Product, Timestamp)>, StoreError> {
        let Some(limit) = self.steps.operators.for_mode(project.mode).number_limit() else { return Ok(vec![]) };
        let products = methods.iter().map(|method| method.product()).collect();
        self.store.reached_number_limits(NumberLimitQuery { project: project.id, number, products, limit, at }).await
    }

    fn sms_input(&self, project: &Project, route: SmsRoute) -> SmsInput {
        let code = SmsCode::from_random(self.context.entropy.bytes());
        let prefix = project.configuration.reverse_sms.prefix.as_ref().map_or(SmsPrefix::DEFAULT, SmsPrefix::as_str);
        let SmsRoute { network, receiver } = route;
        SmsInput { network, receiver, code, sms_body: format!("{prefix} {}", code.as_str()) }
    }

    /// Fails unless the verification belongs to the project.
    pub async fn require_verification_of_project(&self, project: ProjectId, id: CheckId) -> Result<(), ReadError> {
        self.load_of_project(project, id).await.map(drop)
    }

    pub async fn read(&self, project: ProjectId, id: CheckId) -> Result<Verification, ReadError> {
        let current = self.load_of_project(project, id).await?;
        Ok(self.present(current)?)
    }

    /// Returns details of a verification's history that only the console shows.
    pub async fn history(&self, project: ProjectId, id: CheckId) -> Result<VerificationMilestones, ReadError> {
        let VerificationRecord { opening, code_redeemed_at, .. } = self.load_of_project(project, id).await?.record;
        Ok(VerificationMilestones { opening, code_redeemed_at })
    }

    /// Renders the callback body of a concluded verification. `None`: it is open or deleted.
    pub(crate) async fn render_callback(&self, id: CheckId) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(VerificationRecord { check, progress, .. }) = self.store.find_verification(id).await? else {
            return Ok(None);
        };
        let concluded = Concluded::of_stored(downcast(check)?);
        Ok(concluded.map(|concluded| payload::render_verification(&concluded, &progress)))
    }

    /// Lists the project's verifications, newest first, without instructions and page URLs.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<Verification>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Page { items: checks, request, total_items } =
                self.checks.list_checks(project, Product::Verification, filter.clone(), page).await?;
            let ids: Vec<_> = checks.iter().map(|check: &VerificationCheck| check.id).collect();
            let found = ids.len();
            let listed = self.store.verification_progress(ids).await?.into_iter();
            let mut listed: HashMap<_, _> = listed.map(|listed| (listed.verification, listed)).collect();
            let items: Vec<_> = checks
                .into_iter()
                .filter_map(|check| {
                    let ListedProgress { progress, step_status, .. } = listed.remove(&check.id)?;
                    Some(Verification { check, progress, step_status, next_step: None, page_url: None })
                })
                .collect();
            // A listed verification without progress was deleted after the first query, because its retention period
            // had ended. Deletion first hides such verifications from lists, so the next attempt neither lists nor
            // counts them.
            let deleted = found - items.len();
            if deleted == 0 || attempts == MAX_READ_ATTEMPTS {
                return Ok(Page { items, request, total_items: total_items.saturating_sub(deleted as u64) });
            }
        }
    }

    /// Gives up the current step. Has no effect on a SIM Swap step, which ends within seconds anyway, or on a step
    /// whose operator has already given a verdict.
    ///
    /// With a method, the step is given up only if it uses this method. Without a method and an idempotency key,
    /// repeated requests that were received within [`REPEAT_WINDOW`] count as one, even if they are processed later.
    pub async fn give_up_step(
        &self,
        project: ProjectId,
        id: CheckId,
        method: Option<Method>,
        received_at: Timestamp,
        idempotency: Option<IdempotentRequest<'_, Verification>>,
    ) -> Result<Verification, GiveUpError> {
        let current = self.load_of_project(project, id).await?;
        let record = &current.record;
        let is_exact = method.is_some() || idempotency.is_some();
        let is_repeated = |given_up_at: Timestamp| !is_exact && received_at.duration_since(given_up_at) < REPEAT_WINDOW;
        if let (Lifecycle::Concluded { at, .. }, None) = (&record.check.state, method)
            && !(record.progress.ends_with_given_up_step() && is_repeated(*at))
        {
            return Err(GiveUpError::Concluded(record.check.status()));
        }
        let is_meant = |step: &AnyCheck| match method {
            Some(method) => step.product == method.product(),
            // A step that follows a given-up step is created when that step is given up, so its creation time is the
            // time of that request.
            None => !(record.progress.follows_given_up_step() && is_repeated(step.created_at)),
        };
        if let Some(step) = current.step.clone().filter(is_meant) {
            let seal = |verification: &Verification| self.idempotency.seal_response(idempotency.as_ref(), verification);
            if let Some(verification) = self.steps.give_up_step(record, step, Some(&seal)).await? {
                return Ok(verification);
            }
        }
        let verification = self.read(project, id).await?;
        self.idempotency.complete(idempotency.as_ref(), &verification).await?;
        Ok(verification)
    }

    async fn give_up(&self, current: Current) -> Result<(), StoreError> {
        if let Some(step) = current.step {
            self.steps.give_up_step(&current.record, step, None).await?;
        }
        Ok(())
    }

    /// Ends an open verification with the error `cancelled`. A verification that has already ended stays unchanged.
    pub async fn cancel(&self, project: ProjectId, id: CheckId) -> Result<Verification, ReadError> {
        for _ in 0..MAX_READ_ATTEMPTS {
            let Current { record, step } = self.load_of_project(project, id).await?;
            if !matches!(record.check.state, Lifecycle::Open(_)) {
                return Ok(self.present(Current { record, step })?);
            }
            if let Some(ended) = self.steps.abandon(&record, step, ErrorCode::Cancelled, false).await? {
                return Ok(ended);
            }
        }
        Err(changes_too_often().into())
    }

    /// Ends an open verification on the end-user's request at the hosted page. If the current step already has a
    /// verdict, the verification stays unchanged. `false`: the token is wrong.
    pub async fn end_by_user(&self, token: &str, end: UserEnd) -> Result<bool, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(false) };
        if current.step.is_some() {
            self.steps.abandon(&current.record, current.step, end.error_code(), true).await?;
        }
        Ok(true)
    }

    /// Redeems a code, with which the client's backend gets the result. The code is either the one that the device got
    /// when it returned from its operator (Secure SNA), or the one that the hosted page gave the browser after the SMS
    /// arrived (Reverse SMS). Redeeming the same code again gives the same result.
    pub async fn redeem(&self, project: ProjectId, id: CheckId, code: &str) -> Result<Redeemed, RedeemError> {
        for _ in 0..MAX_READ_ATTEMPTS {
            let current = self.load_of_project(project, id).await?;
            let record = &current.record;
            if self.is_redeemed_code(record, code)? {
                let verification = self.read_after_sim_swap(project, id).await?;
                return Ok(Redeemed { verification, is_replayed: true });
            }
            match record.check.status() {
                CheckStatus::Accepted | CheckStatus::Pending => {
                    let step = record.progress.open_step().filter(|(product, _)| *product == Product::SecureSna);
                    let Some((product, step)) = step else {
                        let is_too_late = record.progress.has_ended_silent_step();
                        return Err(if is_too_late { RedeemError::WrongCompletionCode } else { RedeemError::NotReady });
                    };
                    match self.silent.redeem(project, product, step, code).await {
                        Ok(_) => {
                            let verification = self.read_after_sim_swap(project, id).await?;
                            return Ok(Redeemed { verification, is_replayed: false });
                        }
                        // Another request has ended the step. The next iteration reads the outcome.
                        Err(RedeemError::AlreadyCompleted { .. } | RedeemError::Expired) => {}
                        Err(error) => return Err(error),
                    }
                }
                CheckStatus::Expired => return Err(RedeemError::Expired),
                CheckStatus::Error => {
                    let error_code = record.check.error_code();
                    return Err(RedeemError::AlreadyCompleted { error_code, may_use_reverse_sms: false });
                }
                CheckStatus::Completed => {
                    if !self.is_completion_code(record, code) {
                        return Err(RedeemError::WrongCompletionCode);
                    }
                    let hash = self.silent.redirect_code_hash(id, code)?;
                    let is_first = self.store.redeem_completion_code(id, hash, self.context.now()).await?;
                    return Ok(Redeemed { verification: self.present(current)?, is_replayed: !is_first });
                }
            }
        }
        Err(changes_too_often().into())
    }

    /// Ends the Secure SNA step with the operator's answer to a wallet's token, which the client's backend sends. If the
    /// operator gives no answer, the verification continues with the next method. The wallet's answer that ended the step
    /// with a verdict gives the same result again.
    pub async fn redeem_credential(
        &self,
        project: ProjectId,
        id: CheckId,
        credential: &DigitalCredential,
    ) -> Result<Redeemed, RedeemError> {
        for _ in 0..MAX_READ_ATTEMPTS {
            let Current { record, step } = self.load_of_project(project, id).await?;
            if self.is_redeemed_credential(&record, credential)? {
                let verification = self.read_after_sim_swap(project, id).await?;
                return Ok(Redeemed { verification, is_replayed: true });
            }
            let Some(step) = step.filter(|step| step.product == Product::SecureSna) else {
                return Err(match record.check.status() {
                    CheckStatus::Accepted | CheckStatus::Pending => RedeemError::NotSecureSna,
                    CheckStatus::Expired => RedeemError::Expired,
                    CheckStatus::Completed | CheckStatus::Error => {
                        let error_code = record.check.error_code();
                        RedeemError::AlreadyCompleted { error_code, may_use_reverse_sms: false }
                    }
                });
            };
            match self.silent.redeem_credential(project, step.id, credential).await {
                // After an error of the operator, the verification has moved to the next method.
                Ok(_) | Err(RedeemError::AlreadyCompleted { error_code: Some(_), .. }) => {
                    let verification = self.read_after_sim_swap(project, id).await?;
                    return Ok(Redeemed { verification, is_replayed: false });
                }
                // Another request has ended the step. The next iteration reads the outcome.
                Err(RedeemError::AlreadyCompleted { error_code: None, .. } | RedeemError::Expired) => {}
                Err(error) => return Err(error),
            }
        }
        Err(changes_too_often().into())
    }

    /// Whether this wallet's answer gave the verdict of the Secure SNA step. Its nonce took the place of a code. If
    /// another method gave the verdict of the verification, the answer is not accepted.
    fn is_redeemed_credential(
        &self,
        record: &VerificationRecord,
        credential: &DigitalCredential,
    ) -> Result<bool, StoreError> {
        if verdict_method(record).is_some_and(|method| method != Method::SecureSna) {
            return Ok(false);
        }
        let Some((right, step)) = record.code_hash.zip(record.progress.redeemed_step()) else { return Ok(false) };
        let (mode, network) = (record.check.mode, record.check.network.as_ref());
        let given = self.silent.credential_hash(mode, network, step, credential)?;
        Ok(given.is_some_and(|given| verify_slices_are_equal(&given.0, &right.0).is_ok()))
    }

    /// Waits until the operator has answered about SIM changes, and then reads the verification, so that the response
    /// contains the answer. The request to the operator may have been sent by another node.
    async fn read_after_sim_swap(&self, project: ProjectId, id: CheckId) -> Result<Verification, ReadError> {
        let deadline = Instant::now() + SIM_SWAP_TIMEOUT;
        loop {
            self.steps.sim_swap_queries.wait(id).await;
            let verification = self.read(project, id).await?;
            let is_asked = matches!(verification.progress.open_step(), Some((Product::SimSwap, _)));
            if !is_asked || Instant::now() >= deadline {
                return Ok(verification);
            }
            tokio::time::sleep(SIM_SWAP_POLL_INTERVAL).await;
        }
    }

    /// Whether `code` is the code that was redeemed for this verification. Compares with the stored hash, because a
    /// completion code cannot be derived again after its key was rotated and deleted. If another method gave the
    /// verdict after Secure SNA did not match, the code of the Secure SNA step is not accepted.
    fn is_redeemed_code(&self, record: &VerificationRecord, code: &str) -> Result<bool, StoreError> {
        let is_completion_code = record.code_redeemed_at.is_some();
        if !is_completion_code && verdict_method(record).is_some_and(|method| method != Method::SecureSna) {
            return Ok(false);
        }
        let check = if is_completion_code { Some(record.check.id) } else { record.progress.redeemed_step() };
        let Some((right, check)) = record.code_hash.zip(check) else { return Ok(false) };
        let given = self.silent.redirect_code_hash(check, code)?;
        Ok(verify_slices_are_equal(&given.0, &right.0).is_ok())
    }

    /// Whether `code` is the completion code, which only verifications with a verdict by Reverse SMS have. After Secure
    /// SNA, the client redeems the code that the device got when it returned from its operator.
    fn is_completion_code(&self, record: &VerificationRecord, code: &str) -> bool {
        verdict_method(record) == Some(Method::ReverseSms) && is_completion_code(&self.context, record.check.id, code)
    }

    /// Waits until operators have answered all SIM Swap requests of this node.
    pub async fn wait_until_idle(&self) {
        self.steps.sim_swap_queries.wait_until_idle().await;
    }

    /// Reads a verification of a project, with its current step. If the verification is overdue, expires it first, so
    /// that no client sees an overdue verification as open.
    async fn load_of_project(&self, project: ProjectId, id: CheckId) -> Result<Current, ReadError> {
        let current = self.load(id).await?.ok_or(ReadError::NotFound)?;
        if current.record.check.project == project { Ok(current) } else { Err(ReadError::OtherProject) }
    }

    async fn load(&self, id: CheckId) -> Result<Option<Current>, StoreError> {
        for _ in 0..MAX_READ_ATTEMPTS {
            let Some(record) = self.store.find_verification(id).await? else { return Ok(None) };
            if self.context.has_left_sandbox(record.check.project, record.check.mode) {
                return Ok(None);
            }
            let now = self.context.now();
            if record.check.is_overdue(now) {
                self.steps.expire_current_step(id).await?;
                continue;
            }
            let open = record.progress.open_step().filter(|(product, _)| *product != Product::SimSwap);
            let Some((product, step)) = open else { return Ok(Some(Current { record, step: None })) };
            let TenantLookup::Found(step) = self.steps.checks.find_check(record.check.project, product, step).await?
            else {
                continue;
            };
            match step.state {
                Lifecycle::Open(_) if step.is_overdue(now) => self.steps.expire(step).await?,
                Lifecycle::Open(_) => return Ok(Some(Current { record, step: Some(step) })),
                // The step was concluded after the verification was read. The same transaction has started the next
                // step or ended the verification, so the loop reads both again.
                Lifecycle::Concluded { .. } => {}
            }
        }
        Err(changes_too_often())
    }

    fn present(&self, current: Current) -> Result<Verification, StoreError> {
        let Current { record, step } = current;
        let next_step = match &step {
            Some(step) => self.steps.instructions(step, &StepInput::unseal(&self.context, &record)?)?,
            None => None,
        };
        let step_status = step.map(|step| step.status());
        let is_open = matches!(record.check.state, Lifecycle::Open(_));
        let page_url = is_open.then(|| page_url(&self.context, record.check.id)).transpose()?;
        Ok(Verification { check: downcast(record.check)?, progress: record.progress, step_status, next_step, page_url })
    }
}

/// A verification, with the open check of its current step.
struct Current {
    record: VerificationRecord,
    /// `None`: the verification is concluded, or the operator is being asked about SIM changes.
    step: Option<AnyCheck>,
}

/// Returns the method by which the verification matched or did not match. `None`: there is no verdict.
fn verdict_method(record: &VerificationRecord) -> Option<Method> {
    record.check.verdict().and_then(Verdict::verification_verdict).map(|verdict| verdict.method)
}

fn changes_too_often() -> StoreError {
    StoreError::Unavailable("a verification changes too often to be read".to_owned())
}

/// Returns the URL of the hosted page.
fn page_url(context: &Context, verification: CheckId) -> Result<String, StoreError> {
    Ok(format!("{}/v/{}", context.settings.base_url, page_token(context, verification)?))
}

/// Returns `None` for errors that only mean that the number or the project cannot use this method. A failed lookup
/// stays an error.
fn if_eligible<T>(route: Result<T, RouteError>) -> Result<Option<T>, RouteError> {
    match route {
        Ok(route) => Ok(Some(route)),
        Err(RouteError::MnoNotSupported | RouteError::OnlyReverseSms | RouteError::NetworkNotAllowed) => Ok(None),
        Err(error @ RouteError::LookupUnavailable) => Err(error),
    }
}
