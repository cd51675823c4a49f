//! The guarded client against real sockets: requests, responses, errors and blocked addresses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod errors;
mod guard;
mod peer;
mod responses;
mod tls;

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl};
use ringtrue_engine::ports::{OutboundRequest, OutboundResponse, Transport, TransportError};
use ringtrue_operators::outbound::{Outbound, OutboundSettings, Resolver};

/// Returns its results in order, and repeats the last one.
#[derive(Debug)]
struct ScriptedResolver(Mutex<VecDeque<Vec<IpAddr>>>);

impl ScriptedResolver {
    fn of(responses: &[&[&str]]) -> Arc<Self> {
        let parsed = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(ScriptedResolver(Mutex::new(responses.iter().map(parsed).collect())))
    }
}

#[async_trait]
impl Resolver for ScriptedResolver {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        let mut responses = self.0.lock().unwrap();
        let answer = if responses.len() > 1 { responses.pop_front() } else { responses.front().cloned() };
        answer.ok_or_else(|| io::Error::other("no such name"))
    }
}

/// Allows the loopback addresses that these tests use.
fn allowing(ranges: &[&str]) -> OutboundSettings {
    let allow = ranges.iter().map(|range| range.parse().unwrap()).collect();
    OutboundSettings {
        addresses: AddressPolicy { allow, ..AddressPolicy::default() },
        connect_timeout: Duration::from_millis(600),
        total_timeout: Duration::from_millis(1_200),
        ..OutboundSettings::default()
    }
}

fn loopback() -> Outbound {
    Outbound::new(allowing(&["127.0.0.1/32"])).unwrap()
}

fn callback_request(url: &str) -> OutboundRequest {
    OutboundRequest {
        url: CallbackUrl::from_stored(url).unwrap(),
        headers: vec![
            ("x-service-callback", "reverse_sms".to_owned()),
            ("authorization", "Signature keyId=\"k\"".to_owned()),
            ("digest", "SHA-256=x".to_owned()),
            ("date", "Sat, 14 Nov 2026 09:30:00 GMT".to_owned()),
            ("content-type", "application/json".to_owned()),
        ],
        body: br#"{"status":"COMPLETED"}"#.to_vec(),
    }
}

async fn post(client: &Outbound, url: &str) -> Result<OutboundResponse, TransportError> {
    client.post(callback_request(url)).await
}
