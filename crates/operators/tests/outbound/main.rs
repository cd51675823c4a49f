//! The client for callback URLs against real sockets: requests, responses, errors and blocked addresses.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod errors;
mod guard;
mod responses;
mod tls;

use std::{collections::VecDeque, io, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl};
use ringtrue_engine::ports::transport::{OutboundRequest, OutboundResponse, Transport, TransportError};
use ringtrue_operators::outbound::{Outbound, OutboundSettings, Resolver};
use ringtrue_test_support::http_server::{ReceivedRequest, TestServer};
use tokio::{io::AsyncWriteExt, sync::mpsc};

/// Resolver that returns its results in order, and repeats the last one.
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
        let mut responses = self.0.lock();
        let answer = if responses.len() > 1 { responses.pop_front() } else { responses.front().cloned() };
        answer.ok_or_else(|| io::Error::other("no such name"))
    }
}

/// Creates settings that allow these loopback ranges, with short timeouts.
fn allowing(ranges: &[&str]) -> OutboundSettings {
    let allowed_addresses = ranges.iter().map(|range| range.parse().unwrap()).collect();
    OutboundSettings {
        addresses: AddressPolicy { allowed_addresses, ..AddressPolicy::default() },
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

/// Starts a server that sends the same bytes for every request and keeps the connection open.
async fn responding(response: impl Into<Vec<u8>>) -> TestServer {
    let response = Arc::new(response.into());
    TestServer::start("127.0.0.1:0", move |mut stream, _| {
        let response = Arc::clone(&response);
        async move {
            let mut buffer = vec![];
            while ReceivedRequest::read(&mut stream, &mut buffer).await.is_some()
                && stream.write_all(&response).await.is_ok()
            {}
        }
    })
    .await
}

/// Starts a server that responds with 200, and returns the requests that it receives.
async fn recording() -> (TestServer, mpsc::UnboundedReceiver<ReceivedRequest>) {
    let (sender, requests) = mpsc::unbounded_channel();
    let server = TestServer::start("127.0.0.1:0", move |mut stream, _| {
        let sender = sender.clone();
        async move {
            let mut buffer = vec![];
            while let Some(request) = ReceivedRequest::read(&mut stream, &mut buffer).await {
                sender.send(request).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
        }
    })
    .await;
    (server, requests)
}
