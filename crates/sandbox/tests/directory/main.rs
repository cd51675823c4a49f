//! The operator's number directory over loopback sockets, asked in octets that are written here.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod by_dns;
mod by_http;
mod faults;
mod stopping;
mod wire;

use ringtrue_sandbox::directory::{Directory, DirectoryConfig, Subscriber};

const SECRET: &str = "a secret & more";
/// One whose phone is on, one that was ported, one whose phone is off, one whom nobody is any more.
const SUBSCRIBERS: [&str; 4] = [
    "+447700900123 23430",
    "+447700900124 23410 ported-from 23430",
    "+447700900125 310012 absent",
    "+447700900126 23430 unknown",
];

fn subscribers() -> Vec<Subscriber> {
    SUBSCRIBERS.iter().map(|text| text.parse().unwrap()).collect()
}

async fn directory(change: impl FnOnce(&mut DirectoryConfig)) -> Directory {
    let mut config =
        DirectoryConfig { subscribers: subscribers(), secret: Some(SECRET.to_owned()), ..DirectoryConfig::default() };
    change(&mut config);
    Directory::start(config).await.unwrap()
}
