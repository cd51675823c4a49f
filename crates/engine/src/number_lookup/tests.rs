//! One source dead, slow or silent: the next one answers.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures_util::{FutureExt, future::join_all};
use ringtrue_domain::{
    network::{Network, NetworkDirectory},
    tenancy::Mode,
};
use tokio::sync::Notify;

use super::*;
use crate::ports::ManualClock;

#[derive(Debug)]
struct Scripted {
    says: Result<Resolved, SourceFault>,
    asked: AtomicU32,
    /// Answers only when told to.
    gate: Option<Notify>,
}

#[async_trait]
impl NumberSource for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn resolve(&self, _: &Msisdn) -> Result<Resolved, SourceFault> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        self.says.clone()
    }
}

fn source(says: Result<Resolved, SourceFault>) -> Arc<Scripted> {
    Arc::new(Scripted { says, asked: AtomicU32::new(0), gate: None })
}

fn on(id: &str) -> Resolved {
    Resolved::Network(id.parse().unwrap())
}

/// Knows one prefix.
fn lookup(prefixes: Prefixes, sources: &[Arc<Scripted>]) -> (Arc<NumberLookup>, Arc<ManualClock>) {
    let networks = Arc::new(Networks::default());
    let network = Network {
        id: "23410".parse().unwrap(),
        name: "Ten".to_owned(),
        aliases: vec![],
        country: "GB".parse().unwrap(),
        prefixes: vec!["4477".to_owned()],
        receivers: vec![],
    };
    networks.replace(NetworkDirectory::new(vec![network], vec![], vec![]).unwrap());
    let clock = Arc::new(ManualClock::at("2026-11-14T09:30:00Z".parse().unwrap()));
    let lookup = NumberLookup::new(networks, Arc::clone(&clock) as _, 100);
    let sources = sources.iter().map(|source| Arc::clone(source) as _).collect();
    lookup.replace(Sources { prefixes, sources, ..Sources::default() });
    (lookup, clock)
}

fn number() -> Msisdn {
    Msisdn::parse("+447700900123", Mode::Live).unwrap()
}

fn known(id: &str) -> Known {
    Known::Network(id.parse().unwrap())
}

#[tokio::test]
async fn the_first_that_knows_is_believed() {
    use Prefixes::{Fallback, Final};
    use SourceFault::{Nonsense, Refused, Timeout};
    for (prefixes, says, answer) in [
        (Fallback, vec![], Ok(known("23410"))),
        (Fallback, vec![Ok(on("23420"))], Ok(known("23420"))),
        (Final, vec![Ok(on("23420"))], Ok(known("23410"))),
        (Fallback, vec![Ok(Resolved::NoData)], Ok(known("23410"))),
        (Fallback, vec![Ok(Resolved::OtherNetwork), Ok(Resolved::NoData)], Ok(Known::Nobody)),
        (Fallback, vec![Ok(Resolved::OtherNetwork), Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![Ok(Resolved::NoSubscriber), Ok(on("23420"))], Ok(Known::NoSubscriber)),
        (Fallback, vec![Err(Timeout), Ok(Resolved::NoData), Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![Err(Nonsense), Err(Refused)], Err(Unavailable)),
        (Fallback, vec![Err(Timeout), Ok(Resolved::NoData)], Err(Unavailable)),
    ] {
        let sources: Vec<_> = says.iter().cloned().map(source).collect();
        let (lookup, _) = lookup(prefixes, &sources);
        assert_eq!(lookup.network_of(&number()).await, answer, "{prefixes:?} {says:?}");
    }
    let (lookup, _) = lookup(Final, &[source(Ok(Resolved::NoData))]);
    let foreign = Msisdn::parse("+4915112345678", Mode::Live).unwrap();
    assert_eq!(lookup.network_of(&foreign).await, Ok(Known::Nobody));
}

#[tokio::test]
async fn answers_are_remembered_and_faults_are_not() {
    for (says, minutes, times) in [
        (Ok(on("23420")), 24 * 60 - 1, 1),
        (Ok(on("23420")), 24 * 60, 2),
        (Ok(Resolved::NoSubscriber), 9, 1),
        (Ok(Resolved::NoSubscriber), 10, 2),
        (Err(SourceFault::Timeout), 0, 2),
    ] {
        let source = source(says);
        let (lookup, clock) = lookup(Prefixes::Fallback, &[Arc::clone(&source)]);
        let first = lookup.network_of(&number()).await;
        clock.advance(SignedDuration::from_mins(minutes));
        assert_eq!(lookup.network_of(&number()).await, first);
        assert_eq!(source.asked.load(Ordering::Relaxed), times, "{first:?} after {minutes}");
    }
}

#[tokio::test]
async fn many_who_ask_at_once_share_one_look_up() {
    let slow = Arc::new(Scripted { says: Ok(on("23420")), asked: AtomicU32::new(0), gate: Some(Notify::new()) });
    let (lookup, _) = lookup(Prefixes::Fallback, &[Arc::clone(&slow)]);
    let number = number();
    // Who has no patience leaves, and the look-up goes on.
    let impatient = lookup.network_of(&number).now_or_never();
    assert_eq!(impatient, None);
    let asking = join_all((0..100).map(|_| lookup.network_of(&number)));
    if let Some(gate) = &slow.gate {
        gate.notify_one();
    }
    assert!(asking.await.into_iter().all(|answer| answer == Ok(known("23420"))));
    assert_eq!(slow.asked.load(Ordering::Relaxed), 1);
    assert!(lookup.pending.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_costs_no_more_than_the_deadline() {
    let hangs = Arc::new(Scripted { says: Ok(on("23420")), asked: AtomicU32::new(0), gate: Some(Notify::new()) });
    let (alone, _) = lookup(Prefixes::Fallback, &[Arc::clone(&hangs)]);
    assert_eq!(alone.network_of(&number()).await, Err(Unavailable));
    let (helped, _) = lookup(Prefixes::Fallback, &[hangs, source(Ok(on("23430")))]);
    assert_eq!(helped.network_of(&number()).await, Ok(known("23430")));
}

#[tokio::test]
async fn what_was_asked_of_former_sources_is_not_remembered() {
    let former = Arc::new(Scripted { says: Ok(on("23420")), asked: AtomicU32::new(0), gate: Some(Notify::new()) });
    let (lookup, _) = lookup(Prefixes::Fallback, &[Arc::clone(&former)]);
    let number = number();
    let mut asked = lookup.look_up(&number);
    while former.asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    lookup.replace(Sources { sources: vec![source(Ok(on("23430")))], ..Sources::default() });
    if let Some(gate) = &former.gate {
        gate.notify_one();
    }
    assert_eq!(asked.wait_for(Option::is_some).await.unwrap().clone(), Some(Ok(known("23420"))));
    assert_eq!(lookup.network_of(&number).await, Ok(known("23430")));
}

/// One that nobody foresaw.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl NumberSource for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    async fn resolve(&self, _: &Msisdn) -> Result<Resolved, SourceFault> {
        panic!("a source that fails in a way of its own")
    }
}

#[tokio::test]
async fn a_look_up_that_breaks_leaves_nothing_behind() {
    let (lookup, _) = lookup(Prefixes::Fallback, &[]);
    lookup.replace(Sources { sources: vec![Arc::new(Broken)], ..Sources::default() });
    assert_eq!(lookup.network_of(&number()).await, Err(Unavailable));
    assert!(lookup.pending.lock().unwrap().is_empty());
}
