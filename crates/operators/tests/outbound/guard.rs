use ringtrue_domain::web_url::{AddressPolicy, CallbackUrl, Host};
use ringtrue_engine::ports::{Transport, TransportError};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_test_support::http_server::{ReceivedRequest, TestServer};
use tokio::io::AsyncWriteExt;

use super::{ScriptedResolver, allowing, callback_request, post, recording};

/// All of these refer to this machine or its network. Some are rejected when parsed, the others when opened.
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
            // URLs stored under another policy.
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
    // 127.0.0.3 refuses the connection, so the next one is tried.
    let client = Outbound::with_resolver(allowing(&["127.0.0.1/32", "127.0.0.3/32"]), script).unwrap();
    let url = format!("http://receiver.example:{}/", peer.port);
    assert_eq!(post(&client, &url).await.unwrap().status, 200);
    assert_eq!(forbidden.connections(), 0);
}

/// 127.0.0.1 plays the public address.
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
        allow_hosts: vec!["trusted.example".to_owned()],
        own_hosts: vec![Host::parse("eu.ours.example").unwrap()],
        ..AddressPolicy::default()
    };
    let settings = OutboundSettings { addresses, ..OutboundSettings::default() };
    let client = Outbound::with_resolver(settings, ScriptedResolver::of(&[&["127.0.0.1"]])).unwrap();
    let url = |name: &str| format!("http://{name}:{}/", peer.port);
    // For allowed hosts, own addresses are not checked.
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
struct Names(std::sync::Mutex<std::collections::HashMap<String, std::net::IpAddr>>);

impl Names {
    fn set(&self, name: &str, address: &str) {
        self.0.lock().unwrap().insert(name.to_owned(), address.parse().unwrap());
    }
}

#[async_trait::async_trait]
impl ringtrue_operators::outbound::Resolver for Names {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        let known = self.0.lock().unwrap().get(name).copied();
        known.map(|address| vec![address]).ok_or_else(|| std::io::Error::other("no such name"))
    }
}

/// Other names, or the address itself, may refer to our own host.
#[tokio::test(start_paused = true)]
async fn addresses_of_own_names_are_blocked_under_any_name() {
    let names = std::sync::Arc::new(Names::default());
    for (name, address) in [("eu.ours.example", "8.8.8.8"), ("a.example", "8.8.8.8"), ("b.example", "8.8.4.4")] {
        names.set(name, address);
    }
    let own_hosts = vec![Host::parse("eu.ours.example").unwrap()];
    let client = |allow: &[&str], allow_hosts: &[&str]| {
        let policy = AddressPolicy {
            allow: allow.iter().map(|range| range.parse().unwrap()).collect(),
            allow_hosts: allow_hosts.iter().map(ToString::to_string).collect(),
            own_hosts: own_hosts.clone(),
            ..AddressPolicy::default()
        };
        let short = std::time::Duration::from_millis(50);
        let settings = OutboundSettings {
            addresses: policy,
            connect_timeout: short,
            total_timeout: short,
            ..OutboundSettings::default()
        };
        Outbound::with_resolver(settings, std::sync::Arc::clone(&names) as _).unwrap()
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
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert!(is_blocked(&strict, "b.example").await);
    assert!(!is_blocked(&strict, "a.example").await);
}
