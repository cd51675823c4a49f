//! A token that we show to a server (client credentials, RFC 6749), kept until shortly before its end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::Clock;
use serde_json::Value;

/// How long a token is good that does not say so.
const USUALLY_GOOD_FOR: i64 = 300;
/// A token is renewed when a fifth of its time is left, or a minute: it must outlive the question that it goes with.
const FIFTH: i64 = 5;
const MINUTE: i64 = 60;
/// No token is believed to be good for longer.
const LONGEST: i64 = 24 * 3_600;

/// A token that was just given.
pub(crate) struct Fresh {
    /// `Bearer …`, as it is sent.
    pub token: HeaderValue,
    /// In seconds, if it is said.
    pub good_for: Option<i64>,
}

/// Why there is no token.
pub(crate) enum NoToken<F> {
    Refused(F),
    /// Somebody else has asked meanwhile, and was refused.
    RefusedToAnother(F),
}

/// Nobody asks for a token while somebody else does. Who waited for somebody that was refused does not ask again: many
/// who wait for a server that is silent would wait for each other.
pub(crate) struct TokenKeeper<F> {
    state: Mutex<State<F>>,
    asking: tokio::sync::Mutex<()>,
}

struct State<F> {
    kept: Option<Kept>,
    /// How often it was asked for a token, to the end.
    rounds: u64,
    /// Why the last round gave none.
    refused: Option<F>,
}

struct Kept {
    token: HeaderValue,
    until: Timestamp,
}

impl<F: Clone> TokenKeeper<F> {
    pub fn new() -> Self {
        let state = State { kept: None, rounds: 0, refused: None };
        TokenKeeper { state: Mutex::new(state), asking: tokio::sync::Mutex::new(()) }
    }

    /// The token that is kept, if it is still good.
    pub fn kept(&self, now: Timestamp) -> Option<HeaderValue> {
        self.state().good(now).ok()
    }

    /// The token that is kept, or else one that is asked for.
    pub async fn token(
        &self,
        clock: &dyn Clock,
        ask: impl Future<Output = Result<Fresh, F>> + Send,
    ) -> Result<HeaderValue, NoToken<F>> {
        let rounds_before = match self.state().good(clock.now()) {
            Ok(token) => return Ok(token),
            Err(rounds) => rounds,
        };
        let _turn = self.asking.lock().await;
        if let Some(outcome) = self.state().found_meanwhile(rounds_before, clock.now()) {
            return outcome;
        }
        let asked_at = clock.now();
        let outcome = ask.await;
        let mut state = self.state();
        state.rounds += 1;
        match outcome {
            Ok(Fresh { token, good_for }) => {
                let until = renewed_at(asked_at, good_for.unwrap_or(USUALLY_GOOD_FOR));
                state.refused = None;
                state.kept = Some(Kept { token: token.clone(), until });
                Ok(token)
            }
            Err(fault) => {
                state.refused = Some(fault.clone());
                Err(NoToken::Refused(fault))
            }
        }
    }

    /// One that was not taken. Somebody else may have a newer one by now.
    pub fn forget(&self, refused: &HeaderValue) {
        let mut state = self.state();
        if state.kept.as_ref().is_some_and(|kept| kept.token == *refused) {
            state.kept = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Clone> State<F> {
    /// What somebody else has got since there were so many rounds.
    fn found_meanwhile(&self, rounds_before: u64, now: Timestamp) -> Option<Result<HeaderValue, NoToken<F>>> {
        match (self.good(now), &self.refused) {
            (Ok(token), _) => Some(Ok(token)),
            (Err(rounds), Some(fault)) if rounds > rounds_before => Some(Err(NoToken::RefusedToAnother(fault.clone()))),
            _ => None,
        }
    }

    /// The token, or how many rounds have given none that is still good.
    fn good(&self, now: Timestamp) -> Result<HeaderValue, u64> {
        self.kept.as_ref().filter(|kept| now < kept.until).map(|kept| kept.token.clone()).ok_or(self.rounds)
    }
}

/// What a server says under `expires_in`: a number, which some write as text.
pub(crate) fn seconds(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn renewed_at(now: Timestamp, good_for: i64) -> Timestamp {
    let good_for = good_for.clamp(0, LONGEST);
    let kept_for = good_for - (good_for / FIFTH).min(MINUTE);
    now.checked_add(SignedDuration::from_secs(kept_for)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ringtrue_engine::ports::ManualClock;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let now = Timestamp::UNIX_EPOCH;
        for (good_for, kept_for) in
            [(3_600, 3_540), (300, 240), (100, 80), (10, 8), (0, 0), (-5, 0), (i64::MAX, 86_340), (i64::MIN, 0)]
        {
            assert_eq!(renewed_at(now, good_for).as_second(), kept_for, "{good_for}");
        }
    }

    #[test]
    fn a_token_says_how_long_it_is_good() {
        for (said, expected) in [
            (json!(60), Some(60)),
            (json!("60"), Some(60)),
            (json!(-1), Some(-1)),
            (json!(null), None),
            (json!("soon"), None),
            (json!([60]), None),
        ] {
            assert_eq!(seconds(Some(&said)), expected, "{said}");
        }
        assert_eq!(seconds(None), None);
    }

    #[tokio::test]
    async fn who_waited_for_somebody_that_was_refused_does_not_ask_again() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let keeper: TokenKeeper<&str> = TokenKeeper::new();
        let asked = AtomicU32::new(0);
        let ask = || async {
            let round = asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            if round == 0 {
                return Err("no");
            }
            Ok(Fresh { token: HeaderValue::from_static("Bearer t"), good_for: Some(100) })
        };
        let (one, other) = tokio::join!(keeper.token(&clock, ask()), keeper.token(&clock, ask()));
        assert!(matches!(one, Err(NoToken::Refused("no"))));
        assert!(matches!(other, Err(NoToken::RefusedToAnother("no"))));
        // Who comes later does, and once is enough.
        let (one, other) = tokio::join!(keeper.token(&clock, ask()), keeper.token(&clock, ask()));
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        clock.advance(SignedDuration::from_secs(80));
        assert!(keeper.token(&clock, ask()).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 3, "the first one is too old");
        keeper.forget(&HeaderValue::from_static("Bearer of somebody else"));
        assert!(keeper.token(&clock, ask()).await.is_ok());
        keeper.forget(&HeaderValue::from_static("Bearer t"));
        assert!(keeper.token(&clock, ask()).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }
}
