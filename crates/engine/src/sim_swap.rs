//! SIM Swap: queries the operator synchronously and stores the check already concluded.

use std::{fmt, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::uuid_v7,
    lifecycle::{Check, CheckId, ErrorCode, Lifecycle, OpenState, Reference},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    sandbox::{self, SandboxScript},
    search::Filter,
    sim_swap::{SimSwapCheck, SimSwapPeriod},
    tenancy::{Mode, Project, ProjectId},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    Engine,
    checks::{CreateError, ReadError, require_eligible, require_enabled, truncate_to_millis},
    idempotency::IdempotentRequest,
    ports::{SimSwapConnector, SimSwapRequest, StoreError},
};

/// Limit for the operator's response.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(10);

/// Create request. The number is unparsed: its validation depends on the project's mode.
#[derive(Clone)]
pub struct CreateSimSwap {
    pub phone_number: String,
    /// In minutes.
    pub period: Option<i64>,
    pub reference: Option<Reference>,
}

/// Masked: personal data.
impl fmt::Debug for CreateSimSwap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateSimSwap").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Engine {
    pub async fn create_sim_swap(
        &self,
        project: &Project,
        request: CreateSimSwap,
        idempotency: Option<IdempotentRequest<'_, SimSwapCheck>>,
    ) -> Result<SimSwapCheck, CreateError> {
        require_enabled(project)?;
        let period = request.period.map(SimSwapPeriod::try_from).transpose()?.unwrap_or(SimSwapPeriod::DEFAULT);
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let (network, connector) = self.select_sim_swap_route(project, &number).await?;

        let created_at = truncate_to_millis(self.clock().now());
        let id = CheckId(uuid_v7(created_at, self.entropy().bytes()));
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
            // Not needed after the operator's response.
            claimed: None,
            reference: request.reference,
            callback_url: None,
            redirect_url: None,
            created_at,
            // Must only be later than the conclusion.
            expires_at: created_at.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        self.require_unchanged_mode(&check)?;
        let concluded = check.conclude_with_history(
            operator_result,
            period,
            truncate_to_millis(self.clock().now()).max(created_at),
        );
        let concluded = concluded.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let check = concluded.check().clone();
        let idempotent_response = self.seal_idempotent_response(idempotency, &check)?;
        self.store().create_concluded_check(concluded.map(Into::into), idempotent_response).await?;
        self.activity_recorder().record_created_and_concluded(&check);
        Ok(check)
    }

    /// The number's network and the connector to its operator, if the project may use them.
    async fn select_sim_swap_route(
        &self,
        project: &Project,
        number: &Msisdn,
    ) -> Result<(NetworkId, Arc<dyn SimSwapConnector>), CreateError> {
        if project.mode == Mode::Sandbox {
            let network = sandbox::NETWORK_ID.parse().map_err(|_| CreateError::MnoNotSupported)?;
            return match SandboxScript::of(number.tail()) {
                SandboxScript::NothingSupported | SandboxScript::NoSubscriber => Err(CreateError::MnoNotSupported),
                SandboxScript::LookupDown => Err(CreateError::LookupUnavailable),
                SandboxScript::OperatorFault
                | SandboxScript::Silence
                | SandboxScript::NoSecureSna
                | SandboxScript::OperatorTimeout
                | SandboxScript::Even
                | SandboxScript::Odd => {
                    let route = self.networks().simulated_sim_swap().ok_or(CreateError::MnoNotSupported)?;
                    Ok((network, route))
                }
            };
        }
        let network = self.resolve_network(number).await?.ok_or(CreateError::MnoNotSupported)?;
        let route = self.networks().sim_swap_route(&network.id);
        require_eligible(project, Product::SimSwap, &network.id, route.is_some())?;
        Ok((network.id, route.ok_or(CreateError::MnoNotSupported)?))
    }

    pub async fn sim_swap_check(&self, project: ProjectId, id: CheckId) -> Result<SimSwapCheck, ReadError> {
        self.read_check(project, Product::SimSwap, id).await
    }

    /// Newest first.
    pub async fn sim_swap_checks(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<SimSwapCheck>, StoreError> {
        self.list_checks(project, Product::SimSwap, filter, page).await
    }
}
