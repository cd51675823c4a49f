//! Tests of the simulated number directory over loopback sockets, with hand-written DNS and HTTP messages.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod clients;
mod enum_dns;
mod faults;
mod hlr_http;

use ringtrue_sandbox::directory::{Directory, DirectoryConfig, Subscriber};

const SECRET: &str = "a secret & more";
/// Subscribers that are present, ported, absent and unassigned.
const SUBSCRIBERS: [&str; 4] = [
    "+447700900123 23430",
    "+447700900124 23410 ported-from 23430",
    "+447700900125 310012 absent",
    "+447700900126 23430 unknown",
];

fn subscribers() -> Vec<Subscriber> {
    SUBSCRIBERS.iter().map(|text| text.parse().unwrap()).collect()
}

async fn start_directory(change: impl FnOnce(&mut DirectoryConfig)) -> Directory {
    let mut config = DirectoryConfig {
        subscribers: subscribers(),
        hlr_secret: Some(SECRET.to_owned()),
        ..DirectoryConfig::default()
    };
    change(&mut config);
    Directory::start(config).await.unwrap()
}
