//! Header enrichment: trusted sources, value formats and ciphers.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod ciphers;
mod enriched_requests;
mod values;

use std::net::{IpAddr, SocketAddr};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::silent::{
    OperatorAuthorizationRequest, OperatorAuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
};
use ringtrue_operators::header_enrichment::{
    Cipher, Encoding, HeaderEnrichment, HeaderEnrichmentConfig, MsisdnLocation, ValueFormat,
};

const NUMBER: &str = "+447700900123";
const DEVICE: &str = "192.0.2.7";
const CHECK: &str = "01890000-0000-7000-8000-000000000001";

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

/// Returns a configuration that accepts a plain header from two address ranges.
fn config() -> HeaderEnrichmentConfig {
    HeaderEnrichmentConfig {
        name: "example".into(),
        networks: vec!["23410".parse().unwrap()],
        base_url: "http://he.example.com".parse().unwrap(),
        egress: vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        trusted_proxies: vec![],
        msisdn_location: MsisdnLocation::in_header("X-MSISDN"),
        encoding: Encoding::Plain,
        cipher: Cipher::None,
        format: ValueFormat::E164Digits,
        placeholders: vec!["447000000001".to_owned()],
    }
}

/// A redirected device and its enriched request. `with` and `with_value` create a request that comes from a trusted
/// address and in time.
struct RoundTrip {
    from: &'static str,
    peer: &'static str,
    device: &'static str,
    elapsed: SignedDuration,
    headers: Vec<(String, Vec<u8>)>,
}

impl RoundTrip {
    fn with(headers: &[(&str, &[u8])]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        RoundTrip { from: DEVICE, peer: DEVICE, device: DEVICE, elapsed: SignedDuration::from_secs(1), headers }
    }

    fn with_value(value: &str) -> Self {
        RoundTrip::with(&[("host", b"he.example.com"), ("x-msisdn", value.as_bytes())])
    }

    fn run(&self, config: HeaderEnrichmentConfig, operation: SilentOperation<'_>) -> Result<SilentResult, ErrorCode> {
        let route = HeaderEnrichment::new(config).unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let check = CHECK.parse().unwrap();
        let redirected_at = Timestamp::constant(1_767_225_600, 0);
        let request = OperatorAuthorizationRequest {
            check,
            operation,
            state: "state-of-the-device",
            simulated_sim: None,
            device_ip: address(self.from),
            now: redirected_at,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let redirect = route.begin_authorization(request).await?;
            let response = OperatorAuthorizationResponse {
                check,
                operation,
                connector_data: &redirect.connector_data,
                initial_ip: address(self.from),
                peer: SocketAddr::new(address(self.peer), 40_000),
                device_ip: address(self.device),
                query: &[],
                headers: &self.headers,
                now: redirected_at + self.elapsed,
            };
            route.complete_authorization(response).await
        })
    }

    fn found_number(&self, config: HeaderEnrichmentConfig) -> Result<String, ErrorCode> {
        match self.run(config, SilentOperation::DiscoverNumber)? {
            SilentResult::Number(number) => Ok(number.as_str().to_owned()),
            SilentResult::Match(_) | SilentResult::Device(_) => panic!("unexpected result"),
        }
    }
}
