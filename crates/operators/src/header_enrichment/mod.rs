//! Header enrichment: the operator's gateway adds the subscriber's number to plain HTTP requests.
//!
//! The device is redirected to `http://…/he/{connector}/{state}` on a dedicated listener, and the operator's gateway
//! adds the number on the way. Since anyone can write such a header, it is accepted only
//!
//! * on a connection from the operator's addresses,
//! * from the address of the device that was redirected, within [`MAX_ROUND_TRIP`],
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
mod value;

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::ErrorCode, network::NetworkId, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::{
    ports::{
        connectors::{ConnectorHealth, ConnectorState, ConnectorStatus, MonitoredConnector},
        silent::{
            AuthenticatedDevice, AuthorizationRedirect, DeviceQuestion, OperatorAuthorizationRequest,
            OperatorAuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
        },
    },
    rate_limits::ip_bucket,
};
use url::Url;

use self::value::is_repeated_digit;
pub use self::{
    cipher::{Cipher, CipherKey, CipherKeyError, Integrity, IvSource},
    value::{Encoding, InvalidNumberPattern, MsisdnLocation, NumberPattern, ValueFormat},
};
use crate::breaker::HealthRecorder;

/// Maximum time between the redirect and the enriched request.
pub const MAX_ROUND_TRIP: SignedDuration = SignedDuration::from_secs(30);

#[derive(Clone, Debug)]
pub struct HeaderEnrichmentConfig {
    /// Identifies this connector in logs, metrics and the path of the redirect.
    pub name: Arc<str>,
    /// Networks whose devices are redirected to this connector.
    pub networks: Vec<NetworkId>,
    /// Public URL of the listener for enriched requests. Gateways can enrich only plain HTTP.
    pub base_url: Url,
    /// Address ranges from which the operator's devices or gateways connect.
    pub egress: Vec<IpNet>,
    /// Our own proxies in front of the listener, whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    pub msisdn_location: MsisdnLocation,
    pub encoding: Encoding,
    pub cipher: Cipher,
    pub format: ValueFormat,
    /// Values that the operator sends when it does not know the number. A value of one repeated digit always counts as
    /// such a placeholder.
    pub placeholders: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderEnrichmentConfigError {
    #[error(
        "header enrichment {0}: the base URL must be http:// with a host and no path, since only plain HTTP is enriched"
    )]
    BaseUrl(Arc<str>),
    #[error("header enrichment {0}: the operator's addresses are missing; without them anyone could forge the header")]
    NoEgress(Arc<str>),
    #[error("header enrichment {0}: an address range must not include every address")]
    CatchAllRange(Arc<str>),
    #[error("header enrichment {0}: a header or cookie name is required; use letters, digits, `-` and `_`")]
    MsisdnLocation(Arc<str>),
    #[error("header enrichment {0}: encrypted values require the encoding hex or base64")]
    Encoding(Arc<str>),
    #[error("header enrichment {0}: no network is configured")]
    NoNetwork(Arc<str>),
}

impl HeaderEnrichmentConfig {
    fn validate(&self) -> Result<(), HeaderEnrichmentConfigError> {
        let fail = |problem: fn(Arc<str>) -> HeaderEnrichmentConfigError| Err(problem(Arc::clone(&self.name)));
        let url = &self.base_url;
        let url_is_plain = url.scheme() == "http"
            && url.has_host()
            && url.path() == "/"
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !url_is_plain {
            return fail(HeaderEnrichmentConfigError::BaseUrl);
        }
        if self.networks.is_empty() {
            return fail(HeaderEnrichmentConfigError::NoNetwork);
        }
        if self.egress.is_empty() {
            return fail(HeaderEnrichmentConfigError::NoEgress);
        }
        if self.egress.iter().chain(&self.trusted_proxies).any(|range| range.prefix_len() == 0) {
            return fail(HeaderEnrichmentConfigError::CatchAllRange);
        }
        let is_name = |name: &String| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let mut names = self.msisdn_location.header.iter().chain(&self.msisdn_location.cookie).peekable();
        if names.peek().is_none() || !names.all(is_name) {
            return fail(HeaderEnrichmentConfigError::MsisdnLocation);
        }
        if !self.cipher.is_none() && self.encoding == Encoding::Plain {
            return fail(HeaderEnrichmentConfigError::Encoding);
        }
        Ok(())
    }

    /// Decodes, decrypts and parses the value of an enrichment header or cookie.
    fn parse_number(&self, value: &[u8]) -> Result<Msisdn, EnrichmentError> {
        if self.is_placeholder(value) {
            return Err(EnrichmentError::Placeholder);
        }
        let plaintext = self.cipher.decrypt(self.encoding.decode(value)?)?;
        let text = std::str::from_utf8(&plaintext).map_err(|_| EnrichmentError::InvalidNumber)?.trim();
        if is_repeated_digit(text) || self.is_placeholder(text.as_bytes()) {
            return Err(EnrichmentError::Placeholder);
        }
        let msisdn = self.format.parse(text)?;
        if self.placeholders.iter().any(|placeholder| placeholder.trim_start_matches('+') == msisdn.digits()) {
            Err(EnrichmentError::Placeholder)
        } else if msisdn.is_simulated() {
            // Real operators have no simulated numbers. Simulated operators use other connectors.
            Err(EnrichmentError::InvalidNumber)
        } else {
            Ok(msisdn)
        }
    }

    fn is_placeholder(&self, text: &[u8]) -> bool {
        self.placeholders.iter().any(|placeholder| placeholder.as_bytes() == text)
    }
}

/// Connector to an operator whose gateway adds the subscriber's number to requests.
#[derive(Debug)]
pub struct HeaderEnrichment {
    config: HeaderEnrichmentConfig,
    health: HealthRecorder,
}

/// Why an enriched request does not identify the subscriber.
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

    /// Networks whose devices are redirected to this connector.
    pub fn networks(&self) -> &[NetworkId] {
        &self.config.networks
    }

    fn identify(&self, response: &OperatorAuthorizationResponse<'_>) -> Result<Msisdn, EnrichmentError> {
        self.require_operator_address(response)?;
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

    fn require_operator_address(&self, response: &OperatorAuthorizationResponse<'_>) -> Result<(), EnrichmentError> {
        let source = self.source_address(response);
        let is_operator_address = self.config.egress.iter().any(|range| range.contains(&source));
        if is_operator_address { Ok(()) } else { Err(EnrichmentError::UntrustedPeer) }
    }

    /// Logs an error, records it in the connector's health, and returns the error code for the check.
    fn record_error(&self, error: EnrichmentError, response: &OperatorAuthorizationResponse<'_>) -> ErrorCode {
        self.health.record_error(error.to_string(), response.now);
        tracing::info!(connector = %self.config.name, check = %response.check, %error, "header enrichment failed");
        error.code()
    }

    /// Returns the address that sent the request: the peer, or the forwarded address if the peer is one of our proxies.
    fn source_address(&self, response: &OperatorAuthorizationResponse<'_>) -> IpAddr {
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

    async fn begin_authorization(
        &self,
        request: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        let origin = self.config.base_url.as_str().trim_end_matches('/');
        let location = format!("{origin}/he/{}/{}", self.config.name, request.state);
        Ok(AuthorizationRedirect { location, connector_data: RedirectState { redirected_at: request.now }.encode() })
    }

    fn check_source(&self, response: &OperatorAuthorizationResponse<'_>) -> Result<(), ErrorCode> {
        self.require_operator_address(response).map_err(|error| self.record_error(error, response))
    }

    async fn complete_authorization(
        &self,
        response: OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, ErrorCode> {
        match self.identify(&response) {
            Ok(found) => {
                self.health.record_success(response.now);
                Ok(match response.operation {
                    SilentOperation::VerifyNumber(number) => SilentResult::Match(*number == found),
                    SilentOperation::DiscoverNumber => SilentResult::Number(found),
                    SilentOperation::AuthenticateDevice => SilentResult::Device(AuthenticatedDevice {
                        connector: self.config.name.to_string(),
                        data: found.as_str().as_bytes().to_vec(),
                    }),
                })
            }
            Err(error) => Err(self.record_error(error, &response)),
        }
    }

    async fn verify_device(&self, question: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
        let text = std::str::from_utf8(question.device_data).ok();
        let found = text.and_then(|text| Msisdn::parse(text, Mode::Live).ok()).ok_or(ErrorCode::InternalError)?;
        Ok(question.number.matches(&found))
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
            link_summary: None,
            breakers: vec![],
            counts: None,
            health,
        }
    }
}

/// Data of this connector that is stored while the device is redirected.
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

/// Headers that operators' gateways are known to add, in lower case and sorted. Only the listener for enriched requests
/// may trust them.
pub const ENRICHMENT_HEADERS: &[&str] = &[
    "bizao-msisdn",
    "msisdn",
    "user-identity-forward-msisdn",
    "x-fh-msisdn",
    "x-h3g-msisdn",
    "x-hts-clid",
    "x-jinny-cid",
    "x-mdn",
    "x-msisdn",
    "x-msp-msisdn",
    "x-network-info",
    "x-nokia-msisdn",
    "x-up-calling-line-id",
    "x-wap-3gpp-imsi",
    "x-wap-3gpp-rat-type",
    "x-wap-3gpp-sgsn-mcc-mnc",
    "x-wap-client-ip",
    "x-wap-msisdn",
    "x-wap-network-client-msisdn",
    "x-wte-msisdn",
];

/// Whether a header is one of [`ENRICHMENT_HEADERS`]. Expects a lower-case name. The first letter is compared first,
/// which is cheap and rules out most other headers.
pub fn is_enrichment_header(name: &str) -> bool {
    matches!(name.as_bytes(), [b'b' | b'm' | b'u' | b'x', ..]) && ENRICHMENT_HEADERS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_sorted_and_lower_case() {
        assert!(ENRICHMENT_HEADERS.is_sorted());
        for name in ENRICHMENT_HEADERS {
            assert!(is_enrichment_header(name), "{name}");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
        for other in ["", "x", "x-forwarded-for", "x-request-id", "host", "authorization", "x-msisdn-"] {
            assert!(!is_enrichment_header(other), "{other}");
        }
    }
}
