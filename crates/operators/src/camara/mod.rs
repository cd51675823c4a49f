//! Asking an operator by CAMARA: whose a device is (Number Verification), and when a SIM was changed (SIM Swap).
//!
//! The device carries a question to the operator's authorisation server and brings back a code (OpenID Connect, with
//! nothing shown to anybody). The code gives a token, the token one answer: whether the number is the device's (Secure
//! SNA), or which number is (Discovery). The operator knows the device by the network that it comes from.
//!
//! What an operator may do wrong, and what it means, is one table: [`TABLE`]. What opens and closes the way to an
//! operator is its [`Breaker`]. Redirects are followed by devices, never by us. No token of a device's or a number's is
//! kept. What SIM Swap does differently is said [there](sim_swap).
//!
//! Deliberately absent: encrypted ID tokens, DPoP, and tokens of the SIM (TS.43), which need no device to be sent.

mod asking;
mod authorization;
mod config;
mod faults;
mod id_token;
mod interfaces;
mod memory;
mod number_verification;
mod provider;
mod report;
mod sim_swap;
mod token;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    product::Product,
};
use ringtrue_engine::ports::{Arrival, Clock, Departure, Entropy, Journey, Question, Reply, SilentRoute};

use crate::{authentication, breaker::Breaker, client::Client, jwt::KeySet, vital_signs::VitalSigns};
pub use crate::{
    authentication::{Audience, ClientAuthentication, ClientSecret},
    breaker::{BreakerSettings, BreakerState, Effect},
    jwt::{Algorithm, BadKey, SigningKey},
};
pub(crate) use asking::retry_after;
use asking::{Asking, Document};
pub use config::{BadConfig, CamaraConfig, Endpoints, LoginHint, Provider, RequestObject, ScopeStyle, Scopes};
use faults::Fault;
pub use faults::{Nonsense, Row, Stage, Symptom, TABLE};
use interfaces::Interfaces;
use memory::Memory;
use provider::Server;
use sim_swap::OwnTokens;
pub use sim_swap::{SimSwapConfig, SimSwapFlow, SimSwapOperation};

const CORRELATOR: HeaderName = HeaderName::from_static("x-correlator");
/// How long a code may be that a device brings. Longer ones are nobody's.
const LONGEST_CODE: usize = 4 * 1_024;

/// A connector to one operator.
pub struct Camara {
    config: CamaraConfig,
    interfaces: Interfaces,
    asking: Asking,
    entropy: Arc<dyn Entropy>,
    server: Server,
    keys: Document<KeySet>,
    /// Of ours, for questions about SIM cards.
    sim_swap_tokens: OwnTokens,
    breaker: Breaker,
    /// Another interface of the operator, which may work or fail by itself.
    sim_swap_breaker: Breaker,
    signs: VitalSigns,
}

impl Camara {
    pub fn new(
        config: CamaraConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, BadConfig> {
        let config = config.checked()?;
        Ok(Camara {
            interfaces: Interfaces::new(&config).ok_or(BadConfig::BasePath)?,
            server: Server::new(&config.provider).ok_or(BadConfig::Provider)?,
            keys: Document::new(Stage::Keys, |json| KeySet::parse(json).ok_or(Nonsense::Body)),
            sim_swap_tokens: OwnTokens::new(),
            breaker: Breaker::new(config.breaker),
            sim_swap_breaker: Breaker::new(config.breaker),
            signs: VitalSigns::default(),
            asking: Asking { connector: config.name.clone(), client, clock },
            entropy,
            config,
        })
    }

    /// Whose subscribers the operator knows.
    pub fn networks(&self) -> &[NetworkId] {
        &self.config.networks
    }

    /// Whether the operator is asked about devices at the moment.
    pub fn state(&self) -> BreakerState {
        self.breaker.state(self.asking.clock.now())
    }

    /// Whether the operator is asked about SIM cards at the moment.
    pub fn sim_swap_state(&self) -> BreakerState {
        self.sim_swap_breaker.state(self.asking.clock.now())
    }

    /// Whether the operator is asked about devices.
    pub fn sends_devices(&self) -> bool {
        self.config.sends_devices()
    }

    fn scope_for(&self, product: Product) -> Option<&str> {
        match product {
            Product::SecureSna => self.config.scopes.verify.as_deref(),
            Product::Discovery => self.config.scopes.device_phone_number.as_deref(),
            Product::ReverseSms | Product::SimSwap | Product::Eligibility => None,
        }
    }

    async fn journey(&self, departure: &Departure<'_>, scope: &str) -> Result<Journey, Fault> {
        let endpoints = self.server.endpoints(&self.asking).await?;
        let memory = Memory::new(&*self.entropy);
        let location = self.authorization_url(departure, &memory, &endpoints, scope);
        let location = location.ok_or(Fault::new(Stage::Redirect, Symptom::Ours))?;
        Ok(Journey { location, memory: memory.to_octets() })
    }

    async fn answer(&self, arrival: &Arrival<'_>) -> Result<Reply, Fault> {
        let memory = Memory::from_octets(arrival.memory).ok_or(Fault::new(Stage::Redirect, Symptom::Ours))?;
        let endpoints = self.server.endpoints(&self.asking).await?;
        let code = brought(arrival.query, &endpoints)?;
        let tokens = self.redeem(code, &memory, &endpoints).await?;
        match &tokens.id {
            Some(token) => self.check_id_token(token, &memory, &endpoints).await?,
            // Then nothing would tell that the code is this device's.
            None if self.config.scopes.openid && !self.config.pkce => {
                return Err(Fault::nonsense(Stage::IdToken, Nonsense::IdToken));
            }
            None => {}
        }
        self.ask(arrival.question, arrival.check, tokens).await
    }

    /// Tells whoever runs this, and a breaker.
    fn note(&self, fault: &Fault, breaker: &Breaker) -> ErrorCode {
        let (connector, stage, code) = (&*self.config.name, fault.stage.as_str(), fault.code().as_str());
        let (symptom, status) = (fault.symptom(), fault.status);
        if fault.is_alarm() {
            tracing::error!(
                connector,
                stage,
                ?symptom,
                status,
                code,
                "an operator does not take us as we are configured"
            );
        } else if fault.is_usual() {
            tracing::debug!(connector, stage, ?symptom, status, code, "an operator cannot tell of a subscriber");
        } else {
            tracing::warn!(connector, stage, ?symptom, status, code, "an operator gave no answer to a check");
        }
        let now = self.asking.clock.now();
        // A subscriber's own matter is an answer like any other.
        if fault.is_usual() {
            self.signs.heard(now);
        } else {
            self.signs.failed(fault.to_string(), now);
        }
        breaker.learn(fault.effect(), fault.retry_after, now);
        fault.code()
    }

    /// In seconds, as tokens have it.
    fn now(&self) -> i64 {
        self.asking.clock.now().as_second()
    }

    /// Of something that may be used once.
    fn identifier(&self) -> String {
        authentication::identifier(&*self.entropy)
    }
}

#[async_trait]
impl SilentRoute for Camara {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn serves(&self, product: Product) -> bool {
        self.scope_for(product).is_some()
    }

    async fn depart(&self, departure: Departure<'_>) -> Result<Journey, ErrorCode> {
        let product = match departure.question {
            Question::IsNumber(_) => Product::SecureSna,
            Question::WhichNumber => Product::Discovery,
        };
        let scope = self.scope_for(product).ok_or(ErrorCode::MnoNotSupported)?;
        self.breaker.admit(self.asking.clock.now())?;
        self.journey(&departure, scope).await.map_err(|fault| self.note(&fault, &self.breaker))
    }

    async fn arrive(&self, arrival: Arrival<'_>) -> Result<Reply, ErrorCode> {
        let is_signed = matches!(self.config.request_object, RequestObject::Signed { .. });
        let noted = |fault: Fault| self.note(&fault.of_device(is_signed), &self.breaker);
        let reply = self.answer(&arrival).await.map_err(noted)?;
        let now = self.asking.clock.now();
        self.signs.heard(now);
        self.breaker.learn(Effect::Works, None, now);
        Ok(reply)
    }
}

/// By what a question about a check is found again in the operator's logs.
fn correlator(check: CheckId) -> Result<HeaderValue, Fault> {
    HeaderValue::try_from(check.to_string()).map_err(|_| Fault::new(Stage::Api, Symptom::Ours))
}

/// The head of a question at an interface of CAMARA's.
fn api_headers(correlator: HeaderValue, bearer: HeaderValue) -> HeaderMap {
    // With room for what is added to it on the way.
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(CORRELATOR, correlator);
    headers
}

/// The code that a device brought, from whom it was sent to.
fn brought<'a>(query: &'a [(String, String)], endpoints: &Endpoints) -> Result<&'a str, Fault> {
    let nonsense = |what| Fault::nonsense(Stage::Redirect, what);
    let only = |wanted: &str| {
        let mut found = query.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.next().is_some() { Err(nonsense(Nonsense::Repeated)) } else { Ok(first) }
    };
    // Of an error too: another server's error is not ours.
    match only("iss")? {
        Some(issuer) if issuer != endpoints.issuer => return Err(nonsense(Nonsense::OtherSender)),
        None if endpoints.names_itself => return Err(nonsense(Nonsense::OtherSender)),
        _ => {}
    }
    if let Some(error) = only("error")? {
        return Err(Fault::of_redirect(error));
    }
    let is_a_code =
        |code: &&str| (1..=LONGEST_CODE).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    only("code")?.filter(is_a_code).ok_or(nonsense(Nonsense::NoCode))
}

/// Without client id and settings: they are long, and some are nobody's business.
impl fmt::Debug for Camara {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Camara").field("name", &self.config.name).finish_non_exhaustive()
    }
}
