//! Verifications: creating, reading, listing, giving up a step, and redeeming codes.
//!
//! [`steps`] moves from one step to the next, [`page`] is the hosted page, and [`followers`] notifies open pages.

mod followers;
mod input;
mod page;
pub(crate) mod sim_swap_questions;
mod steps;

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{AnyCheck, Check, CheckId, CheckStatus, Lifecycle, OpenState, Reference, Verdict},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{SmsCode, SmsOrigin},
    search::Filter,
    sim_swap::SimSwapPeriod,
    tenancy::{Project, ProjectId, SmsPrefix},
    verification::{Method, Progress, VerificationCheck, VerificationTtl, select_methods},
    web_url::{CallbackUrl, RedirectUrl},
};

pub(crate) use followers::PageFollowers;
pub use followers::{PageFollower, TooManyFollowers};
pub(crate) use page::page_token;
pub use page::{PageState, PageView};

use crate::{
    activity::ActivityRecorder,
    checks::{Checks, CreateError, ReadError, downcast, require_enabled},
    context::Context,
    idempotency::{Idempotency, IdempotentRequest},
    operator_access::SmsRoute,
    ports::{NewVerification, StoreError, TenantLookup, VerificationRecord, VerificationStore},
    silent::{RedeemError, SilentFlow, device_url, secrets::seal_redirect_url},
};
use input::{SmsInput, VerificationInput};
use page::completion_code;
use steps::NewStep;

/// Attempts to read a verification while others move it on. Each attempt records at most one expiry.
const MAX_READS: usize = 5;

/// Create request. Number, address and URLs are unparsed: their validation depends on the project's mode.
#[derive(Clone, Default, derive_more::Debug)]
pub struct CreateVerification {
    #[debug(skip)]
    pub phone_number: String,
    /// In order. `None`: those of the project.
    pub methods: Option<Vec<Method>>,
    #[debug(skip)]
    pub device_ip: Option<String>,
    pub reference: Option<Reference>,
    #[debug(skip)]
    pub callback_url: Option<String>,
    #[debug(skip)]
    pub redirect_url: Option<String>,
    /// In minutes. `None`: SIM changes do not matter.
    pub sim_swap_period: Option<i64>,
}

/// A verification as its client sees it.
#[derive(Clone, derive_more::Debug)]
pub struct Verification {
    pub check: VerificationCheck,
    pub progress: Progress,
    /// What the end-user's device has to do now. `None` in lists, after the end, and while the operator is asked about
    /// SIM changes.
    #[debug(skip)]
    pub next_step: Option<StepInstructions>,
    /// URL of the hosted page. `None` in lists and after the end. Masked, because it is a credential.
    #[debug(skip)]
    pub page_url: Option<String>,
}

impl Verification {
    /// Lifetime in seconds, from creation.
    pub fn ttl(&self) -> i64 {
        self.check.expires_at.duration_since(self.check.created_at).as_secs()
    }
}

/// What the end-user's device has to do. Masked: anyone with it can take the step.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum StepInstructions {
    #[debug("SecureSna")]
    SecureSna {
        /// URL that the device opens.
        url: String,
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

/// Verifications from creation to redemption.
#[derive(derive_more::Debug)]
#[debug("Verifications")]
pub struct Verifications {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn VerificationStore>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) silent: Arc<SilentFlow>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) followers: Arc<PageFollowers>,
}

/// The methods of a new verification, and what their steps need.
struct Routes {
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
        require_enabled(project)?;
        let settings = &project.configuration.verification;
        let policy = self.context.settings.url_policy.for_mode(project.mode);
        let callback_url = request.callback_url.as_deref().map(|url| CallbackUrl::parse(url, &policy));
        let callback_url = callback_url.transpose().map_err(CreateError::CallbackUrl)?;
        let redirect_url = request.redirect_url.as_deref().map(|url| RedirectUrl::parse(url, &policy));
        let redirect_url = redirect_url.transpose().map_err(CreateError::RedirectUrl)?;
        let device_ip = request.device_ip.as_deref().map(str::parse::<IpAddr>);
        let device_ip = device_ip.transpose().map_err(|_| CreateError::DeviceIp)?;
        let sim_swap_period = request.sim_swap_period.map(SimSwapPeriod::try_from).transpose()?;
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let routes = self.find_routes(project, request.methods.as_deref(), &number).await?;
        let first = *routes.methods.first().ok_or(CreateError::MnoNotSupported)?;

        let now = self.context.now();
        let mut id = CheckId(self.context.new_uuid(now));
        let sms = routes.sms.map(|route| self.sms_input(project, route));
        if let Some(sms) = &sms {
            // The step of the code is found by the code, on the shard of the verification.
            let code = self.checks.hash_code(SmsOrigin::for_project(project), &sms.receiver, &sms.code)?;
            id = id.in_bucket(code.bucket());
        }
        let network = match first {
            Method::SecureSna => routes.silent.clone(),
            Method::ReverseSms => sms.as_ref().map(|sms| sms.network.clone()),
        };
        let claimed = self.context.claimed_number(&number)?;
        let callback_url = callback_url.as_ref().or(settings.callback_url.as_ref());
        let redirect_url = redirect_url.as_ref().or(settings.redirect_url.as_ref());
        let ttl = settings.ttl.unwrap_or(VerificationTtl::DEFAULT).seconds();
        let check: VerificationCheck = Check {
            id,
            project: project.id,
            product: Product::Verification,
            mode: project.mode,
            verification: None,
            network,
            claimed: Some(claimed),
            reference: request.reference,
            callback_url: callback_url.map(|url| self.checks.seal_callback_url(id, url)).transpose()?,
            redirect_url: redirect_url.map(|url| seal_redirect_url(&self.context, id, url)).transpose()?,
            created_at: now,
            expires_at: now.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let input = VerificationInput { number, device_ip, silent_network: routes.silent, sms };
        let NewStep { mut new, code } = self.checks.build_step(&check, &input, first, now)?;
        let step = new.check.clone();
        let progress = Progress::new(routes.methods, settings.fall_back_on_mismatch, sim_swap_period);
        let progress = progress.begin_step(first.product(), step.id);
        let progress = progress.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let verification = Verification {
            next_step: self.instructions(&step, &input)?,
            page_url: Some(self.page_url(id)?),
            check,
            progress,
        };
        new.idempotent_response = self.idempotency.seal_response(idempotency.as_ref(), &verification)?;
        new.verification = Some(Box::new(NewVerification {
            check: verification.check.clone().map(Into::into),
            progress: verification.progress.clone(),
            input: input.seal(&self.context, id)?,
        }));
        self.checks.store_check(new).await?;
        self.checks.activity.record_created(ActivityRecorder::key_of(&verification.check));
        self.checks.on_step_begun(step, code, &input)?;
        Ok(verification)
    }

    /// The methods that the number's operator and the project allow. A method that cannot be used is left out; a lookup
    /// that fails is an error, because the next request may find more.
    async fn find_routes(
        &self,
        project: &Project,
        wanted: Option<&[Method]>,
        number: &Msisdn,
    ) -> Result<Routes, CreateError> {
        let operators = self.checks.operators.for_mode(project.mode);
        let configured = project.configuration.verification.methods.as_deref();
        let candidates = select_methods(wanted, configured, |_| true);
        let (mut silent, mut sms) = (None, None);
        if candidates.contains(&Method::SecureSna) {
            silent = if_eligible(operators.silent_network(project, Product::SecureSna, number).await)?;
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
        let silent = silent.filter(|_| methods.contains(&Method::SecureSna));
        let sms = sms.filter(|_| methods.contains(&Method::ReverseSms));
        Ok(Routes { methods, silent, sms })
    }

    fn sms_input(&self, project: &Project, route: SmsRoute) -> SmsInput {
        let code = SmsCode::from_random(self.context.entropy.bytes());
        let prefix = project.configuration.reverse_sms.prefix.as_ref().map_or(SmsPrefix::DEFAULT, SmsPrefix::as_str);
        let SmsRoute { network, receiver } = route;
        SmsInput { network, receiver, code, sms_body: format!("{prefix} {}", code.as_str()) }
    }

    fn instructions(&self, step: &AnyCheck, input: &VerificationInput) -> Result<Option<StepInstructions>, StoreError> {
        Ok(match (Method::of_product(step.product), &input.sms) {
            (Some(Method::SecureSna), _) => {
                Some(StepInstructions::SecureSna { url: device_url(&self.context, step.product, step.id)? })
            }
            (Some(Method::ReverseSms), Some(sms)) => {
                Some(StepInstructions::ReverseSms { receiver: sms.receiver.clone(), sms_body: sms.sms_body.clone() })
            }
            (Some(Method::ReverseSms), None) | (None, _) => None,
        })
    }

    pub async fn read(&self, project: ProjectId, id: CheckId) -> Result<Verification, ReadError> {
        let current = self.load_of_project(project, id).await?;
        Ok(self.present(current)?)
    }

    /// The project's verifications, newest first, without instructions and page URLs.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<Verification>, StoreError> {
        let Page { items, request, total_items } =
            self.checks.list_checks(project, Product::Verification, filter, page).await?;
        let ids = items.iter().map(|check: &VerificationCheck| check.id).collect();
        let mut progress: HashMap<_, _> = self.store.verification_progress(ids).await?.into_iter().collect();
        let items = items
            .into_iter()
            .filter_map(|check| {
                // A verification that retention deletes meanwhile is left out.
                let progress = progress.remove(&check.id)?;
                Some(Verification { check, progress, next_step: None, page_url: None })
            })
            .collect();
        Ok(Page { items, request, total_items })
    }

    /// Gives up the current step. A SIM Swap step cannot be given up: it ends within seconds.
    pub async fn give_up_step(&self, project: ProjectId, id: CheckId) -> Result<Verification, GiveUpError> {
        let current = self.load_of_project(project, id).await?;
        let status = current.record.check.status();
        if !matches!(current.record.check.state, Lifecycle::Open(_)) {
            return Err(GiveUpError::Concluded(status));
        }
        self.give_up(current).await?;
        Ok(self.read(project, id).await?)
    }

    async fn give_up(&self, current: Current) -> Result<(), StoreError> {
        if let Some(Ok(concluded)) = current.step.map(|step| step.give_up(self.context.now())) {
            self.checks.conclude(concluded).await?;
        }
        Ok(())
    }

    /// Redeems the Secure SNA code of the current step, or, once, the completion code that the hosted page gave the
    /// browser.
    pub async fn redeem(&self, project: ProjectId, id: CheckId, code: &str) -> Result<Verification, RedeemError> {
        let current = self.load_of_project(project, id).await?;
        let record = &current.record;
        match record.check.status() {
            CheckStatus::Accepted | CheckStatus::Pending => {
                let step = record.progress.open_step().filter(|(product, _)| *product == Product::SecureSna);
                let (product, step) = step.ok_or(RedeemError::NotReady)?;
                self.silent.redeem(project, product, step, code).await?;
                // The answer has the result of the SIM Swap question, too.
                self.checks.sim_swap_questions.wait(id).await;
                Ok(self.read(project, id).await?)
            }
            CheckStatus::Expired => Err(RedeemError::Expired),
            CheckStatus::Error => Err(already_completed(record)),
            CheckStatus::Completed => {
                let right = completion_code(&self.context, id)?;
                let is_right = verify_slices_are_equal(right.as_bytes(), code.as_bytes()).is_ok();
                if is_right && self.store.redeem_completion_code(id, self.context.now()).await? {
                    Ok(self.present(current)?)
                } else if !is_right && awaits_completion_code(record) {
                    Err(RedeemError::WrongCompletionCode)
                } else {
                    Err(already_completed(record))
                }
            }
        }
    }

    /// Waits for the questions that this node is asking operators.
    pub async fn wait_idle(&self) {
        self.checks.tasks.wait().await;
    }

    /// A verification of a project, with its current step. Overdue ones are expired first, so that no client sees them
    /// as open.
    async fn load_of_project(&self, project: ProjectId, id: CheckId) -> Result<Current, ReadError> {
        let current = self.load(id).await?.ok_or(ReadError::NotFound)?;
        if current.record.check.project == project { Ok(current) } else { Err(ReadError::OtherProject) }
    }

    async fn load(&self, id: CheckId) -> Result<Option<Current>, StoreError> {
        for _ in 0..MAX_READS {
            let Some(record) = self.store.find_verification(id).await? else { return Ok(None) };
            if self.checks.has_left_sandbox(record.check.project, record.check.mode) {
                return Ok(None);
            }
            let now = self.context.now();
            if record.check.is_overdue(now) {
                self.checks.expire(record.check).await?;
                continue;
            }
            let open = record.progress.open_step().filter(|(product, _)| *product != Product::SimSwap);
            let Some((product, step)) = open else { return Ok(Some(Current { record, step: None })) };
            let TenantLookup::Found(step) = self.checks.store.find_check(record.check.project, product, step).await?
            else {
                continue;
            };
            match step.state {
                Lifecycle::Open(_) if step.is_overdue(now) => self.checks.expire(step).await?,
                Lifecycle::Open(_) => return Ok(Some(Current { record, step: Some(step) })),
                // The transaction that concludes a step moves the verification on: it was read before.
                Lifecycle::Concluded { .. } => {}
            }
        }
        Err(StoreError::Unavailable("a verification changes too often to be read".to_owned()))
    }

    fn present(&self, current: Current) -> Result<Verification, StoreError> {
        let Current { record, step } = current;
        let next_step = match &step {
            Some(step) => self.instructions(step, &VerificationInput::unseal(&self.context, &record)?)?,
            None => None,
        };
        let is_open = matches!(record.check.state, Lifecycle::Open(_));
        let page_url = is_open.then(|| self.page_url(record.check.id)).transpose()?;
        Ok(Verification { check: downcast(record.check)?, progress: record.progress, next_step, page_url })
    }
}

/// A verification and the open check of its current step.
struct Current {
    record: VerificationRecord,
    /// `None`: it is concluded, or asks about SIM changes.
    step: Option<AnyCheck>,
}

/// Whether the code with which the page returns is still to be redeemed. After Secure SNA its own code was.
fn awaits_completion_code(record: &VerificationRecord) -> bool {
    let verdict = record.check.verdict().and_then(Verdict::verification);
    record.check.redirect_url.is_some()
        && record.code_redeemed_at.is_none()
        && verdict.is_some_and(|verdict| verdict.method != Method::SecureSna)
}

fn already_completed(record: &VerificationRecord) -> RedeemError {
    RedeemError::AlreadyCompleted { error_code: record.check.error_code(), may_use_reverse_sms: false }
}

/// `None`: Eligibility rules the method out.
fn if_eligible<T>(route: Result<T, CreateError>) -> Result<Option<T>, CreateError> {
    match route {
        Ok(route) => Ok(Some(route)),
        Err(CreateError::MnoNotSupported | CreateError::OnlyReverseSms | CreateError::NetworkNotAllowed) => Ok(None),
        Err(error) => Err(error),
    }
}
