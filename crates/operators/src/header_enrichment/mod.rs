//! Knowing a device by a header that its operator's network writes into plain HTTP requests.
//!
//! The device is sent to `http://…/he/{connector}/{ticket}`, on a listener that serves nothing else. On the way there a
//! gateway of the operator adds the subscriber's number. Anybody can write such a header, so it counts only
//!
//! * on a connection from the operator's own addresses,
//! * from the address that the device left from, within half a minute,
//! * once: two of them are one too many.
//!
//! Everywhere else [`ENRICHMENT_HEADERS`] are to be taken out of requests before anybody looks at them.
//!
//! | What goes wrong | The check ends with |
//! |---|---|
//! | the peer is not in the operator's ranges | `not_mobile_ip` |
//! | the device comes from another address than it left from | `ip_mismatch` |
//! | it comes later than [`WINDOW`] after it left | `mno_timeout` |
//! | no header, or an empty one: the device is roaming, or the operator does not know our host | `mno_no_data_available` |
//! | two headers, a value that cannot be decoded, decrypted or read as a number, a stand-in for a number | `mno_response_error` |
//!
//! Deliberately absent: RC4 and AES in ECB mode, by which anybody can change or recognise what is sent.

mod carrier;
mod cipher;
mod config;
mod names;
mod value;

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::{
    ports::{Arrival, Condition, ConnectorReport, Departure, Journey, Question, Reply, Reporting, Signs, SilentRoute},
    rate_limit::subscriber,
};

pub use self::{
    carrier::Carrier,
    cipher::{BadKey, Cipher, Integrity, Iv, Key},
    config::{BadConfig, HeaderEnrichmentConfig},
    names::{ENRICHMENT_HEADERS, is_enrichment},
    value::{BadPattern, Encoding, Pattern, ValueFormat},
};

use crate::vital_signs::VitalSigns;

/// How long a device may be on its way.
pub const WINDOW: SignedDuration = SignedDuration::from_secs(30);

/// A connector to one operator that enriches headers.
#[derive(Debug)]
pub struct HeaderEnrichment {
    config: HeaderEnrichmentConfig,
    signs: VitalSigns,
}

/// Why a device is not known by its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the connection does not come from the operator's addresses")]
    Stranger,
    #[error("the device comes from another address than it left from")]
    AnotherAddress,
    #[error("the device took too long")]
    Late,
    #[error("what was noted at departure cannot be read")]
    Memory,
    #[error("there is no number in the request")]
    Absent,
    #[error("there is more than one number in the request")]
    Repeated,
    #[error("the value cannot be decoded")]
    Undecodable,
    #[error("the value cannot be decrypted, or was changed on the way")]
    Undecipherable,
    #[error("the value stands for no number in particular")]
    StandIn,
    #[error("the value is not a number in the form that was agreed")]
    NotANumber,
}

impl Refusal {
    fn code(self) -> ErrorCode {
        match self {
            Refusal::Stranger => ErrorCode::NotMobileIp,
            Refusal::AnotherAddress => ErrorCode::IpMismatch,
            Refusal::Late => ErrorCode::MnoTimeout,
            Refusal::Memory => ErrorCode::InternalError,
            Refusal::Absent => ErrorCode::MnoNoDataAvailable,
            Refusal::Repeated
            | Refusal::Undecodable
            | Refusal::Undecipherable
            | Refusal::StandIn
            | Refusal::NotANumber => ErrorCode::MnoResponseError,
        }
    }
}

impl HeaderEnrichment {
    /// Refuses a configuration by which anybody could say that they are anyone, or nobody could be known.
    pub fn new(config: HeaderEnrichmentConfig) -> Result<Self, BadConfig> {
        config.check()?;
        Ok(HeaderEnrichment { config, signs: VitalSigns::default() })
    }

    /// The networks whose devices are sent here.
    pub fn networks(&self) -> &[NetworkId] {
        &self.config.networks
    }

    fn identify(&self, arrival: &Arrival<'_>) -> Result<Msisdn, Refusal> {
        let is_operators = self.config.egress.iter().any(|range| range.contains(&self.source(arrival)));
        if !is_operators {
            return Err(Refusal::Stranger);
        }
        if subscriber(arrival.device) != subscriber(arrival.departed_from) {
            return Err(Refusal::AnotherAddress);
        }
        let departed = Notes::read(arrival.memory).ok_or(Refusal::Memory)?.departed;
        if arrival.now.duration_since(departed) > WINDOW {
            return Err(Refusal::Late);
        }
        let value = self.config.carrier.only_value(arrival.headers)?;
        self.config.number(value)
    }

    /// Where the request comes from: the peer, unless that is a proxy of ours, who then says where it had it from.
    fn source(&self, arrival: &Arrival<'_>) -> IpAddr {
        let peer = arrival.peer.ip().to_canonical();
        let is_proxy = self.config.trusted_proxies.iter().any(|range| range.contains(&peer));
        if is_proxy { arrival.device.to_canonical() } else { peer }
    }
}

#[async_trait]
impl SilentRoute for HeaderEnrichment {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn serves(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn depart(&self, departure: Departure<'_>) -> Result<Journey, ErrorCode> {
        let origin = self.config.base_url.as_str().trim_end_matches('/');
        let location = format!("{origin}/he/{}/{}", self.config.name, departure.ticket);
        Ok(Journey { location, memory: Notes { departed: departure.now }.write() })
    }

    async fn arrive(&self, arrival: Arrival<'_>) -> Result<Reply, ErrorCode> {
        match self.identify(&arrival) {
            Ok(found) => {
                self.signs.heard(arrival.now);
                Ok(match arrival.question {
                    Question::IsNumber(number) => Reply::Match(*number == found),
                    Question::WhichNumber => Reply::Number(found),
                })
            }
            Err(refusal) => {
                self.signs.failed(refusal.to_string(), arrival.now);
                tracing::info!(connector = %self.config.name, check = %arrival.check, %refusal, "no enriched header");
                Err(refusal.code())
            }
        }
    }
}

impl Reporting for HeaderEnrichment {
    fn report(&self) -> ConnectorReport {
        let signs = self.signs.read();
        ConnectorReport {
            name: Arc::clone(&self.config.name),
            kind: "Header enrichment",
            mode: Mode::Live,
            condition: match &signs {
                Signs { heard_at: Some(_), .. } => Condition::Up,
                Signs { mishap: Some(_), .. } => Condition::Impaired,
                _ => Condition::Waiting,
            },
            networks: self.config.networks.clone(),
            receivers: vec![],
            links: None,
            breakers: vec![],
            counts: None,
            signs,
        }
    }
}

/// What is remembered while the device is away.
struct Notes {
    departed: Timestamp,
}

impl Notes {
    fn write(&self) -> Vec<u8> {
        self.departed.as_millisecond().to_be_bytes().to_vec()
    }

    fn read(notes: &[u8]) -> Option<Self> {
        let millis = i64::from_be_bytes(notes.try_into().ok()?);
        Some(Notes { departed: Timestamp::from_millisecond(millis).ok()? })
    }
}
