//! Which network serves a number: sources in a row, and a cache of what they said.
//!
//! The deployment's own prefixes are final where numbers cannot be ported, and otherwise the fallback when no source
//! has an answer, unless they are switched off. A source that fails is skipped. The look-up is unavailable only when
//! some source failed and neither another source nor a prefix has an answer. An answer that a failed source might have
//! changed is not cached.

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
    ports::{Clock, NumberSource, Resolved, SourceFault},
};

const KNOWN_FOR: SignedDuration = SignedDuration::from_hours(24);
const UNKNOWN_FOR: SignedDuration = SignedDuration::from_mins(10);

/// What the prefixes in the configuration are good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefixes {
    /// Numbers stay where they were given out: the prefix says it all.
    Final,
    /// Numbers are ported: the prefix is believed when no source knows better.
    #[default]
    Fallback,
    /// Only sources decide: a number that none of them can place is refused.
    Never,
}

/// The sources of a deployment, in their order. Replaced as a whole when the configuration is read anew.
#[derive(Clone, Debug)]
pub struct Sources {
    pub prefixes: Prefixes,
    pub sources: Vec<Arc<dyn NumberSource>>,
    /// How long all of them together may take.
    pub deadline: Duration,
}

impl Default for Sources {
    fn default() -> Self {
        Sources { prefixes: Prefixes::default(), sources: Vec::new(), deadline: Duration::from_secs(5) }
    }
}

/// What became of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// A network of this deployment, by its id or by one of its other ids.
    Network(NetworkId),
    /// The number is in service on a network that is not configured here.
    OtherNetwork(OtherNetwork),
    NoSubscriber,
    /// Every source was asked, and none knows the number.
    Nobody,
}

/// A network that is not configured here, as far as the source and the number describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNetwork {
    /// `None`: the source names an operator that none of its tables maps to a network id.
    pub id: Option<NetworkId>,
    /// The number's country. `None` for numbers of no country, such as those of satellite phones.
    pub country: Option<Country>,
}

/// Some source failed, and neither another source nor a prefix has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a source failed, and neither another source nor a prefix knows the number's network")]
pub struct Unavailable;

/// The name under which [`Asked`] lists the prefix table.
const PREFIX_TABLE: &str = "prefixes";

/// An uncached look-up: every source that was asked, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupReport {
    pub asked: Vec<Asked>,
    pub answer: Result<Known, Unavailable>,
}

impl LookupReport {
    fn failed(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(|asked| asked.said.is_err())
    }

    /// Whether the network is the one that the number's prefix belongs to. The prefix table is last then.
    fn is_by_prefix(&self) -> bool {
        let last = self.asked.last().filter(|asked| asked.source == PREFIX_TABLE);
        last.is_some_and(|asked| matches!(asked.said, Ok(Resolved::Network(_))))
    }

    /// A source's own answer holds whatever other sources would have said; any other one only if all were asked.
    fn is_cacheable(&self) -> bool {
        let by_source = match &self.answer {
            Ok(Known::Network(_)) => !self.is_by_prefix(),
            Ok(Known::OtherNetwork(network)) => network.id.is_some(),
            Ok(Known::NoSubscriber) => true,
            Ok(Known::Nobody) => false,
            Err(Unavailable) => return false,
        };
        by_source || self.failed().next().is_none()
    }

    /// Says that the network follows from the prefix alone, and why.
    pub fn prefix_note(&self) -> Option<String> {
        if !self.is_by_prefix() {
            return None;
        }
        let failed: Vec<&str> = self.failed().map(|asked| asked.source.as_str()).collect();
        Some(if !failed.is_empty() {
            let failed = failed.join(", ");
            format!("the network is taken from the number's prefix, because no source named one; failed: {failed}")
        } else if self.asked.len() > 1 {
            "the network is taken from the number's prefix, because no source knows the number".to_owned()
        } else {
            "the network is taken from the number's prefix; no source was asked".to_owned()
        })
    }
}

/// What one source said, for whoever wants to know why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub source: String,
    pub said: Result<Resolved, SourceFault>,
}

impl Asked {
    /// What it said, for people.
    pub fn in_words(&self) -> String {
        match &self.said {
            Ok(Resolved::Network(network)) => network.to_string(),
            Ok(Resolved::NoSubscriber) => "nobody has this number".to_owned(),
            Ok(Resolved::OtherNetwork) => "a network that is not configured here".to_owned(),
            Ok(Resolved::NoData) => "nothing known".to_owned(),
            Err(fault) => format!("failed: {fault}"),
        }
    }
}

type Answer = Result<Known, Unavailable>;
/// Where the answer of a look-up under way will be.
type Pending = watch::Receiver<Option<Answer>>;

pub struct NumberLookup {
    networks: Arc<Networks>,
    clock: Arc<dyn Clock>,
    sources: ArcSwap<Sources>,
    cache: Cache<Msisdn, (Known, Timestamp)>,
    /// One look-up at a time for each number: who comes meanwhile waits for the same answer.
    pending: Mutex<HashMap<Msisdn, Pending>>,
    /// Nobody waits for them at the end: whoever needs an answer does, and the deadline ends the rest.
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

    pub fn replace(&self, sources: Sources) {
        self.sources.store(Arc::new(sources));
        // Another source may know better. What is under way is not remembered any more, and nobody new waits for it.
        self.pending().clear();
        self.cache.clear();
    }

    /// The network that serves a number now.
    pub async fn network_of(self: &Arc<Self>, number: &Msisdn) -> Answer {
        let sources = self.sources.load();
        if decides_by_prefix(&sources) {
            if let Some(network) = self.by_prefix(number) {
                return Ok(Known::Network(network));
            }
            if sources.sources.is_empty() {
                return Ok(Known::Nobody);
            }
        }
        if let Some((known, until)) = self.cache.get(number)
            && self.clock.now() < until
        {
            return Ok(known);
        }
        drop(sources);
        let mut answer = self.look_up(number);
        let answer = answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        // A look-up that ended without an answer has failed in a way that nobody foresaw.
        answer.unwrap_or(Err(Unavailable))
    }

    /// What a source has said of a number, by its text: what is remembered has been read as a number before, and need
    /// not be again. `None` where the prefix comes first.
    pub(crate) fn remembered(&self, text: &str) -> Option<Known> {
        let sources = self.sources.load();
        if decides_by_prefix(&sources) {
            return None;
        }
        let (known, until) = self.cache.get(text)?;
        (self.clock.now() < until).then_some(known)
    }

    /// Joins the look-up that is under way, or begins one. It goes on when those who wait for it do not.
    fn look_up(self: &Arc<Self>, number: &Msisdn) -> Pending {
        let mut pending = self.pending();
        if let Some(under_way) = pending.get(number) {
            return under_way.clone();
        }
        let (answer, waiting) = watch::channel(None);
        pending.insert(number.clone(), waiting.clone());
        let place = Place { lookup: Arc::clone(self), number: number.clone(), waiting: waiting.clone() };
        self.tasks.spawn(async move {
            let report = place.lookup.ask(&place.number).await;
            place.leave(report.answer.as_ref().ok().filter(|_| report.is_cacheable()));
            answer.send_replace(Some(report.answer));
        });
        waiting
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Msisdn, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, number: &Msisdn, known: Known) {
        let kept_for = match known {
            Known::Network(_) | Known::OtherNetwork(_) => KNOWN_FOR,
            Known::NoSubscriber | Known::Nobody => UNKNOWN_FOR,
        };
        let until = self.clock.now().saturating_add(kept_for).unwrap_or(Timestamp::MAX);
        self.cache.insert(number.clone(), (known, until));
    }

    /// Asks the sources in their order, past the cache, and reports what each said.
    pub async fn ask(&self, number: &Msisdn) -> LookupReport {
        let sources = self.sources.load_full();
        let prefix_table = || Asked {
            source: PREFIX_TABLE.to_owned(),
            said: Ok(self.by_prefix(number).map_or(Resolved::NoData, Resolved::Network)),
        };
        let mut asked = Vec::new();
        if sources.prefixes == Prefixes::Final {
            let prefix = prefix_table();
            let answer = self.answer_in(&prefix, number);
            asked.push(prefix);
            if let Some(known) = answer {
                return LookupReport { asked, answer: Ok(known) };
            }
        }
        let deadline = Instant::now() + sources.deadline;
        for (place, source) in sources.sources.iter().enumerate() {
            // One that hangs leaves the others their share of the time.
            let left = u32::try_from(sources.sources.len() - place).unwrap_or(u32::MAX);
            let now = Instant::now();
            let until = now + deadline.saturating_duration_since(now) / left;
            let said = timeout_at(until, source.resolve(number)).await.unwrap_or(Err(SourceFault::Timeout));
            if let Err(fault) = said {
                tracing::warn!(source = source.name(), %fault, "a look-up goes on to the next source");
            }
            let said = Asked { source: source.name().to_owned(), said };
            let answer = self.answer_in(&said, number);
            asked.push(said);
            if let Some(known) = answer {
                return LookupReport { asked, answer: Ok(known) };
            }
        }
        // Somebody serves the number, and not the network that its prefix was given to.
        if asked.iter().any(|asked| asked.said == Ok(Resolved::OtherNetwork)) {
            let other = OtherNetwork { id: None, country: number.country() };
            return LookupReport { asked, answer: Ok(Known::OtherNetwork(other)) };
        }
        if sources.prefixes == Prefixes::Fallback {
            let prefix = prefix_table();
            let answer = self.answer_in(&prefix, number);
            asked.push(prefix);
            if let Some(known) = answer {
                return LookupReport { asked, answer: Ok(known) };
            }
        }
        let has_failed = asked.iter().any(|asked| asked.said.is_err());
        LookupReport { asked, answer: if has_failed { Err(Unavailable) } else { Ok(Known::Nobody) } }
    }

    /// The result, if what one source said decides it: an unnamed network may still be named by another source.
    fn answer_in(&self, asked: &Asked, number: &Msisdn) -> Option<Known> {
        match &asked.said {
            Ok(Resolved::Network(id)) if self.networks.directory().known_as(id).is_some() => {
                Some(Known::Network(id.clone()))
            }
            Ok(Resolved::Network(id)) => {
                Some(Known::OtherNetwork(OtherNetwork { id: Some(id.clone()), country: number.country() }))
            }
            Ok(Resolved::NoSubscriber) => Some(Known::NoSubscriber),
            Ok(Resolved::OtherNetwork | Resolved::NoData) | Err(_) => None,
        }
    }

    fn by_prefix(&self, number: &Msisdn) -> Option<NetworkId> {
        self.networks.directory().by_prefix(number).map(|network| network.id.clone())
    }
}

/// Whether the prefix table is asked before the sources, and so before the cache of what they said.
fn decides_by_prefix(sources: &Sources) -> bool {
    match sources.prefixes {
        Prefixes::Final => true,
        Prefixes::Fallback => sources.sources.is_empty(),
        Prefixes::Never => false,
    }
}

/// The place of a look-up among those under way. However it ends, the place becomes free.
struct Place {
    lookup: Arc<NumberLookup>,
    number: Msisdn,
    waiting: Pending,
}

impl Place {
    /// Remembers the answer, unless other sources have been named meanwhile.
    fn leave(&self, known: Option<&Known>) {
        let mut pending = self.lookup.pending();
        if pending.get(&self.number).is_some_and(|under_way| under_way.same_channel(&self.waiting)) {
            pending.remove(&self.number);
            if let Some(known) = known {
                self.lookup.remember(&self.number, known.clone());
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave(None);
    }
}

impl fmt::Debug for NumberLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumberLookup").field("sources", &self.sources.load()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
