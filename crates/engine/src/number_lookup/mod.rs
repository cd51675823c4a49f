//! Number look-up: resolves a number to its serving network, by an ordered list of sources and a cache.
//!
//! [`PrefixPolicy`] decides how the configured prefixes take part. A failing source is skipped. The look-up is
//! unavailable only when a source failed and neither another source nor a prefix resolved the number. A result that a
//! failed source could have changed is not cached.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
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
    networks::Networks,
    ports::{Clock, LookupError, LookupResult, LookupSource},
};

const POSITIVE_CACHE_TTL: SignedDuration = SignedDuration::from_hours(24);
const NEGATIVE_CACHE_TTL: SignedDuration = SignedDuration::from_mins(10);

/// Use of the configured number prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefixPolicy {
    /// Numbers are never ported: the prefix decides.
    Final,
    /// Numbers may be ported: the prefix decides when no source resolves the number.
    #[default]
    Fallback,
    /// Prefixes are ignored: a number that no source resolves is rejected.
    Never,
}

/// Ordered sources of a deployment. A configuration reload replaces them as a whole.
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

/// Result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberResolution {
    /// A configured network, by its id or an alias.
    Network(NetworkId),
    /// The number is in service on a network that is not configured.
    OtherNetwork(OtherNetwork),
    NoSubscriber,
    /// No source has data about the number.
    Unknown,
}

/// A network that is not configured, as far as the source and the number describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNetwork {
    /// `None`: the source named an operator without a resolution network id.
    pub id: Option<NetworkId>,
    /// `None` for numbers without a country, such as satellite phones.
    pub country: Option<Country>,
}

/// A source failed, and neither another source nor a prefix resolved the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("number look-up unavailable: a source failed, and no other source or prefix resolved the number")]
pub struct LookupUnavailable;

/// The name under which [`SourceResult`] lists the prefix table.
const PREFIX_TABLE: &str = "prefixes";

/// Report of an uncached look-up: the result of each queried source, and the resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupReport {
    pub source_results: Vec<SourceResult>,
    pub resolution: Result<NumberResolution, LookupUnavailable>,
}

impl LookupReport {
    fn failed(&self) -> impl Iterator<Item = &SourceResult> {
        self.source_results.iter().filter(|source| source.result.is_err())
    }

    /// The network comes from the prefix table, which is then the last source.
    fn is_by_prefix(&self) -> bool {
        let last = self.source_results.last().filter(|source| source.source == PREFIX_TABLE);
        last.is_some_and(|source| matches!(source.result, Ok(LookupResult::Network(_))))
    }

    /// A source's positive result is final; anything else may change once a failed source is back.
    fn is_cacheable(&self) -> bool {
        let by_source = match &self.resolution {
            Ok(NumberResolution::Network(_)) => !self.is_by_prefix(),
            Ok(NumberResolution::OtherNetwork(network)) => network.id.is_some(),
            Ok(NumberResolution::NoSubscriber) => true,
            Ok(NumberResolution::Unknown) => false,
            Err(LookupUnavailable) => return false,
        };
        by_source || self.failed().next().is_none()
    }

    /// Explains why the network was taken from the prefix, if it was.
    pub fn prefix_note(&self) -> Option<String> {
        if !self.is_by_prefix() {
            return None;
        }
        let failed: Vec<&str> = self.failed().map(|source| source.source.as_str()).collect();
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

/// Result of one source.
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
/// Receives the result of a running look-up.
type PendingLookup = watch::Receiver<Option<ResolutionResult>>;

pub struct NumberLookup {
    networks: Arc<Networks>,
    clock: Arc<dyn Clock>,
    sources: ArcSwap<LookupSources>,
    cache: Cache<Msisdn, (NumberResolution, Timestamp)>,
    /// Running look-ups. Concurrent requests for a number share one.
    pending: Mutex<HashMap<Msisdn, PendingLookup>>,
    /// Shutdown does not wait for them: requests wait for their own result, and the deadline ends the rest.
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
        // Results of the old sources must neither be cached nor joined.
        self.pending().clear();
        self.cache.clear();
    }

    /// Resolves a number to its serving network.
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
        // The task panicked.
        result.unwrap_or(Err(LookupUnavailable))
    }

    /// The cached resolution, by unparsed text: only valid numbers are cached. `None` where prefixes come first.
    pub(crate) fn cached(&self, text: &str) -> Option<NumberResolution> {
        let sources = self.sources.load();
        if is_prefix_first(&sources) {
            return None;
        }
        let (resolution, until) = self.cache.get(text)?;
        (self.clock.now() < until).then_some(resolution)
    }

    /// Joins the running look-up or starts one, which continues even if all waiting requests are dropped.
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
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_resolution(&self, number: &Msisdn, resolution: NumberResolution) {
        let ttl = match resolution {
            NumberResolution::Network(_) | NumberResolution::OtherNetwork(_) => POSITIVE_CACHE_TTL,
            NumberResolution::NoSubscriber | NumberResolution::Unknown => NEGATIVE_CACHE_TTL,
        };
        let until = self.clock.now().saturating_add(ttl).unwrap_or(Timestamp::MAX);
        self.cache.insert(number.clone(), (resolution, until));
    }

    /// Queries the sources in order, bypassing the cache.
    pub async fn look_up_uncached(&self, number: &Msisdn) -> LookupReport {
        let sources = self.sources.load_full();
        let prefix_table = || SourceResult {
            source: PREFIX_TABLE.to_owned(),
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
            // A hanging source leaves the remaining sources their share of the time.
            let left = u32::try_from(sources.sources.len() - index).unwrap_or(u32::MAX);
            let now = Instant::now();
            let until = now + deadline.saturating_duration_since(now) / left;
            let result = timeout_at(until, source.resolve(number)).await.unwrap_or(Err(LookupError::Timeout));
            if let Err(error) = result {
                tracing::warn!(source = source.name(), %error, "number look-up source failed; trying the next one");
            }
            let source_result = SourceResult { source: source.name().to_owned(), result };
            let resolution = self.decisive_resolution(&source_result, number);
            source_results.push(source_result);
            if let Some(resolution) = resolution {
                return LookupReport { source_results, resolution: Ok(resolution) };
            }
        }
        // The number is served by another network than its prefix suggests.
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

    /// The resolution, if this source decides it. A network without an id may still get one from another source.
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

/// The prefix table comes before the sources and their cache.
fn is_prefix_first(sources: &LookupSources) -> bool {
    match sources.prefixes {
        PrefixPolicy::Final => true,
        PrefixPolicy::Fallback => sources.sources.is_empty(),
        PrefixPolicy::Never => false,
    }
}

/// Removes a look-up from the running ones on drop.
struct PendingLookupGuard {
    lookup: Arc<NumberLookup>,
    number: Msisdn,
    waiting: PendingLookup,
}

impl PendingLookupGuard {
    /// Caches the resolution, unless the sources were replaced meanwhile.
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

impl fmt::Debug for NumberLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumberLookup").field("sources", &self.sources.load()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
