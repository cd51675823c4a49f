use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::SignedDuration;
use parking_lot::Mutex;
use ringtrue_engine::ports::{
    entropy::SystemEntropy,
    lookups::{LookupError, LookupResult, LookupSource},
};
use ringtrue_operators::{
    number_lookup::{BreakerSettings, EnumConfig, EnumDns},
    outbound::Resolver,
};

use crate::{
    fake_dns::{
        FORMAT_ERROR, FakeNameServer, NO_ERROR, NO_SUCH_NAME, REFUSED, SERVER_FAILURE, TEL, Transport, answer, config,
        has_edns, set_truncated, source, with_lower_case,
    },
    fake_vendor::clock,
    network, number,
};

/// Timeout for tests with unresponsive servers.
const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn query_name_is_built_from_number_and_suffix() {
    let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let recorded = Arc::clone(&seen);
    let server = FakeNameServer::start(move |query, _| {
        recorded.lock().push(query.to_vec());
        vec![answer(query, NO_ERROR, &[TEL])]
    })
    .await;
    let source = source(EnumConfig { suffix: "E164.arpa.".to_owned(), ..config(&[server.port]) });
    for _ in 0..24 {
        assert_eq!(source.resolve(&number()).await, network("23410"));
    }

    let name = b"\x013\x012\x011\x010\x010\x019\x010\x010\x017\x017\x014\x014\x04e164\x04arpa\0\0\x23\0\x01";
    let seen = seen.lock();
    for query in &*seen {
        let lower: Vec<u8> = query[12..12 + name.len()].to_ascii_lowercase();
        assert_eq!(lower, name);
        assert!(has_edns(query));
    }
    // The id and the letter case of queries are random.
    let different = |part: fn(&[u8]) -> &[u8]| {
        seen.iter().map(|query| part(query)).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(different(|query| &query[..2]) > 20);
    assert!(different(|query| &query[12..]) > 4);
    assert_eq!(format!("{source:?}"), "EnumDns(enum)");
}

#[tokio::test]
async fn truncated_reply_is_repeated_over_tcp() {
    let server = FakeNameServer::start(|query, transport| match transport {
        Transport::Udp => vec![set_truncated(answer(query, NO_ERROR, &[]))],
        Transport::Tcp => vec![answer(query, NO_ERROR, &[TEL; 200])],
    })
    .await;
    assert_eq!(source(config(&[server.port])).resolve(&number()).await, network("23410"));
    assert_eq!(server.query_counts(), (1, 1));
}

#[tokio::test]
async fn invalid_tcp_reply_is_an_error() {
    for reply in [
        |query: &[u8]| set_truncated(answer(query, NO_ERROR, &[])),
        |_: &[u8]| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        |_: &[u8]| vec![],
    ] {
        let server = FakeNameServer::start(move |query, transport| match transport {
            Transport::Udp => vec![set_truncated(answer(query, NO_ERROR, &[]))],
            Transport::Tcp => vec![reply(query)],
        })
        .await;
        assert_eq!(source(config(&[server.port])).resolve(&number()).await, Err(LookupError::InvalidResponse));
    }
}

#[tokio::test]
async fn refusal_with_records_is_final() {
    let err = (0, 0, "u", "E2U+SIP", "!^.*$!sip:+44@unknown;err=1!");
    let refusing = FakeNameServer::start(move |query, _| vec![answer(query, REFUSED, &[err])]).await;
    let other = FakeNameServer::start(|query, _| vec![answer(query, NO_ERROR, &[TEL])]).await;
    let source = source(config(&[refusing.port, other.port]));
    assert_eq!(source.resolve(&number()).await, Err(LookupError::Refused));
    assert_eq!((refusing.query_counts(), other.query_counts()), ((1, 0), (0, 0)));
}

#[tokio::test]
async fn failing_server_is_skipped() {
    for code in [REFUSED, SERVER_FAILURE] {
        let failing = FakeNameServer::start(move |query, _| vec![answer(query, code, &[])]).await;
        let good = FakeNameServer::start(|query, _| vec![answer(query, NO_ERROR, &[TEL])]).await;
        let source = source(config(&[failing.port, good.port]));
        assert_eq!(source.resolve(&number()).await, network("23410"));
        // Later queries start with the working server.
        assert_eq!(source.resolve(&number()).await, network("23410"));
        assert_eq!((failing.query_counts(), good.query_counts()), ((1, 0), (2, 0)));
    }
    let failing = FakeNameServer::start(|query, _| vec![answer(query, SERVER_FAILURE, &[])]).await;
    assert_eq!(source(config(&[failing.port])).resolve(&number()).await, Err(LookupError::Refused));
    assert_eq!(failing.query_counts(), (2, 0), "limited by the configured tries");
}

#[tokio::test]
async fn dead_server_is_skipped() {
    let good = FakeNameServer::start(|query, _| vec![answer(query, NO_SUCH_NAME, &[])]).await;
    // No server listens on this address.
    let mut dead = config(&[1, good.port]);
    dead.servers[0].host = "127.0.0.2".into();
    assert_eq!(source(dead.clone()).resolve(&number()).await, Ok(LookupResult::NoData));
    assert_eq!(good.query_counts(), (1, 0));
    dead.servers.pop();
    assert_eq!(source(dead).resolve(&number()).await, Err(LookupError::Unreachable));
}

#[tokio::test]
async fn silent_server_is_skipped() {
    let silent = FakeNameServer::start(|_, _| vec![]).await;
    let good = FakeNameServer::start(|query, _| vec![answer(query, NO_ERROR, &[TEL])]).await;
    let with_short_timeout = |ports: &[u16]| source(EnumConfig { timeout: SHORT, tries: 3, ..config(ports) });
    assert_eq!(with_short_timeout(&[silent.port]).resolve(&number()).await, Err(LookupError::Timeout));
    assert_eq!(silent.query_counts(), (3, 0));
    // On a busy machine, the good server may exceed the short timeout, but hardly in all three tries.
    assert_eq!(with_short_timeout(&[silent.port, good.port]).resolve(&number()).await, network("23410"));
}

#[tokio::test]
async fn forged_replies_are_ignored() {
    let server = FakeNameServer::start(|query, _| {
        let genuine = answer(query, NO_ERROR, &[TEL]);
        let forged_record = (1, 1, "u", "E2U+pstn:tel", "!^.*$!tel:+44;mcc=234;mnc=66!");
        let forged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut message = answer(query, NO_ERROR, &[forged_record]);
            change(&mut message);
            message
        };
        vec![
            forged(&|message| message[0] = !message[0]),
            forged(&|message| message[13] = b'9'),
            forged(&|message| message[2] = 0),
            forged(&|message| message.truncate(16)),
            genuine,
        ]
    })
    .await;
    assert_eq!(source(config(&[server.port])).resolve(&number()).await, network("23410"));
    assert_eq!(server.query_counts(), (1, 0));
}

#[tokio::test]
async fn many_forged_replies_switch_to_tcp() {
    let forging = FakeNameServer::start(|query, transport| match transport {
        Transport::Udp => (0..8).map(|id| [&[!query[0], id], &answer(query, NO_ERROR, &[TEL])[2..]].concat()).collect(),
        Transport::Tcp => vec![answer(query, NO_ERROR, &[TEL])],
    })
    .await;
    assert_eq!(source(config(&[forging.port])).resolve(&number()).await, network("23410"));
    assert_eq!(forging.query_counts(), (1, 1));
}

#[tokio::test]
async fn case_mismatch_is_accepted_over_tcp_only() {
    let lower_casing = FakeNameServer::start(|query, _| vec![with_lower_case(answer(query, NO_ERROR, &[TEL]))]).await;
    // The suffix is long, so that the random case almost never (2^-26) gives all lower-case letters.
    let suffix = "numbers.of.a.careless.example".to_owned();
    let mixing = EnumConfig { suffix, ..config(&[lower_casing.port]) };
    assert_eq!(source(mixing.clone()).resolve(&number()).await, network("23410"));
    assert_eq!(lower_casing.query_counts(), (1, 1));
    let plain = EnumConfig { mixed_case: false, ..mixing };
    assert_eq!(source(plain).resolve(&number()).await, network("23410"));
    assert_eq!(lower_casing.query_counts(), (2, 1));
}

#[tokio::test]
async fn server_without_edns_is_retried() {
    let old = FakeNameServer::start(|query, _| {
        let (code, records) = if has_edns(query) { (FORMAT_ERROR, &[][..]) } else { (NO_ERROR, &[TEL][..]) };
        vec![answer(query, code, records)]
    })
    .await;
    assert_eq!(source(config(&[old.port])).resolve(&number()).await, network("23410"));
    assert_eq!(old.query_counts(), (2, 0));
    let broken = FakeNameServer::start(|query, _| vec![answer(query, FORMAT_ERROR, &[])]).await;
    assert_eq!(source(config(&[broken.port])).resolve(&number()).await, Err(LookupError::Refused));
}

/// Resolver with one name that has an address, and one that has none.
#[derive(Debug)]
struct Names;

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "enum.example.com" => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
            "empty.example.com" => Ok(vec![]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

#[tokio::test]
async fn server_name_is_resolved() {
    let server = FakeNameServer::start(|query, _| vec![answer(query, NO_ERROR, &[TEL])]).await;
    let resolve_via = async |host: &str| {
        let mut config = config(&[server.port]);
        config.servers[0].host = host.into();
        let entropy = Arc::new(SystemEntropy::default());
        EnumDns::with_resolver(config, clock(), entropy, Arc::new(Names)).unwrap().resolve(&number()).await
    };
    assert_eq!(resolve_via("enum.example.com").await, network("23410"));
    assert_eq!(resolve_via("empty.example.com").await, Err(LookupError::Unreachable));
    assert_eq!(resolve_via("unknown.example.com").await, Err(LookupError::Unreachable));
}

/// Resolver that fails for every name, and counts its calls.
#[derive(Debug, Default)]
struct Nameless(AtomicUsize);

#[async_trait]
impl Resolver for Nameless {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(io::ErrorKind::NotFound.into())
    }
}

#[tokio::test]
async fn next_lookup_starts_with_another_server() {
    let is_healthy = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&is_healthy);
    let other = FakeNameServer::start(move |query, _| {
        let code = if state.load(Ordering::Relaxed) { NO_ERROR } else { SERVER_FAILURE };
        vec![answer(query, code, &[TEL])]
    })
    .await;
    let mut lost = EnumConfig { tries: 1, ..config(&[1, other.port]) };
    lost.servers[0].host = "lost.example.com".into();
    let names = Arc::new(Nameless::default());
    let entropy = Arc::new(SystemEntropy::default());
    let source_with_lost_server = EnumDns::with_resolver(lost, clock(), entropy, names.clone()).unwrap();
    assert_eq!(source_with_lost_server.resolve(&number()).await, Err(LookupError::Refused));
    is_healthy.store(true, Ordering::Relaxed);
    assert_eq!(source_with_lost_server.resolve(&number()).await, network("23410"));
    assert_eq!(names.0.load(Ordering::Relaxed), 1, "the unreachable server is not tried first again");

    // The first lookup is dropped while it waits for the first server, so the next lookup starts with the second
    // server.
    let slow = FakeNameServer::start(|query, _| vec![answer(query, NO_SUCH_NAME, &[])]).await;
    let source = source(config(&[slow.port, other.port]));
    assert_eq!(source.resolve(&number()).now_or_never(), None);
    assert_eq!(source.resolve(&number()).await, network("23410"));
}

#[tokio::test]
async fn failing_source_opens_the_breaker() {
    let is_healthy = Arc::new(Mutex::new(false));
    let state = Arc::clone(&is_healthy);
    let server = FakeNameServer::start(move |query, _| {
        let code = if *state.lock() { NO_ERROR } else { SERVER_FAILURE };
        vec![answer(query, code, &[TEL])]
    })
    .await;
    let clock = clock();
    let breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    let config = EnumConfig { tries: 1, breaker, ..config(&[server.port]) };
    let source = EnumDns::new(config, clock.clone(), Arc::new(SystemEntropy::default())).unwrap();
    for _ in 0..5 {
        assert_eq!(source.resolve(&number()).await, Err(LookupError::Refused));
    }
    assert_eq!(server.query_counts(), (2, 0));
    *is_healthy.lock() = true;
    clock.advance(SignedDuration::from_secs(30));
    assert_eq!(source.resolve(&number()).await, network("23410"));
}
