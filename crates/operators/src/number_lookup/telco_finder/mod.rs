//! Which network serves a number, from a Telco Finder of GSMA Open Gateway, or from the Network Id interface beside it.
//!
//! A Telco Finder names an operator, which a table makes a network. It is asked for what it knows by itself first, and
//! only where that is nothing to ask others, which takes longer and costs more.
//!
//! An answer may name places where the operator's interfaces are. They are not asked for, not read and never followed:
//! where we go is configured.

mod token;

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use http::{HeaderValue, header::AUTHORIZATION};
use ringtrue_domain::{network::NetworkId, phone::Msisdn};
use ringtrue_engine::ports::{Clock, Entropy, NumberSource, Resolved, SourceFault};
use serde_json::{Value, json};
use url::Url;

use super::{
    KnownNetworks,
    asking::{Asking, Request, Told, is_web, nonsense, text, under},
    guard::{Fault, Guard},
    known::names_nobody,
};
use crate::{
    authentication::ClientAuthentication,
    breaker::{BreakerSettings, Effect},
    client::Client,
    token_keeper::{NoToken, TokenKeeper},
};

/// Statuses by which it is said that nobody is known who serves the number.
const UNKNOWN: [u16; 2] = [404, 422];

#[derive(Clone, Debug)]
pub struct TelcoFinderConfig {
    /// Tells this source from others, in logs.
    pub name: Arc<str>,
    /// Where the interfaces are.
    pub root: Url,
    pub question: Question,
    /// Where tokens come from.
    pub token_endpoint: Url,
    /// Who gives them, where an assertion is meant for the issuer.
    pub issuer: String,
    pub client_id: String,
    pub client_authentication: ClientAuthentication,
    pub scope: Option<String>,
    pub known: KnownNetworks,
    pub breaker: BreakerSettings,
}

impl TelcoFinderConfig {
    pub fn new(
        name: impl Into<Arc<str>>,
        root: Url,
        question: Question,
        token_endpoint: Url,
        client_id: impl Into<String>,
        client_authentication: ClientAuthentication,
    ) -> Self {
        TelcoFinderConfig {
            name: name.into(),
            root,
            question,
            issuer: token_endpoint.origin().ascii_serialization(),
            token_endpoint,
            client_id: client_id.into(),
            client_authentication,
            scope: Some("telcofinder".to_owned()),
            known: KnownNetworks::default(),
            breaker: BreakerSettings::default(),
        }
    }
}

/// Which interface is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// `POST /telco-finder/v1/search`, and whose the operators are that it names.
    Search { operators: BTreeMap<String, NetworkId>, depth: Depth },
    /// `POST /network-id/v0/resolve-network-id`.
    NetworkId,
}

/// How far a Telco Finder looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// What it knows by itself.
    Shallow,
    /// What it knows by itself, or else by asking others.
    #[default]
    ShallowThenDeep,
    /// Always by asking others.
    Deep,
}

impl Depth {
    fn modes(self) -> &'static [&'static str] {
        match self {
            Depth::Shallow => &["SHALLOW"],
            Depth::ShallowThenDeep => &["SHALLOW", "DEEP"],
            Depth::Deep => &["DEEP"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTelcoFinderConfig {
    #[error("the root and the token endpoint are http or https URLs")]
    Url,
    #[error("the client id is empty")]
    ClientId,
    #[error("no operator's network is known, so no answer would be of use")]
    NoOperators,
}

/// A source that is asked by the interfaces of Open Gateway.
pub struct TelcoFinder {
    config: TelcoFinderConfig,
    asking: Asking,
    entropy: Arc<dyn Entropy>,
    tokens: TokenKeeper<Fault>,
    guard: Guard,
}

impl TelcoFinder {
    pub fn new(
        config: TelcoFinderConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, BadTelcoFinderConfig> {
        if !is_web(&config.root) || !is_web(&config.token_endpoint) {
            return Err(BadTelcoFinderConfig::Url);
        }
        if config.client_id.is_empty() {
            return Err(BadTelcoFinderConfig::ClientId);
        }
        if matches!(&config.question, Question::Search { operators, .. } if operators.is_empty()) {
            return Err(BadTelcoFinderConfig::NoOperators);
        }
        let guard = Guard::new(Arc::clone(&config.name), config.breaker, Arc::clone(&clock));
        Ok(TelcoFinder { config, asking: Asking { client, clock }, entropy, tokens: TokenKeeper::new(), guard })
    }

    async fn ask(&self, number: &Msisdn) -> Result<Resolved, Fault> {
        match &self.config.question {
            Question::Search { operators, depth } => {
                for mode in depth.modes() {
                    if let Some(operator) = self.search(number, mode).await? {
                        return Ok(self.network_of(&operator, operators));
                    }
                }
                Ok(Resolved::NoData)
            }
            Question::NetworkId => self.resolve_network_id(number).await,
        }
    }

    /// The operator, if it is known as deep as was looked.
    async fn search(&self, number: &Msisdn, mode: &str) -> Result<Option<String>, Fault> {
        let question = json!({ "target": { "phoneNumber": number.as_str() }, "portabilitySearchMode": mode });
        let told = self.put("/telco-finder/v1/search", &question).await?;
        if told.status != 200 {
            return Ok(None);
        }
        // Unknown numbers are a 404 or a 422: an answer without an operator is malformed.
        text(told.json.get("operatorId")).map(Some).ok_or_else(nonsense)
    }

    fn network_of(&self, operator: &str, operators: &BTreeMap<String, NetworkId>) -> Resolved {
        let network = operators.get(operator).cloned();
        if network.is_none() {
            // Not its name: what others write is kept out of logs.
            tracing::info!(source = &*self.config.name, "an operator is named whose network is not known");
        }
        network.map_or(Resolved::OtherNetwork, Resolved::Network)
    }

    async fn resolve_network_id(&self, number: &Msisdn) -> Result<Resolved, Fault> {
        let question = json!({ "phoneNumber": number.as_str() });
        let told = self.put("/network-id/v0/resolve-network-id", &question).await?;
        if told.status != 200 {
            return Ok(Resolved::NoData);
        }
        let codes = text(told.json.get("networkId")).ok_or_else(nonsense)?;
        if names_nobody(&codes) {
            return Ok(Resolved::NoData);
        }
        self.config.known.meant_by(&codes).map(Resolved::Network).ok_or_else(nonsense)
    }

    async fn token(&self) -> Result<HeaderValue, Fault> {
        let token = self.tokens.token(&*self.asking.clock, self.ask_for_token()).await;
        token.map_err(|none| match none {
            NoToken::Refused(fault) => fault,
            NoToken::RefusedToAnother(fault) => fault.again(),
        })
    }

    /// A token that is good by its own account may have been revoked: one more is asked for, once.
    async fn put(&self, path: &str, question: &Value) -> Result<Told, Fault> {
        let token = self.token().await?;
        let mut request = Request::post_json(under(&self.config.root, path), question);
        request.headers.insert(AUTHORIZATION, token.clone());
        match self.asking.put(request.clone(), &UNKNOWN).await {
            Err(Fault { status: Some(401), .. }) => {
                self.tokens.forget(&token);
                let fresh = self.token().await?;
                request.headers.insert(AUTHORIZATION, fresh);
                self.asking.put(request, &UNKNOWN).await
            }
            outcome => outcome,
        }
    }
}

/// What we cannot sign, or what gives us no token.
fn unauthenticated() -> Fault {
    Fault::new(SourceFault::Refused, Effect::Misconfigured)
}

#[async_trait]
impl NumberSource for TelcoFinder {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<Resolved, SourceFault> {
        self.guard.watch(self.ask(number)).await
    }
}

impl fmt::Debug for TelcoFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelcoFinder").field("name", &self.config.name).finish_non_exhaustive()
    }
}
