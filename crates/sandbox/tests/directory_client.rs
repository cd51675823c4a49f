//! Interoperability of the simulated number directory with Python's `dnslib`, in `e2e/number_lookup/query.py`. Requires
//! `make setup`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

use std::path::Path;

use ringtrue_sandbox::directory::{Directory, DirectoryConfig, DirectoryFault, EnumFault, RecordStyle};
use serde_json::{Value, json};
use tokio::process::Command;

/// Resolves numbers over UDP and TCP, with the Python client.
async fn resolve(directory: &Directory, numbers: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("target/python/bin/python"));
    command.arg(root.join("e2e/number_lookup/query.py")).arg(directory.dns_address().unwrap().to_string());
    let output = command.args(numbers).output().await.expect("python is not installed; run `make setup`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn record(expression: &str) -> Value {
    json!({ "code": "NOERROR", "cut": false, "zone": [], "records": [["u", "E2U+pstn:tel", expression]] })
}

fn no_records(code: &str) -> Value {
    json!({ "code": code, "cut": false, "zone": ["e164.arpa."], "records": [] })
}

#[tokio::test]
async fn dnslib_resolves_numbers() {
    let subscribers = ["+447700900123 23430", "+447700900124 23410 ported-from 23430 absent"];
    let subscribers: Vec<_> = subscribers.iter().map(|text| text.parse().unwrap()).collect();
    let numbers = ["+447700900123", "+447700900124", "+447700900125"];
    let start = async |records, ported_only| {
        let subscribers = subscribers.clone();
        let config = DirectoryConfig { subscribers, records, ported_only, ..DirectoryConfig::default() };
        Directory::start(config).await.unwrap()
    };

    let directory = start(RecordStyle::MccMnc, false).await;
    let expected = json!([
        record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!"),
        record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!"),
        no_records("NXDOMAIN"),
    ]);
    assert_eq!(resolve(&directory, &numbers).await, json!({ "udp": expected, "tcp": expected }));

    directory.set_fault(DirectoryFault::Enum(EnumFault::Truncated));
    let truncated = json!({ "code": "NOERROR", "cut": true, "zone": [], "records": [] });
    assert_eq!(
        resolve(&directory, &numbers).await,
        json!({ "udp": [truncated, truncated, truncated], "tcp": expected })
    );

    let directory = start(RecordStyle::RoutingNumber, true).await;
    let expected = json!([
        no_records("NOERROR"),
        record("!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!"),
        no_records("NXDOMAIN"),
    ]);
    assert_eq!(resolve(&directory, &numbers).await, json!({ "udp": expected, "tcp": expected }));
}
