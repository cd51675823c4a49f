//! Operations common to checks of all products: storing, concluding, expiring, reading and listing.
//!
//! Every conclusion goes through [`Checks::conclude`]. It stores the conclusion and the callback in one transaction. If
//! the check is part of a verification, a [`CheckEndHandler`] does so instead. An overdue check (past its deadline, but
//! still stored as open) is expired before it is read, so that no client sees it as open. The sweeper, a background
//! task, expires overdue checks that no client reads.

mod end_handler;
mod errors;
mod expiries;
mod pending_codes;
pub mod reassembly;
pub mod reverse_sms;
pub mod sim_swap;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, Check, CheckConclusion, CheckId, Concluded, DiscoveredNumber, Lifecycle, OpenState,
        Provenance, ShardBucket, Verdict, WrongProduct,
    },
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    search::Filter,
    silent::{OperatorVerdict, SilentCheck},
    tenancy::{Mode, Project, ProjectId, WorkspaceId},
};
use tokio_util::sync::CancellationToken;

use crate::{
    activity::ActivityRecorder,
    context::Context,
    courier::{Outbox, payload},
    idempotency::Idempotency,
    lookups::{
        eligibility::{Eligibility, EligibilityError, EligibilityExplanation, EligibilitySubject},
        operator_access::Operators,
    },
    ports::{
        callbacks::NewCallback,
        checks::{CheckHistory, CheckQuery, CheckStore, CompanionRow, ConcludeOutcome, CreateCheckOutcome, NewCheck},
        search_limit::SearchLimiter,
        store::{Completeness, StoreError, TenantLookup},
    },
    tenants::NumberSearchPermit,
};

pub(crate) use end_handler::CheckEndHandler;
pub use errors::{CreateError, ReadError};
use expiries::{RunningExpiries, SharedExpiries};
pub(crate) use pending_codes::PendingCodeCache;

/// Time between two sweeps, which expire overdue checks. Short enough to record each expiry within a second.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// How long a sweep waits for its checks to expire, before the next one. The checks of a database server that cannot
/// write take longer, and must not hold up those of the others.
const MAX_SWEEP_DURATION: Duration = Duration::from_secs(1);
/// Maximum number of overdue checks read at once. Enough for the store to fill its write batches, and few enough to
/// bound memory.
const MAX_SWEEP_ROWS: u32 = 2_000;

/// Maximum number of ids or codes generated to place a check on the database server that counts the checks of its
/// number, or has its idempotency key. Each takes about a microsecond, and with `n` servers one in `n` is right.
const MAX_COLOCATION_ATTEMPTS: u32 = 256;

/// Creates, concludes and reads checks. The services for silent checks and for verifications build on it.
#[derive(derive_more::Debug)]
#[debug("Checks")]
pub struct Checks {
    context: Arc<Context>,
    store: Arc<dyn CheckStore>,
    operators: Arc<Operators>,
    idempotency: Arc<Idempotency>,
    outbox: Outbox,
    activity: Arc<ActivityRecorder>,
    pending_codes: Arc<PendingCodeCache>,
    search_limiter: SearchLimiter,
    expiries: SharedExpiries,
    end_handlers: Vec<Arc<dyn CheckEndHandler>>,
}

impl Checks {
    pub(crate) fn new(
        context: Arc<Context>,
        store: Arc<dyn CheckStore>,
        operators: Arc<Operators>,
        idempotency: Arc<Idempotency>,
        outbox: Outbox,
        activity: Arc<ActivityRecorder>,
        pending_codes: Arc<PendingCodeCache>,
    ) -> Self {
        Checks {
            context,
            store,
            operators,
            idempotency,
            outbox,
            activity,
            pending_codes,
            search_limiter: SearchLimiter::default(),
            expiries: SharedExpiries::default(),
            end_handlers: vec![],
        }
    }

    /// Registers a handler that concludes and expires the checks of one kind in place of this service.
    pub(crate) fn with_end_handler(mut self, handler: Arc<dyn CheckEndHandler>) -> Self {
        self.end_handlers.push(handler);
        self
    }

    /// Returns the handler that concludes or expires this check. `None`: this service does so itself.
    fn end_handler(&self, check: &AnyCheck) -> Option<&dyn CheckEndHandler> {
        self.end_handlers.iter().find(|handler| handler.handles(check)).map(|handler| &**handler)
    }

    /// Generates ids or codes until the bucket of one is on the database server that has the row, if the check is stored
    /// together with one. One server then stores both, in one transaction. If none of many is there, the last one has to
    /// do: the transaction is slower, on two servers.
    pub(crate) fn generate_colocated<T>(
        &self,
        row: Option<CompanionRow>,
        mut generate: impl FnMut() -> Result<(ShardBucket, T), StoreError>,
    ) -> Result<T, StoreError> {
        let (mut bucket, mut generated) = generate()?;
        let Some(row) = row else { return Ok(generated) };
        for _ in 1..MAX_COLOCATION_ATTEMPTS {
            if self.store.are_colocated(row, bucket) {
                break;
            }
            (bucket, generated) = generate()?;
        }
        Ok(generated)
    }

    /// Generates the id of a check without an SMS code, if possible on the server that has the row.
    pub(crate) fn generate_colocated_id(
        &self,
        row: Option<CompanionRow>,
        now: Timestamp,
    ) -> Result<CheckId, StoreError> {
        self.generate_colocated(row, || {
            let id = CheckId(self.context.new_uuid(now));
            Ok((id.bucket(), id))
        })
    }

    pub fn search_limiter(&self) -> &SearchLimiter {
        &self.search_limiter
    }

    /// Stores the conclusion of a check, and sends its callback. Does neither if the check was already concluded.
    pub(crate) async fn conclude<V: Into<AnyVerdict>>(
        &self,
        concluded: Concluded<V>,
    ) -> Result<ConcludeOutcome, StoreError> {
        self.conclude_with_provenance(concluded, Provenance::default()).await
    }

    /// Like [`conclude`](Self::conclude). Also stores what led to the conclusion.
    pub(crate) async fn conclude_with_provenance<V: Into<AnyVerdict>>(
        &self,
        concluded: Concluded<V>,
        provenance: Provenance,
    ) -> Result<ConcludeOutcome, StoreError> {
        let concluded = concluded.map(Into::into);
        if let Some(handler) = self.end_handler(concluded.check()) {
            return handler.conclude(concluded, provenance).await;
        }
        let callback = self.prepare_callback(&concluded)?;
        let conclusion = CheckConclusion::from(&concluded).with_provenance(provenance.clone());
        let outcome = self.store.conclude(conclusion, callback.clone()).await?;
        if let ConcludeOutcome::Concluded { .. } = outcome {
            self.activity.record_concluded(concluded.check());
            self.activity.record_way(concluded.check(), &provenance);
            if let Some(callback) = callback {
                self.outbox.send(concluded.check(), callback);
            }
        }
        Ok(outcome)
    }

    /// Builds the callback to store with the conclusion. `None`: the check has no callback URL.
    fn prepare_callback(&self, concluded: &Concluded<AnyVerdict>) -> Result<Option<NewCallback>, StoreError> {
        self.outbox.prepare(concluded.check(), || self.render_callback(concluded))
    }

    /// Renders the callback body of a check that is not a verification.
    pub(crate) fn render_callback(&self, concluded: &Concluded<AnyVerdict>) -> Vec<u8> {
        let check = concluded.check();
        let number = check.verdict().and_then(Verdict::discovered_number);
        let number = number.and_then(|number| self.unseal_discovered_number(check.id, number));
        payload::render(concluded, number.as_ref())
    }

    /// Decrypts the number that a Discovery check found. `None`: it is erased, or its seal key is missing.
    pub fn unseal_discovered_number(&self, check: CheckId, number: &DiscoveredNumber) -> Option<Msisdn> {
        let text = String::from_utf8(self.context.unseal_for_check("number", check, number.sealed.as_ref()?)?).ok()?;
        Msisdn::parse(&text, Mode::Sandbox).ok()
    }

    /// Concludes an overdue check as expired, unless it is already concluded.
    pub(crate) async fn expire(&self, check: AnyCheck) -> Result<(), StoreError> {
        let id = check.id;
        let expire = async {
            if let Some(handler) = self.end_handler(&check) {
                return handler.expire(check).await;
            }
            match check.expire() {
                Ok(concluded) => self.conclude(concluded).await.map(drop),
                Err(_) => Ok(()),
            }
        };
        self.expiries.run(id, expire).await
    }

    /// Expires all overdue checks and returns their number.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let now = self.context.now();
        let mut swept = 0;
        loop {
            let overdue = self.store.overdue_checks(now, MAX_SWEEP_ROWS, Completeness::All).await?;
            let is_last = overdue.len() < usize::try_from(MAX_SWEEP_ROWS).unwrap_or(usize::MAX);
            swept += overdue.len();
            self.expire_all(overdue).await?;
            if is_last {
                return Ok(swept);
            }
        }
    }

    /// Expires the overdue checks of one project and product, so that lists never show an expired check as open.
    pub(crate) async fn sweep_project(&self, project: ProjectId, product: Product) -> Result<(), StoreError> {
        let now = self.context.now();
        loop {
            let overdue = self.store.overdue_checks_of_project(project, product, now, MAX_SWEEP_ROWS).await?;
            if overdue.is_empty() {
                return Ok(());
            }
            self.expire_all(overdue).await?;
        }
    }

    /// Expires checks concurrently, so that the store can batch the writes.
    async fn expire_all(&self, overdue: Vec<AnyCheck>) -> Result<(), StoreError> {
        join_all(overdue.into_iter().map(|check| self.expire(check))).await.into_iter().collect()
    }

    /// Sweeps periodically until `shutdown`. If a database server does not respond, the checks of the others expire in
    /// time, and its own when it is back. A shutdown does not cancel running expiries: if it did so between storing a
    /// conclusion and passing the callback to the courier, the callback would wait until its lease expires.
    pub async fn run_sweeper(&self, shutdown: CancellationToken) {
        let mut expiries = RunningExpiries::default();
        let mut pause = SWEEP_INTERVAL;
        while expiries.run_until(shutdown.run_until_cancelled(tokio::time::sleep(pause))).await.is_some() {
            let overdue = self.store.overdue_checks(self.context.now(), MAX_SWEEP_ROWS, Completeness::Reachable);
            let overdue = expiries.run_until(overdue).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read overdue checks; retrying at the next interval");
                Vec::new()
            });
            let is_last = overdue.len() < usize::try_from(MAX_SWEEP_ROWS).unwrap_or(usize::MAX);
            for check in overdue {
                expiries.start(check.id, || self.expire(check));
            }
            let _ = tokio::time::timeout(MAX_SWEEP_DURATION, expiries.run_all()).await;
            let has_failed = expiries.log_failures();
            pause = if is_last || has_failed { SWEEP_INTERVAL } else { Duration::ZERO };
        }
        expiries.run_all().await;
    }

    pub(crate) async fn store_check(&self, new: NewCheck) -> Result<(), CreateError> {
        let now = new.check.created_at;
        self.require_unchanged_mode(&new.check)?;
        let key = ActivityRecorder::key_of(&new.check);
        match self.store.create_check(new).await? {
            CreateCheckOutcome::Created => {
                self.activity.record_created(key);
                Ok(())
            }
            CreateCheckOutcome::TooManyChecks { retry_at } => Err(CreateError::too_many_checks(now, retry_at)),
        }
    }

    /// Rejects a sandbox check whose project went live while the request was processed.
    pub(crate) fn require_unchanged_mode<V>(&self, check: &Check<V>) -> Result<(), CreateError> {
        if self.context.has_left_sandbox(check.project, check.mode) {
            Err(CreateError::ProjectDisabled)
        } else {
            Ok(())
        }
    }

    /// Stores a Secure SNA check that is concluded already, because a Discovery check has found the device's number
    /// before. `claimed` is the number that the client asked about. `None`: the client sent only its hash.
    pub(crate) async fn create_concluded_match(
        &self,
        project: &Project,
        network: Option<NetworkId>,
        claimed: Option<&Msisdn>,
        matched: bool,
    ) -> Result<SilentCheck, CreateError> {
        require_enabled_project(project)?;
        let now = self.context.now();
        let check: SilentCheck = Check {
            id: CheckId(self.context.new_uuid(now)),
            project: project.id,
            product: Product::SecureSna,
            mode: project.mode,
            network,
            claimed: claimed.map(|number| self.context.hash_number_with_tail(number)).transpose()?,
            reference: None,
            callback_url: None,
            verification: None,
            redirect_url: None,
            created_at: now,
            // Never takes effect, because the check is concluded when it is stored.
            expires_at: now.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        self.require_unchanged_mode(&check)?;
        let concluded = check.conclude_with_verdict(OperatorVerdict::Match(matched), now);
        let concluded = concluded.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let check = concluded.check().clone();
        self.store.create_concluded_check(concluded.map(Into::into), None).await?;
        self.activity.record_created_and_concluded(&check);
        Ok(check)
    }

    pub(crate) async fn read_check<V>(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Check<V>, ReadError>
    where
        V: TryFrom<AnyVerdict, Error = WrongProduct>,
    {
        Ok(downcast(self.read_any_check(project, product, id).await?)?)
    }

    async fn load_check(&self, project: ProjectId, product: Product, id: CheckId) -> Result<AnyCheck, ReadError> {
        match self.store.find_check(project, product, id).await? {
            TenantLookup::Found(check) if self.context.has_left_sandbox(project, check.mode) => {
                Err(ReadError::NotFound)
            }
            TenantLookup::Found(check) => Ok(check),
            TenantLookup::OtherTenant => Err(ReadError::OtherProject),
            TenantLookup::NotFound => Err(ReadError::NotFound),
        }
    }

    /// Reads a check. If it is overdue, first records its expiry.
    pub async fn read_any_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<AnyCheck, ReadError> {
        let check = self.load_check(project, product, id).await?;
        if !check.is_overdue(self.context.now()) {
            return Ok(check);
        }
        // Boxed to keep the future small.
        Box::pin(self.expire(check)).await?;
        // Reads the check again, because another request may have concluded it with another outcome.
        self.load_check(project, product, id).await
    }

    pub async fn read_check_history(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<CheckHistory, ReadError> {
        self.store.find_check_history(project, product, id).await?.ok_or(ReadError::NotFound)
    }

    /// Lists the checks of a project and product, newest first.
    pub async fn list_any_checks(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<AnyCheck>, StoreError> {
        self.sweep_project(project, product).await?;
        // Searches are limited per workspace. A project that this node has not loaded yet counts as a workspace of its
        // own.
        let known = self.context.control_plane.project(project);
        let workspace = known.as_ref().map_or(WorkspaceId(project.0), |known| known.workspace);
        let created_after = known.and_then(|known| known.live_since);
        let query = CheckQuery { workspace, project, product, filter, created_after, page };
        self.store.list_checks(query, &self.search_limiter).await
    }

    /// Finds a check of any product by its id. `None`: the project has no such check.
    pub async fn find_check_by_id(&self, project: ProjectId, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
        for &product in Product::WITH_CHECKS {
            match self.read_any_check(project, product, id).await {
                Ok(check) => return Ok(Some(check)),
                // A check of another project counts as not found, so that its existence is not revealed.
                Err(ReadError::NotFound | ReadError::OtherProject) => {}
                Err(ReadError::Store(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Finds the newest checks of a phone number, of all products.
    pub async fn find_checks_by_number(
        &self,
        search: &NumberSearchPermit,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        let NumberSearchPermit { project, created_after, number } = *search;
        let find = || self.store.find_checks_by_number(project, number, created_after, limit);
        let (found, now) = (find().await?, self.context.now());
        let overdue: Vec<_> = found.iter().filter(|check| check.is_overdue(now)).cloned().collect();
        if overdue.is_empty() {
            return Ok(found);
        }
        self.expire_all(overdue).await?;
        find().await
    }

    /// Like [`list_any_checks`](Self::list_any_checks), with the verdict type of the product.
    pub(crate) async fn list_checks<V>(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<Check<V>>, StoreError>
    where
        V: TryFrom<AnyVerdict, Error = WrongProduct>,
    {
        let Page { items, request, total_items } = self.list_any_checks(project, product, filter, page).await?;
        Ok(Page { items: items.into_iter().map(downcast).collect::<Result<_, _>>()?, request, total_items })
    }

    pub async fn eligibility_of_number(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if project.disabled {
            return Err(EligibilityError::ProjectDisabled);
        }
        self.operators.for_mode(project.mode).eligibility_of_number(project, text).await
    }

    pub fn eligibility_of_address(&self, project: &Project, text: &str) -> Result<Eligibility, EligibilityError> {
        if project.disabled {
            return Err(EligibilityError::ProjectDisabled);
        }
        let address = text.parse().map_err(|_| EligibilityError::Address)?;
        self.operators.for_mode(project.mode).eligibility_of_address(project, address)
    }

    /// Explains which products are available for a number or an address, and why others are not. If `project` is
    /// `None`, uses the live operators and ignores what projects are allowed to use.
    pub async fn explain_eligibility(
        &self,
        project: Option<&Project>,
        subject: &EligibilitySubject,
    ) -> EligibilityExplanation {
        if project.is_some_and(|project| project.disabled) {
            return EligibilityExplanation::new_failed(EligibilityError::ProjectDisabled.to_string());
        }
        let mode = project.map_or(Mode::Live, |project| project.mode);
        self.operators.for_mode(mode).explain_eligibility(project, subject).await
    }
}

/// Converts a check of any product to a check with the verdict type `V`. Fails if the stored verdict is of another
/// product.
pub(crate) fn downcast<V>(check: AnyCheck) -> Result<Check<V>, StoreError>
where
    V: TryFrom<AnyVerdict, Error = WrongProduct>,
{
    let id = check.id;
    check.try_map(V::try_from).map_err(|problem| StoreError::CorruptRow {
        table: "checks",
        row: id.to_string(),
        problem: problem.to_string(),
    })
}

pub(crate) fn require_enabled_project(project: &Project) -> Result<(), CreateError> {
    if project.disabled { Err(CreateError::ProjectDisabled) } else { Ok(()) }
}
