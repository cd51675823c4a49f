use std::{
    collections::{HashMap, HashSet},
    future, io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, Host};
use ringtrue_engine::ports::transport::{Transport, TransportError};
use ringtrue_operators::outbound::{Outbound, OutboundSettings, Resolver};
use ringtrue_test_support::http_server::{ReceivedRequest, TestServer};
use tokio::io::AsyncWriteExt;

use super::{ScriptedResolver, allowing, callback_request, post, recording};

/// Hosts that refer to this machine or its network. Some are rejected when the URL is parsed, the others when it is
/// opened.
const INTERNAL_HOSTS: [&str; 24] = [
    "127.0.0.1",
    "localhost",
    "localhost.",
    "a.localhost",
    "2130706433",
    "0177.0.0.1",
    "0x7f000001",
    "127.1",
    "0",
    "0.0.0.0",
    "[::]",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:10.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[2002:a00:1::]",
    "169.254.169.254",
    "100.64.0.1",
    "[fd00::1]",
    "[fe80::1%25eth0]",
    "127.0.0.1.nip.io",
];

#[tokio::test]
async fn internal_addresses_are_never_connected() {
    let v4 = TestServer::start("0.0.0.0:0", |stream, _| async move { drop(stream) }).await;
    let v6 = TestServer::start(&format!("[::1]:{}", v4.port), |stream, _| async move { drop(stream) }).await;
    let strict = Outbound::new(OutboundSettings::default()).unwrap();
    for host in INTERNAL_HOSTS {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{}/", v4.port);
            // A URL that was stored under another policy may have such a host. The request is then blocked when the
            // connection is opened.
            if CallbackUrl::from_stored(&url).is_ok() {
                assert_eq!(post(&strict, &url).await, Err(TransportError::BlockedAddress), "{url}");
            }
        }
    }
    assert_eq!((v4.connections(), v6.connections()), (0, 0));
}

#[tokio::test]
async fn every_resolved_address_is_checked() {
    let peer = TestServer::start("0.0.0.0:0", |stream, _| async move { drop(stream) }).await;
    for inwards in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"] {
        let client =
            Outbound::with_resolver(OutboundSettings::default(), ScriptedResolver::of(&[&[inwards, "127.0.0.2"]]))
                .unwrap();
        let url = format!("http://receiver.example:{}/", peer.port);
        assert_eq!(post(&client, &url).await, Err(TransportError::BlockedAddress), "{inwards}");
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn only_permitted_addresses_are_tried() {
    let (peer, _requests) = recording().await;
    let forbidden =
        TestServer::start(&format!("127.0.0.2:{}", peer.port), |stream, _| async move { drop(stream) }).await;
    let script = ScriptedResolver::of(&[&["127.0.0.2", "10.0.0.1", "127.0.0.3", "127.0.0.1"]]);
    // 127.0.0.3 refuses the connection, so the client tries the next permitted address.
    let client = Outbound::with_resolver(allowing(&["127.0.0.1/32", "127.0.0.3/32"]), script).unwrap();
    let url = format!("http://receiver.example:{}/", peer.port);
    assert_eq!(post(&client, &url).await.unwrap().status, 200);
    assert_eq!(forbidden.connections(), 0);
}

/// The loopback address 127.0.0.1 stands for a public address here.
#[tokio::test]
async fn rebound_name_is_blocked() {
    let public = TestServer::start("127.0.0.1:0", |mut stream, _| async move {
        ReceivedRequest::read(&mut stream, &mut vec![]).await;
        let _ = stream.write_all(b"HTTP/1.1 500 Sorry\r\nconnection: close\r\n\r\n").await;
    })
    .await;
    let private =
        TestServer::start(&format!("127.0.0.2:{}", public.port), |stream, _| async move { drop(stream) }).await;
    let script = ScriptedResolver::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let client = Outbound::with_resolver(allowing(&["127.0.0.1/32"]), script).unwrap();
    let url = format!("http://rebinding.example:{}/", public.port);

    assert_eq!(post(&client, &url).await.unwrap().status, 500);
    assert_eq!(post(&client, &url).await, Err(TransportError::BlockedAddress));
    assert_eq!((public.connections(), private.connections()), (1, 0));
}

#[tokio::test]
async fn name_without_addresses_is_unresolved() {
    for responses in [&[][..], &[&[][..]][..]] {
        let client = Outbound::with_resolver(OutboundSettings::default(), ScriptedResolver::of(responses)).unwrap();
        assert_eq!(post(&client, "https://nowhere.example/").await, Err(TransportError::Unresolved));
    }
}

#[tokio::test]
async fn allowed_hosts_are_trusted_and_own_hosts_are_blocked() {
    let (peer, _requests) = recording().await;
    let addresses = AddressPolicy {
        allowed_hosts: vec!["trusted.example".to_owned()],
        own_hosts: vec![Host::parse("eu.ours.example").unwrap()],
        ..AddressPolicy::default()
    };
    let settings = OutboundSettings { addresses, ..OutboundSettings::default() };
    let client = Outbound::with_resolver(settings, ScriptedResolver::of(&[&["127.0.0.1"]])).unwrap();
    let url = |name: &str| format!("http://{name}:{}/", peer.port);
    // An allowed host is permitted whatever address it resolves to.
    assert_eq!(client.post(callback_request(&url("trusted.example"))).await.unwrap().status, 200);
    assert_eq!(post(&client, &url("other.example")).await, Err(TransportError::BlockedAddress));

    let settings = allowing(&["127.0.0.1/32"]);
    let addresses = AddressPolicy { own_hosts: vec![Host::parse("eu.ours.example").unwrap()], ..settings.addresses };
    let settings = OutboundSettings {
        addresses,
        connect_timeout: settings.connect_timeout,
        total_timeout: settings.total_timeout,
        ..OutboundSettings::default()
    };
    let client = Outbound::with_resolver(settings, ScriptedResolver::of(&[&["127.0.0.1"]])).unwrap();
    assert_eq!(post(&client, &url("eu.ours.example")).await, Err(TransportError::BlockedAddress));
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn own_addresses_are_blocked_under_any_name() {
    let own_hosts = ["8.8.8.8", "[2606:4700::1111]"].map(|host| Host::parse(host).unwrap()).to_vec();
    for (host, addresses) in [
        ("8.8.8.8", &[][..]),
        ("[2606:4700:0::1111]", &[]),
        ("receiver.example", &["8.8.8.8"]),
        ("receiver.example", &["2606:4700::1111", "8.8.8.8"]),
    ] {
        let policy = AddressPolicy { own_hosts: own_hosts.clone(), ..AddressPolicy::default() };
        let settings = OutboundSettings { addresses: policy, ..OutboundSettings::default() };
        let client = Outbound::with_resolver(settings, ScriptedResolver::of(&[addresses])).unwrap();
        assert_eq!(post(&client, &format!("https://{host}/")).await, Err(TransportError::BlockedAddress), "{host}");
    }
}

/// Resolver with a mutable table.
#[derive(Debug, Default)]
struct Names(Mutex<HashMap<String, IpAddr>>);

impl Names {
    fn set(&self, name: &str, address: &str) {
        self.0.lock().insert(name.to_owned(), address.parse().unwrap());
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let known = self.0.lock().get(name).copied();
        known.map(|address| vec![address]).ok_or_else(|| io::Error::other("no such name"))
    }
}

/// Any name, or the address itself, may refer to our own host.
#[tokio::test(start_paused = true)]
async fn addresses_of_own_names_are_blocked_under_any_name() {
    let names = Arc::new(Names::default());
    for (name, address) in [("eu.ours.example", "8.8.8.8"), ("a.example", "8.8.8.8"), ("b.example", "8.8.4.4")] {
        names.set(name, address);
    }
    let own_hosts = vec![Host::parse("eu.ours.example").unwrap()];
    let client = |allowed_addresses: &[&str], allowed_hosts: &[&str]| {
        let policy = AddressPolicy {
            allowed_addresses: allowed_addresses.iter().map(|range| range.parse().unwrap()).collect(),
            allowed_hosts: allowed_hosts.iter().map(ToString::to_string).collect(),
            own_hosts: own_hosts.clone(),
            ..AddressPolicy::default()
        };
        let short = Duration::from_millis(50);
        let settings = OutboundSettings {
            addresses: policy,
            connect_timeout: short,
            total_timeout: short,
            ..OutboundSettings::default()
        };
        Outbound::with_resolver(settings, Arc::clone(&names) as _).unwrap()
    };
    let is_blocked = async |client: &Outbound, host: &str| {
        post(client, &format!("https://{host}/")).await == Err(TransportError::BlockedAddress)
    };
    let strict = client(&[], &[]);
    for host in ["a.example", "8.8.8.8", "eu.ours.example"] {
        assert!(is_blocked(&strict, host).await, "{host}");
    }
    assert!(!is_blocked(&strict, "b.example").await);
    assert!(!is_blocked(&client(&["8.8.8.8/32"], &[]), "a.example").await, "the operator allows the address");
    assert!(!is_blocked(&client(&[], &["a.example"]), "a.example").await, "the operator allows the name");

    // A changed own address is noticed within a minute.
    names.set("eu.ours.example", "8.8.4.4");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(is_blocked(&strict, "b.example").await);
    assert!(!is_blocked(&strict, "a.example").await);
}

/// Resolver that can be made to fail or hang for some names.
#[derive(Debug, Default)]
struct FailingNames {
    names: Names,
    failing: Mutex<HashSet<&'static str>>,
    hanging: Mutex<HashSet<&'static str>>,
    own_lookups: AtomicUsize,
}

#[async_trait]
impl Resolver for FailingNames {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name.ends_with("ours.example") {
            self.own_lookups.fetch_add(1, Ordering::SeqCst);
        }
        if self.hanging.lock().contains(name) {
            future::pending::<()>().await;
        }
        if self.failing.lock().contains(name) {
            return Err(io::Error::other("no answer"));
        }
        self.names.resolve(name).await
    }
}

impl FailingNames {
    fn new() -> Arc<Self> {
        let resolver = FailingNames::default();
        for (name, address) in [
            ("eu.ours.example", "8.8.8.8"),
            ("sms.ours.example", "8.8.4.4"),
            ("a.example", "8.8.8.8"),
            ("b.example", "8.8.4.4"),
            ("c.example", "1.1.1.1"),
        ] {
            resolver.names.set(name, address);
        }
        Arc::new(resolver)
    }

    /// Creates a client for a service with two host names of its own.
    fn client(self: &Arc<Self>, allowed_addresses: &[&str], allowed_hosts: &[&str]) -> Outbound {
        let policy = AddressPolicy {
            allowed_addresses: allowed_addresses.iter().map(|range| range.parse().unwrap()).collect(),
            allowed_hosts: allowed_hosts.iter().map(ToString::to_string).collect(),
            own_hosts: ["eu.ours.example", "sms.ours.example", "eu.ours.example"]
                .map(|name| Host::parse(name).unwrap())
                .into(),
            ..AddressPolicy::default()
        };
        let settings = OutboundSettings {
            addresses: policy,
            connect_timeout: Duration::from_secs(2),
            total_timeout: Duration::from_secs(2),
            ..OutboundSettings::default()
        };
        Outbound::with_resolver(settings, Arc::clone(self) as _).unwrap()
    }

    fn own_lookups(&self) -> usize {
        self.own_lookups.load(Ordering::SeqCst)
    }
}

/// Returns the decision of the address guard. Connecting to permitted addresses fails in tests, which counts as
/// success.
async fn guarded(client: &Outbound, host: &str) -> Result<(), TransportError> {
    match post(client, &format!("https://{host}/")).await {
        Err(error @ (TransportError::BlockedAddress | TransportError::OwnAddressUnknown)) => Err(error),
        _ => Ok(()),
    }
}

#[tokio::test(start_paused = true)]
async fn callbacks_are_refused_while_an_own_name_was_never_resolved() {
    for is_hanging in [false, true] {
        let names = FailingNames::new();
        let broken = if is_hanging { &names.hanging } else { &names.failing };
        broken.lock().insert("eu.ours.example");
        let client = names.client(&[], &[]);
        for host in ["c.example", "1.1.1.1", "a.example", "8.8.8.8"] {
            assert_eq!(guarded(&client, host).await, Err(TransportError::OwnAddressUnknown), "{host} {is_hanging}");
        }
        // This host has the address of our other name, which was resolved.
        assert_eq!(guarded(&client, "b.example").await, Err(TransportError::BlockedAddress));
        assert_eq!(guarded(&client, "10.0.0.1").await, Err(TransportError::BlockedAddress));

        broken.lock().clear();
        assert_eq!(guarded(&client, "c.example").await, Err(TransportError::OwnAddressUnknown), "not retried yet");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(guarded(&client, "c.example").await, Ok(()));
        assert_eq!(guarded(&client, "a.example").await, Err(TransportError::BlockedAddress));
    }
}

#[tokio::test(start_paused = true)]
async fn allowed_addresses_and_names_do_not_depend_on_own_names() {
    let names = FailingNames::new();
    names.failing.lock().extend(["eu.ours.example", "sms.ours.example"]);
    assert_eq!(guarded(&names.client(&["1.1.1.0/24"], &[]), "c.example").await, Ok(()));
    assert_eq!(guarded(&names.client(&[], &["c.example"]), "c.example").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn last_addresses_of_an_own_name_stay_blocked() {
    let names = FailingNames::new();
    let client = names.client(&[], &[]);
    assert_eq!(guarded(&client, "c.example").await, Ok(()));
    // One of our host names cannot be resolved, and the second one has a new address.
    names.failing.lock().insert("eu.ours.example");
    names.names.set("sms.ours.example", "1.1.1.1");
    tokio::time::advance(Duration::from_secs(61)).await;
    for (host, expected) in [
        ("a.example", Err(TransportError::BlockedAddress)),
        ("c.example", Err(TransportError::BlockedAddress)),
        ("b.example", Ok(())),
    ] {
        assert_eq!(guarded(&client, host).await, expected, "{host}");
    }
    // If no name can be resolved, the last addresses stay in use without a time limit.
    names.failing.lock().insert("sms.ours.example");
    for _ in 0..20 {
        tokio::time::advance(Duration::from_mins(10)).await;
        assert_eq!(guarded(&client, "a.example").await, Err(TransportError::BlockedAddress));
        assert_eq!(guarded(&client, "c.example").await, Err(TransportError::BlockedAddress));
    }
}

#[tokio::test(start_paused = true)]
async fn own_names_are_resolved_at_intervals() {
    let names = FailingNames::new();
    let client = names.client(&[], &[]);
    let refused = async |times: usize| {
        for _ in 0..times {
            assert_eq!(guarded(&client, "a.example").await, Err(TransportError::BlockedAddress));
        }
    };
    refused(100).await;
    assert_eq!(names.own_lookups(), 2, "each name once");
    tokio::time::advance(Duration::from_secs(59)).await;
    refused(100).await;
    assert_eq!(names.own_lookups(), 2);
    names.failing.lock().insert("eu.ours.example");
    tokio::time::advance(Duration::from_secs(1)).await;
    refused(100).await;
    assert_eq!(names.own_lookups(), 4);
    tokio::time::advance(Duration::from_secs(4)).await;
    refused(100).await;
    assert_eq!(names.own_lookups(), 4);
    tokio::time::advance(Duration::from_secs(1)).await;
    refused(100).await;
    assert_eq!(names.own_lookups(), 6);
}
