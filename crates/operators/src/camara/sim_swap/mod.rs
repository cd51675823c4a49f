//! Asking an operator by CAMARA SIM Swap when a number's SIM was changed.
//!
//! No device takes part: a token of ours or of the number's, and one question. Questions change nothing, so one that
//! did not come through is asked once more.

mod access;
mod backchannel;
mod config;
mod history;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    sim_swap::{Period, SimHistory},
};
use ringtrue_engine::ports::{SimSwapQuestion, SimSwapRoute};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    Camara, Effect, api_headers, correlator,
    faults::{Fault, Stage, Symptom},
};
use crate::client::ClientError;
use access::Access;
pub(super) use access::OwnTokens;
pub use config::{SimSwapConfig, SimSwapFlow, SimSwapOperation};
use history::{of_check, of_date};

/// As far back as an operator may be asked to look.
const MOST_HOURS: u32 = 2_400;

impl Camara {
    /// Whether the operator is asked about SIM cards.
    pub fn serves_sim_swap(&self) -> bool {
        self.config.sim_swap.is_some()
    }

    /// By the first operation that can say.
    async fn told(&self, config: &SimSwapConfig, question: SimSwapQuestion<'_>) -> Result<SimHistory, Fault> {
        let (mut knows_too_little, mut refusal) = (false, None);
        let mut operations = config.operations.iter();
        while let Some(operation) = operations.next() {
            let fault = match self.told_by(*operation, config, question).await {
                Err(fault) => fault,
                history => return history,
            };
            match Shortcoming::of(&fault) {
                Some(Shortcoming::KnowsTooLittle) => knows_too_little = true,
                Some(Shortcoming::MayNotBeAsked) => {
                    if operations.len() > 0 {
                        let (connector, stage, symptom) = (&*self.config.name, fault.stage.as_str(), fault.symptom());
                        tracing::warn!(connector, stage, ?symptom, "an operator does not allow one of our questions");
                    }
                    refusal = Some(fault);
                }
                None => return Err(fault),
            }
        }
        // Who answers one question is in order, whatever else it does not let us ask.
        Err(refusal.filter(|_| !knows_too_little).unwrap_or(Fault::new(Stage::Api, Symptom::NoHistory)))
    }

    async fn told_by(
        &self,
        operation: SimSwapOperation,
        config: &SimSwapConfig,
        question: SimSwapQuestion<'_>,
    ) -> Result<SimHistory, Fault> {
        let mut is_first = true;
        loop {
            let access = self.access(config, operation, question).await?;
            match self.history(operation, config, question, &access).await {
                // A token that is good by its own account may have been revoked: one more is asked for, once.
                Err(Fault { status: Some(401), .. }) if access.is_kept && is_first => {
                    self.sim_swap_tokens.of(operation, config).forget(&access.bearer);
                    is_first = false;
                }
                outcome => return outcome,
            }
        }
    }

    async fn history(
        &self,
        operation: SimSwapOperation,
        config: &SimSwapConfig,
        question: SimSwapQuestion<'_>,
        access: &Access,
    ) -> Result<SimHistory, Fault> {
        let hours = hours(question.period);
        let max_age = (operation == SimSwapOperation::Check).then_some(hours);
        let answer = self.put(operation, max_age, question, access).await?;
        let history = match operation {
            SimSwapOperation::RetrieveDate => of_date(&answer, config.assumed_window, question.now),
            SimSwapOperation::Check => of_check(&answer, hours),
        };
        history.map_err(|symptom| Fault::new(Stage::Api, symptom))
    }

    async fn put(
        &self,
        operation: SimSwapOperation,
        max_age: Option<u32>,
        question: SimSwapQuestion<'_>,
        access: &Access,
    ) -> Result<Bytes, Fault> {
        let ours = || Fault::new(Stage::Api, Symptom::Ours);
        let url = self.interfaces.sim_swap(operation).ok_or_else(ours)?;
        let phone_number = (!access.is_of_the_number).then(|| question.number.as_str());
        let body = serde_json::to_vec(&Asked { phone_number, max_age }).map_err(|_| ours())?;
        let correlator = correlator(question.check)?;
        let headers = || {
            let mut headers = api_headers(correlator.clone(), access.bearer.clone());
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers
        };
        let answer = self.asking.read(Stage::Api, Method::POST, url, headers, body.into()).await?;
        Ok(answer.body)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    /// Only where the token does not say it: both is an error, and so is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<&'a str>,
    /// In hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<u32>,
}

/// Somebody waits for an answer. Who gives up cannot say so: the question is dropped, and if it is late enough, that is
/// noted as what it is.
struct Waited<'a> {
    camara: &'a Camara,
    until: Instant,
    is_over: bool,
}

impl Waited<'_> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        let Waited { camara, until, is_over } = *self;
        if is_over {
            return;
        }
        if Instant::now() < until {
            // Of the operator nothing was learned.
            camara.sim_swap_breaker.learn(Effect::Nothing, None, camara.asking.clock.now());
        } else {
            let too_late = Fault::new(Stage::Api, Symptom::NoAnswer(ClientError::Timeout));
            camara.note(&too_late, &camara.sim_swap_breaker);
        }
    }
}

/// Why one operation does not say what another one may.
enum Shortcoming {
    /// It may not look so far back, or knows no change and not for how long.
    KnowsTooLittle,
    /// The operator does not let us.
    MayNotBeAsked,
}

impl Shortcoming {
    fn of(fault: &Fault) -> Option<Self> {
        match fault.symptom() {
            Symptom::NoHistory | Symptom::Camara("OUT_OF_RANGE") => Some(Shortcoming::KnowsTooLittle),
            Symptom::Camara("PERMISSION_DENIED") | Symptom::OAuth("invalid_scope" | "insufficient_scope") => {
                Some(Shortcoming::MayNotBeAsked)
            }
            _ => None,
        }
    }
}

/// The whole hours that hold the period.
fn hours(period: Period) -> u32 {
    period.minutes().div_ceil(60).clamp(1, MOST_HOURS)
}

#[async_trait]
impl SimSwapRoute for Camara {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn sim_history(&self, question: SimSwapQuestion<'_>) -> Result<SimHistory, ErrorCode> {
        let config = self.config.sim_swap.as_ref().ok_or(ErrorCode::MnoNotSupported)?;
        self.sim_swap_breaker.admit(question.now)?;
        let waited = Waited { camara: self, until: question.until, is_over: false };
        let told = self.told(config, question).await;
        waited.end();
        let history = told.map_err(|fault| match self.note(&fault, &self.sim_swap_breaker) {
            // There is no device here whose address could be the matter.
            ErrorCode::NotMobileIp => ErrorCode::MnoResponseError,
            code => code,
        })?;
        let now = self.asking.clock.now();
        self.signs.heard(now);
        self.sim_swap_breaker.learn(Effect::Works, None, now);
        Ok(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_asked_for_in_whole_hours() {
        for (minutes, expected) in
            [(60, 1), (61, 2), (119, 2), (120, 2), (10_080, 168), (144_000, 2_400), (144_001, 2_400), (540_000, 2_400)]
        {
            assert_eq!(hours(Period::try_from(minutes).unwrap()), expected, "{minutes}");
        }
    }
}
