//! The built-in operator of sandbox projects: a message centre and a CAMARA side on loopback sockets, and the connectors
//! that reach them as they would real ones.
//!
//! Devices cannot reach a loopback socket of ours, so their way to the operator leads through the public door, which
//! hands them on: see [`Authorizer`].

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::ErrorCode,
    phone::Msisdn,
    sandbox::{DEFAULT_SIM, RECEIVERS},
    sim_swap::SimHistory,
    tenancy::Mode,
};
use ringtrue_engine::{
    Engine,
    ports::{Reporting, SimSwapQuestion, SimSwapRoute},
};
use ringtrue_operators::{
    camara::{
        BreakerSettings, Camara, CamaraConfig, ClientAuthentication, Endpoints, LoginHint, Provider, SimSwapConfig,
        SimSwapFlow,
    },
    client::{Answer, Client, ClientError, ClientSettings},
    smpp::{Connector, Counters, Reach, SmppConfig, Succession, Surroundings, Tag},
};
use ringtrue_sandbox::{
    camara::{self, Clock, Endpoint, Operator, OperatorConfig},
    sim_drawer::SimDrawer,
    smsc::{Smsc, SmscConfig},
};
use url::Url;

use crate::{connectors::camara_redirect_uri, handsets::Handsets};

/// Where devices find the simulated operator's authorization endpoint, under the base URL.
pub const AUTHORIZE: &str = "/v1/sandbox/operator/authorize";

const NAME: &str = "sandbox";
/// Names the project whose handset has sent an SMS; in the range that SMPP leaves to vendors.
const PROJECT_TAG: Tag = Tag(0x1400);

#[derive(Debug)]
pub struct SandboxOperator {
    smsc: Arc<Smsc>,
    connector: Arc<Connector>,
    /// The connector to its CAMARA side.
    camara: Arc<Camara>,
    operator: Arc<Operator>,
    desk: Arc<Desk>,
    drawer: Arc<SimDrawer>,
}

impl SandboxOperator {
    pub async fn start(engine: &Engine) -> anyhow::Result<Self> {
        // Nobody else on this machine is to bind.
        let password = BASE64_URL_SAFE_NO_PAD.encode(engine.entropy().bytes::<6>());
        let smsc = SmscConfig { password: password.clone(), account_tag: Some(PROJECT_TAG), ..SmscConfig::default() };
        let smsc = Smsc::start(smsc).await.context("the sandbox operator cannot listen on a loopback address")?;
        let receivers = RECEIVERS.iter().map(|number| Msisdn::parse(number, Mode::Sandbox));
        let receivers = receivers.collect::<Result<Vec<_>, _>>()?;
        let address = smsc.address();
        let config = SmppConfig {
            reach: Reach::SandboxProject { tag: PROJECT_TAG },
            system_id: "sandbox".to_owned(),
            password: password.into(),
            // The handsets wait for each part to be taken before they send the next.
            succession: Succession::OneByOne,
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            ..SmppConfig::new(NAME, address.ip().to_string(), address.port(), receivers)
        };
        let connector = Arc::new(Connector::start(
            config,
            Surroundings {
                inbox: Arc::new(engine.clone()),
                networks: Arc::clone(engine.networks()),
                clock: engine.shared_clock(),
                entropy: engine.shared_entropy(),
                counters: Arc::new(Counters::default()),
            },
        ));
        let client = Arc::new(Client::new(&ClientSettings::default())?);
        let drawer = Arc::new(SimDrawer::default());
        let (operator, camara) = camara_side(engine, &client, &drawer).await?;
        let operator = Arc::new(operator);
        let endpoint = Url::parse(&format!("http://{}{}", operator.address(), Endpoint::Authorize.path()))?;
        let desk = Arc::new(Desk { endpoint, client, _operator: Arc::clone(&operator) });
        Ok(SandboxOperator { smsc: Arc::new(smsc), connector, camara, operator, desk, drawer })
    }

    pub fn authorizer(&self) -> Authorizer {
        Authorizer(Some(Arc::clone(&self.desk)))
    }

    pub fn handsets(&self) -> Handsets {
        Handsets::new(Arc::clone(&self.smsc), Arc::clone(&self.drawer))
    }

    /// The connectors that reach it, which say how they are.
    pub fn reporters(&self) -> Vec<Arc<dyn Reporting>> {
        vec![self.connector.clone(), self.camara.clone()]
    }

    pub async fn shutdown(&self) {
        self.connector.shutdown().await;
        self.smsc.shutdown().await;
        self.operator.shutdown().await;
    }
}

/// Starts the operator's CAMARA side, and the connector that asks it.
async fn camara_side(
    engine: &Engine,
    client: &Arc<Client>,
    drawer: &Arc<SimDrawer>,
) -> anyhow::Result<(Operator, Arc<Camara>)> {
    let redirect_uri = camara_redirect_uri(engine.base_url(), NAME)?;
    let secret = BASE64_URL_SAFE_NO_PAD.encode(engine.entropy().bytes::<24>());
    let clock = engine.shared_clock();
    // The same on every node: a device may come back to another one than it left from.
    let issuer = format!("{}/v1/sandbox/operator", engine.base_url());
    let operator = Operator::start(OperatorConfig {
        issuer: Some(issuer.clone()),
        seal_key: Some(engine.sandbox_operator_key()?),
        authorization_endpoint: Some(format!("{}{AUTHORIZE}", engine.base_url())),
        clients: vec![camara::Client::new(NAME).with_secret(&secret).redirecting_to(redirect_uri.as_str())],
        default_sim: Some(DEFAULT_SIM.parse()?),
        clock: Clock::new(move || clock.now()),
        ..OperatorConfig::default()
    });
    let operator = operator.await.context("the sandbox operator cannot listen on a loopback address")?;
    let local = |endpoint: Endpoint| Url::parse(&format!("http://{}{}", operator.address(), endpoint.path()));
    let config = CamaraConfig {
        mode: Mode::Sandbox,
        // The simulated network tells devices apart by this.
        login_hint: LoginHint::Tel,
        sim_swap: Some(SimSwapConfig::new(SimSwapFlow::ClientCredentials)),
        // Its faults are asked for, and must not keep others from it.
        breaker: BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() },
        ..CamaraConfig::new(
            NAME,
            Provider::Endpoints(Box::new(Endpoints {
                issuer,
                authorization: Some(Url::parse(&operator.url(Endpoint::Authorize))?),
                token: local(Endpoint::Token)?,
                backchannel: None,
                keys: Some(local(Endpoint::Jwks)?),
                names_itself: true,
            })),
            Url::parse(&format!("http://{}", operator.address()))?,
            NAME,
            ClientAuthentication::SecretBasic(secret.into()),
            redirect_uri,
        )
    };
    let connector = Camara::new(config, Arc::clone(client), engine.shared_clock(), engine.shared_entropy())?;
    let connector = Arc::new(connector);
    engine.networks().set_simulated_route(connector.clone());
    let sims = OwnSims { operator: Arc::clone(&connector), drawer: Arc::clone(drawer) };
    engine.networks().set_simulated_sim_swap(Arc::new(sims));
    Ok((operator, connector))
}

/// The simulated operator's word on SIMs, as each project hears it: what the project itself has swapped comes on top. An
/// operator that fails for a number still does.
#[derive(Debug)]
struct OwnSims {
    operator: Arc<Camara>,
    drawer: Arc<SimDrawer>,
}

#[async_trait]
impl SimSwapRoute for OwnSims {
    fn name(&self) -> &str {
        SimSwapRoute::name(&*self.operator)
    }

    async fn sim_history(&self, question: SimSwapQuestion<'_>) -> Result<SimHistory, ErrorCode> {
        let told = self.operator.sim_history(question).await?;
        let swapped = self.drawer.swapped_at(question.project.0.as_u128(), question.number.as_str());
        Ok(swapped.and_then(|at| Timestamp::from_second(at).ok()).map_or(told, SimHistory::ChangedAt))
    }
}

/// Where devices are handed on.
#[derive(Debug)]
struct Desk {
    endpoint: Url,
    client: Arc<Client>,
    /// It stops when nobody holds it.
    _operator: Arc<Operator>,
}

/// Hands devices on to the simulated operator. Cheap to clone; without an operator it has nobody to hand on to.
#[derive(Clone, Debug, Default)]
pub struct Authorizer(Option<Arc<Desk>>);

impl Authorizer {
    /// What the operator answers to a device with this query. `None`: there is no operator.
    pub async fn ask(&self, query: &str) -> Option<Result<Answer, ClientError>> {
        let desk = self.0.as_ref()?;
        let mut url = desk.endpoint.clone();
        url.set_query(Some(query));
        Some(desk.client.request(Method::GET, &url, HeaderMap::new(), "").await)
    }
}
