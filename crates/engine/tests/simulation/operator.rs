//! The simulated operator: it says what the play wants it to say.

use std::sync::Mutex;

use async_trait::async_trait;
use ringtrue_domain::{lifecycle::ErrorCode, product::Product};
use ringtrue_engine::ports::{Arrival, Departure, Journey, Reply, SilentRoute};

pub const NAME: &str = "simulated";
/// Where devices are sent, before their ticket.
pub const LOCATION: &str = "https://operator.example/?state=";

/// `None`: nobody has told it what to say.
#[derive(Debug, Default)]
pub struct Operator {
    next: Mutex<Option<Result<Reply, ErrorCode>>>,
}

impl Operator {
    pub fn says(&self, reply: Result<Reply, ErrorCode>) {
        *self.next.lock().unwrap() = Some(reply);
    }
}

#[async_trait]
impl SilentRoute for Operator {
    fn name(&self) -> &str {
        NAME
    }

    fn serves(&self, _: Product) -> bool {
        true
    }

    async fn depart(&self, departure: Departure<'_>) -> Result<Journey, ErrorCode> {
        let answer = self.next.lock().unwrap().take().expect("it is told what to say");
        answer.map(|_| Journey {
            location: format!("{LOCATION}{}", departure.ticket),
            memory: departure.check.0.as_bytes().to_vec(),
        })
    }

    async fn arrive(&self, arrival: Arrival<'_>) -> Result<Reply, ErrorCode> {
        assert_eq!(arrival.memory, arrival.check.0.as_bytes());
        self.next.lock().unwrap().take().expect("it is told what to say")
    }
}
