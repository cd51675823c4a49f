//! A token for a number, which the operator gives once it knows that it may: CIBA, by polling.

use std::time::Duration;

use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::SimSwapQuestion;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    camara::{
        Camara,
        config::{Endpoints, LoginHint},
        faults::{Fault, Nonsense, Stage, Symptom},
        token::Tokens,
    },
    token_keeper::seconds,
};

const CIBA: &str = "urn:openid:params:grant-type:ciba";
/// How long to wait between questions where the operator does not say.
const USUAL_INTERVAL: Duration = Duration::from_secs(5);
/// Nobody is asked more often than this, even if they would let us.
const LEAST_INTERVAL: Duration = Duration::from_millis(200);
/// How much longer to wait each time the operator finds that we ask too often.
const SLOWER: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Begun {
    auth_req_id: String,
    interval: Option<Value>,
}

impl Camara {
    pub(super) async fn by_backchannel(
        &self,
        scope: &str,
        question: SimSwapQuestion<'_>,
        endpoints: &Endpoints,
    ) -> Result<Tokens, Fault> {
        let begun = self.begin(scope, question.number, endpoints).await?;
        let mut pace = Pace::new(seconds(begun.interval.as_ref()));
        loop {
            let fields = [("grant_type", CIBA), ("auth_req_id", &*begun.auth_req_id)];
            match self.grant(&fields, endpoints).await {
                Ok(tokens) => return Ok(tokens),
                Err(fault) => {
                    let left = question.until.saturating_duration_since(Instant::now());
                    let wait = pace.after(fault.symptom(), left).ok_or(fault)?;
                    sleep(wait).await;
                }
            }
        }
    }

    async fn begin(&self, scope: &str, number: &Msisdn, endpoints: &Endpoints) -> Result<Begun, Fault> {
        let stage = Stage::Backchannel;
        let url = endpoints.backchannel.as_ref().ok_or(Fault::nonsense(stage, Nonsense::NoBackchannel))?;
        let hint = match self.config.login_hint {
            LoginHint::E164 => number.as_str().to_owned(),
            LoginHint::None | LoginHint::Tel | LoginHint::IpPort => format!("tel:{}", number.as_str()),
        };
        let fields = [("scope", scope), ("login_hint", &hint)];
        let (headers, form) = self.introduced(stage, url, endpoints, &fields)?;
        let answer = self.asking.post(stage, url, headers, form).await?;
        let begun: Begun = serde_json::from_slice(&answer.body).map_err(|_| Fault::nonsense(stage, Nonsense::Body))?;
        if begun.auth_req_id.is_empty() { Err(Fault::nonsense(stage, Nonsense::Body)) } else { Ok(begun) }
    }
}

/// How often an operator is asked whether it is decided.
struct Pace {
    interval: Duration,
}

impl Pace {
    fn new(seconds: Option<i64>) -> Self {
        let said = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        Pace { interval: said.unwrap_or(USUAL_INTERVAL).max(LEAST_INTERVAL) }
    }

    /// How long to wait before the next question. `None`: it is decided, or the answer would come too late.
    fn after(&mut self, said: Symptom<'_>, left: Duration) -> Option<Duration> {
        match said {
            Symptom::OAuth("authorization_pending") => {}
            Symptom::OAuth("slow_down") => self.interval = self.interval.saturating_add(SLOWER),
            _ => return None,
        }
        (self.interval < left).then_some(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PENDING: Symptom<'_> = Symptom::OAuth("authorization_pending");
    const SLOW_DOWN: Symptom<'_> = Symptom::OAuth("slow_down");

    #[test]
    fn an_operator_says_how_often_it_is_asked() {
        // The interval, the answers, the seconds left, and how long is waited after the last of them.
        for (interval, said, left, expected) in [
            (None, &[PENDING][..], 60, Some(5_000)),
            (Some(2), &[PENDING], 60, Some(2_000)),
            (Some(2), &[PENDING, PENDING], 60, Some(2_000)),
            (Some(0), &[PENDING], 60, Some(200)),
            (Some(-1), &[PENDING], 60, Some(5_000)),
            (Some(2), &[SLOW_DOWN], 60, Some(7_000)),
            (Some(2), &[SLOW_DOWN, PENDING], 60, Some(7_000)),
            (Some(2), &[SLOW_DOWN, SLOW_DOWN], 60, Some(12_000)),
            (None, &[PENDING], 5, None),
            (Some(2), &[SLOW_DOWN], 7, None),
            (Some(i64::MAX), &[SLOW_DOWN], 60, None),
            (Some(1), &[Symptom::OAuth("expired_token")], 60, None),
            (Some(1), &[Symptom::OAuth("access_denied")], 60, None),
            (Some(1), &[Symptom::Status(503)], 60, None),
        ] {
            let mut pace = Pace::new(interval);
            let mut wait = None;
            for said in said {
                wait = pace.after(*said, Duration::from_secs(left));
            }
            assert_eq!(wait, expected.map(Duration::from_millis), "{interval:?} {said:?} {left}");
        }
    }
}
