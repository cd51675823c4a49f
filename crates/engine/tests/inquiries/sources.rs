//! Operators and sources that do as they are told, and remember what they were asked.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    phone::Msisdn,
    product::Product,
    sandbox::Script,
    sim_swap::{Period, SimHistory},
};
use ringtrue_engine::ports::{
    AddressBook, Arrival, Departure, Journey, Located, NumberSource, Reply, Resolved, SilentRoute, SimSwapQuestion,
    SimSwapRoute, SourceFault,
};
use tokio::sync::Notify;

/// What an operator says of a SIM card.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    /// By the last digits of the number, as the simulated operator does.
    ByDigits,
    This(Result<SimHistory, ErrorCode>),
    /// Nothing, ever.
    Nothing,
}

/// What an operator was asked: the number, the period, and when.
pub type Question = (String, Period, Timestamp);

#[derive(Debug)]
pub struct Register {
    says: Mutex<Says>,
    asked: Mutex<Vec<Question>>,
    /// Told when a question comes.
    pub called: Notify,
}

impl Register {
    pub fn new(says: Says) -> Arc<Self> {
        Arc::new(Register { says: Mutex::new(says), asked: Mutex::default(), called: Notify::new() })
    }

    pub fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    pub fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl SimSwapRoute for Register {
    fn name(&self) -> &'static str {
        "register"
    }

    async fn sim_history(&self, question: SimSwapQuestion<'_>) -> Result<SimHistory, ErrorCode> {
        let asked = (question.number.as_str().to_owned(), question.period, question.now);
        self.asked.lock().unwrap().push(asked);
        self.called.notify_one();
        let says = *self.says.lock().unwrap();
        match says {
            Says::This(said) => said,
            Says::ByDigits => by_digits(question),
            Says::Nothing => std::future::pending().await,
        }
    }
}

fn by_digits(question: SimSwapQuestion<'_>) -> Result<SimHistory, ErrorCode> {
    let hours_ago = |hours| Ok(SimHistory::ChangedAt(question.now - SignedDuration::from_hours(hours)));
    match Script::of(question.number.tail()) {
        Script::OperatorFault => Err(ErrorCode::MnoServerError),
        Script::OperatorTimeout => Err(ErrorCode::MnoTimeout),
        Script::Silence => Ok(SimHistory::NoChangeFor(question.period.duration())),
        Script::NoSecureSna | Script::Even => hours_ago(24 * 730),
        Script::Odd => hours_ago(20),
        script => panic!("nobody asks about {script:?}"),
    }
}

/// Knows the numbers that a test tells it.
#[derive(Debug, Default)]
pub struct Source {
    pub known: Mutex<HashMap<&'static str, Result<Resolved, SourceFault>>>,
}

impl Source {
    pub fn knows(&self, number: &'static str, said: Result<Resolved, SourceFault>) {
        self.known.lock().unwrap().insert(number, said);
    }
}

#[async_trait]
impl NumberSource for Source {
    fn name(&self) -> &'static str {
        "hlr"
    }

    async fn resolve(&self, number: &Msisdn) -> Result<Resolved, SourceFault> {
        self.known.lock().unwrap().get(number.as_str()).cloned().unwrap_or(Ok(Resolved::NoData))
    }
}

#[derive(Debug)]
pub struct Addresses(pub HashMap<IpAddr, Located>);

impl AddressBook for Addresses {
    fn locate(&self, address: IpAddr) -> Located {
        self.0.get(&address.to_canonical()).cloned().unwrap_or(Located::Unknown)
    }
}

/// A connector that serves some products, and is never used.
#[derive(Debug)]
pub struct Idle(pub &'static [Product]);

#[async_trait]
impl SilentRoute for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn serves(&self, product: Product) -> bool {
        self.0.contains(&product)
    }

    async fn depart(&self, _: Departure<'_>) -> Result<Journey, ErrorCode> {
        Err(ErrorCode::InternalError)
    }

    async fn arrive(&self, _: Arrival<'_>) -> Result<Reply, ErrorCode> {
        Err(ErrorCode::InternalError)
    }
}
