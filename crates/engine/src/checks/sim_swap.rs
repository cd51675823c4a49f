//! SIM Swap: queries the operator synchronously and stores the check already concluded.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{Check, CheckId, ErrorCode, Lifecycle, OpenState, Reference},
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    search::Filter,
    sim_swap::{InvalidSimSwapPeriod, SimHistory, SimSwapCheck, SimSwapPeriod},
    tenancy::{Project, ProjectId},
};
use tokio::time::{Instant, timeout_at};

use super::{Checks, CreateError, ReadError, require_enabled_project};
use crate::{
    idempotency::{IdempotentRequest, companion_row},
    lookups::operator_access::SimSwapRoute,
    ports::{sim_swap::SimSwapRequest, store::StoreError},
};

/// Maximum time for the operator's response. Long enough for one `slow_down` error in the CIBA flow, after which a
/// client with the default polling interval has to wait for ten seconds.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// Request to create a check. The number is not parsed yet, because its validation depends on the project's mode.
#[derive(Clone, derive_more::Debug)]
pub struct CreateSimSwap {
    #[debug(skip)]
    pub phone_number: String,
    /// `None`: the default period. A parsing error is kept here, so that a disabled project gets the error about the
    /// project first.
    pub period: Option<Result<SimSwapPeriod, InvalidSimSwapPeriod>>,
    #[debug(skip)]
    pub reference: Option<Reference>,
}

impl Checks {
    pub async fn create_sim_swap(
        &self,
        project: &Project,
        request: CreateSimSwap,
        idempotency: Option<IdempotentRequest<'_, SimSwapCheck>>,
    ) -> Result<SimSwapCheck, CreateError> {
        Ok(self.create_sim_swap_with_history(project, request, idempotency).await?.0)
    }

    /// Also returns the operator's report, which the check does not keep. `None`: the operator has reported nothing.
    pub(crate) async fn create_sim_swap_with_history(
        &self,
        project: &Project,
        request: CreateSimSwap,
        idempotency: Option<IdempotentRequest<'_, SimSwapCheck>>,
    ) -> Result<(SimSwapCheck, Option<SimHistory>), CreateError> {
        require_enabled_project(project)?;
        let period = request.period.transpose()?.unwrap_or(SimSwapPeriod::DEFAULT);
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let operators = self.operators.for_mode(project.mode);
        let SimSwapRoute { network, connector } = operators.sim_swap_route(project, &number).await?;

        let created_at = self.context.now();
        let id = self.generate_colocated_id(companion_row(None, idempotency.as_ref()), created_at)?;
        let deadline = Instant::now() + OPERATOR_TIMEOUT;
        let operator_request =
            SimSwapRequest { check: id, project: project.id, number: &number, period, now: created_at, deadline };
        let operator_result =
            timeout_at(deadline, connector.sim_history(operator_request)).await.unwrap_or(Err(ErrorCode::MnoTimeout));
        let check = Check {
            id,
            project: project.id,
            product: Product::SimSwap,
            mode: project.mode,
            network: Some(network),
            // The number is not stored: it is not needed after the operator's response.
            claimed: None,
            reference: request.reference,
            callback_url: None,
            verification: None,
            redirect_url: None,
            created_at,
            // Never takes effect, because the check is concluded when it is stored. It only has to be later than the
            // conclusion.
            expires_at: created_at.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        self.require_unchanged_mode(&check)?;
        let concluded = check.conclude_with_history(operator_result, period, self.context.now().max(created_at));
        let concluded = concluded.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let check = concluded.check().clone();
        let idempotent_response = self.idempotency.seal_response(idempotency.as_ref(), &check)?;
        self.store.create_concluded_check(concluded.map(Into::into), idempotent_response).await?;
        self.activity.record_created_and_concluded(&check);
        Ok((check, operator_result.ok()))
    }

    pub async fn sim_swap_check(&self, project: ProjectId, id: CheckId) -> Result<SimSwapCheck, ReadError> {
        self.read_check(project, Product::SimSwap, id).await
    }

    /// Lists the SIM Swap checks of a project, newest first.
    pub async fn sim_swap_checks(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<SimSwapCheck>, StoreError> {
        self.list_checks(project, Product::SimSwap, filter, page).await
    }
}
