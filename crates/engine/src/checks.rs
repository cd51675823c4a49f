//! Operations common to checks of all products: storing, reading and listing.
//!
//! A read of an overdue check first records its expiry, so that no client sees it as open.

use jiff::Timestamp;
use ringtrue_domain::{
    eligibility::{EligibilityGate, EligibilityInput},
    lifecycle::{AnyCheck, AnyVerdict, Check, CheckId, WrongProduct},
    network::{Network, NetworkId},
    page::{Page, PageRequest},
    phone::{InvalidPhoneNumber, Msisdn},
    product::Product,
    search::Filter,
    sim_swap::InvalidSimSwapPeriod,
    tenancy::{Mode, Project, ProjectId, WorkspaceId},
    web_url::UrlError,
};

use crate::{
    Engine,
    activity::ActivityRecorder,
    number_lookup::{LookupUnavailable, NumberResolution},
    ports::{CheckHistory, CheckQuery, CreateCheckOutcome, NewCheck, StoreError, TenantLookup},
};

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the project is disabled")]
    ProjectDisabled,
    #[error("`/callback_url`: {0}")]
    CallbackUrl(UrlError),
    #[error("`/redirect_url`: {0}")]
    RedirectUrl(UrlError),
    #[error("`/phone_number`: {0}")]
    PhoneNumber(#[from] InvalidPhoneNumber),
    #[error("`/period`: {0}")]
    Period(#[from] InvalidSimSwapPeriod),
    #[error("`/device_ip`: invalid address: expected a plain IPv4 or IPv6 address")]
    DeviceIp,
    #[error("no supported operator serves this number")]
    MnoNotSupported,
    #[error("silent checks are not supported for this number; use Reverse SMS")]
    OnlyReverseSms,
    #[error("this project is not allowed to use the number's network for this product")]
    NetworkNotAllowed,
    #[error("number look-up unavailable; try again later")]
    LookupUnavailable,
    #[error("too many checks for this number in this project; retry after the given time")]
    TooManyChecks { retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("check not found")]
    NotFound,
    #[error("this check belongs to another project")]
    OtherProject,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// The configured network that serves a number. `None`: unknown or not configured.
    pub(crate) async fn resolve_network(&self, number: &Msisdn) -> Result<Option<Network>, CreateError> {
        match self.number_lookup().look_up(number).await {
            Ok(NumberResolution::Network(id)) => Ok(self.networks().directory().find_by_any_id(&id).cloned()),
            Ok(NumberResolution::OtherNetwork(_) | NumberResolution::NoSubscriber | NumberResolution::Unknown) => {
                Ok(None)
            }
            Err(LookupUnavailable) => Err(CreateError::LookupUnavailable),
        }
    }

    pub(crate) async fn store_check(&self, new: NewCheck) -> Result<(), CreateError> {
        let now = new.check.created_at;
        self.require_unchanged_mode(&new.check)?;
        let key = ActivityRecorder::key_of(&new.check);
        match self.store().create_check(new).await? {
            CreateCheckOutcome::Created => {
                self.activity_recorder().record_created(key);
                Ok(())
            }
            CreateCheckOutcome::TooManyChecks { retry_at: until } => {
                let wait = (until.as_millisecond() - now.as_millisecond()).max(1);
                Err(CreateError::TooManyChecks { retry_after: u32::try_from((wait + 999) / 1000).unwrap_or(u32::MAX) })
            }
        }
    }

    /// The project of a sandbox check has gone live since. Such a check neither completes nor can be read: its
    /// simulated verdict could be mistaken for a real one.
    pub(crate) fn has_left_sandbox(&self, project: ProjectId, mode: Mode) -> bool {
        mode == Mode::Sandbox && self.control_plane().has_project_where(project, |project| project.mode == Mode::Live)
    }

    /// Rejects a sandbox check whose project went live while the request was processed.
    pub(crate) fn require_unchanged_mode<V>(&self, check: &Check<V>) -> Result<(), CreateError> {
        if self.has_left_sandbox(check.project, check.mode) { Err(CreateError::ProjectDisabled) } else { Ok(()) }
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
        match self.store().find_check(project, product, id).await? {
            TenantLookup::Found(check) if self.has_left_sandbox(project, check.mode) => Err(ReadError::NotFound),
            TenantLookup::Found(check) => Ok(check),
            TenantLookup::OtherTenant => Err(ReadError::OtherProject),
            TenantLookup::NotFound => Err(ReadError::NotFound),
        }
    }

    /// Reads a check; an overdue one is expired first.
    pub async fn read_any_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<AnyCheck, ReadError> {
        let check = self.load_check(project, product, id).await?;
        if !check.is_overdue(self.clock().now()) {
            return Ok(check);
        }
        // Boxed to keep the future small.
        Box::pin(self.expire(check)).await?;
        // Another request may have concluded it differently.
        self.load_check(project, product, id).await
    }

    pub async fn check_history(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<CheckHistory, ReadError> {
        self.store().check_history(project, product, id).await?.ok_or(ReadError::NotFound)
    }

    /// Newest first.
    pub async fn list_any_checks(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<AnyCheck>, StoreError> {
        self.sweep_project(project, product).await?;
        // A project that this node has not loaded yet gets a search limit of its own.
        let known = self.control_plane().project(project);
        let workspace = known.as_ref().map_or(WorkspaceId(project.0), |known| known.workspace);
        let created_after = known.and_then(|known| known.live_since);
        let query = CheckQuery { workspace, project, product, filter, created_after, page };
        self.store().list_checks(query, self.search_limiter()).await
    }

    /// Newest first.
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
}

/// Converts a check to its product's verdict type.
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

/// Stored timestamps have millisecond precision; the create response must equal later reads.
pub(crate) fn truncate_to_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_microsecond().div_euclid(1_000)).unwrap_or(at)
}

pub(crate) fn require_enabled(project: &Project) -> Result<(), CreateError> {
    if project.disabled { Err(CreateError::ProjectDisabled) } else { Ok(()) }
}

/// Applies the eligibility gates. Missing operator support takes precedence over missing project permission.
pub(crate) fn require_eligible(
    project: &Project,
    product: Product,
    network: &NetworkId,
    is_supported: bool,
) -> Result<(), CreateError> {
    let supported: &[Product] = if is_supported { &[product] } else { &[] };
    EligibilityInput::for_project(project, network, supported).evaluate(product).map_err(|gate| match gate {
        EligibilityGate::Connectivity | EligibilityGate::ProductSupport => CreateError::MnoNotSupported,
        EligibilityGate::Authorisation => CreateError::NetworkNotAllowed,
    })
}
