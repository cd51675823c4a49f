use std::{collections::HashMap, io, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    Arrival, Clock, Departure, Journey, ManualClock, Question, Reply, SilentRoute, SystemEntropy,
};
use ringtrue_operators::{
    camara::{Camara, CamaraConfig, ClientAuthentication, Provider},
    client::{Client, ClientSettings},
    outbound::Resolver,
};
use url::Url;

use super::operator::Operator;

pub const TICKET: &str = "ticket-of-the-device_0123456789";
pub const CALLBACK: &str = "https://ringtrue.example/southbound/camara/op/callback";

pub fn number() -> Msisdn {
    Msisdn::parse("+447700900123", Mode::Live).unwrap()
}

pub fn project() -> ProjectId {
    "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f61".parse().unwrap()
}

pub fn check() -> CheckId {
    "0199d2c4-7a5e-7c3a-9d2f-1b2c3d4e5f60".parse().unwrap()
}

pub struct World {
    pub operator: Operator,
    pub camara: Camara,
    pub clock: Arc<ManualClock>,
}

impl World {
    pub async fn start() -> Self {
        World::with(|_, _| {}).await
    }

    /// As an operator differs.
    pub async fn with(change: impl FnOnce(&mut CamaraConfig, &Operator)) -> Self {
        World::of(&Arc::new(impatient()), change).await
    }

    /// With a client that was made before: making one reads every certificate of the machine.
    pub async fn of(client: &Arc<Client>, change: impl FnOnce(&mut CamaraConfig, &Operator)) -> Self {
        let operator = Operator::start().await;
        let mut config = CamaraConfig::new(
            "op",
            Provider::Issuer(operator.issuer()),
            operator.url("/"),
            "client id:1",
            ClientAuthentication::SecretPost("secret of ours".into()),
            Url::parse(CALLBACK).unwrap(),
        );
        change(&mut config, &operator);
        let clock = Arc::new(ManualClock::at("2026-11-15T09:00:00Z".parse().unwrap()));
        let camara = Camara::new(config, client.clone(), clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
        World { operator, camara, clock }
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub async fn depart(&self, question: Question<'_>) -> Result<Journey, ErrorCode> {
        let departure = Departure {
            check: check(),
            question,
            ticket: TICKET,
            sim: None,
            device: IpAddr::from([192, 0, 2, 1]),
            now: self.clock.now(),
        };
        self.camara.depart(departure).await
    }

    pub async fn arrive(
        &self,
        question: Question<'_>,
        journey: &Journey,
        query: &[(&str, &str)],
    ) -> Result<Reply, ErrorCode> {
        let query: Vec<_> = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let device = IpAddr::from([192, 0, 2, 1]);
        let arrival = Arrival {
            check: check(),
            question,
            memory: &journey.memory,
            departed_from: device,
            peer: (device, 40_000).into(),
            device,
            query: &query,
            headers: &[],
            now: self.clock.now(),
        };
        self.camara.arrive(arrival).await
    }

    /// The whole way, with a code.
    pub async fn ask(&self, question: Question<'_>) -> Result<Reply, ErrorCode> {
        let journey = self.depart(question).await?;
        self.arrive(question, &journey, &[("state", TICKET), ("code", "code-of-the-device")]).await
    }

    pub async fn verify(&self) -> Result<Reply, ErrorCode> {
        self.ask(Question::IsNumber(&number())).await
    }
}

/// What the device carries to the operator.
pub fn carried(journey: &Journey) -> HashMap<String, String> {
    let url = Url::parse(&journey.location).unwrap();
    let pairs: Vec<_> = url.query_pairs().into_owned().collect();
    let count = pairs.len();
    let carried: HashMap<_, _> = pairs.into_iter().collect();
    assert_eq!(carried.len(), count, "nothing is carried twice");
    carried
}

/// For tests in which waiting is the point.
pub fn impatient() -> Client {
    let patience = Duration::from_millis(700);
    let settings = ClientSettings { connect: patience, total: patience, ..ClientSettings::default() };
    Client::with_resolver(&settings, Arc::new(Names)).unwrap()
}

/// Some names have no address, and some name servers no answer.
#[derive(Debug)]
pub struct Names;

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "nobody.example" => Err(io::Error::other("no such name")),
            "nowhere.example" => Ok(vec![]),
            "silent.example" => std::future::pending().await,
            _ => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
        }
    }
}
