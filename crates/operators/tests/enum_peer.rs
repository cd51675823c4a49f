//! ENUM and name servers that are not ours: Debian's `knot` serves a zone that is written here, and `dnslib` of Python, in
//! `e2e/number_lookup/dns.py`, says what no zone can. `make setup` installs both; without them this fails.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{fmt::Write as _, fs, path::Path, process, process::Stdio, sync::Arc, time::Duration};

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{NumberSource, Resolved, SourceFault, SystemClock, SystemEntropy};
use ringtrue_operators::number_lookup::{EnumConfig, EnumDns, enum_dns::Reading};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Long enough for a busy machine, short enough to notice.
const PATIENCE: Duration = Duration::from_mins(1);

struct Peer {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().expect("the peer is installed; see `make setup`");
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Peer { process, said }
    }

    async fn says(&mut self) -> String {
        let line = timeout(PATIENCE, self.said.next_line()).await.expect("the peer goes on").unwrap();
        line.expect("the peer lives; what it needs comes by `make setup`")
    }

    async fn ends(mut self) {
        self.process.kill().await.unwrap();
    }
}

fn source(server: &str, reading: Reading) -> EnumDns {
    let servers = vec![server.parse().unwrap()];
    let config = EnumConfig { timeout: PATIENCE, reading, ..EnumConfig::new("enum", servers) };
    EnumDns::new(config, Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
}

fn reading() -> Reading {
    let network = |id: &str| id.parse().unwrap();
    Reading {
        known: ["23410", "26202", "310012"].into_iter().map(network).collect(),
        routing_numbers: [("d27*", network("25001")), ("+1-215-555-0199", network("310260"))].into_iter().collect(),
        service_providers: [("41077", network("23410"))].into_iter().collect(),
        ..Reading::default()
    }
}

async fn told(source: &EnumDns, last_digit: usize) -> Result<Resolved, SourceFault> {
    source.resolve(&Msisdn::parse(&format!("+44770090012{last_digit}"), Mode::Live).unwrap()).await
}

fn network(id: &str) -> Result<Resolved, SourceFault> {
    id.parse().map(Resolved::Network).map_err(|_| SourceFault::Nonsense)
}

/// An address of this machine that nobody else has: no port is taken from anybody.
fn own_address() -> String {
    let id = process::id();
    format!("127.53.{}.{}", id / 250 % 250 + 1, id % 250 + 1)
}

struct Knot {
    peer: Peer,
    /// What it reads and writes lives as long as it does.
    _folder: TempDir,
    server: String,
}

impl Knot {
    /// With the records of the numbers that end so. A zone file takes one backslash of two.
    async fn serving(records: &[&[&str]]) -> Self {
        let (folder, address) = (tempfile::tempdir().unwrap(), own_address());
        let mut zone = "$ORIGIN e164.arpa.\n$TTL 60\n\
            @ SOA ns.e164.arpa. admin.e164.arpa. 1 3600 600 86400 60\n@ NS ns.e164.arpa.\nns A 127.0.0.1\n"
            .to_owned();
        for (last_digit, records) in records.iter().enumerate() {
            for record in *records {
                writeln!(zone, "{last_digit}.2.1.0.0.9.0.0.7.7.4.4 {record}").unwrap();
            }
        }
        fs::write(folder.path().join("e164.zone"), zone).unwrap();
        fs::create_dir(folder.path().join("database")).unwrap();
        let place = folder.path().display();
        let settings = format!(
            "server:\n  rundir: \"{place}\"\n  listen: {address}@5300\ndatabase:\n  storage: \"{place}/database\"\n\
            log:\n  - target: stdout\n    any: info\n\
            zone:\n  - domain: e164.arpa\n    storage: \"{place}\"\n    file: e164.zone\n"
        );
        let file = folder.path().join("knot.conf");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new("/usr/sbin/knotd");
        command.arg("--config").arg(&file);
        let mut peer = Peer::start(command);
        let mut awaited = vec!["server started", "[e164.arpa.] loaded"];
        while !awaited.is_empty() {
            let line = peer.says().await;
            assert!(!line.contains(" error: "), "{line}");
            awaited.retain(|words| !line.contains(words));
        }
        Knot { peer, _folder: folder, server: format!("{address}:5300") }
    }
}

#[tokio::test]
async fn knot_serves_a_zone_of_numbers() {
    let padding: Vec<String> = (0..30)
        .map(|at| {
            format!(r#"NAPTR 10 {at} "u" "E2U+email:mailto" "!^.*$!mailto:somebody-{at:02}@numbers.example.com!" ."#)
        })
        .collect();
    let mut long: Vec<&str> = padding.iter().map(String::as_str).collect();
    long.push(r#"NAPTR 20 1 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\1;mcc=234;mnc=10!" ."#);
    let knot = Knot::serving(&[
        &[r#"NAPTR 10 100 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\1;mcc=310;mnc=012!" ."#],
        &[r#"NAPTR 10 100 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\\\1\\;mcc=310\\;mnc=012!" ."#],
        &long,
        &[
            r#"NAPTR 20 1 "u" "E2U+pstn:tel" "!^.*$!tel:+73422461703;npdi;rn=d2701;rn-context=+7!" ."#,
            r#"NAPTR 10 1 "s" "E2U+pstn:tel" "!^.*$!tel:+44;mcc=234;mnc=66!" ."#,
            r#"NAPTR 10 1 "" "" "" elsewhere.example.com."#,
        ],
        &[r#"NAPTR 10 100 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\1;npdi;spn=41077;q_stat=001!" ."#],
        &[r#"NAPTR 10 100 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\1;q_stat=102!" ."#],
        &[r#"NAPTR 0 0 "u" "E2U+SIP" "!^.*$!sip:+49@ims.mnc002.mcc262.3gppnetwork.org;cost=0.0006;ported=0!" ."#],
        &["CNAME 6.2.1.0.0.9.0.0.7.7.4.4"],
        &[r#"TXT "nothing for us""#],
    ])
    .await;
    let source_of = |reading| source(&knot.server, reading);
    let usual = source_of(reading());
    for (last_digit, outcome) in [
        network("310012"),
        network("310012"),
        network("23410"),
        network("25001"),
        network("23410"),
        Ok(Resolved::NoData),
        network("26202"),
        network("26202"),
        Ok(Resolved::NoData),
        Ok(Resolved::NoData),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(told(&usual, last_digit).await, outcome, "{last_digit}");
    }
    let authority = source_of(Reading { is_authoritative: true, ..reading() });
    assert_eq!(told(&authority, 9).await, Ok(Resolved::NoSubscriber), "no such name");
    assert_eq!(told(&authority, 8).await, Ok(Resolved::NoData), "a name without such records");

    let elsewhere = vec![knot.server.parse().unwrap()];
    let config = EnumConfig { suffix: "enum.example".to_owned(), ..EnumConfig::new("enum", elsewhere) };
    let foreign = EnumDns::new(config, Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap();
    assert_eq!(told(&foreign, 0).await, Err(SourceFault::Refused), "a zone that it does not serve");
    knot.peer.ends().await;
}

#[tokio::test]
async fn dnslib_says_what_no_zone_can() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("target/python/bin/python"));
    command.arg(root.join("e2e/number_lookup/dns.py"));
    let mut peer = Peer::start(command);
    let port = peer.says().await;
    let source = source(&format!("127.0.0.1:{port}"), reading());
    for (last_digit, outcome, what) in [
        (1, Err(SourceFault::Refused), "a refusal with an answer"),
        (2, network("23410"), "more than a datagram holds"),
        (3, network("23410"), "a host that is named after the network"),
        (4, Ok(Resolved::NoData), "no such name"),
        (5, network("23410"), "doubled backslashes"),
    ] {
        assert_eq!(told(&source, last_digit).await, outcome, "{what}");
    }
    peer.ends().await;
}
