//! Which connections there are: how many there may be, and telling all of them to end.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ipnet::IpNet;
use ringtrue_engine::rate_limit::subscriber;
use tokio::sync::oneshot;

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
    /// One end for each connection. Dropping it tells the connection to close.
    open: HashMap<u64, oneshot::Sender<()>>,
    next: u64,
    is_closed: bool,
}

/// Tells a connection that the listener closes.
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

    pub fn take(&self, address: IpAddr) -> Option<(Place, Closing)> {
        let is_exempt = self.0.exempt.iter().any(|range| range.contains(&address.to_canonical()));
        let address = subscriber(address);
        let mut taken = self.0.lock();
        let of_address = taken.by_address.get(&address).copied().unwrap_or(0);
        let is_full = taken.open.len() >= self.0.most || (of_address >= self.0.most_per_address && !is_exempt);
        if is_full || taken.is_closed {
            return None;
        }
        let (open, closing) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        taken.open.insert(number, open);
        taken.by_address.insert(address, of_address + 1);
        Some((Place { cap: self.clone(), address, number }, Closing(closing)))
    }

    /// Tells every connection to close, and lets no new one in.
    pub fn close(&self) {
        let mut taken = self.0.lock();
        taken.is_closed = true;
        taken.open.clear();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.cap.0.lock();
        taken.open.remove(&self.number);
        if let Some(of_address) = taken.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_in_all_and_per_address_and_come_back() {
        let [one, two, proxy] = ["192.0.2.1", "192.0.2.2", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let cap = Cap::new(5, 2, vec!["10.0.0.0/8".parse().unwrap()]);
        let held = [cap.take(one), cap.take(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(cap.take(one).is_none(), "two per address");
        let others = [cap.take(proxy), cap.take(proxy), cap.take(proxy)];
        assert!(others.iter().all(Option::is_some), "a proxy may have more");
        assert!(cap.take(two).is_none(), "five in all");
        drop(held);
        assert!(cap.take(one).is_some() && cap.take(two).is_some());
    }

    #[tokio::test]
    async fn all_connections_are_told_to_close() {
        let address = "192.0.2.1".parse().unwrap();
        let cap = Cap::new(2, 2, vec![]);
        let (_place, closing) = cap.take(address).unwrap();
        cap.close();
        closing.signal().await;
        assert!(cap.take(address).is_none(), "nobody comes after that");
    }
}
