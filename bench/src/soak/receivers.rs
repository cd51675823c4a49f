//! Callback receivers that answer, fail, disconnect and hang.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::Context;
use tokio::time::Instant;

use super::{
    ledger::{Attempt, Conclusion, Ledger},
    random_share,
    violations::Violations,
};
use crate::{
    load::header,
    receiver::{CallbackReceiver, Reaction},
};

/// Destinations of each slow kind, because a node limits the concurrent callbacks of one destination.
const SLOW_DESTINATIONS: u8 = 8;
/// Of a thousand checks, those with a receiver of each kind. Nodes send a bounded number of callbacks to slow receivers
/// at the same time, so these must be few: a receiver that always hangs takes seven attempts of ten seconds.
const SHARES: [(ReceiverKind, usize); 5] = [
    (ReceiverKind::Answers, 880),
    (ReceiverKind::FailsTwice, 80),
    (ReceiverKind::DisconnectsOnce, 30),
    (ReceiverKind::HangsOnce, 8),
    (ReceiverKind::AlwaysHangs, 2),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReceiverKind {
    Answers,
    FailsTwice,
    DisconnectsOnce,
    HangsOnce,
    AlwaysHangs,
}

impl ReceiverKind {
    fn react(self, attempt: u32) -> Reaction {
        match (self, attempt) {
            (ReceiverKind::FailsTwice, 1 | 2) => Reaction::Fail,
            (ReceiverKind::DisconnectsOnce, 1) => Reaction::Disconnect,
            (ReceiverKind::HangsOnce, 1) | (ReceiverKind::AlwaysHangs, _) => Reaction::Hang,
            _ => Reaction::Accept,
        }
    }

    fn destinations(self) -> u8 {
        match self {
            ReceiverKind::Answers => 1,
            _ => SLOW_DESTINATIONS,
        }
    }
}

/// Stop when dropped.
pub struct Receivers {
    /// URLs by kind.
    urls: Vec<(ReceiverKind, Vec<String>)>,
    _receivers: Vec<CallbackReceiver>,
}

impl Receivers {
    pub async fn start(ledger: &Arc<Ledger>, violations: &Violations) -> anyhow::Result<Self> {
        let (mut urls, mut receivers) = (Vec::new(), Vec::new());
        for (index, (kind, _)) in (1..).zip(SHARES) {
            let mut kind_urls = Vec::new();
            for host in 1..=kind.destinations() {
                let (ledger, violations) = (Arc::clone(ledger), violations.clone());
                let react = move |head: &[u8], body: &[u8]| {
                    receive(kind, &ledger, head, body).unwrap_or_else(|error| {
                        violations.add("invalid callbacks", || error.to_string());
                        Reaction::Accept
                    })
                };
                let receiver = CallbackReceiver::start_on(Ipv4Addr::new(127, 0, index, host), react).await?;
                kind_urls.push(format!("http://{}/callbacks", receiver.address));
                receivers.push(receiver);
            }
            urls.push((kind, kind_urls));
        }
        Ok(Receivers { urls, _receivers: receivers })
    }

    /// A receiver that answers.
    pub fn answering_url(&self) -> &str {
        self.urls.iter().find(|(kind, _)| *kind == ReceiverKind::Answers).map_or("", |(_, urls)| &urls[0])
    }

    /// A receiver by the shares of the kinds.
    pub fn random_url(&self) -> &str {
        let (_, urls) = &self.urls[random_share(SHARES.map(|(_, share)| share))];
        &urls[fastrand::usize(..urls.len())]
    }
}

fn receive(kind: ReceiverKind, ledger: &Ledger, head: &[u8], body: &[u8]) -> anyhow::Result<Reaction> {
    #[derive(serde::Deserialize)]
    struct Callback<'a> {
        #[serde(alias = "verification_id")]
        check_id: &'a str,
    }
    let received = Instant::now();
    let number = header(head, b"x-service-callback-attempt:").context("no attempt number")?.parse()?;
    let Callback { check_id } = serde_json::from_slice(body)?;
    let conclusion = Conclusion::parse(body)?.context("callback of an open check")?;
    let reaction = kind.react(number);
    ledger.update(check_id, |check| check.attempts.push(Attempt { number, received, reaction, conclusion }));
    Ok(reaction)
}
