//! Which connections there are: how many there may be, which of them are idle, and telling them to end.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipnet::IpNet;
use ringtrue_engine::rate_limit::subscriber;
use tokio::{sync::oneshot, time::Instant};

use super::watch::{Activity, Watch};

#[derive(Clone, Debug)]
pub struct Cap(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_per_address: usize,
    exempt: Vec<IpNet>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_address: HashMap<IpAddr, usize>,
    open: HashMap<u64, Open>,
    next: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Open {
    /// Dropped to tell the connection to close.
    _line: oneshot::Sender<()>,
    watch: Watch,
    /// What was going on when it was looked at, and since when that has been so.
    seen: Activity,
    since: Instant,
}

/// Tells a connection to close.
///
/// A channel each, not one token for all: a connection looks at it whenever it is polled, and thousands of them would
/// queue for the token's lock.
#[derive(Debug)]
pub struct Closing(oneshot::Receiver<()>);

impl Closing {
    pub async fn signal(self) {
        let _ = self.0.await;
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
    pub fn new(most: usize, most_per_address: usize, exempt: Vec<IpNet>) -> Self {
        Cap(Arc::new(Shared { most, most_per_address, exempt, taken: Mutex::default() }))
    }

    pub fn take(&self, address: IpAddr, watch: &Watch) -> Option<(Place, Closing)> {
        let mut taken = self.0.lock();
        if taken.open.len() >= self.0.most || taken.is_closed || !self.0.has_room(&taken, address) {
            return None;
        }
        let address = taken.enter(address);
        let (line, closing) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        let (seen, since) = (watch.activity(), Instant::now());
        taken.open.insert(number, Open { _line: line, watch: watch.clone(), seen, since });
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
    fn has_room(&self, taken: &Taken, address: IpAddr) -> bool {
        let is_exempt = self.exempt.iter().any(|range| range.contains(&address.to_canonical()));
        is_exempt || taken.by_address.get(&subscriber(address)).is_none_or(|held| *held < self.most_per_address)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Counts one more connection. Under which address: see [`subscriber`].
    fn enter(&mut self, address: IpAddr) -> IpAddr {
        let address = subscriber(address);
        *self.by_address.entry(address).or_default() += 1;
        address
    }

    fn leave(&mut self, address: IpAddr) {
        if let Some(held) = self.by_address.get_mut(&address) {
            *held -= 1;
            if *held == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Place {
    /// Counts the connection as another address's from now on. Not if that one has too many.
    pub fn move_to(&mut self, address: IpAddr) -> bool {
        let mut taken = self.cap.0.lock();
        let has_room = self.cap.0.has_room(&taken, address);
        if has_room {
            taken.leave(self.address);
            self.address = taken.enter(address);
        }
        has_room
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.cap.0.lock();
        taken.open.remove(&self.number);
        taken.leave(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn places_are_limited_in_all_and_per_address_and_come_back() {
        let [one, two, proxy] = ["192.0.2.1", "192.0.2.2", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let cap = Cap::new(5, 2, vec!["10.0.0.0/8".parse().unwrap()]);
        let take = |address| cap.take(address, &Watch::default());
        let held = [take(one), take(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(take(one).is_none(), "two per address");
        let others = [take(proxy), take(proxy), take(proxy)];
        assert!(others.iter().all(Option::is_some), "a proxy may have more");
        assert!(take(two).is_none(), "five in all");
        drop(held);
        assert!(take(one).is_some() && take(two).is_some());
    }

    #[test]
    fn a_place_can_become_another_addresss() {
        let [client, proxy] = ["192.0.2.1", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let cap = Cap::new(9, 2, vec!["10.0.0.0/8".parse().unwrap()]);
        let mut held: Vec<_> = (0..4).map(|_| cap.take(proxy, &Watch::default()).unwrap().0).collect();
        assert!(held[0].move_to(client) && held[1].move_to(client));
        assert!(!held[2].move_to(client), "two per address");
        assert!(cap.take(client, &Watch::default()).is_none());
        drop(held.remove(0));
        assert!(held[1].move_to(client), "one of them is gone");
        drop(held);
        assert!(cap.0.lock().by_address.is_empty());
    }

    #[tokio::test]
    async fn all_connections_are_told_to_close() {
        let address = "192.0.2.1".parse().unwrap();
        let cap = Cap::new(2, 2, vec![]);
        let (_place, closing) = cap.take(address, &Watch::default()).unwrap();
        cap.close();
        closing.signal().await;
        assert!(cap.take(address, &Watch::default()).is_none(), "nobody comes after that");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_told_to_close_and_a_busy_one_is_not() {
        let cap = Cap::new(2, 2, vec![]);
        let watches = [Watch::default(), Watch::default()];
        let [idle, busy] = watches.each_ref().map(|watch| cap.take("192.0.2.1".parse().unwrap(), watch).unwrap());
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
