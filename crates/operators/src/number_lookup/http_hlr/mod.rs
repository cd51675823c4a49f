//! Which network serves a number, from those who ask its operator's register (HLR) or keep a copy of the ported
//! numbers, and sell that by HTTP.
//!
//! Each of them has a dialect: how a question is put, and what of an answer means that the number has a network, has no
//! subscriber, or that they do not know. A phone that is switched off has a subscriber. Who cannot tell has not
//! answered, so that another source is asked.

mod generic;
mod hlr_lookups;
mod infobip;
mod twilio;
mod vonage;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{Clock, Entropy, NumberSource, Resolved, SourceFault};
use serde_json::Value;

use super::{
    KnownNetworks,
    asking::{Asking, Request, Told, text},
    guard::{Fault, Guard},
    known::names_nobody,
};
use crate::{
    breaker::{BreakerSettings, Effect},
    client::Client,
};
pub use generic::{GenericJson, NetworkPointers};
pub use hlr_lookups::{HlrLookups, Lookup};
pub use infobip::{Infobip, InfobipCredentials};
pub use twilio::Twilio;
pub use vonage::VonageInsights;

#[derive(Clone, Debug)]
pub struct HlrConfig {
    /// Tells this source from others, in logs.
    pub name: Arc<str>,
    pub driver: Driver,
    pub known: KnownNetworks,
    pub breaker: BreakerSettings,
}

impl HlrConfig {
    pub fn new(name: impl Into<Arc<str>>, driver: Driver) -> Self {
        HlrConfig { name: name.into(), driver, known: KnownNetworks::default(), breaker: BreakerSettings::default() }
    }
}

/// Whose dialect is spoken.
#[derive(Clone, Debug)]
pub enum Driver {
    Infobip(Infobip),
    HlrLookups(HlrLookups),
    Twilio(Twilio),
    VonageIdentityInsights(VonageInsights),
    GenericJson(GenericJson),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHlrConfig {
    #[error("the base URL is an http or https URL without a query")]
    BaseUrl,
    #[error("a name or a secret holds what no header can")]
    Credentials,
    #[error("the URL is an http or https URL when the number is filled in, and the number is no part of its host")]
    Template,
    #[error("neither the URL nor the body has a place for the number: `{{number}}` or `{{digits}}`")]
    NoNumber,
    #[error("a JSON pointer begins with `/`")]
    Pointer,
}

/// How questions are put and answers are read.
trait Dialect {
    /// Says what cannot work, before anything is asked.
    fn check(&self) -> Result<(), BadHlrConfig>;

    /// `None`: it cannot be signed.
    fn request(&self, number: &Msisdn, moment: Moment<'_>) -> Option<Request>;

    /// The statuses, other than 200, that say something of the number.
    fn reads(&self) -> &[u16] {
        &[]
    }

    fn read(&self, told: &Told, known: &KnownNetworks) -> Result<Resolved, SourceFault>;
}

/// What signatures are made of.
#[derive(Clone, Copy)]
struct Moment<'a> {
    now: Timestamp,
    entropy: &'a dyn Entropy,
}

impl Driver {
    fn dialect(&self) -> &(dyn Dialect + Send + Sync) {
        match self {
            Driver::Infobip(dialect) => dialect,
            Driver::HlrLookups(dialect) => dialect,
            Driver::Twilio(dialect) => dialect,
            Driver::VonageIdentityInsights(dialect) => dialect,
            Driver::GenericJson(dialect) => dialect,
        }
    }

    /// Its name in the configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Driver::Infobip(_) => "infobip",
            Driver::HlrLookups(_) => "hlr_lookups",
            Driver::Twilio(_) => "twilio",
            Driver::VonageIdentityInsights(_) => "vonage_identity_insights",
            Driver::GenericJson(_) => "generic_json",
        }
    }
}

/// A source that is asked by HTTP.
pub struct HttpHlr {
    config: HlrConfig,
    asking: Asking,
    entropy: Arc<dyn Entropy>,
    guard: Guard,
}

impl HttpHlr {
    pub fn new(
        config: HlrConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, BadHlrConfig> {
        config.driver.dialect().check()?;
        let guard = Guard::new(Arc::clone(&config.name), config.breaker, Arc::clone(&clock));
        Ok(HttpHlr { config, asking: Asking { client, clock }, entropy, guard })
    }

    async fn ask(&self, number: &Msisdn) -> Result<Resolved, Fault> {
        let dialect = self.config.driver.dialect();
        let moment = Moment { now: self.asking.clock.now(), entropy: &*self.entropy };
        let unsigned = Fault::new(SourceFault::Refused, Effect::Misconfigured);
        let request = dialect.request(number, moment).ok_or(unsigned)?;
        let told = self.asking.put(request, dialect.reads()).await?;
        let status = Some(told.status);
        dialect.read(&told, &self.config.known).map_err(|kind| Fault { status, ..Fault::of_answer(kind) })
    }
}

#[async_trait]
impl NumberSource for HttpHlr {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<Resolved, SourceFault> {
        self.guard.watch(self.ask(number)).await
    }
}

impl fmt::Debug for HttpHlr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = self.config.driver.as_str();
        f.debug_struct("HttpHlr").field("name", &self.config.name).field("driver", &driver).finish_non_exhaustive()
    }
}

/// The network of codes that are written in a row. Where nothing is written, or zeros, there is no network to tell; what
/// cannot be read may be a network's.
fn of_codes(codes: Option<&Value>, known: &KnownNetworks) -> Result<Resolved, SourceFault> {
    let Some(codes) = written(codes)?.filter(|codes| !names_nobody(codes)) else {
        return Ok(Resolved::NoData);
    };
    known.meant_by(&codes).map(Resolved::Network).ok_or(SourceFault::Nonsense)
}

/// The same, of two codes.
fn of_two_codes(
    country: Option<&Value>,
    network: Option<&Value>,
    known: &KnownNetworks,
) -> Result<Resolved, SourceFault> {
    let country = written(country)?.filter(|country| !names_nobody(country));
    let Some((country, network)) = country.zip(written(network)?) else {
        return Ok(Resolved::NoData);
    };
    known.meant(&country, &network).map(Resolved::Network).ok_or(SourceFault::Nonsense)
}

/// What stands there, if anything does.
fn written(code: Option<&Value>) -> Result<Option<String>, SourceFault> {
    let is_nothing = |code: &&Value| code.is_null() || code.as_str().is_some_and(|text| text.trim().is_empty());
    let code = code.filter(|code| !is_nothing(code));
    code.map(|code| text(Some(code)).ok_or(SourceFault::Nonsense)).transpose()
}
