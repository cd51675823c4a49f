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

/// Three networks are configured; one of them has a prefix.
fn lookup(prefixes: Prefixes, sources: &[Arc<Scripted>]) -> (Arc<NumberLookup>, Arc<ManualClock>) {
    let networks = Arc::new(Networks::default());
    let network = |(id, prefixes): (&str, &[&str])| Network {
        id: id.parse().unwrap(),
        name: id.to_owned(),
        aliases: vec![],
        country: "GB".parse().unwrap(),
        prefixes: prefixes.iter().map(ToString::to_string).collect(),
        receivers: vec![],
    };
    let configured: [(&str, &[&str]); 3] = [("23410", &["4477"]), ("23420", &[]), ("23430", &[])];
    networks.replace(NetworkDirectory::new(configured.map(network).into(), vec![], vec![]).unwrap());
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

fn other(id: Option<&str>) -> Known {
    let country = Some("GB".parse().unwrap());
    Known::OtherNetwork(OtherNetwork { id: id.map(|id| id.parse().unwrap()), country })
}

#[tokio::test]
async fn a_source_with_an_answer_decides_and_else_the_prefix() {
    use Prefixes::{Fallback, Final, Never};
    use SourceFault::{Nonsense, Refused, Timeout};
    let nothing = || Ok(Resolved::NoData);
    let unnamed = || Ok(Resolved::OtherNetwork);
    for (prefixes, says, answer) in [
        (Fallback, vec![], Ok(known("23410"))),
        (Fallback, vec![Ok(on("23420"))], Ok(known("23420"))),
        (Final, vec![Ok(on("23420"))], Ok(known("23410"))),
        (Never, vec![Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![nothing()], Ok(known("23410"))),
        (Never, vec![nothing()], Ok(Known::Nobody)),
        (Fallback, vec![Ok(on("26201"))], Ok(other(Some("26201")))),
        (Fallback, vec![unnamed(), nothing()], Ok(other(None))),
        (Fallback, vec![unnamed(), Ok(on("26201"))], Ok(other(Some("26201")))),
        (Fallback, vec![unnamed(), Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![Ok(Resolved::NoSubscriber), Ok(on("23420"))], Ok(Known::NoSubscriber)),
        // A failed source counts only where nobody has an answer.
        (Fallback, vec![Err(Timeout), nothing(), Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![Err(Timeout), unnamed()], Ok(other(None))),
        (Fallback, vec![Err(Timeout), nothing()], Ok(known("23410"))),
        (Fallback, vec![Err(Nonsense), Err(Refused)], Ok(known("23410"))),
        (Never, vec![Err(Nonsense), nothing()], Err(Unavailable)),
    ] {
        let sources: Vec<_> = says.iter().cloned().map(source).collect();
        let (lookup, _) = lookup(prefixes, &sources);
        assert_eq!(lookup.network_of(&number()).await, answer, "{prefixes:?} {says:?}");
    }
    let foreign = Msisdn::parse("+4915112345678", Mode::Live).unwrap();
    for (prefixes, says, answer) in [
        (Final, nothing(), Ok(Known::Nobody)),
        (Final, Err(Timeout), Err(Unavailable)),
        (Fallback, Err(Timeout), Err(Unavailable)),
    ] {
        let (lookup, _) = lookup(prefixes, &[source(says)]);
        assert_eq!(lookup.network_of(&foreign).await, answer, "{prefixes:?}");
    }
}

#[tokio::test]
async fn reports_say_that_a_prefix_was_believed() {
    let nothing = || source(Ok(Resolved::NoData));
    for (prefixes, sources, note) in [
        (Prefixes::Final, vec![nothing()], Some("no source was asked")),
        (Prefixes::Fallback, vec![nothing()], Some("no source knows the number")),
        (Prefixes::Fallback, vec![nothing(), source(Err(SourceFault::Timeout))], Some("failed: scripted")),
        (Prefixes::Fallback, vec![source(Ok(on("23410")))], None),
    ] {
        let (lookup, _) = lookup(prefixes, &sources);
        let said = lookup.ask(&number()).await.prefix_note();
        assert_eq!(said.is_some(), note.is_some(), "{said:?}");
        assert!(said.unwrap_or_default().ends_with(note.unwrap_or_default()), "{note:?}");
    }
}

#[tokio::test]
async fn answers_are_remembered_and_faults_are_not() {
    for (says, minutes, times) in [
        (Ok(on("23420")), 24 * 60 - 1, 1),
        (Ok(on("23420")), 24 * 60, 2),
        (Ok(on("26201")), 24 * 60 - 1, 1),
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
    let (alone, _) = lookup(Prefixes::Never, &[Arc::clone(&hangs)]);
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
    let (lookup, _) = lookup(Prefixes::Never, &[]);
    lookup.replace(Sources { sources: vec![Arc::new(Broken)], ..Sources::default() });
    assert_eq!(lookup.network_of(&number()).await, Err(Unavailable));
    assert!(lookup.pending.lock().unwrap().is_empty());
}
