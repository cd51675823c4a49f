//! The built-in operator of sandbox projects: a message centre on a loopback socket, and the connector that binds to it
//! as it would to a real one.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::{phone::Msisdn, sandbox::RECEIVERS, tenancy::Mode};
use ringtrue_engine::Engine;
use ringtrue_operators::smpp::{Connector, Counters, SmppConfig, Succession, Surroundings};
use ringtrue_sandbox::smsc::{Smsc, SmscConfig};

use crate::handsets::Handsets;

const NAME: &str = "sandbox";

#[derive(Debug)]
pub struct SandboxOperator {
    smsc: Arc<Smsc>,
    connector: Connector,
}

impl SandboxOperator {
    pub async fn start(engine: &Engine) -> anyhow::Result<Self> {
        // Nobody else on this machine is to bind.
        let password = BASE64_URL_SAFE_NO_PAD.encode(engine.entropy().bytes::<6>());
        let smsc = SmscConfig { password: password.clone(), ..SmscConfig::default() };
        let smsc = Smsc::start(smsc).await.context("the sandbox operator cannot listen on a loopback address")?;
        let receivers = RECEIVERS.iter().map(|number| Msisdn::parse(number, Mode::Sandbox));
        let receivers = receivers.collect::<Result<Vec<_>, _>>()?;
        let address = smsc.address();
        let config = SmppConfig {
            mode: Mode::Sandbox,
            system_id: "sandbox".to_owned(),
            password: password.into(),
            // The handsets wait for each part to be taken before they send the next.
            succession: Succession::OneByOne,
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            ..SmppConfig::new(NAME, address.ip().to_string(), address.port(), receivers)
        };
        let connector = Connector::start(
            config,
            Surroundings {
                inbox: Arc::new(engine.clone()),
                networks: Arc::clone(engine.networks()),
                clock: engine.shared_clock(),
                entropy: engine.shared_entropy(),
                counters: Arc::new(Counters::default()),
            },
        );
        Ok(SandboxOperator { smsc: Arc::new(smsc), connector })
    }

    pub fn handsets(&self) -> Handsets {
        Handsets::new(Arc::clone(&self.smsc))
    }

    pub async fn shutdown(&self) {
        self.connector.shutdown().await;
        self.smsc.shutdown().await;
    }
}
