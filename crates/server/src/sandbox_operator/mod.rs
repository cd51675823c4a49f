//! Starts the simulated operator of sandbox projects: an SMSC and CAMARA APIs on loopback sockets. The regular
//! connectors connect to them.
//!
//! Devices cannot reach a loopback socket, so the public API forwards their requests: see [`AuthorizationForwarder`].

mod operator_token_keys;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, sim_swap::SimHistory, tenancy::Mode};
use ringtrue_engine::{
    Engine,
    ports::{
        connectors::MonitoredConnector,
        sim_swap::{SimSwapConnector, SimSwapRequest},
    },
    simulated_sims::SimulatedSims,
};
use ringtrue_operators::{
    camara::{
        BreakerSettings, Camara, CamaraConfig, ClientAuthentication, Endpoints, LoginHintFormat, Provider,
        SimSwapConfig, SimSwapFlow,
    },
    client::{Client, ClientSettings},
    smpp::{ProjectScope, SmppConfig, SmppConnector, SmppCounters, SmppDependencies, TlvTag},
};
use ringtrue_sandbox::{
    camara::{self, Clock, Endpoint, Operator, OperatorConfig},
    handsets::Handsets,
    operator_access::{DEFAULT_SIM, NETWORK_ID, RECEIVERS, SandboxAccess},
    smsc::{Smsc, SmscConfig, SmscObserver},
    wallet::Wallet,
};
use ringtrue_web::authorization_forwarder::{AUTHORIZE_PATH, AuthorizationForwarder};
use tokio::time::{Instant, sleep};
use url::Url;

use self::operator_token_keys::OperatorTokenKeys;
use crate::connectors::camara_redirect_uri;

const CONNECTOR_NAME: &str = "sandbox";
/// Maximum number of connections to the simulated operator, which closes any further ones. Higher than the number that
/// devices and checks use at the same time.
const MAX_OPERATOR_CONNECTIONS: usize = 4_096;
const STORE_RETRY_DELAY: Duration = Duration::from_millis(200);
/// SMPP TLV with the project of the handset that sent an SMS. The tag is in the vendor-specific range.
const PROJECT_TAG: TlvTag = TlvTag(0x1400);

#[derive(Debug)]
pub struct SandboxOperator {
    smsc: Arc<Smsc>,
    connector: Arc<SmppConnector>,
    /// Connector to the operator's CAMARA APIs.
    camara: Arc<Camara>,
    operator: Arc<Operator>,
    wallet: Arc<Wallet>,
    authorization_forwarder: AuthorizationForwarder,
}

impl SandboxOperator {
    /// Starts the operator and registers the connectors to it in `access`.
    pub async fn start(engine: &Engine, access: &SandboxAccess) -> anyhow::Result<Self> {
        // The password is random, so that other processes on this machine cannot bind.
        let password = BASE64_URL_SAFE_NO_PAD.encode(engine.entropy().bytes::<6>());
        let smsc = SmscConfig { password: password.clone(), account_tag: Some(PROJECT_TAG), ..SmscConfig::default() };
        let smsc = Smsc::start(smsc).await.context("the sandbox operator failed to listen on a loopback address")?;
        let receivers = RECEIVERS.iter().map(|number| Msisdn::parse(number, Mode::Sandbox));
        let receivers = receivers.collect::<Result<Vec<_>, _>>()?;
        let address = smsc.address();
        let config = SmppConfig {
            project_scope: ProjectScope::SandboxProject { tag: PROJECT_TAG },
            system_id: "sandbox".to_owned(),
            password: password.into(),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            ..SmppConfig::new(CONNECTOR_NAME, address.ip().to_string(), address.port(), receivers)
        };
        let connector = Arc::new(SmppConnector::start(
            config,
            SmppDependencies {
                inbox: engine.checks.clone(),
                reassembly: engine.reassembly.clone(),
                leases: engine.shared_store(),
                node: engine.node.id(),
                networks: Arc::clone(engine.networks()),
                clock: engine.shared_clock(),
                entropy: engine.shared_entropy(),
                counters: Arc::new(SmppCounters::default()),
            },
        ));
        // The operator's sockets have no TLS, so the client needs no root certificates.
        let client =
            Arc::new(Client::new(&ClientSettings { trusts_system_roots: false, ..ClientSettings::default() })?);
        let (operator, camara) = start_camara(engine, &client).await?;
        let smsc = Arc::new(smsc);
        access.set_smsc(&smsc);
        access.set_silent_connector(camara.clone());
        let sims = ProjectSimSwaps { operator: Arc::clone(&camara), sims: Arc::clone(&engine.simulated_sims) };
        access.set_sim_swap_connector(Arc::new(sims));
        let operator = Arc::new(operator);
        let wallet = Arc::new(Wallet::new(Arc::clone(&operator))?);
        let endpoint = Url::parse(&format!("http://{}{}", operator.address(), Endpoint::Authorize.path()))?;
        let authorization_forwarder = AuthorizationForwarder::new(endpoint, client, Arc::clone(&operator));
        Ok(SandboxOperator { smsc, connector, camara, operator, wallet, authorization_forwarder })
    }

    pub fn authorization_forwarder(&self) -> AuthorizationForwarder {
        self.authorization_forwarder.clone()
    }

    pub fn handsets(&self) -> Handsets {
        Handsets::new(Arc::clone(&self.smsc), Arc::clone(&self.wallet))
    }

    pub fn smsc_observer(&self) -> SmscObserver {
        self.smsc.observer()
    }

    pub fn monitored_connectors(&self) -> Vec<Arc<dyn MonitoredConnector>> {
        vec![self.connector.clone(), self.camara.clone()]
    }

    pub async fn shutdown(&self) {
        self.connector.shutdown().await;
        self.smsc.shutdown().await;
        self.operator.shutdown().await;
    }
}

/// Starts the CAMARA APIs and creates the connector to them.
async fn start_camara(engine: &Engine, client: &Arc<Client>) -> anyhow::Result<(Operator, Arc<Camara>)> {
    let redirect_uri = camara_redirect_uri(engine.base_url(), CONNECTOR_NAME)?;
    let secret = BASE64_URL_SAFE_NO_PAD.encode(engine.entropy().bytes::<24>());
    let keys = OperatorTokenKeys::generate().context("failed to generate keys for the sandbox operator")?;
    let oauth_client = camara::OAuthClient::new(CONNECTOR_NAME)
        .with_secret(&secret)
        .with_keys(&keys.client_jwk()?)?
        .with_redirect_uri(redirect_uri.as_str());
    let clock = engine.shared_clock();
    // The issuer is the same on every node, because a device may return to another node.
    let issuer = format!("{}/v1/sandbox/operator", engine.base_url());
    let operator = Operator::start(OperatorConfig {
        issuer: Some(issuer.clone()),
        seal_key: Some(engine.node.derive_key("sandbox operator")?),
        authorization_endpoint: Some(format!("{}{AUTHORIZE_PATH}", engine.base_url())),
        clients: vec![oauth_client],
        default_sim: Some(DEFAULT_SIM.parse()?),
        clock: Clock::new(move || clock.now()),
        max_connections: MAX_OPERATOR_CONNECTIONS,
        ..OperatorConfig::default()
    });
    let operator = operator.await.context("the sandbox operator failed to listen on a loopback address")?;
    let local = |endpoint: Endpoint| Url::parse(&format!("http://{}{}", operator.address(), endpoint.path()));
    let config = CamaraConfig {
        mode: Mode::Sandbox,
        networks: vec![NETWORK_ID.parse()?],
        // The simulated operator identifies devices by the login hint.
        login_hint: LoginHintFormat::Tel,
        sim_swap: Some(SimSwapConfig::new(SimSwapFlow::ClientCredentials)),
        operator_tokens: Some(keys.config(engine.base_url())?),
        // Never opens the circuit breaker: failures that one project simulates must not affect other projects.
        breaker: BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() },
        ..CamaraConfig::new(
            CONNECTOR_NAME,
            Provider::Endpoints(Box::new(Endpoints {
                issuer,
                authorization: Some(Url::parse(&operator.url(Endpoint::Authorize))?),
                token: local(Endpoint::Token)?,
                backchannel: None,
                jwks: Some(local(Endpoint::Jwks)?),
                supports_iss_parameter: true,
            })),
            Url::parse(&format!("http://{}", operator.address()))?,
            CONNECTOR_NAME,
            ClientAuthentication::SecretBasic(secret.into()),
            redirect_uri,
        )
    };
    let connector = Camara::new(config, Arc::clone(client), engine.shared_clock(), engine.shared_entropy())?;
    Ok((operator, Arc::new(connector)))
}

/// Adds the SIM swaps that a project has simulated to the operator's responses. Errors of the operator take precedence.
#[derive(Debug)]
struct ProjectSimSwaps {
    operator: Arc<Camara>,
    sims: Arc<SimulatedSims>,
}

#[async_trait]
impl SimSwapConnector for ProjectSimSwaps {
    fn name(&self) -> &str {
        SimSwapConnector::name(&*self.operator)
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        let reported = self.operator.sim_history(request).await?;
        // Retries while the database is unavailable: the operator has answered, so the check must not end as an error.
        loop {
            match self.sims.swapped_at(request.project, request.number).await {
                Ok(swapped_at) => return Ok(swapped_at.map_or(reported, SimHistory::ChangedAt)),
                Err(error) if Instant::now() + STORE_RETRY_DELAY >= request.deadline => {
                    tracing::debug!(%error, "failed to read the simulated SIM swaps");
                    return Err(ErrorCode::InternalError);
                }
                Err(_) => sleep(STORE_RETRY_DELAY).await,
            }
        }
    }
}
