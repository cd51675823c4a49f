//! The operator's number directory and a client that is not ours: `dnslib` of Python, in `e2e/number_lookup/ask.py`.
//! `make setup` installs it; without it this fails.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use ringtrue_sandbox::directory::{Directory, DirectoryConfig, EnumFault, Fault, RecordStyle};
use serde_json::{Value, json};
use tokio::process::Command;

/// What it is told of names, by datagrams and over TCP.
async fn told(directory: &Directory, numbers: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("target/python/bin/python"));
    command.arg(root.join("e2e/number_lookup/ask.py")).arg(directory.dns_address().unwrap().to_string());
    let done = command.args(numbers).output().await.expect("python is installed; see `make setup`");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn record(expression: &str) -> Value {
    json!({ "code": "NOERROR", "cut": false, "zone": [], "records": [["u", "E2U+pstn:tel", expression]] })
}

fn nothing(code: &str) -> Value {
    json!({ "code": code, "cut": false, "zone": ["e164.arpa."], "records": [] })
}

#[tokio::test]
async fn a_client_that_is_not_ours_reads_what_is_said_of_numbers() {
    let subscribers = ["+447700900123 23430", "+447700900124 23410 ported-from 23430 absent"];
    let subscribers: Vec<_> = subscribers.iter().map(|text| text.parse().unwrap()).collect();
    let numbers = ["+447700900123", "+447700900124", "+447700900125"];
    let start = async |records, ported_only| {
        let subscribers = subscribers.clone();
        let config = DirectoryConfig { subscribers, records, ported_only, ..DirectoryConfig::default() };
        Directory::start(config).await.unwrap()
    };

    let directory = start(RecordStyle::Codes, false).await;
    let expected = json!([
        record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!"),
        record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!"),
        nothing("NXDOMAIN"),
    ]);
    assert_eq!(told(&directory, &numbers).await, json!({ "udp": expected, "tcp": expected }));

    directory.set_fault(Fault::Enum(EnumFault::Truncated));
    let cut = json!({ "code": "NOERROR", "cut": true, "zone": [], "records": [] });
    assert_eq!(told(&directory, &numbers).await, json!({ "udp": [cut, cut, cut], "tcp": expected }));

    let directory = start(RecordStyle::RoutingNumber, true).await;
    let expected = json!([
        nothing("NOERROR"),
        record("!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!"),
        nothing("NXDOMAIN"),
    ]);
    assert_eq!(told(&directory, &numbers).await, json!({ "udp": expected, "tcp": expected }));
}
