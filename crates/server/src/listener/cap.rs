//! How many connections there may be.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use ipnet::IpNet;

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
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The right to be connected. Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    cap: Cap,
    address: IpAddr,
}

impl Cap {
    pub fn new(most: usize, most_per_address: usize, exempt: Vec<IpNet>) -> Self {
        Cap(Arc::new(Shared { most, most_per_address, exempt, taken: Mutex::default() }))
    }

    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let is_exempt = self.0.exempt.iter().any(|range| range.contains(&address));
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.all >= self.0.most || (of_address >= self.0.most_per_address && !is_exempt) {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, of_address + 1);
        Some(Place { cap: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.cap.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
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
}
