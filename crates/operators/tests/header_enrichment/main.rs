//! Devices that are known by a header of their operator: who is believed, and what is made of what they bring.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrivals;
mod ciphers;
mod configuration;
mod properties;
mod values;

use std::net::{IpAddr, SocketAddr};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{Arrival, Departure, Question, Reply, SilentRoute};
use ringtrue_operators::header_enrichment::{
    Carrier, Cipher, Encoding, HeaderEnrichment, HeaderEnrichmentConfig, ValueFormat,
};

const NUMBER: &str = "+447700900123";
const DEVICE: &str = "192.0.2.7";
const CHECK: &str = "01890000-0000-7000-8000-000000000001";

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

/// A plain header from one range of addresses.
fn config() -> HeaderEnrichmentConfig {
    HeaderEnrichmentConfig {
        name: "example".into(),
        mode: Mode::Live,
        networks: vec!["23410".parse().unwrap()],
        base_url: "http://he.example.com".parse().unwrap(),
        egress: vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        trusted_proxies: vec![],
        carrier: Carrier::header("X-MSISDN"),
        encoding: Encoding::Plain,
        cipher: Cipher::None,
        format: ValueFormat::E164Digits,
        stand_ins: vec!["447000000001".to_owned()],
    }
}

/// A device that left and came back. The usual one did everything right.
struct Trip {
    from: &'static str,
    peer: &'static str,
    device: &'static str,
    took: SignedDuration,
    headers: Vec<(String, Vec<u8>)>,
}

impl Trip {
    fn with(headers: &[(&str, &[u8])]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        Trip { from: DEVICE, peer: DEVICE, device: DEVICE, took: SignedDuration::from_secs(1), headers }
    }

    fn bringing(value: &str) -> Self {
        Trip::with(&[("host", b"he.example.com"), ("x-msisdn", value.as_bytes())])
    }

    fn asked(&self, config: HeaderEnrichmentConfig, question: Question<'_>) -> Result<Reply, ErrorCode> {
        let route = HeaderEnrichment::new(config).unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let check = CHECK.parse().unwrap();
        let left = Timestamp::constant(1_767_225_600, 0);
        let departure =
            Departure { check, question, ticket: "ticket", sim: None, device: address(self.from), now: left };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let journey = route.depart(departure).await?;
            let arrival = Arrival {
                check,
                question,
                memory: &journey.memory,
                departed_from: address(self.from),
                peer: SocketAddr::new(address(self.peer), 40_000),
                device: address(self.device),
                query: &[],
                headers: &self.headers,
                now: left + self.took,
            };
            route.arrive(arrival).await
        })
    }

    /// The number that is found.
    fn found(&self, config: HeaderEnrichmentConfig) -> Result<String, ErrorCode> {
        match self.asked(config, Question::WhichNumber)? {
            Reply::Number(number) => Ok(number.as_str().to_owned()),
            Reply::Match(_) => panic!("nobody asked that"),
        }
    }
}
