//! Looks up the network of a number through HTTP providers of HLR queries or portability data.
//!
//! One driver per provider builds the request and interprets the response: a network, no subscriber, or no data. A
//! phone that is switched off still has a subscriber. An undetermined result is an error, so that the next source is
//! queried.

mod vendors;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::{
    clock::Clock,
    entropy::Entropy,
    lookups::{LookupError, LookupResult, LookupSource},
};
use serde_json::Value;
use strum::IntoStaticStr;

use super::{
    KnownNetworks, LookupClient, LookupRequest, LookupResponse, SourceBreaker, SourceError, is_zero_plmn, scalar_text,
};
use crate::{
    breaker::{BreakerSettings, CallOutcome},
    client::Client,
};
pub use vendors::{
    GenericJson, HlrLookupKind, HlrLookupsCom, Infobip, InfobipCredentials, NetworkPointers, Twilio, VonageInsights,
};

#[derive(Clone, Debug)]
pub struct HlrConfig {
    /// Identifies this source in logs.
    pub name: Arc<str>,
    pub driver: HlrDriver,
    pub known_networks: KnownNetworks,
    pub breaker: BreakerSettings,
}

impl HlrConfig {
    pub fn new(name: impl Into<Arc<str>>, driver: HlrDriver) -> Self {
        HlrConfig {
            name: name.into(),
            driver,
            known_networks: KnownNetworks::default(),
            breaker: BreakerSettings::default(),
        }
    }
}

/// Provider of lookups. Its name in snake case selects it in the configuration.
#[derive(Clone, Debug, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum HlrDriver {
    Infobip(Infobip),
    HlrLookups(HlrLookupsCom),
    Twilio(Twilio),
    VonageIdentityInsights(VonageInsights),
    GenericJson(GenericJson),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HlrConfigError {
    #[error("the base URL must be an http or https URL")]
    BaseUrl,
    #[error("the credentials contain characters that are not allowed in a header")]
    Credentials,
    #[error("the URL template must yield an http or https URL, with the number outside the host")]
    Template,
    #[error("neither the URL nor the body contains `{{number}}` or `{{digits}}`")]
    NoNumber,
    #[error("a JSON pointer must begin with `/`")]
    Pointer,
}

/// Protocol of one provider.
trait HlrVendor {
    fn validate(&self) -> Result<(), HlrConfigError>;

    /// Builds the request for a number. `None`: a signature, header or URL could not be built.
    fn build_request(&self, number: &Msisdn, context: SigningContext<'_>) -> Option<LookupRequest>;

    /// Statuses besides 200 that carry a result.
    fn accepted_statuses(&self) -> &[u16] {
        &[]
    }

    fn parse(&self, response: &LookupResponse, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError>;
}

/// Time and randomness for signing requests.
#[derive(Clone, Copy)]
struct SigningContext<'a> {
    now: Timestamp,
    entropy: &'a dyn Entropy,
}

impl HlrDriver {
    fn vendor(&self) -> &(dyn HlrVendor + Send + Sync) {
        match self {
            HlrDriver::Infobip(vendor) => vendor,
            HlrDriver::HlrLookups(vendor) => vendor,
            HlrDriver::Twilio(vendor) => vendor,
            HlrDriver::VonageIdentityInsights(vendor) => vendor,
            HlrDriver::GenericJson(vendor) => vendor,
        }
    }
}

/// Lookup source that queries a provider of HLR or portability data over HTTP.
#[derive(derive_more::Debug)]
#[debug("HttpHlr({}, {})", config.name, config.driver.into_str())]
pub struct HttpHlr {
    config: HlrConfig,
    client: LookupClient,
    entropy: Arc<dyn Entropy>,
    breaker: SourceBreaker,
}

impl HttpHlr {
    pub fn new(
        config: HlrConfig,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, HlrConfigError> {
        config.driver.vendor().validate()?;
        let breaker = SourceBreaker::new(Arc::clone(&config.name), config.breaker, Arc::clone(&clock));
        Ok(HttpHlr { config, client: LookupClient { client, clock }, entropy, breaker })
    }

    async fn look_up(&self, number: &Msisdn) -> Result<LookupResult, SourceError> {
        let vendor = self.config.driver.vendor();
        let context = SigningContext { now: self.client.clock.now(), entropy: &*self.entropy };
        let signing_error = SourceError::new(LookupError::Refused, CallOutcome::Rejected);
        let request = vendor.build_request(number, context).ok_or(signing_error)?;
        let response = self.client.send(request, vendor.accepted_statuses()).await?;
        let status = Some(response.status);
        vendor
            .parse(&response, &self.config.known_networks)
            .map_err(|kind| SourceError { status, ..SourceError::from_response(kind) })
    }
}

#[async_trait]
impl LookupSource for HttpHlr {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError> {
        self.breaker.run(self.look_up(number)).await
    }
}

/// Resolves a JSON value that contains MCC and MNC together. Missing, blank and zero values mean "no data"; other
/// invalid values are errors.
fn resolve_plmn_value(codes: Option<&Value>, known_networks: &KnownNetworks) -> Result<LookupResult, LookupError> {
    let Some(codes) = code_text(codes)?.filter(|codes| !is_zero_plmn(codes)) else {
        return Ok(LookupResult::NoData);
    };
    known_networks.network_id_from_plmn(&codes).map(LookupResult::Network).ok_or(LookupError::InvalidResponse)
}

/// Resolves separate JSON values of MCC and MNC.
fn resolve_mcc_mnc(
    country: Option<&Value>,
    network: Option<&Value>,
    known_networks: &KnownNetworks,
) -> Result<LookupResult, LookupError> {
    let country = code_text(country)?.filter(|country| !is_zero_plmn(country));
    let is_number = matches!(network, Some(Value::Number(_)));
    let Some((country, network)) = country.zip(code_text(network)?) else {
        return Ok(LookupResult::NoData);
    };
    // An MNC that is a JSON number has lost its leading zeros. A single digit is therefore completed with zeros, but
    // accepted only if a configured network results.
    let resolved = if is_number && network.len() == 1 {
        let found = known_networks.network_id_from_mcc_mnc(&country, &format!("0{network}"));
        found.filter(|id| known_networks.contains(id))
    } else {
        known_networks.network_id_from_mcc_mnc(&country, &network)
    };
    resolved.map(LookupResult::Network).ok_or(LookupError::InvalidResponse)
}

/// Returns the text of a code. `None`: the code is missing, null or blank.
fn code_text(code: Option<&Value>) -> Result<Option<String>, LookupError> {
    let is_blank = |code: &&Value| code.is_null() || code.as_str().is_some_and(|text| text.trim().is_empty());
    let code = code.filter(|code| !is_blank(code));
    code.map(|code| scalar_text(Some(code)).ok_or(LookupError::InvalidResponse)).transpose()
}
