//! Which connections there are: how many there may be, which of them are idle, and telling them to end.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipnet::IpNet;
use ringtrue_engine::rate_limit::subscriber;
use tokio::{sync::oneshot, time::Instant};

use super::watch::{Activity, Watch};

/// How many connections are chosen for eviction in one pass over all of them: a full listener must not look at every
/// connection for each new one.
const MAX_EVICTION_BATCH: usize = 256;
/// How long a new connection has for its TLS handshake and its first request before it goes ahead of idle ones.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Cap(Arc<Shared>);

/// How many connections there may be.
#[derive(Clone, Debug)]
pub struct MaxConnections {
    pub total: usize,
    pub per_address: usize,
    /// For each address of `proxies`, in place of `per_address`.
    pub per_proxy: usize,
    pub proxies: Vec<IpNet>,
}

#[derive(Debug)]
struct Shared {
    max: MaxConnections,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
    open: BTreeMap<u64, Open>,
    /// Chosen to be closed when there is no room, as they were then. Those on which something has happened since stay.
    evictable: VecDeque<(u64, Activity)>,
    next: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Open {
    address: IpAddr,
    /// Used to evict the connection, or dropped to tell it to close.
    line: oneshot::Sender<()>,
    watch: Watch,
    /// What was going on when it was looked at, and since when that has been so.
    seen: Activity,
    since: Instant,
}

impl Open {
    /// Since when nothing has happened. What happened after the last look happened now.
    fn quiet_since(&self, activity: Activity, now: Instant) -> Instant {
        if activity == self.seen { self.since } else { now }
    }

    /// Whether there was no complete request yet, and none is arriving.
    fn is_unused(&self, now: Instant) -> bool {
        let activity = self.watch.activity();
        let is_stalled = now.duration_since(self.quiet_since(activity, now)) >= FIRST_REQUEST_GRACE;
        !activity.has_spoken() || (activity.is_first_unanswered() && !activity.has_complete_request() && is_stalled)
    }
}

/// Tells a connection to close.
///
/// A channel each, not one token for all: a connection looks at it whenever it is polled, and thousands of them would
/// queue for the token's lock.
#[derive(Debug)]
pub struct Closing(oneshot::Receiver<()>);

/// How a connection has to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    Graceful,
    /// Immediately, unless a complete request is being answered.
    Evicted,
}

impl Closing {
    /// Resolves once.
    pub async fn signal(&mut self) -> CloseMode {
        match (&mut self.0).await {
            Ok(()) => CloseMode::Evicted,
            Err(_) => CloseMode::Graceful,
        }
    }
}

/// The right to be connected. Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    cap: Cap,
    address: IpAddr,
    number: u64,
}

impl Cap {
    pub fn new(max: MaxConnections) -> Self {
        Cap(Arc::new(Shared { max, taken: Mutex::default() }))
    }

    /// Lets a connection in. Where there is no room, the oldest one without a complete request has to go for it: of the
    /// same address if that has too many, else of all.
    pub fn take(&self, address: IpAddr, watch: &Watch) -> Option<(Place, Closing)> {
        let mut taken = self.0.lock();
        if taken.is_closed || !self.0.make_room_for(&mut taken, address) {
            return None;
        }
        if taken.open.len() >= self.0.max.total && !taken.evict_any(self.0.max.total) {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let address = taken.enter(number, address);
        let (line, closing) = oneshot::channel();
        let (seen, since) = (watch.activity(), Instant::now());
        taken.open.insert(number, Open { address, line, watch: watch.clone(), seen, since });
        Some((Place { cap: self.clone(), address, number }, Closing(closing)))
    }

    /// Tells those connections to close on which nothing has been going on: for `header_timeout` before the first
    /// request, for `idle_timeout` after one. To be called again and again.
    pub fn reap(&self, header_timeout: Duration, idle_timeout: Duration) {
        let now = Instant::now();
        self.0.lock().open.retain(|_, open| {
            let activity = open.watch.activity();
            if activity != open.seen {
                (open.seen, open.since) = (activity, now);
            }
            let patience = if activity.has_spoken() { idle_timeout } else { header_timeout };
            activity.is_busy() || now.duration_since(open.since) < patience
        });
    }

    /// Tells every connection to close, and lets no new one in.
    pub fn close(&self) {
        let mut taken = self.0.lock();
        taken.is_closed = true;
        taken.open.clear();
    }
}

impl Shared {
    /// Whether the address may have one more connection, after evicting one of its own if need be. Only one that never
    /// had a complete request: a client that uses its connections keeps them.
    fn make_room_for(&self, taken: &mut Taken, address: IpAddr) -> bool {
        let is_proxy = self.max.proxies.iter().any(|range| range.contains(&address.to_canonical()));
        let max = if is_proxy { self.max.per_proxy } else { self.max.per_address };
        let Some(held) = taken.by_address.get(&subscriber(address)) else { return true };
        if held.len() < max {
            return true;
        }
        let now = Instant::now();
        let is_unused = |number: &&u64| taken.open.get(number).is_some_and(|open| open.is_unused(now));
        let oldest = held.iter().find(is_unused).copied();
        oldest.is_some_and(|number| taken.evict(number))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Counts one more connection. Under which address: see [`subscriber`].
    fn enter(&mut self, number: u64, address: IpAddr) -> IpAddr {
        let address = subscriber(address);
        self.by_address.entry(address).or_default().insert(number);
        address
    }

    fn leave(&mut self, number: u64, address: IpAddr) {
        if let Some(held) = self.by_address.get_mut(&address) {
            held.remove(&number);
            if held.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    fn evict(&mut self, number: u64) -> bool {
        let Some(open) = self.open.remove(&number) else { return false };
        self.leave(number, open.address);
        // A connection that has just ended does not listen any more.
        let _ = open.line.send(());
        true
    }

    /// Evicts the oldest connection without a complete request: first those whose request does not arrive, then idle
    /// ones, then those that have just begun.
    fn evict_any(&mut self, total: usize) -> bool {
        for is_fresh in [false, true] {
            if is_fresh {
                self.choose_evictable(total);
            }
            while let Some((number, seen)) = self.evictable.pop_front() {
                if self.open.get(&number).is_some_and(|open| open.watch.activity() == seen) {
                    return self.evict(number);
                }
            }
        }
        false
    }

    fn choose_evictable(&mut self, total: usize) {
        let now = Instant::now();
        let mut idle: Vec<_> = self
            .open
            .iter()
            .map(|(number, open)| {
                let activity = open.watch.activity();
                (activity, open.quiet_since(activity, now), *number)
            })
            .filter(|(activity, ..)| !activity.has_complete_request())
            .collect();
        idle.sort_unstable_by_key(|(activity, since, number)| (eviction_rank(*activity, *since, now), *since, *number));
        idle.truncate((total / 64).clamp(1, MAX_EVICTION_BATCH));
        self.evictable = idle.into_iter().map(|(activity, _, number)| (number, activity)).collect();
    }
}

/// Connections of the lowest rank are evicted first.
fn eviction_rank(activity: Activity, since: Instant, now: Instant) -> u8 {
    if activity.has_spoken() && !activity.is_busy() {
        1
    } else if now.duration_since(since) < FIRST_REQUEST_GRACE {
        2
    } else {
        0
    }
}

impl Place {
    /// Counts the connection as another address's from now on. Not if that one has too many.
    pub fn move_to(&mut self, address: IpAddr) -> bool {
        let mut taken = self.cap.0.lock();
        let has_room = self.cap.0.make_room_for(&mut taken, address);
        if has_room {
            taken.leave(self.number, self.address);
            self.address = taken.enter(self.number, address);
            if let Some(open) = taken.open.get_mut(&self.number) {
                open.address = self.address;
            }
        }
        has_room
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.cap.0.lock();
        taken.open.remove(&self.number);
        taken.leave(self.number, self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn cap(total: usize, per_address: usize, per_proxy: usize) -> Cap {
        Cap::new(MaxConnections { total, per_address, per_proxy, proxies: vec!["10.0.0.0/8".parse().unwrap()] })
    }

    /// A connection on which a request has begun whose body does not arrive.
    fn half_sent() -> Watch {
        let watch = busy();
        std::mem::forget(watch.receiving());
        watch
    }

    /// A connection whose request is being answered.
    fn busy() -> Watch {
        let watch = Watch::default();
        std::mem::forget(watch.busy());
        watch
    }

    #[test]
    fn places_are_limited_in_all_and_per_address_and_come_back() {
        let [one, two, proxy] = ["192.0.2.1", "192.0.2.2", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let cap = cap(5, 2, 3);
        let take = |address| cap.take(address, &busy());
        let held = [take(one), take(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(take(one).is_none(), "two per address");
        let others = [take(proxy), take(proxy), take(proxy)];
        assert!(others.iter().all(Option::is_some), "a proxy may have more");
        assert!(take(two).is_none(), "five in all");
        drop(held);
        assert!(take(proxy).is_none(), "three per proxy");
        assert!(take(one).is_some() && take(two).is_some());
    }

    #[tokio::test]
    async fn the_oldest_connection_without_a_request_of_a_full_address_is_evicted() {
        let address = "192.0.2.1".parse().unwrap();
        let cap = cap(9, 3, 3);
        let used = Watch::default();
        drop(used.busy());
        let mut held: Vec<_> =
            [used, Watch::default(), Watch::default()].iter().map(|watch| cap.take(address, watch).unwrap()).collect();
        let newest = cap.take(address, &busy());
        assert!(newest.is_some());
        assert_eq!(held[1].1.signal().await, CloseMode::Evicted);
        for kept in [0, 2] {
            assert!(futures_util::poll!(std::pin::pin!(held[kept].1.signal())).is_pending(), "{kept}");
        }
        let last = cap.take(address, &busy());
        assert!(last.is_some(), "the other one without a request has to go");
        assert!(cap.take(address, &busy()).is_none(), "connections in use are not evicted by their own address");
        drop((held, newest, last));
        assert!(cap.0.lock().by_address.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_listener_evicts_unused_connections_then_idle_ones_then_new_ones_and_never_busy_ones() {
        let cap = cap(4, 2, 2);
        let idle = Watch::default();
        drop(idle.busy());
        let mut held = vec![];
        for (host, watch) in [busy(), idle, Watch::default(), Watch::default()].into_iter().enumerate() {
            held.push(cap.take(format!("192.0.2.{host}").parse().unwrap(), &watch).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let mut newer = vec![];
        // The last has come within its grace.
        for evicted in [2, 1, 3] {
            let newest = cap.take(format!("198.51.100.{evicted}").parse().unwrap(), &busy());
            newer.push(newest.expect("a place"));
            assert_eq!(held[evicted].1.signal().await, CloseMode::Evicted);
        }
        assert!(cap.take("203.0.113.1".parse().unwrap(), &busy()).is_none(), "all are busy");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_body_does_not_arrive_is_evicted() {
        let cap = cap(2, 2, 2);
        let address = "192.0.2.1".parse().unwrap();
        let [arriving, stalled] = [half_sent(), half_sent()];
        let mut held = [&arriving, &stalled].map(|watch| cap.take(address, watch).unwrap());
        assert!(cap.take(address, &busy()).is_none(), "its own address waits for bodies that have just begun");
        tokio::time::advance(FIRST_REQUEST_GRACE).await;
        arriving.receiving().received();
        let newest = cap.take("192.0.2.2".parse().unwrap(), &busy());
        assert!(newest.is_some());
        assert_eq!(held[1].1.signal().await, CloseMode::Evicted);
        assert!(
            futures_util::poll!(std::pin::pin!(held[0].1.signal())).is_pending(),
            "a body that arrives is left alone"
        );
    }

    #[test]
    fn a_place_can_become_another_addresss() {
        let [client, proxy] = ["192.0.2.1", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let cap = cap(9, 2, 9);
        let mut held: Vec<_> = (0..4).map(|_| cap.take(proxy, &busy()).unwrap().0).collect();
        assert!(held[0].move_to(client) && held[1].move_to(client));
        assert!(!held[2].move_to(client), "two per address");
        assert!(cap.take(client, &busy()).is_none());
        drop(held.remove(0));
        assert!(held[1].move_to(client), "one of them is gone");
        drop(held);
        assert!(cap.0.lock().by_address.is_empty());
    }

    #[tokio::test]
    async fn all_connections_are_told_to_close() {
        let address = "192.0.2.1".parse().unwrap();
        let cap = cap(2, 2, 2);
        let (_place, mut closing) = cap.take(address, &Watch::default()).unwrap();
        cap.close();
        assert_eq!(closing.signal().await, CloseMode::Graceful);
        assert!(cap.take(address, &Watch::default()).is_none(), "nobody comes after that");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_told_to_close_and_a_busy_one_is_not() {
        let cap = cap(2, 2, 2);
        let watches = [Watch::default(), Watch::default()];
        let [mut idle, mut busy] =
            watches.each_ref().map(|watch| cap.take("192.0.2.1".parse().unwrap(), watch).unwrap());
        let request = watches[1].busy();
        for _ in 0..3 {
            tokio::time::advance(PATIENCE).await;
            cap.reap(PATIENCE, PATIENCE * 2);
        }
        idle.1.signal().await;
        let mut left_alone = std::pin::pin!(busy.1.signal());
        assert!(futures_util::poll!(left_alone.as_mut()).is_pending(), "one request takes long");

        drop(request);
        cap.reap(PATIENCE, PATIENCE * 2);
        tokio::time::advance(PATIENCE).await;
        cap.reap(PATIENCE, PATIENCE * 2);
        assert!(futures_util::poll!(left_alone.as_mut()).is_pending(), "it may be idle for longer after a request");
        tokio::time::advance(PATIENCE).await;
        cap.reap(PATIENCE, PATIENCE * 2);
        left_alone.await;
    }
}
