//! Header enrichment: the operator's gateway adds the subscriber's number to plain HTTP requests.
//!
//! The device is redirected to `http://…/he/{connector}/{state}` on a dedicated listener, and the operator's gateway
//! adds the number on the way. Since anyone can write such a header, it is accepted only
//!
//! * on a connection from the operator's addresses,
//! * from the device address that was redirected, within [`MAX_ROUND_TRIP`],
//! * if it occurs exactly once.
//!
//! All other listeners remove [`ENRICHMENT_HEADERS`] from requests.
//!
//! | Problem | Error code of the check |
//! |---|---|
//! | the peer is outside the operator's ranges | `not_mobile_ip` |
//! | the device address changed | `ip_mismatch` |
//! | the request arrives later than [`MAX_ROUND_TRIP`] | `mno_timeout` |
//! | no header, or an empty one: roaming, or the gateway does not enrich our host | `mno_no_data_available` |
//! | several headers, a value that cannot be decoded, decrypted or parsed, a placeholder | `mno_response_error` |
//!
//! Deliberately absent: RC4 and AES-ECB, whose values can be modified or recognised.

mod cipher;
mod config;
mod enrichment_headers;
mod msisdn_location;
mod value;

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::{
    ports::{
        AuthorizationRedirect, AuthorizationRequest, AuthorizationResponse, ConnectorHealth, ConnectorState,
        ConnectorStatus, MonitoredConnector, SilentConnector, SilentOperation, SilentResult,
    },
    rate_limit::ip_bucket,
};

pub use self::{
    cipher::{Cipher, CipherKey, CipherKeyError, Integrity, Iv},
    config::{HeaderEnrichmentConfig, HeaderEnrichmentConfigError},
    enrichment_headers::{ENRICHMENT_HEADERS, is_enrichment_header},
    msisdn_location::MsisdnLocation,
    value::{Encoding, InvalidNumberPattern, NumberPattern, ValueFormat},
};

use crate::health::HealthRecorder;

/// Time between the redirect and the enriched request.
pub const MAX_ROUND_TRIP: SignedDuration = SignedDuration::from_secs(30);

/// Connector to an operator that enriches headers.
#[derive(Debug)]
pub struct HeaderEnrichment {
    config: HeaderEnrichmentConfig,
    health: HealthRecorder,
}

/// Why a request does not identify a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnrichmentError {
    #[error("the connection is not from the operator's addresses")]
    UntrustedPeer,
    #[error("the device address changed after the redirect")]
    AddressMismatch,
    #[error("the device returned too late")]
    Late,
    #[error("the stored redirect state is invalid")]
    InvalidState,
    #[error("the request contains no number")]
    Missing,
    #[error("the request contains more than one number")]
    Repeated,
    #[error("the value cannot be decoded")]
    Undecodable,
    #[error("the value cannot be decrypted or its signature is invalid")]
    Undecipherable,
    #[error("the value is a placeholder")]
    Placeholder,
    #[error("the value is not a number in the configured format")]
    InvalidNumber,
}

impl EnrichmentError {
    fn code(self) -> ErrorCode {
        match self {
            EnrichmentError::UntrustedPeer => ErrorCode::NotMobileIp,
            EnrichmentError::AddressMismatch => ErrorCode::IpMismatch,
            EnrichmentError::Late => ErrorCode::MnoTimeout,
            EnrichmentError::InvalidState => ErrorCode::InternalError,
            EnrichmentError::Missing => ErrorCode::MnoNoDataAvailable,
            EnrichmentError::Repeated
            | EnrichmentError::Undecodable
            | EnrichmentError::Undecipherable
            | EnrichmentError::Placeholder
            | EnrichmentError::InvalidNumber => ErrorCode::MnoResponseError,
        }
    }
}

impl HeaderEnrichment {
    /// Rejects configurations that would accept forged headers or identify no device.
    pub fn new(config: HeaderEnrichmentConfig) -> Result<Self, HeaderEnrichmentConfigError> {
        config.validate()?;
        Ok(HeaderEnrichment { config, health: HealthRecorder::default() })
    }

    /// Networks whose devices are redirected here.
    pub fn networks(&self) -> &[NetworkId] {
        &self.config.networks
    }

    fn identify(&self, response: &AuthorizationResponse<'_>) -> Result<Msisdn, EnrichmentError> {
        let is_operator_address = self.config.egress.iter().any(|range| range.contains(&self.source_address(response)));
        if !is_operator_address {
            return Err(EnrichmentError::UntrustedPeer);
        }
        if ip_bucket(response.device_ip) != ip_bucket(response.initial_ip) {
            return Err(EnrichmentError::AddressMismatch);
        }
        let redirected_at =
            RedirectState::decode(response.connector_data).ok_or(EnrichmentError::InvalidState)?.redirected_at;
        if response.now.duration_since(redirected_at) > MAX_ROUND_TRIP {
            return Err(EnrichmentError::Late);
        }
        let value = self.config.msisdn_location.extract(response.headers)?;
        self.config.parse_number(value)
    }

    /// Source address of the request: the peer, or the forwarded address if the peer is one of our proxies.
    fn source_address(&self, response: &AuthorizationResponse<'_>) -> IpAddr {
        let peer = response.peer.ip().to_canonical();
        let is_proxy = self.config.trusted_proxies.iter().any(|range| range.contains(&peer));
        if is_proxy { response.device_ip.to_canonical() } else { peer }
    }
}

#[async_trait]
impl SilentConnector for HeaderEnrichment {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn supports(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn begin_authorization(&self, request: AuthorizationRequest<'_>) -> Result<AuthorizationRedirect, ErrorCode> {
        let origin = self.config.base_url.as_str().trim_end_matches('/');
        let location = format!("{origin}/he/{}/{}", self.config.name, request.state);
        Ok(AuthorizationRedirect { location, connector_data: RedirectState { redirected_at: request.now }.encode() })
    }

    async fn complete_authorization(&self, response: AuthorizationResponse<'_>) -> Result<SilentResult, ErrorCode> {
        match self.identify(&response) {
            Ok(found) => {
                self.health.record_success(response.now);
                Ok(match response.operation {
                    SilentOperation::VerifyNumber(number) => SilentResult::Match(*number == found),
                    SilentOperation::DiscoverNumber => SilentResult::Number(found),
                })
            }
            Err(error) => {
                self.health.record_error(error.to_string(), response.now);
                tracing::info!(connector = %self.config.name, check = %response.check, %error, "header enrichment failed");
                Err(error.code())
            }
        }
    }
}

impl MonitoredConnector for HeaderEnrichment {
    fn connector_status(&self) -> ConnectorStatus {
        let health = self.health.snapshot();
        ConnectorStatus {
            name: Arc::clone(&self.config.name),
            kind: "Header enrichment",
            mode: Mode::Live,
            state: match &health {
                ConnectorHealth { last_success_at: Some(_), .. } => ConnectorState::Up,
                ConnectorHealth { last_error: Some(_), .. } => ConnectorState::Degraded,
                _ => ConnectorState::Idle,
            },
            networks: self.config.networks.clone(),
            receivers: vec![],
            links: None,
            breakers: vec![],
            counts: None,
            health,
        }
    }
}

/// State stored while the device is redirected.
struct RedirectState {
    redirected_at: Timestamp,
}

impl RedirectState {
    fn encode(&self) -> Vec<u8> {
        self.redirected_at.as_millisecond().to_be_bytes().to_vec()
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let millis = i64::from_be_bytes(octets.try_into().ok()?);
        Some(RedirectState { redirected_at: Timestamp::from_millisecond(millis).ok()? })
    }
}
