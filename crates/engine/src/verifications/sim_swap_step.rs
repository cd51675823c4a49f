//! The SIM Swap step, which asks the operator about SIM changes after a match, if the client has requested it. A
//! background task asks the operator, so that the request that ended the previous step need not wait for the answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{Check, CheckId, ErrorCode, Lifecycle},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::{Mode, ProjectId},
    verification::{StepEnd, VerificationCheck},
};
use tokio::time::{Instant, timeout_at};

use super::{
    input::StepInput,
    steps::{Advanced, StepEnding, Steps, begin_step, step_check},
};
use crate::{
    activity::ActivityRecorder,
    checks::downcast,
    lookups::operator_access::{RouteError, SimSwapRoute},
    ports::{
        sim_swap::SimSwapRequest,
        store::StoreError,
        verifications::{AdvanceOutcome, AdvanceTo, EndedStep},
    },
};

/// Timeout of the SIM Swap request to the operator. If the connector must first poll for a token (CIBA), there is time
/// for one `slow_down` response.
pub(super) const SIM_SWAP_TIMEOUT: Duration = Duration::from_secs(15);
/// Deadline of a SIM Swap step. If the node that asked the operator stops, another node ends the step after this time.
const SIM_SWAP_DEADLINE: SignedDuration = SignedDuration::from_secs(20);

/// A SIM Swap request to send to the operator.
struct SimSwapQuery {
    verification: CheckId,
    step: CheckId,
    project: ProjectId,
    mode: Mode,
    number: Msisdn,
    period: SimSwapPeriod,
    asked_at: Timestamp,
}

impl Steps {
    /// Begins the SIM Swap step, and asks the operator in a background task.
    pub(super) async fn ask_sim_swap(
        &self,
        mut ending: StepEnding<'_>,
        period: SimSwapPeriod,
    ) -> Result<Option<Advanced>, StoreError> {
        let verification: VerificationCheck = downcast(ending.record.check.clone())?;
        let input = StepInput::unseal(&self.context, ending.record)?;
        let asked_at = ending.at;
        let step = CheckId(self.context.new_uuid(asked_at)).with_bucket(verification.id.bucket());
        ending.progress = begin_step(ending.progress, Product::SimSwap, step)?;
        let deadline = asked_at.saturating_add(SIM_SWAP_DEADLINE).unwrap_or(Timestamp::MAX);
        let (record, progress) = (ending.record, ending.progress.clone());
        let advance = ending.into_advance(AdvanceTo::SimSwap { check: step, deadline });
        let AdvanceOutcome::Advanced { step_was_pending, was_pending } = self.store.advance(advance).await? else {
            return Ok(None);
        };
        self.record_transition(record, &progress, step_was_pending, None);
        if !was_pending {
            self.activity.record_seen(ActivityRecorder::key_of(&verification));
        }
        self.spawn_query(SimSwapQuery {
            verification: verification.id,
            step,
            project: verification.project,
            mode: verification.mode,
            number: input.number,
            period,
            asked_at,
        });
        Ok(Some(Advanced { step_was_pending, verification: None }))
    }

    /// Asks the operator in a background task. The caller must not wait for the answer, because the caller may be
    /// processing an SMS that the same operator expects us to acknowledge.
    fn spawn_query(&self, query: SimSwapQuery) {
        let verification = query.verification;
        let (steps, done) = (self.clone(), self.sim_swap_queries.register(verification));
        self.sim_swap_queries.spawn(async move {
            if let Err(error) = steps.run_query(query).await {
                tracing::warn!(%verification, %error, "result of a SIM Swap step not stored; it ends at its deadline");
            }
            steps.sim_swap_queries.remove(verification);
            drop(done);
        });
    }

    async fn run_query(&self, query: SimSwapQuery) -> Result<(), StoreError> {
        let (network, history) = self.query_operator(&query).await;
        let SimSwapQuery { verification, step, project, mode, period, asked_at, .. } = query;
        let check = Check { network, ..step_check(project, mode, Product::SimSwap, verification, step, asked_at) };
        let concluded = check.conclude_with_history(history, period, self.context.now().max(asked_at));
        let concluded = concluded.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let Some(record) = self.store.find_verification(verification).await? else { return Ok(()) };
        let Lifecycle::Concluded { outcome, .. } = &concluded.check().state else { return Ok(()) };
        if record.step != step {
            return Ok(());
        }
        let end = StepEnd::from(outcome);
        let check = concluded.check().clone();
        let ended = EndedStep::Created(Box::new(concluded.map(Into::into)));
        let ending = self.new_step_ending(&record, ended, record.check.expires_at);
        if self.end_step(ending, end).await?.is_some() {
            self.activity.record_created_and_concluded(&check);
        }
        Ok(())
    }

    async fn query_operator(&self, query: &SimSwapQuery) -> (Option<NetworkId>, Result<SimHistory, ErrorCode>) {
        let deadline = Instant::now() + SIM_SWAP_TIMEOUT;
        let Some(project) = self.context.control_plane.project(query.project) else {
            return (None, Err(ErrorCode::InternalError));
        };
        if !project.products.contains(&Product::SimSwap) {
            return (None, Err(ErrorCode::MnoNotSupported));
        }
        let operators = self.operators.for_mode(query.mode);
        let route = match timeout_at(deadline, operators.sim_swap_route(&project, &query.number)).await {
            Ok(Ok(route)) => route,
            Ok(Err(refusal)) => return (None, Err(sim_swap_error(refusal))),
            Err(_) => return (None, Err(ErrorCode::MnoTimeout)),
        };
        let SimSwapRoute { network, connector } = route;
        let request = SimSwapRequest {
            check: query.step,
            project: query.project,
            number: &query.number,
            period: query.period,
            now: query.asked_at,
            deadline,
        };
        let history = timeout_at(deadline, connector.sim_history(request)).await;
        (Some(network), history.unwrap_or(Err(ErrorCode::MnoTimeout)))
    }
}

fn sim_swap_error(refusal: RouteError) -> ErrorCode {
    match refusal {
        RouteError::MnoNotSupported | RouteError::OnlyReverseSms | RouteError::NetworkNotAllowed => {
            ErrorCode::MnoNotSupported
        }
        RouteError::LookupUnavailable => ErrorCode::MnoServerError,
    }
}
