//! What is the same for checks of all products: storing a new one, reading and listing.
//!
//! Time ends a check, not the sweeper: whoever reads a check whose time is up records its end first, so that no two
//! readers can be told different things.

use jiff::Timestamp;
use ringtrue_domain::{
    eligibility::{Gate, Standing},
    lifecycle::{AnyCheck, AnyVerdict, Check, CheckId, OtherProduct},
    network::{Network, NetworkId},
    page::{Page, PageRequest},
    phone::{Msisdn, NotE164},
    product::Product,
    search::Filter,
    sim_swap::InvalidPeriod,
    tenancy::{Mode, Project, ProjectId, WorkspaceId},
    web_url::UrlError,
};

use crate::{
    Engine,
    activity::Activity,
    number_lookup::{Known, Unavailable},
    ports::{Admitted, CheckQuery, Course, Found, NewCheck, StoreError},
};

/// Why a check is not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the project is disabled")]
    ProjectDisabled,
    #[error("`/callback_url`: {0}")]
    CallbackUrl(UrlError),
    #[error("`/redirect_url`: {0}")]
    RedirectUrl(UrlError),
    #[error("`/phone_number`: {0}")]
    PhoneNumber(#[from] NotE164),
    #[error("`/period`: {0}")]
    Period(#[from] InvalidPeriod),
    #[error("`/device_ip`: an address is IPv4 or IPv6, with nothing around it")]
    DeviceIp,
    #[error("no supported operator serves this number")]
    MnoNotSupported,
    #[error("no operator checks this number silently; Reverse SMS is available for it")]
    OnlyReverseSms,
    #[error("this project is not allowed to use the number's network for this product")]
    NetworkNotAllowed,
    #[error("which operator serves this number cannot be found out at the moment")]
    LookupUnavailable,
    #[error("this project has asked about this number too often; wait before asking again")]
    TooOften { retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a check is not shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no such check")]
    NotFound,
    #[error("this check belongs to another project")]
    NotYours,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// The network that serves a number, as this deployment knows it. `None`: it is none of ours.
    pub(crate) async fn network_of(&self, number: &Msisdn) -> Result<Option<Network>, CreateError> {
        match self.number_lookup().network_of(number).await {
            Ok(Known::Network(id)) => Ok(self.networks().directory().known_as(&id).cloned()),
            Ok(Known::OtherNetwork(_) | Known::NoSubscriber | Known::Nobody) => Ok(None),
            Err(Unavailable) => Err(CreateError::LookupUnavailable),
        }
    }

    pub(crate) async fn store_new(&self, new: NewCheck) -> Result<(), CreateError> {
        let now = new.check.created_at;
        self.require_same_mode(&new.check)?;
        let place = Activity::place_of(&new.check);
        match self.store().create_check(new).await? {
            Admitted::Stored => {
                self.activity().created(place);
                Ok(())
            }
            Admitted::TooOften { until } => {
                let wait = (until.as_millisecond() - now.as_millisecond()).max(1);
                Err(CreateError::TooOften { retry_after: u32::try_from((wait + 999) / 1000).unwrap_or(u32::MAX) })
            }
        }
    }

    /// Whether a check was created in the sandbox by a project that has gone live since. Such a check neither completes
    /// nor can be read: its simulated verdict would pass for a real one.
    pub(crate) fn has_left_sandbox(&self, project: ProjectId, mode: Mode) -> bool {
        mode == Mode::Sandbox && self.control_plane().project_has(project, |project| project.mode == Mode::Live)
    }

    /// Rejects a check of the sandbox whose project has gone live while its request was read.
    pub(crate) fn require_same_mode<V>(&self, check: &Check<V>) -> Result<(), CreateError> {
        if self.has_left_sandbox(check.project, check.mode) { Err(CreateError::ProjectDisabled) } else { Ok(()) }
    }

    /// A check as it is now.
    pub(crate) async fn check<V>(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Check<V>, ReadError>
    where
        V: TryFrom<AnyVerdict, Error = OtherProduct>,
    {
        Ok(narrowed(self.any_check(project, product, id).await?)?)
    }

    async fn found(&self, project: ProjectId, product: Product, id: CheckId) -> Result<AnyCheck, ReadError> {
        match self.store().find_check(project, product, id).await? {
            Found::Mine(check) if self.has_left_sandbox(project, check.mode) => Err(ReadError::NotFound),
            Found::Mine(check) => Ok(check),
            Found::SomeoneElses => Err(ReadError::NotYours),
            Found::Nothing => Err(ReadError::NotFound),
        }
    }

    /// A check of any product as it is now.
    pub async fn any_check(&self, project: ProjectId, product: Product, id: CheckId) -> Result<AnyCheck, ReadError> {
        let check = self.found(project, product, id).await?;
        if !check.is_overdue(self.clock().now()) {
            return Ok(check);
        }
        // In a place of its own: every read would carry it along.
        Box::pin(self.expire(check)).await?;
        // Whoever was first, this is how it ended.
        self.found(project, product, id).await
    }

    /// What is kept of how a check went.
    pub async fn course_of(&self, project: ProjectId, product: Product, id: CheckId) -> Result<Course, ReadError> {
        self.store().course_of(project, product, id).await?.ok_or(ReadError::NotFound)
    }

    /// The project's checks of any product, newest first.
    pub async fn any_checks(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<AnyCheck>, StoreError> {
        self.sweep_project(project, product).await?;
        // A project that this node has not loaded yet is limited by itself.
        let known = self.control_plane().project(project);
        let workspace = known.as_ref().map_or(WorkspaceId(project.0), |known| known.workspace);
        let created_after = known.and_then(|known| known.live_since);
        let query = CheckQuery { workspace, project, product, filter, created_after, page };
        self.store().list_checks(query, self.search_limiter()).await
    }

    /// The project's checks of a product, newest first.
    pub(crate) async fn checks<V>(
        &self,
        project: ProjectId,
        product: Product,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<Check<V>>, StoreError>
    where
        V: TryFrom<AnyVerdict, Error = OtherProduct>,
    {
        let Page { items, request, total_items } = self.any_checks(project, product, filter, page).await?;
        Ok(Page { items: items.into_iter().map(narrowed).collect::<Result<_, _>>()?, request, total_items })
    }
}

/// A check of a known product.
pub(crate) fn narrowed<V>(check: AnyCheck) -> Result<Check<V>, StoreError>
where
    V: TryFrom<AnyVerdict, Error = OtherProduct>,
{
    let id = check.id;
    check.try_map(V::try_from).map_err(|problem| StoreError::Inconsistent {
        table: "checks",
        row: id.to_string(),
        problem: problem.to_string(),
    })
}

/// Stored instants are whole milliseconds; what is answered at once must be the same as what is read later.
pub(crate) fn whole_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_microsecond().div_euclid(1_000)).unwrap_or(at)
}

/// A disabled project creates no checks, whoever asks on its behalf.
pub(crate) fn require_enabled(project: &Project) -> Result<(), CreateError> {
    if project.disabled { Err(CreateError::ProjectDisabled) } else { Ok(()) }
}

/// The gates of Eligibility, for a product of which it is known whether the network's operator is asked about it. What
/// nobody can do comes before what this project may not.
pub(crate) fn pass_gates(
    project: &Project,
    product: Product,
    network: &NetworkId,
    is_supported: bool,
) -> Result<(), CreateError> {
    let supported: &[Product] = if is_supported { &[product] } else { &[] };
    Standing::of(project, network, supported).judge(product).map_err(|gate| match gate {
        Gate::Connectivity | Gate::ProductSupport => CreateError::MnoNotSupported,
        Gate::Authorisation => CreateError::NetworkNotAllowed,
    })
}
