//! The guarded client against real sockets: what it sends, what it makes of answers, and where it never connects.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod faults;
mod guard;
mod peer;
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
use ringtrue_engine::ports::{Answer, Outgoing, Transport, Undelivered};
use ringtrue_operators::outbound::{Outbound, OutboundSettings, Resolver};

/// Answers each question with the next of its answers, the last one for ever.
#[derive(Debug)]
struct Script(Mutex<VecDeque<Vec<IpAddr>>>);

impl Script {
    fn of(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Script(Mutex::new(answers.iter().map(parsed).collect())))
    }
}

#[async_trait]
impl Resolver for Script {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(|| io::Error::other("no such name"))
    }
}

/// Where most peers of these tests live is not public: it is allowed as an operator would allow it.
fn allowing(ranges: &[&str]) -> OutboundSettings {
    let allow = ranges.iter().map(|range| range.parse().unwrap()).collect();
    OutboundSettings {
        addresses: AddressPolicy { allow, ..AddressPolicy::default() },
        connect: Duration::from_millis(600),
        total: Duration::from_millis(1_200),
        ..OutboundSettings::default()
    }
}

fn loopback() -> Outbound {
    Outbound::new(allowing(&["127.0.0.1/32"])).unwrap()
}

fn outgoing(url: &str) -> Outgoing {
    Outgoing {
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

async fn post(client: &Outbound, url: &str) -> Result<Answer, Undelivered> {
    client.post(outgoing(url)).await
}
