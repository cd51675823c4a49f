//! Operators that do as they are told, and remember who came.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::ports::{AddressBook, Arrival, Departure, Journey, Located, Question, Reply, SilentRoute};

pub const OPERATOR: &str = "https://operator.example/authorize?state=";

/// A connector whose operator says what a test wants to hear.
pub struct Operator {
    name: &'static str,
    contents: Mutex<Contents>,
}

struct Contents {
    departs: Result<(), ErrorCode>,
    arrives: Result<Reply, ErrorCode>,
    meanwhile: Option<BoxFuture<'static, ()>>,
    seen: Seen,
}

/// What an operator was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The question and the simulated SIM of each device that was sent.
    pub departures: Vec<(Asked, Option<String>)>,
    /// The question and where the device had left, for each that was back.
    pub arrivals: Vec<(Asked, IpAddr)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Is(String),
    Which,
}

impl From<Question<'_>> for Asked {
    fn from(question: Question<'_>) -> Self {
        match question {
            Question::IsNumber(number) => Asked::Is(number.as_str().to_owned()),
            Question::WhichNumber => Asked::Which,
        }
    }
}

impl Operator {
    pub fn new(name: &'static str) -> Self {
        let contents =
            Contents { departs: Ok(()), arrives: Ok(Reply::Match(true)), meanwhile: None, seen: Seen::default() };
        Operator { name, contents: Mutex::new(contents) }
    }

    pub fn says(&self, reply: impl Into<Result<Reply, ErrorCode>>) {
        self.contents.lock().unwrap().arrives = reply.into();
    }

    pub fn lets_depart(&self, answer: Result<(), ErrorCode>) {
        self.contents.lock().unwrap().departs = answer;
    }

    /// What happens elsewhere while the next one is with the operator.
    pub fn meanwhile(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.contents.lock().unwrap().meanwhile = Some(Box::pin(work));
    }

    pub fn seen(&self) -> Seen {
        self.contents.lock().unwrap().seen.clone()
    }

    async fn time_passes(&self) {
        let work = self.contents.lock().unwrap().meanwhile.take();
        if let Some(work) = work {
            work.await;
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

pub fn number(text: &str) -> Reply {
    Reply::Number(Msisdn::parse(text, Mode::Sandbox).unwrap())
}

#[async_trait]
impl SilentRoute for Operator {
    fn name(&self) -> &str {
        self.name
    }

    fn serves(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn depart(&self, departure: Departure<'_>) -> Result<Journey, ErrorCode> {
        let Departure { check, question, ticket, sim, .. } = departure;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(ticket.len() <= 64 && ticket.bytes().all(is_plain), "{ticket}");
        let answer = {
            let mut contents = self.contents.lock().unwrap();
            contents.seen.departures.push((question.into(), sim.map(|sim| sim.as_str().to_owned())));
            contents.departs
        };
        self.time_passes().await;
        answer.map(|()| Journey { location: format!("{OPERATOR}{ticket}"), memory: memory(self.name, check.0) })
    }

    async fn arrive(&self, arrival: Arrival<'_>) -> Result<Reply, ErrorCode> {
        assert_eq!(arrival.memory, memory(self.name, arrival.check.0), "it is given back as it was");
        let answer = {
            let mut contents = self.contents.lock().unwrap();
            contents.seen.arrivals.push((arrival.question.into(), arrival.departed_from));
            contents.arrives.clone()
        };
        self.time_passes().await;
        answer
    }
}

/// Any bytes at all.
fn memory(name: &str, check: uuid::Uuid) -> Vec<u8> {
    [&[0, 255, b'"'], name.as_bytes(), check.as_bytes()].concat()
}

/// Whose addresses are known.
#[derive(Debug)]
pub struct Addresses(pub HashMap<IpAddr, Located>);

impl AddressBook for Addresses {
    fn locate(&self, address: IpAddr) -> Located {
        self.0.get(&address).cloned().unwrap_or(Located::Unknown)
    }
}
