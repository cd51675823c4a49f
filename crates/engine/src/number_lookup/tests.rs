//! Order of sources, prefix policies, caching and shared look-ups.

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
struct ScriptedSource {
    response: Result<LookupResult, LookupError>,
    queries: AtomicU32,
    /// Blocks the response until notified.
    gate: Option<Notify>,
}

#[async_trait]
impl LookupSource for ScriptedSource {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn resolve(&self, _: &Msisdn) -> Result<LookupResult, LookupError> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        self.response.clone()
    }
}

fn source(response: Result<LookupResult, LookupError>) -> Arc<ScriptedSource> {
    Arc::new(ScriptedSource { response, queries: AtomicU32::new(0), gate: None })
}

fn on(id: &str) -> LookupResult {
    LookupResult::Network(id.parse().unwrap())
}

/// Three networks are configured; one of them has a prefix.
fn lookup(prefixes: PrefixPolicy, sources: &[Arc<ScriptedSource>]) -> (Arc<NumberLookup>, Arc<ManualClock>) {
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
    lookup.replace(LookupSources { prefixes, sources, ..LookupSources::default() });
    (lookup, clock)
}

fn number() -> Msisdn {
    Msisdn::parse("+447700900123", Mode::Live).unwrap()
}

fn known(id: &str) -> NumberResolution {
    NumberResolution::Network(id.parse().unwrap())
}

fn other(id: Option<&str>) -> NumberResolution {
    let country = Some("GB".parse().unwrap());
    NumberResolution::OtherNetwork(OtherNetwork { id: id.map(|id| id.parse().unwrap()), country })
}

#[tokio::test]
async fn sources_decide_before_prefixes() {
    use LookupError::{InvalidResponse, Refused, Timeout};
    use PrefixPolicy::{Fallback, Final, Never};
    let nothing = || Ok(LookupResult::NoData);
    let unnamed = || Ok(LookupResult::OtherNetwork);
    for (prefixes, response, expected) in [
        (Fallback, vec![], Ok(known("23410"))),
        (Fallback, vec![Ok(on("23420"))], Ok(known("23420"))),
        (Final, vec![Ok(on("23420"))], Ok(known("23410"))),
        (Never, vec![Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![nothing()], Ok(known("23410"))),
        (Never, vec![nothing()], Ok(NumberResolution::Unknown)),
        (Fallback, vec![Ok(on("26201"))], Ok(other(Some("26201")))),
        (Fallback, vec![unnamed(), nothing()], Ok(other(None))),
        (Fallback, vec![unnamed(), Ok(on("26201"))], Ok(other(Some("26201")))),
        (Fallback, vec![unnamed(), Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![Ok(LookupResult::NoSubscriber), Ok(on("23420"))], Ok(NumberResolution::NoSubscriber)),
        // A failed source matters only if nothing else resolves the number.
        (Fallback, vec![Err(Timeout), nothing(), Ok(on("23420"))], Ok(known("23420"))),
        (Fallback, vec![Err(Timeout), unnamed()], Ok(other(None))),
        (Fallback, vec![Err(Timeout), nothing()], Ok(known("23410"))),
        (Fallback, vec![Err(InvalidResponse), Err(Refused)], Ok(known("23410"))),
        (Never, vec![Err(InvalidResponse), nothing()], Err(LookupUnavailable)),
    ] {
        let sources: Vec<_> = response.iter().cloned().map(source).collect();
        let (lookup, _) = lookup(prefixes, &sources);
        assert_eq!(lookup.look_up(&number()).await, expected, "{prefixes:?} {response:?}");
    }
    let foreign = Msisdn::parse("+4915112345678", Mode::Live).unwrap();
    for (prefixes, response, expected) in [
        (Final, nothing(), Ok(NumberResolution::Unknown)),
        (Final, Err(Timeout), Err(LookupUnavailable)),
        (Fallback, Err(Timeout), Err(LookupUnavailable)),
    ] {
        let (lookup, _) = lookup(prefixes, &[source(response)]);
        assert_eq!(lookup.look_up(&foreign).await, expected, "{prefixes:?}");
    }
}

#[tokio::test]
async fn report_notes_resolution_by_prefix() {
    let nothing = || source(Ok(LookupResult::NoData));
    for (prefixes, sources, note) in [
        (PrefixPolicy::Final, vec![nothing()], Some("no source was queried")),
        (PrefixPolicy::Fallback, vec![nothing()], Some("no source has data about the number")),
        (PrefixPolicy::Fallback, vec![nothing(), source(Err(LookupError::Timeout))], Some("failed: scripted")),
        (PrefixPolicy::Fallback, vec![source(Ok(on("23410")))], None),
    ] {
        let (lookup, _) = lookup(prefixes, &sources);
        let actual = lookup.look_up_uncached(&number()).await.prefix_note();
        assert_eq!(actual.is_some(), note.is_some(), "{actual:?}");
        assert!(actual.unwrap_or_default().ends_with(note.unwrap_or_default()), "{note:?}");
    }
}

#[tokio::test]
async fn results_are_cached_and_errors_are_not() {
    for (response, minutes, times) in [
        (Ok(on("23420")), 24 * 60 - 1, 1),
        (Ok(on("23420")), 24 * 60, 2),
        (Ok(on("26201")), 24 * 60 - 1, 1),
        (Ok(LookupResult::NoSubscriber), 9, 1),
        (Ok(LookupResult::NoSubscriber), 10, 2),
        (Err(LookupError::Timeout), 0, 2),
    ] {
        let source = source(response);
        let (lookup, clock) = lookup(PrefixPolicy::Fallback, &[Arc::clone(&source)]);
        let first = lookup.look_up(&number()).await;
        clock.advance(SignedDuration::from_mins(minutes));
        assert_eq!(lookup.look_up(&number()).await, first);
        assert_eq!(source.queries.load(Ordering::Relaxed), times, "{first:?} after {minutes}");
    }
}

#[tokio::test]
async fn concurrent_requests_share_one_look_up() {
    let slow =
        Arc::new(ScriptedSource { response: Ok(on("23420")), queries: AtomicU32::new(0), gate: Some(Notify::new()) });
    let (lookup, _) = lookup(PrefixPolicy::Fallback, &[Arc::clone(&slow)]);
    let number = number();
    // The look-up continues after a waiting request is dropped.
    let dropped = lookup.look_up(&number).now_or_never();
    assert_eq!(dropped, None);
    let requests = join_all((0..100).map(|_| lookup.look_up(&number)));
    if let Some(gate) = &slow.gate {
        gate.notify_one();
    }
    assert!(requests.await.into_iter().all(|result| result == Ok(known("23420"))));
    assert_eq!(slow.queries.load(Ordering::Relaxed), 1);
    assert!(lookup.pending.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn hanging_source_is_bounded_by_the_deadline() {
    let hangs =
        Arc::new(ScriptedSource { response: Ok(on("23420")), queries: AtomicU32::new(0), gate: Some(Notify::new()) });
    let (alone, _) = lookup(PrefixPolicy::Never, &[Arc::clone(&hangs)]);
    assert_eq!(alone.look_up(&number()).await, Err(LookupUnavailable));
    let (helped, _) = lookup(PrefixPolicy::Fallback, &[hangs, source(Ok(on("23430")))]);
    assert_eq!(helped.look_up(&number()).await, Ok(known("23430")));
}

#[tokio::test]
async fn results_of_replaced_sources_are_not_cached() {
    let former =
        Arc::new(ScriptedSource { response: Ok(on("23420")), queries: AtomicU32::new(0), gate: Some(Notify::new()) });
    let (lookup, _) = lookup(PrefixPolicy::Fallback, &[Arc::clone(&former)]);
    let number = number();
    let mut queries = lookup.join_or_start(&number);
    while former.queries.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    lookup.replace(LookupSources { sources: vec![source(Ok(on("23430")))], ..LookupSources::default() });
    if let Some(gate) = &former.gate {
        gate.notify_one();
    }
    assert_eq!(queries.wait_for(Option::is_some).await.unwrap().clone(), Some(Ok(known("23420"))));
    assert_eq!(lookup.look_up(&number).await, Ok(known("23430")));
}

/// A source that panics.
#[derive(Debug)]
struct PanickingSource;

#[async_trait]
impl LookupSource for PanickingSource {
    fn name(&self) -> &'static str {
        "broken"
    }

    async fn resolve(&self, _: &Msisdn) -> Result<LookupResult, LookupError> {
        panic!("source panic")
    }
}

#[tokio::test]
async fn panicking_look_up_is_removed() {
    let (lookup, _) = lookup(PrefixPolicy::Never, &[]);
    lookup.replace(LookupSources { sources: vec![Arc::new(PanickingSource)], ..LookupSources::default() });
    assert_eq!(lookup.look_up(&number()).await, Err(LookupUnavailable));
    assert!(lookup.pending.lock().unwrap().is_empty());
}
