//! Number lookup: finds the network that serves a phone number. It queries external sources in order, and caches
//! results.
//!
//! [`PrefixPolicy`] decides whether the number's prefix is used before the sources, after them, or not at all. A source
//! that fails is skipped. The lookup fails only if a source failed and neither another source nor the prefix resolved
//! the number. If a result might have been different without the failure, it is not cached.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use quick_cache::sync::Cache;
use ringtrue_domain::{
    network::NetworkId,
    phone::{Country, Msisdn},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::task::TaskTracker;

use crate::{
    lookups::networks::Networks,
    ports::{
        clock::Clock,
        lookups::{LookupError, LookupResult, LookupSource},
    },
};

const POSITIVE_CACHE_TTL: SignedDuration = SignedDuration::from_hours(24);
const NEGATIVE_CACHE_TTL: SignedDuration = SignedDuration::from_mins(10);

/// How the number prefixes of the configured networks are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixPolicy {
    /// The prefix decides before any source is queried. For countries where numbers are never ported to another
    /// network.
    Final,
    /// The prefix decides only if no source resolves the number, because the number may have been ported.
    #[default]
    Fallback,
    /// Prefixes are ignored. A number that no source resolves is rejected.
    Never,
}

/// The sources of a deployment, in the order in which they are queried. A configuration reload replaces them as a
/// whole.
#[derive(Clone, Debug)]
pub struct LookupSources {
    pub prefixes: PrefixPolicy,
    pub sources: Vec<Arc<dyn LookupSource>>,
    /// Time limit for all sources together.
    pub deadline: Duration,
}

impl Default for LookupSources {
    fn default() -> Self {
        LookupSources { prefixes: PrefixPolicy::default(), sources: Vec::new(), deadline: Duration::from_secs(5) }
    }
}

/// Result of a number lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberResolution {
    /// A configured network, by its main id or another of its ids.
    Network(NetworkId),
    /// The number is in service on a network that is not configured.
    OtherNetwork(OtherNetwork),
    NoSubscriber,
    /// No source has data about the number.
    Unknown,
}

/// A network that is not configured, with what the source and the number reveal about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNetwork {
    /// `None`: the source knows that another network serves the number, but not the id of that network.
    pub id: Option<NetworkId>,
    /// `None` for numbers without a country, such as satellite phones.
    pub country: Option<Country>,
}

/// A source failed, and neither another source nor a prefix resolved the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("number lookup unavailable: a source failed, and no other source or prefix resolved the number")]
pub struct LookupUnavailable;

/// Source name in a [`SourceResult`] that comes from the prefixes of the configured networks.
const PREFIX_SOURCE_NAME: &str = "prefixes";

/// Report of a lookup without the cache: the result of each queried source, and what the number resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupReport {
    pub source_results: Vec<SourceResult>,
    pub resolution: Result<NumberResolution, LookupUnavailable>,
}

impl LookupReport {
    fn failed_sources(&self) -> impl Iterator<Item = &SourceResult> {
        self.source_results.iter().filter(|source| source.result.is_err())
    }

    /// Returns whether the network was taken from the number's prefix. The prefix is then the last queried source.
    fn is_by_prefix(&self) -> bool {
        let last = self.source_results.last().filter(|source| source.source == PREFIX_SOURCE_NAME);
        last.is_some_and(|source| matches!(source.result, Ok(LookupResult::Network(_))))
    }

    /// Returns whether the resolution may be cached. A network id or "no subscriber" from a source is final. Other
    /// results could be different once a failed source is back, so they are cached only if no source failed.
    fn is_cacheable(&self) -> bool {
        let by_source = match &self.resolution {
            Ok(NumberResolution::Network(_)) => !self.is_by_prefix(),
            Ok(NumberResolution::OtherNetwork(network)) => network.id.is_some(),
            Ok(NumberResolution::NoSubscriber) => true,
            Ok(NumberResolution::Unknown) => false,
            Err(LookupUnavailable) => return false,
        };
        by_source || self.failed_sources().next().is_none()
    }

    /// Explains why the network was taken from the number's prefix. `None`: the prefix was not used.
    pub fn prefix_note(&self) -> Option<String> {
        if !self.is_by_prefix() {
            return None;
        }
        let failed: Vec<&str> = self.failed_sources().map(|source| source.source.as_str()).collect();
        Some(if !failed.is_empty() {
            let failed = failed.join(", ");
            format!("network taken from the number's prefix: no source returned one; failed: {failed}")
        } else if self.source_results.len() > 1 {
            "network taken from the number's prefix: no source has data about the number".to_owned()
        } else {
            "network taken from the number's prefix: no source was queried".to_owned()
        })
    }
}

/// Result of one source, or of the prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceResult {
    pub source: String,
    pub result: Result<LookupResult, LookupError>,
}

impl SourceResult {
    pub fn describe(&self) -> String {
        match &self.result {
            Ok(LookupResult::Network(network)) => network.to_string(),
            Ok(LookupResult::NoSubscriber) => "no active subscriber".to_owned(),
            Ok(LookupResult::OtherNetwork) => "a network that is not configured".to_owned(),
            Ok(LookupResult::NoData) => "no data".to_owned(),
            Err(error) => format!("failed: {error}"),
        }
    }
}

type ResolutionResult = Result<NumberResolution, LookupUnavailable>;
/// Receives the result of a running lookup. The channel contains `None` until the lookup ends.
type PendingLookup = watch::Receiver<Option<ResolutionResult>>;

#[derive(derive_more::Debug)]
#[debug("NumberLookup({:?})", self.sources.load())]
pub struct NumberLookup {
    networks: Arc<Networks>,
    clock: Arc<dyn Clock>,
    sources: ArcSwap<LookupSources>,
    cache: Cache<Msisdn, (NumberResolution, Timestamp)>,
    /// Running lookups. Concurrent requests for the same number share one lookup.
    pending: Mutex<HashMap<Msisdn, PendingLookup>>,
    /// Tasks of running lookups. Shutdown does not wait for them: each request waits for its own lookup, and a lookup
    /// for which no request waits ends at its deadline.
    tasks: TaskTracker,
}

impl NumberLookup {
    pub fn new(networks: Arc<Networks>, clock: Arc<dyn Clock>, cached: usize) -> Arc<Self> {
        Arc::new(NumberLookup {
            networks,
            clock,
            sources: ArcSwap::default(),
            cache: Cache::new(cached),
            pending: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    pub fn replace(&self, sources: LookupSources) {
        self.sources.store(Arc::new(sources));
        // Results of the old sources must neither be cached nor given to new requests.
        self.pending().clear();
        self.cache.clear();
    }

    /// Finds the network that serves a number.
    pub async fn look_up(self: &Arc<Self>, number: &Msisdn) -> ResolutionResult {
        let sources = self.sources.load();
        if is_prefix_first(&sources) {
            if let Some(network) = self.network_by_prefix(number) {
                return Ok(NumberResolution::Network(network));
            }
            if sources.sources.is_empty() {
                return Ok(NumberResolution::Unknown);
            }
        }
        if let Some((resolution, until)) = self.cache.get(number)
            && self.clock.now() < until
        {
            return Ok(resolution);
        }
        drop(sources);
        let mut result = self.join_or_start(number);
        let result = result.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        // There is no result only if the task panicked.
        result.unwrap_or(Err(LookupUnavailable))
    }

    /// Returns the cached resolution of a number. `text` may be any text, because only valid numbers are in the cache.
    /// `None`: the number is not cached, or the number's prefix takes precedence over the cache.
    pub(crate) fn cached(&self, text: &str) -> Option<NumberResolution> {
        let sources = self.sources.load();
        if is_prefix_first(&sources) {
            return None;
        }
        let (resolution, until) = self.cache.get(text)?;
        (self.clock.now() < until).then_some(resolution)
    }

    /// Joins the running lookup of a number, or starts one. The lookup continues even if all waiting requests are
    /// dropped.
    fn join_or_start(self: &Arc<Self>, number: &Msisdn) -> PendingLookup {
        let mut pending = self.pending();
        if let Some(running) = pending.get(number) {
            return running.clone();
        }
        let (sender, waiting) = watch::channel(None);
        pending.insert(number.clone(), waiting.clone());
        let guard = PendingLookupGuard { lookup: Arc::clone(self), number: number.clone(), waiting: waiting.clone() };
        self.tasks.spawn(async move {
            let report = guard.lookup.look_up_uncached(&guard.number).await;
            guard.finish(report.resolution.as_ref().ok().filter(|_| report.is_cacheable()));
            sender.send_replace(Some(report.resolution));
        });
        waiting
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Msisdn, PendingLookup>> {
        self.pending.lock()
    }

    fn cache_resolution(&self, number: &Msisdn, resolution: NumberResolution) {
        let ttl = match resolution {
            NumberResolution::Network(_) | NumberResolution::OtherNetwork(_) => POSITIVE_CACHE_TTL,
            NumberResolution::NoSubscriber | NumberResolution::Unknown => NEGATIVE_CACHE_TTL,
        };
        let until = self.clock.now().saturating_add(ttl).unwrap_or(Timestamp::MAX);
        self.cache.insert(number.clone(), (resolution, until));
    }

    /// Queries the sources in order, without the cache.
    pub async fn look_up_uncached(&self, number: &Msisdn) -> LookupReport {
        let sources = self.sources.load_full();
        let prefix_table = || SourceResult {
            source: PREFIX_SOURCE_NAME.to_owned(),
            result: Ok(self.network_by_prefix(number).map_or(LookupResult::NoData, LookupResult::Network)),
        };
        let mut source_results = Vec::new();
        if sources.prefixes == PrefixPolicy::Final {
            let prefix = prefix_table();
            let resolution = self.decisive_resolution(&prefix, number);
            source_results.push(prefix);
            if let Some(resolution) = resolution {
                return LookupReport { source_results, resolution: Ok(resolution) };
            }
        }
        let deadline = Instant::now() + sources.deadline;
        for (index, source) in sources.sources.iter().enumerate() {
            // Divides the remaining time equally, so that a hanging source leaves time for the sources after it.
            let left = u32::try_from(sources.sources.len() - index).unwrap_or(u32::MAX);
            let now = Instant::now();
            let until = now + deadline.saturating_duration_since(now) / left;
            let result = timeout_at(until, source.resolve(number)).await.unwrap_or(Err(LookupError::Timeout));
            if let Err(error) = result {
                tracing::warn!(source = source.name(), %error, "number lookup source failed; trying the next one");
            }
            let source_result = SourceResult { source: source.name().to_owned(), result };
            let resolution = self.decisive_resolution(&source_result, number);
            source_results.push(source_result);
            if let Some(resolution) = resolution {
                return LookupReport { source_results, resolution: Ok(resolution) };
            }
        }
        // A source has reported that the number is served by a network that is not configured. The prefix would name a
        // configured one, so it is not used.
        if source_results.iter().any(|source| source.result == Ok(LookupResult::OtherNetwork)) {
            let other = OtherNetwork { id: None, country: number.country() };
            return LookupReport { source_results, resolution: Ok(NumberResolution::OtherNetwork(other)) };
        }
        if sources.prefixes == PrefixPolicy::Fallback {
            let prefix = prefix_table();
            let resolution = self.decisive_resolution(&prefix, number);
            source_results.push(prefix);
            if let Some(resolution) = resolution {
                return LookupReport { source_results, resolution: Ok(resolution) };
            }
        }
        let has_failed = source_results.iter().any(|source| source.result.is_err());
        LookupReport {
            source_results,
            resolution: if has_failed { Err(LookupUnavailable) } else { Ok(NumberResolution::Unknown) },
        }
    }

    /// Returns the resolution if the result of this source decides it. `None`: the next source is queried. This
    /// includes the case that the source knows only that another network serves the number, because the next source may
    /// know that network's id.
    fn decisive_resolution(&self, source: &SourceResult, number: &Msisdn) -> Option<NumberResolution> {
        match &source.result {
            Ok(LookupResult::Network(id)) if self.networks.directory().find_by_any_id(id).is_some() => {
                Some(NumberResolution::Network(id.clone()))
            }
            Ok(LookupResult::Network(id)) => {
                Some(NumberResolution::OtherNetwork(OtherNetwork { id: Some(id.clone()), country: number.country() }))
            }
            Ok(LookupResult::NoSubscriber) => Some(NumberResolution::NoSubscriber),
            Ok(LookupResult::OtherNetwork | LookupResult::NoData) | Err(_) => None,
        }
    }

    fn network_by_prefix(&self, number: &Msisdn) -> Option<NetworkId> {
        self.networks.directory().find_by_prefix(number).map(|network| network.id.clone())
    }
}

/// Returns whether the number's prefix is used before the sources and their cache.
fn is_prefix_first(sources: &LookupSources) -> bool {
    match sources.prefixes {
        PrefixPolicy::Final => true,
        PrefixPolicy::Fallback => sources.sources.is_empty(),
        PrefixPolicy::Never => false,
    }
}

/// Removes a running lookup from `NumberLookup::pending` on drop, also if its task panics.
struct PendingLookupGuard {
    lookup: Arc<NumberLookup>,
    number: Msisdn,
    waiting: PendingLookup,
}

impl PendingLookupGuard {
    /// Removes the running lookup and caches its resolution. Does nothing if the sources were replaced meanwhile.
    fn finish(&self, resolution: Option<&NumberResolution>) {
        let mut pending = self.lookup.pending();
        if pending.get(&self.number).is_some_and(|running| running.same_channel(&self.waiting)) {
            pending.remove(&self.number);
            if let Some(resolution) = resolution {
                self.lookup.cache_resolution(&self.number, resolution.clone());
            }
        }
    }
}

impl Drop for PendingLookupGuard {
    fn drop(&mut self) {
        self.finish(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use futures_util::{FutureExt, future::join_all};
    use ringtrue_domain::{
        network::{Network, NetworkDirectory},
        tenancy::Mode,
    };
    use tokio::sync::Notify;

    use super::*;
    use crate::ports::clock::ManualClock;

    #[derive(Debug)]
    struct ScriptedSource {
        response: Result<LookupResult, LookupError>,
        queries: AtomicU32,
        /// If set, the source responds only once it is notified.
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

    /// A source that responds with a network once it is notified.
    fn gated_source(id: &str) -> Arc<ScriptedSource> {
        Arc::new(ScriptedSource { response: Ok(on(id)), queries: AtomicU32::new(0), gate: Some(Notify::new()) })
    }

    fn on(id: &str) -> LookupResult {
        LookupResult::Network(id.parse().unwrap())
    }

    /// Creates a lookup with three configured networks, one of which has a prefix.
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
        let slow = gated_source("23420");
        let (lookup, _) = lookup(PrefixPolicy::Fallback, &[Arc::clone(&slow)]);
        let number = number();
        // The lookup continues after a waiting request is dropped.
        let dropped = lookup.look_up(&number).now_or_never();
        assert_eq!(dropped, None);
        let requests = join_all((0..100).map(|_| lookup.look_up(&number)));
        if let Some(gate) = &slow.gate {
            gate.notify_one();
        }
        assert!(requests.await.into_iter().all(|result| result == Ok(known("23420"))));
        assert_eq!(slow.queries.load(Ordering::Relaxed), 1);
        assert!(lookup.pending.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_source_is_bounded_by_the_deadline() {
        let hangs = gated_source("23420");
        let (alone, _) = lookup(PrefixPolicy::Never, &[Arc::clone(&hangs)]);
        assert_eq!(alone.look_up(&number()).await, Err(LookupUnavailable));
        let (helped, _) = lookup(PrefixPolicy::Fallback, &[hangs, source(Ok(on("23430")))]);
        assert_eq!(helped.look_up(&number()).await, Ok(known("23430")));
    }

    #[tokio::test]
    async fn results_of_replaced_sources_are_not_cached() {
        let former = gated_source("23420");
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
        assert!(lookup.pending.lock().is_empty());
    }
}
