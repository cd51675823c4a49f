//! SIM Swap: the operator is asked while the caller waits, and the check is made with its end.

use std::{fmt, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::time_ordered,
    lifecycle::{Check, CheckId, ErrorCode, Lifecycle, Open, Reference},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    sandbox::{self, Script},
    search::Filter,
    sim_swap::{Period, SimSwapCheck},
    tenancy::{Mode, Project, ProjectId},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    Engine,
    checks::{CreateError, ReadError, pass_gates, require_enabled, whole_millis},
    idempotency::Once,
    ports::{SimSwapQuestion, SimSwapRoute, StoreError},
};

/// However slow an operator is, its caller has an answer by then.
const DEADLINE: Duration = Duration::from_secs(10);

/// What a caller asks for. The number is still text: what it may be depends on the project's mode.
#[derive(Clone)]
pub struct CreateSimSwap {
    pub phone_number: String,
    /// In minutes.
    pub period: Option<i64>,
    pub reference: Option<Reference>,
}

/// Masked: it is all about a person.
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
        once: Option<Once<'_, SimSwapCheck>>,
    ) -> Result<SimSwapCheck, CreateError> {
        require_enabled(project)?;
        let period = request.period.map(Period::try_from).transpose()?.unwrap_or(Period::DEFAULT);
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let (network, route) = self.swap_route(project, &number).await?;

        let created_at = whole_millis(self.clock().now());
        let id = CheckId(time_ordered(created_at, self.entropy().bytes()));
        let until = Instant::now() + DEADLINE;
        let question =
            SimSwapQuestion { check: id, project: project.id, number: &number, period, now: created_at, until };
        let said = timeout_at(until, route.sim_history(question)).await.unwrap_or(Err(ErrorCode::MnoTimeout));
        let check = Check {
            id,
            project: project.id,
            product: Product::SimSwap,
            mode: project.mode,
            network: Some(network),
            // The answer is all that is kept: nothing is compared with the number later.
            claimed: None,
            reference: request.reference,
            callback_url: None,
            redirect_url: None,
            created_at,
            // It never waits; the instant only has to be later than its end.
            expires_at: created_at.saturating_add(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(Open::Accepted),
        };
        self.require_same_mode(&check)?;
        let ended = check.answer(said, period, whole_millis(self.clock().now()).max(created_at));
        let ended = ended.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let check = ended.check().clone();
        let completion = self.completion(once, &check)?;
        self.store().create_ended(ended.map(Into::into), completion).await?;
        self.activity().created_and_ended(&check);
        Ok(check)
    }

    /// The number's network, and who asks its operator, if all gates are open.
    async fn swap_route(
        &self,
        project: &Project,
        number: &Msisdn,
    ) -> Result<(NetworkId, Arc<dyn SimSwapRoute>), CreateError> {
        if project.mode == Mode::Sandbox {
            let network = sandbox::NETWORK_ID.parse().map_err(|_| CreateError::MnoNotSupported)?;
            return match Script::of(number.tail()) {
                Script::NothingSupported | Script::NoSubscriber => Err(CreateError::MnoNotSupported),
                Script::LookupDown => Err(CreateError::LookupUnavailable),
                Script::OperatorFault
                | Script::Silence
                | Script::NoSecureSna
                | Script::OperatorTimeout
                | Script::Even
                | Script::Odd => {
                    let route = self.networks().simulated_sim_swap().ok_or(CreateError::MnoNotSupported)?;
                    Ok((network, route))
                }
            };
        }
        let network = self.network_of(number).await?.ok_or(CreateError::MnoNotSupported)?;
        let route = self.networks().sim_swap_route(&network.id);
        pass_gates(project, Product::SimSwap, &network.id, route.is_some())?;
        Ok((network.id, route.ok_or(CreateError::MnoNotSupported)?))
    }

    pub async fn sim_swap(&self, project: ProjectId, id: CheckId) -> Result<SimSwapCheck, ReadError> {
        self.check(project, Product::SimSwap, id).await
    }

    /// The project's checks, newest first.
    pub async fn sim_swap_checks(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<SimSwapCheck>, StoreError> {
        self.checks(project, Product::SimSwap, filter, page).await
    }
}
