//! What every source does around a question: not asking when that is of no use, and saying what went wrong.

use std::{fmt, sync::Arc};

use jiff::SignedDuration;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{Clock, Resolved, SourceFault};

use crate::breaker::{Breaker, BreakerSettings, Effect};

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: SourceFault,
    /// What it says of the source, and so of the next question.
    pub effect: Effect,
    /// Of an answer by HTTP.
    pub status: Option<u16>,
    /// When the source wants to be asked again.
    pub retry_after: Option<SignedDuration>,
}

impl Fault {
    pub fn new(kind: SourceFault, effect: Effect) -> Self {
        Fault { kind, effect, status: None, retry_after: None }
    }

    /// The same, told once more: the breaker has learned from it.
    pub fn again(self) -> Self {
        Fault { effect: Effect::Nothing, retry_after: None, ..self }
    }

    /// Of an answer that came and is of no use.
    pub fn of_answer(kind: SourceFault) -> Self {
        // What is refused may be one number. What makes no sense makes none for others either.
        let effect = if kind == SourceFault::Nonsense { Effect::Fails } else { Effect::Nothing };
        Fault::new(kind, effect)
    }
}

pub struct Guard {
    pub name: Arc<str>,
    breaker: Breaker,
    clock: Arc<dyn Clock>,
}

impl Guard {
    pub fn new(name: Arc<str>, settings: BreakerSettings, clock: Arc<dyn Clock>) -> Self {
        Guard { name, breaker: Breaker::new(settings), clock }
    }

    /// Asks, unless it is known that there will be no answer.
    pub async fn watch(
        &self,
        question: impl Future<Output = Result<Resolved, Fault>> + Send,
    ) -> Result<Resolved, SourceFault> {
        self.breaker.admit(self.clock.now()).map_err(|code| match code {
            ErrorCode::MnoTimeout => SourceFault::Timeout,
            _ => SourceFault::Refused,
        })?;
        let mut under_way = UnderWay { guard: self, is_over: false };
        let outcome = question.await;
        under_way.is_over = true;
        let (effect, retry_after) = match &outcome {
            Ok(_) => (Effect::Works, None),
            Err(fault) => (fault.effect, fault.retry_after),
        };
        self.breaker.learn(effect, retry_after, self.clock.now());
        outcome.map_err(|fault| self.told(fault))
    }

    fn told(&self, Fault { kind: fault, effect, status, .. }: Fault) -> SourceFault {
        let source = &*self.name;
        if effect == Effect::Misconfigured {
            tracing::error!(source, status, %fault, "a source of numbers' networks does not take us as we are configured");
        } else {
            tracing::warn!(source, status, %fault, "a source of numbers' networks gave no answer");
        }
        fault
    }
}

/// A question that is not answered yet. Who asked drops it when the time is up, and the breaker is to know.
struct UnderWay<'a> {
    guard: &'a Guard,
    is_over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.guard.breaker.learn(Effect::TimesOut, None, self.guard.clock.now());
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.name)
    }
}
