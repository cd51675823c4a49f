//! Limits the number of connections, tracks their activity, and closes idle or surplus ones.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ipnet::IpNet;
use parking_lot::Mutex;
use ringtrue_engine::rate_limits::ip_bucket;
use tokio::{sync::oneshot, time::Instant};

/// Maximum number of connections that one pass selects for eviction. Without a batch, a full listener would scan all
/// connections for each new connection.
const MAX_EVICTION_BATCH: usize = 256;
/// Time that a new connection has for the TLS handshake and the first request. During this time, the connection is
/// evicted only if there is no other candidate.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct ConnectionLimits(Arc<Shared>);

#[derive(Clone, Debug)]
pub struct MaxConnections {
    pub total: usize,
    pub per_address: usize,
    /// Maximum number of connections from each address in `proxies`. Applies instead of `per_address`.
    pub per_proxy: usize,
    pub proxies: Vec<IpNet>,
}

#[derive(Debug)]
struct Shared {
    max: MaxConnections,
    table: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
    open: BTreeMap<u64, OpenConnection>,
    /// Candidates for eviction, with their activity at the time of selection. A candidate that was active since then is
    /// skipped.
    evictable: VecDeque<(u64, ActivitySnapshot)>,
    next_id: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct OpenConnection {
    address: IpAddr,
    /// Sending a message evicts the connection. Dropping the sender closes the connection gracefully.
    close_sender: oneshot::Sender<()>,
    counter: ActivityCounter,
    /// Activity at the last observation. `unchanged_since` is when an observation last found new activity.
    last_activity: ActivitySnapshot,
    unchanged_since: Instant,
}

impl OpenConnection {
    /// Returns since when the connection has been idle. Returns `now` if it was active after the last observation.
    fn idle_since(&self, activity: ActivitySnapshot, now: Instant) -> Instant {
        if activity == self.last_activity { self.unchanged_since } else { now }
    }

    /// Returns whether the connection never had a complete request, and is not receiving its first one now.
    fn is_unused(&self, now: Instant) -> bool {
        let activity = self.counter.snapshot();
        let is_stalled = now.duration_since(self.idle_since(activity, now)) >= FIRST_REQUEST_GRACE;
        !activity.has_received_request()
            || (activity.is_first_unanswered() && !activity.has_complete_request() && is_stalled)
    }
}

/// Tells a connection to close.
///
/// Each connection has its own channel: with a shared token, thousands of connections would contend for its lock on
/// every poll.
#[derive(Debug)]
pub struct CloseSignal(oneshot::Receiver<()>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    Graceful,
    /// Closes immediately, unless a completely received request is in progress.
    Evicted,
}

impl CloseSignal {
    pub async fn wait(&mut self) -> CloseMode {
        match (&mut self.0).await {
            Ok(()) => CloseMode::Evicted,
            Err(_) => CloseMode::Graceful,
        }
    }
}

/// Counts a connection against the limits until the permit is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: ConnectionLimits,
    address: IpAddr,
    id: u64,
}

impl ConnectionLimits {
    pub fn new(max: MaxConnections) -> Self {
        ConnectionLimits(Arc::new(Shared { max, table: Mutex::default() }))
    }

    /// Admits a connection, or returns `None`. If the address is at its limit, first evicts the address's oldest
    /// connection that never had a complete request. If the total limit is reached, first evicts any connection that
    /// has no completely received request in progress.
    pub fn admit(&self, address: IpAddr, counter: &ActivityCounter) -> Option<(ConnectionPermit, CloseSignal)> {
        let mut table = self.0.table.lock();
        if table.is_closed || !self.0.make_room_for(&mut table, address) {
            return None;
        }
        if table.open.len() >= self.0.max.total && !table.evict_any(self.0.max.total) {
            return None;
        }
        let id = table.next_id;
        table.next_id += 1;
        let address = table.register(id, address);
        let (close_sender, closing) = oneshot::channel();
        let (last_activity, unchanged_since) = (counter.snapshot(), Instant::now());
        table.open.insert(
            id,
            OpenConnection { address, close_sender, counter: counter.clone(), last_activity, unchanged_since },
        );
        Some((ConnectionPermit { limits: self.clone(), address, id }, CloseSignal(closing)))
    }

    /// Closes connections that were inactive for `header_timeout` before their first request, or for `idle_timeout`
    /// after a request. Must be called periodically.
    pub fn close_idle(&self, header_timeout: Duration, idle_timeout: Duration) {
        let now = Instant::now();
        self.0.table.lock().open.retain(|_, open| {
            let activity = open.counter.snapshot();
            if activity != open.last_activity {
                (open.last_activity, open.unchanged_since) = (activity, now);
            }
            let timeout = if activity.has_received_request() { idle_timeout } else { header_timeout };
            activity.is_busy() || now.duration_since(open.unchanged_since) < timeout
        });
    }

    /// Closes all connections gracefully and admits no more.
    pub fn close(&self) {
        let mut table = self.0.table.lock();
        table.is_closed = true;
        table.open.clear();
    }
}

impl Shared {
    /// Returns whether the address may open another connection. If it is at its limit, evicts one of its connections
    /// that never had a complete request. Others are not evicted, because their clients use them.
    fn make_room_for(&self, table: &mut ConnectionTable, address: IpAddr) -> bool {
        let is_proxy = self.max.proxies.iter().any(|range| range.contains(&address.to_canonical()));
        let max = if is_proxy { self.max.per_proxy } else { self.max.per_address };
        let Some(held) = table.by_address.get(&ip_bucket(address)) else { return true };
        if held.len() < max {
            return true;
        }
        let now = Instant::now();
        let is_unused = |id: &&u64| table.open.get(id).is_some_and(|open| open.is_unused(now));
        let oldest = held.iter().find(is_unused).copied();
        oldest.is_some_and(|id| table.evict(id))
    }
}

impl ConnectionTable {
    /// Counts a connection under the [`ip_bucket`] of its address, which groups the addresses of one subscriber.
    fn register(&mut self, id: u64, address: IpAddr) -> IpAddr {
        let address = ip_bucket(address);
        self.by_address.entry(address).or_default().insert(id);
        address
    }

    fn unregister(&mut self, id: u64, address: IpAddr) {
        if let Some(held) = self.by_address.get_mut(&address) {
            held.remove(&id);
            if held.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    fn evict(&mut self, id: u64) -> bool {
        let Some(open) = self.open.remove(&id) else { return false };
        self.unregister(id, open.address);
        // Fails if the connection has already ended and dropped the receiver, which does not matter.
        let _ = open.close_sender.send(());
        true
    }

    /// Evicts a connection that has no completely received request in progress: first those that stall in a request or
    /// before their first one, then idle ones, then new ones. Among equals, evicts the one that was inactive longest.
    fn evict_any(&mut self, total: usize) -> bool {
        for is_fresh in [false, true] {
            if is_fresh {
                self.choose_evictable(total);
            }
            while let Some((id, last_activity)) = self.evictable.pop_front() {
                if self.open.get(&id).is_some_and(|open| open.counter.snapshot() == last_activity) {
                    return self.evict(id);
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
            .map(|(id, open)| {
                let activity = open.counter.snapshot();
                (activity, open.idle_since(activity, now), *id)
            })
            .filter(|(activity, ..)| !activity.has_complete_request())
            .collect();
        idle.sort_unstable_by_key(|(activity, unchanged_since, id)| {
            (eviction_rank(*activity, *unchanged_since, now), *unchanged_since, *id)
        });
        idle.truncate((total / 64).clamp(1, MAX_EVICTION_BATCH));
        self.evictable = idle.into_iter().map(|(activity, _, id)| (id, activity)).collect();
    }
}

/// Returns the rank of a connection for eviction. The lowest rank is evicted first.
fn eviction_rank(activity: ActivitySnapshot, unchanged_since: Instant, now: Instant) -> u8 {
    if activity.has_received_request() && !activity.is_busy() {
        1
    } else if now.duration_since(unchanged_since) < FIRST_REQUEST_GRACE {
        2
    } else {
        0
    }
}

impl ConnectionPermit {
    /// Counts the connection under the client's address instead of the proxy's. Returns `false` if the client's address
    /// is at its limit.
    pub fn reassign(&mut self, address: IpAddr) -> bool {
        let mut table = self.limits.0.table.lock();
        let has_room = self.limits.0.make_room_for(&mut table, address);
        if has_room {
            table.unregister(self.id, self.address);
            self.address = table.register(self.id, address);
            if let Some(open) = table.open.get_mut(&self.id) {
                open.address = self.address;
            }
        }
        has_room
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut table = self.limits.0.table.lock();
        table.open.remove(&self.id);
        table.unregister(self.id, self.address);
    }
}

/// Counts events on one connection. Two equal snapshots mean that nothing happened in between.
///
/// See decisions/0013-connection-timeouts.md for why hyper's header timeout is not used.
#[derive(Clone, Debug, Default)]
pub struct ActivityCounter(Arc<EventCounts>);

#[derive(Debug, Default)]
struct EventCounts {
    started: AtomicU64,
    finished: AtomicU64,
    /// Number of writes that the peer has accepted.
    written: AtomicU64,
    /// Number of received frames of request bodies.
    received: AtomicU64,
    /// Number of requests whose body has not been completely received.
    receiving: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivitySnapshot {
    started: u64,
    finished: u64,
    written: u64,
    received: u64,
    receiving: u64,
}

impl ActivitySnapshot {
    /// Returns whether a request is in progress.
    pub fn is_busy(self) -> bool {
        self.started != self.finished
    }

    /// Returns whether a request is in progress and its body is completely received.
    pub fn has_complete_request(self) -> bool {
        self.is_busy() && self.receiving == 0
    }

    /// Returns whether the first request has started but not finished.
    pub fn is_first_unanswered(self) -> bool {
        self.started > 0 && self.finished == 0
    }

    pub fn has_received_request(self) -> bool {
        self.started > 0
    }
}

/// Counts a request as in progress until the guard is dropped.
#[derive(Debug)]
pub struct RequestGuard<'a>(&'a EventCounts);

impl ActivityCounter {
    pub fn begin_request(&self) -> RequestGuard<'_> {
        self.0.started.fetch_add(1, Ordering::Relaxed);
        RequestGuard(&self.0)
    }

    /// Counts a request body as incomplete until the guard is dropped.
    pub fn begin_body(&self) -> BodyGuard {
        self.0.receiving.fetch_add(1, Ordering::Relaxed);
        BodyGuard(Arc::clone(&self.0))
    }

    /// Counts a write, because a connection that sends a response is not idle.
    pub fn count_write(&self) {
        self.0.written.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> ActivitySnapshot {
        let EventCounts { started, finished, written, received, receiving } = &*self.0;
        let [started, finished, written, received, receiving] =
            [started, finished, written, received, receiving].map(|count| count.load(Ordering::Relaxed));
        ActivitySnapshot { started, finished, written, received, receiving }
    }

    /// Waits until no request is in progress and nothing has happened for this period.
    pub async fn wait_until_idle(&self, period: Duration) {
        let mut previous = self.snapshot();
        loop {
            tokio::time::sleep(period).await;
            let now = self.snapshot();
            if now == previous && !now.is_busy() {
                return;
            }
            previous = now;
        }
    }
}

/// Counts a request body as incomplete until the guard is dropped. The body drops the guard at its end.
#[derive(Debug)]
pub struct BodyGuard(Arc<EventCounts>);

impl BodyGuard {
    pub fn count_frame(&self) {
        self.0.received.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for BodyGuard {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

    fn limits(total: usize, per_address: usize, per_proxy: usize) -> ConnectionLimits {
        ConnectionLimits::new(MaxConnections {
            total,
            per_address,
            per_proxy,
            proxies: vec!["10.0.0.0/8".parse().unwrap()],
        })
    }

    /// Simulates a connection with an incomplete request body.
    fn half_sent() -> ActivityCounter {
        let counter = busy();
        std::mem::forget(counter.begin_body());
        counter
    }

    /// Simulates a connection with a request in progress.
    fn busy() -> ActivityCounter {
        let counter = ActivityCounter::default();
        std::mem::forget(counter.begin_request());
        counter
    }

    #[test]
    fn connections_are_limited_in_total_and_per_address() {
        let [one, two, proxy] = ["192.0.2.1", "192.0.2.2", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let limits = limits(5, 2, 3);
        let take = |address| limits.admit(address, &busy());
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
    async fn oldest_unused_connection_of_an_address_is_evicted() {
        let address = "192.0.2.1".parse().unwrap();
        let limits = limits(9, 3, 3);
        let used = ActivityCounter::default();
        drop(used.begin_request());
        let mut held: Vec<_> = [used, ActivityCounter::default(), ActivityCounter::default()]
            .iter()
            .map(|counter| limits.admit(address, counter).unwrap())
            .collect();
        let newest = limits.admit(address, &busy());
        assert!(newest.is_some());
        assert_eq!(held[1].1.wait().await, CloseMode::Evicted);
        for kept in [0, 2] {
            assert!(futures_util::poll!(std::pin::pin!(held[kept].1.wait())).is_pending(), "{kept}");
        }
        let last = limits.admit(address, &busy());
        assert!(last.is_some(), "the other unused connection is evicted");
        assert!(limits.admit(address, &busy()).is_none(), "connections in use are not evicted by their own address");
        drop((held, newest, last));
        assert!(limits.0.table.lock().by_address.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn eviction_order_is_stalled_idle_new_and_never_busy() {
        let limits = limits(4, 2, 2);
        let idle = ActivityCounter::default();
        drop(idle.begin_request());
        let mut held = vec![];
        for (host, counter) in
            [busy(), idle, ActivityCounter::default(), ActivityCounter::default()].into_iter().enumerate()
        {
            held.push(limits.admit(format!("192.0.2.{host}").parse().unwrap(), &counter).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let mut newer = vec![];
        // Connection 2 has stalled, connection 1 is idle, connection 3 is within its grace period, and connection 0 is
        // busy.
        for evicted in [2, 1, 3] {
            let newest = limits.admit(format!("198.51.100.{evicted}").parse().unwrap(), &busy());
            newer.push(newest.expect("a permit"));
            assert_eq!(held[evicted].1.wait().await, CloseMode::Evicted);
        }
        assert!(limits.admit("203.0.113.1".parse().unwrap(), &busy()).is_none(), "all are busy");
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_a_stalled_body_is_evicted() {
        let limits = limits(2, 2, 2);
        let address = "192.0.2.1".parse().unwrap();
        let [arriving, stalled] = [half_sent(), half_sent()];
        let mut held = [&arriving, &stalled].map(|counter| limits.admit(address, counter).unwrap());
        assert!(limits.admit(address, &busy()).is_none(), "a body that just started is not evicted");
        tokio::time::advance(FIRST_REQUEST_GRACE).await;
        arriving.begin_body().count_frame();
        let newest = limits.admit("192.0.2.2".parse().unwrap(), &busy());
        assert!(newest.is_some());
        assert_eq!(held[1].1.wait().await, CloseMode::Evicted);
        assert!(
            futures_util::poll!(std::pin::pin!(held[0].1.wait())).is_pending(),
            "a body in progress is not evicted"
        );
    }

    #[test]
    fn permit_can_be_reassigned_to_another_address() {
        let [client, proxy] = ["192.0.2.1", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let limits = limits(9, 2, 9);
        let mut held: Vec<_> = (0..4).map(|_| limits.admit(proxy, &busy()).unwrap().0).collect();
        assert!(held[0].reassign(client) && held[1].reassign(client));
        assert!(!held[2].reassign(client), "two per address");
        assert!(limits.admit(client, &busy()).is_none());
        drop(held.remove(0));
        assert!(held[1].reassign(client), "a released permit can be reused");
        drop(held);
        assert!(limits.0.table.lock().by_address.is_empty());
    }

    #[tokio::test]
    async fn close_signals_all_connections() {
        let address = "192.0.2.1".parse().unwrap();
        let limits = limits(2, 2, 2);
        let (_permit, mut closing) = limits.admit(address, &ActivityCounter::default()).unwrap();
        limits.close();
        assert_eq!(closing.wait().await, CloseMode::Graceful);
        assert!(limits.admit(address, &ActivityCounter::default()).is_none(), "no connection is admitted after close");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_and_busy_ones_are_not() {
        let limits = limits(2, 2, 2);
        let counters = [ActivityCounter::default(), ActivityCounter::default()];
        let [mut idle, mut busy] =
            counters.each_ref().map(|counter| limits.admit("192.0.2.1".parse().unwrap(), counter).unwrap());
        let request = counters[1].begin_request();
        for _ in 0..3 {
            tokio::time::advance(IDLE_TIMEOUT).await;
            limits.close_idle(IDLE_TIMEOUT, IDLE_TIMEOUT * 2);
        }
        idle.1.wait().await;
        let mut still_open = std::pin::pin!(busy.1.wait());
        assert!(futures_util::poll!(still_open.as_mut()).is_pending(), "a request is in progress");

        drop(request);
        limits.close_idle(IDLE_TIMEOUT, IDLE_TIMEOUT * 2);
        tokio::time::advance(IDLE_TIMEOUT).await;
        limits.close_idle(IDLE_TIMEOUT, IDLE_TIMEOUT * 2);
        assert!(futures_util::poll!(still_open.as_mut()).is_pending(), "it may be idle for longer after a request");
        tokio::time::advance(IDLE_TIMEOUT).await;
        limits.close_idle(IDLE_TIMEOUT, IDLE_TIMEOUT * 2);
        still_open.await;
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_only_without_requests_in_progress() {
        let counter = ActivityCounter::default();
        let request = counter.begin_request();
        let long = IDLE_TIMEOUT * 10;
        assert!(
            tokio::time::timeout(long, counter.wait_until_idle(IDLE_TIMEOUT)).await.is_err(),
            "a request is in progress"
        );
        drop(request);
        assert!(tokio::time::timeout(IDLE_TIMEOUT * 2, counter.wait_until_idle(IDLE_TIMEOUT)).await.is_ok());
    }
}
