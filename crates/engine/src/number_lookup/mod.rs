//! Which network serves a number: sources in a row, and a cache of what they said.
//!
//! The deployment's own prefixes are final where numbers cannot be ported, and else what is believed when no source
//! knows better. A source that is dead, slow or talks nonsense is passed over; when nobody knows and somebody could not
//! be asked, that is said, and nothing is remembered.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use quick_cache::sync::Cache;
use ringtrue_domain::{network::NetworkId, phone::Msisdn};
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
    Network(NetworkId),
    NoSubscriber,
    /// Every source was asked, and none knows the number.
    Nobody,
}

/// Nobody knows, and somebody could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no source can tell the number's network at the moment")]
pub struct Unavailable;

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
            Ok(Resolved::OtherNetwork) => "a network that is not known here".to_owned(),
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
        if sources.prefixes == Prefixes::Final || sources.sources.is_empty() {
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
        if sources.prefixes == Prefixes::Final || sources.sources.is_empty() {
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
            let (_, answered) = place.lookup.ask(&place.number).await;
            place.leave(answered.as_ref().ok());
            answer.send_replace(Some(answered));
        });
        waiting
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Msisdn, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, number: &Msisdn, known: Known) {
        let kept_for = if matches!(known, Known::Network(_)) { KNOWN_FOR } else { UNKNOWN_FOR };
        let until = self.clock.now().saturating_add(kept_for).unwrap_or(Timestamp::MAX);
        self.cache.insert(number.clone(), (known, until));
    }

    /// Asks the sources in their order, past the cache, and tells what each said.
    pub async fn ask(&self, number: &Msisdn) -> (Vec<Asked>, Answer) {
        let sources = self.sources.load_full();
        let by_prefix = || self.by_prefix(number);
        let prefix = |said: Option<NetworkId>| Asked {
            source: "prefixes".to_owned(),
            said: Ok(said.map_or(Resolved::NoData, Resolved::Network)),
        };
        let mut asked = Vec::new();
        if sources.prefixes == Prefixes::Final {
            let network = by_prefix();
            asked.push(prefix(network.clone()));
            if let Some(network) = network {
                return (asked, Ok(Known::Network(network)));
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
            asked.push(Asked { source: source.name().to_owned(), said: said.clone() });
            match said {
                Ok(Resolved::Network(network)) => return (asked, Ok(Known::Network(network))),
                Ok(Resolved::NoSubscriber) => return (asked, Ok(Known::NoSubscriber)),
                Ok(Resolved::OtherNetwork | Resolved::NoData) | Err(_) => {}
            }
        }
        let mut answer =
            if asked.iter().any(|asked| asked.said.is_err()) { Err(Unavailable) } else { Ok(Known::Nobody) };
        let was_ported = asked.iter().any(|asked| asked.said == Ok(Resolved::OtherNetwork));
        if sources.prefixes == Prefixes::Fallback && !was_ported {
            let network = by_prefix();
            asked.push(prefix(network.clone()));
            // While a source that might know better is down, the prefix would be a guess.
            if let (Some(network), Ok(_)) = (network, &answer) {
                answer = Ok(Known::Network(network));
            }
        }
        (asked, answer)
    }

    fn by_prefix(&self, number: &Msisdn) -> Option<NetworkId> {
        self.networks.directory().by_prefix(number).map(|network| network.id.clone())
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
