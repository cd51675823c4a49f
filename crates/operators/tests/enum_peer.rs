//! ENUM against external name servers: Debian's `knot` with a zone, and Python's `dnslib` in
//! `e2e/number_lookup/dns_server.py` for replies that a zone file cannot express. Requires `make setup`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

use std::{fmt::Write as _, fs, path::Path, process, process::Stdio, sync::Arc, time::Duration};

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{
    clock::SystemClock,
    entropy::SystemEntropy,
    lookups::{LookupError, LookupResult, LookupSource},
};
use ringtrue_operators::number_lookup::{EnumConfig, EnumDns, enum_dns::RecordRules};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

const TIMEOUT: Duration = Duration::from_mins(1);

struct Peer {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().expect("the peer is installed; see `make setup`");
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Peer { process, output }
    }

    async fn next_line(&mut self) -> String {
        let line = timeout(TIMEOUT, self.output.next_line()).await.expect("the peer responds in time").unwrap();
        line.expect("the peer is running; `make setup` installs its packages")
    }

    async fn stop(mut self) {
        self.process.kill().await.unwrap();
    }
}

fn source(server: &str, rules: RecordRules) -> EnumDns {
    let servers = vec![server.parse().unwrap()];
    let config = EnumConfig { timeout: TIMEOUT, rules, ..EnumConfig::new("enum", servers) };
    EnumDns::new(config, Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap()
}

fn rules() -> RecordRules {
    let network = |id: &str| id.parse().unwrap();
    RecordRules {
        known_networks: ["23410", "26202", "310012"].into_iter().map(network).collect(),
        routing_numbers: [("d27*", network("25001")), ("+1-215-555-0199", network("310260"))].into_iter().collect(),
        service_providers: [("41077", network("23410"))].into_iter().collect(),
        ..RecordRules::default()
    }
}

async fn look_up(source: &EnumDns, last_digit: usize) -> Result<LookupResult, LookupError> {
    source.resolve(&Msisdn::parse(&format!("+44770090012{last_digit}"), Mode::Live).unwrap()).await
}

fn network(id: &str) -> Result<LookupResult, LookupError> {
    id.parse().map(LookupResult::Network).map_err(|_| LookupError::InvalidResponse)
}

/// Returns a loopback address that only this process uses.
fn own_address() -> String {
    let id = process::id();
    format!("127.53.{}.{}", id / 250 % 250 + 1, id % 250 + 1)
}

struct Knot {
    peer: Peer,
    _folder: TempDir,
    server: String,
}

impl Knot {
    /// Starts a name server with these records. The index of an entry is the last digit of its number. Backslashes are
    /// doubled, as in zone files.
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
        let path = folder.path().display();
        let settings = format!(
            "server:\n  rundir: \"{path}\"\n  listen: {address}@5300\ndatabase:\n  storage: \"{path}/database\"\n\
            log:\n  - target: stdout\n    any: info\n\
            zone:\n  - domain: e164.arpa\n    storage: \"{path}\"\n    file: e164.zone\n"
        );
        let file = folder.path().join("knot.conf");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new("/usr/sbin/knotd");
        command.arg("--config").arg(&file);
        let mut peer = Peer::start(command);
        let mut awaited = vec!["server started", "[e164.arpa.] loaded"];
        while !awaited.is_empty() {
            let line = peer.next_line().await;
            assert!(!line.contains(" error: "), "{line}");
            awaited.retain(|words| !line.contains(words));
        }
        Knot { peer, _folder: folder, server: format!("{address}:5300") }
    }
}

#[tokio::test]
async fn knot_zone_is_resolved() {
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
            r#"NAPTR 10 1 "" "" "" other.example.com."#,
        ],
        &[r#"NAPTR 10 100 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\1;npdi;spn=41077;q_stat=001!" ."#],
        &[r#"NAPTR 10 100 "u" "E2U+pstn:tel" "!^(.*)$!tel:\\1;q_stat=102!" ."#],
        &[r#"NAPTR 0 0 "u" "E2U+SIP" "!^.*$!sip:+49@ims.mnc002.mcc262.3gppnetwork.org;cost=0.0006;ported=0!" ."#],
        &["CNAME 6.2.1.0.0.9.0.0.7.7.4.4"],
        &[r#"TXT "nothing for us""#],
    ])
    .await;
    let source_of = |rules| source(&knot.server, rules);
    let usual = source_of(rules());
    for (last_digit, outcome) in [
        network("310012"),
        network("310012"),
        network("23410"),
        network("25001"),
        network("23410"),
        Ok(LookupResult::NoData),
        network("26202"),
        network("26202"),
        Ok(LookupResult::NoData),
        Ok(LookupResult::NoData),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(look_up(&usual, last_digit).await, outcome, "{last_digit}");
    }
    let authority = source_of(RecordRules { is_authoritative: true, ..rules() });
    assert_eq!(look_up(&authority, 9).await, Ok(LookupResult::NoSubscriber), "no such name");
    assert_eq!(look_up(&authority, 8).await, Ok(LookupResult::NoData), "no NAPTR records");

    let servers = vec![knot.server.parse().unwrap()];
    let config = EnumConfig { suffix: "enum.example".to_owned(), ..EnumConfig::new("enum", servers) };
    let foreign = EnumDns::new(config, Arc::new(SystemClock), Arc::new(SystemEntropy::default())).unwrap();
    assert_eq!(look_up(&foreign, 0).await, Err(LookupError::Refused), "zone of another server");
    knot.peer.stop().await;
}

#[tokio::test]
async fn dnslib_special_replies_are_handled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("target/python/bin/python"));
    command.arg(root.join("e2e/number_lookup/dns_server.py"));
    let mut peer = Peer::start(command);
    let port = peer.next_line().await;
    let source = source(&format!("127.0.0.1:{port}"), rules());
    for (last_digit, outcome, case) in [
        (1, Err(LookupError::Refused), "REFUSED with records"),
        (2, network("23410"), "response larger than a datagram"),
        (3, network("23410"), "network in the host name"),
        (4, Ok(LookupResult::NoData), "no such name"),
        (5, network("23410"), "doubled backslashes"),
    ] {
        assert_eq!(look_up(&source, last_digit).await, outcome, "{case}");
    }
    peer.stop().await;
}
