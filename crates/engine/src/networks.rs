//! The networks of a deployment as they are now: who serves a number or an address, which number a subscriber texts,
//! and which connector asks the operator.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use ringtrue_domain::{
    eligibility::PRODUCTS,
    network::{Audience, Network, NetworkDirectory, NetworkId},
    page::{Page, PageRequest},
    phone::{Country, Msisdn},
    product::Product,
};

use crate::{
    eligibility::UserNetwork,
    ports::{AddressBook, Located, SilentRoute, SimSwapRoute},
};

/// Replaced as a whole when the configuration is read anew. Connectors say here whether they hear.
#[derive(Debug, Default)]
pub struct Networks {
    directory: ArcSwap<NetworkDirectory>,
    /// Its networks as users are told of them.
    shown: ArcSwap<HashMap<NetworkId, Arc<UserNetwork>>>,
    /// Numbers that no connector hears at the moment.
    deaf: ArcSwap<HashSet<Msisdn>>,
    /// Which connectors serve a number, and whether they hear.
    lines: Mutex<HashMap<Msisdn, HashMap<Arc<str>, bool>>>,
    /// Where each pool of receivers stands in its turn.
    cursors: ArcSwap<HashMap<PoolKey, AtomicUsize>>,
    simulated_cursor: AtomicUsize,
    addresses: ArcSwapOption<Box<dyn AddressBook>>,
    routes: ArcSwap<Vec<Route>>,
    simulated: ArcSwapOption<Arc<dyn SilentRoute>>,
    sim_swap_routes: ArcSwap<Vec<SwapRoute>>,
    simulated_sim_swap: ArcSwapOption<Arc<dyn SimSwapRoute>>,
}

/// Names a pool of receivers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PoolKey {
    Network(NetworkId),
    Country(Country),
    Everybody,
}

impl From<Audience<'_>> for PoolKey {
    fn from(audience: Audience<'_>) -> Self {
        match audience {
            Audience::Network(network) => PoolKey::Network(network.id.clone()),
            Audience::Country(country) => PoolKey::Country(country),
            Audience::Everybody => PoolKey::Everybody,
        }
    }
}

/// A connector that asks operators about SIM cards, and the networks that it asks for.
#[derive(Clone, Debug)]
pub struct SwapRoute {
    pub networks: Vec<NetworkId>,
    pub connector: Arc<dyn SimSwapRoute>,
}

/// A connector that asks operators who a device is, and the networks that it asks for.
#[derive(Clone, Debug)]
pub struct Route {
    pub networks: Vec<NetworkId>,
    pub connector: Arc<dyn SilentRoute>,
}

impl Networks {
    pub fn directory(&self) -> arc_swap::Guard<Arc<NetworkDirectory>> {
        self.directory.load()
    }

    pub fn replace(&self, directory: NetworkDirectory) {
        let shown = directory.networks().map(|network| (network.id.clone(), Arc::new(network.into())));
        self.shown.store(Arc::new(shown.collect()));
        let cursors = directory.all_pools().map(|(audience, _)| (audience.into(), AtomicUsize::new(0)));
        self.cursors.store(Arc::new(cursors.collect()));
        self.directory.store(Arc::new(directory));
    }

    /// A network as its users are told of it.
    pub fn shown(&self, network: &Network) -> Arc<UserNetwork> {
        // None is there only for whoever holds on to a directory that is being replaced.
        self.shown.load().get(&network.id).map_or_else(|| Arc::new(network.into()), Arc::clone)
    }

    pub fn set_addresses(&self, addresses: Box<dyn AddressBook>) {
        self.addresses.store(Some(Arc::new(addresses)));
    }

    /// Which network an address is of. Without tables nobody is known. A network that goes by other ids too is named by
    /// its own.
    pub fn locate(&self, address: IpAddr) -> Located {
        match self.addresses.load().as_ref().map_or(Located::Unknown, |addresses| addresses.locate(address)) {
            Located::Mobile(id) => match self.directory().known_as(&id) {
                Some(network) if network.id != id => Located::Mobile(network.id.clone()),
                _ => Located::Mobile(id),
            },
            located => located,
        }
    }

    pub fn set_routes(&self, routes: Vec<Route>) {
        self.routes.store(Arc::new(routes));
    }

    /// The connector that asks this network's operator for a product.
    pub fn silent_route(&self, network: &NetworkId, product: Product) -> Option<Arc<dyn SilentRoute>> {
        let routes = self.routes.load();
        let serves = |route: &&Route| self.is_among(network, &route.networks) && route.connector.serves(product);
        routes.iter().find(serves).map(|route| Arc::clone(&route.connector))
    }

    /// The connector that asks for both networks: a brand's, and that of the network that it lives on.
    pub fn silent_route_of_both(
        &self,
        one: &NetworkId,
        other: &NetworkId,
        product: Product,
    ) -> Option<Arc<dyn SilentRoute>> {
        let routes = self.routes.load();
        let of_both = |route: &&Route| self.is_among(one, &route.networks) && self.is_among(other, &route.networks);
        routes.iter().filter(of_both).map(|route| &route.connector).find(|route| route.serves(product)).cloned()
    }

    /// The connector of this name: a configured one, or the simulated operator's.
    pub fn route_named(&self, name: &str) -> Option<Arc<dyn SilentRoute>> {
        let routes = self.routes.load();
        let configured = routes.iter().map(|route| Arc::clone(&route.connector));
        configured.chain(self.simulated_route()).find(|connector| connector.name() == name)
    }

    pub fn set_simulated_route(&self, connector: Arc<dyn SilentRoute>) {
        self.simulated.store(Some(Arc::new(connector)));
    }

    /// The connector that asks the simulated operator.
    pub fn simulated_route(&self) -> Option<Arc<dyn SilentRoute>> {
        self.simulated.load().as_deref().map(Arc::clone)
    }

    pub fn set_sim_swap_routes(&self, routes: Vec<SwapRoute>) {
        self.sim_swap_routes.store(Arc::new(routes));
    }

    /// The connector that asks this network's operator about SIM cards.
    pub fn sim_swap_route(&self, network: &NetworkId) -> Option<Arc<dyn SimSwapRoute>> {
        let routes = self.sim_swap_routes.load();
        routes.iter().find(|route| self.is_among(network, &route.networks)).map(|route| Arc::clone(&route.connector))
    }

    pub fn set_simulated_sim_swap(&self, connector: Arc<dyn SimSwapRoute>) {
        self.simulated_sim_swap.store(Some(Arc::new(connector)));
    }

    pub fn simulated_sim_swap(&self) -> Option<Arc<dyn SimSwapRoute>> {
        self.simulated_sim_swap.load().as_deref().map(Arc::clone)
    }

    /// Connectors may name a network by any id that it goes by.
    fn is_among(&self, id: &NetworkId, named: &[NetworkId]) -> bool {
        named.contains(id) || self.directory().get(id).is_some_and(|network| network.is_among(named))
    }

    /// What connections to a network's operator can do.
    pub fn supported(&self, network: &Network) -> Vec<Product> {
        let (routes, sim_swap_routes) = (self.routes.load(), self.sim_swap_routes.load());
        let can = |product: &Product| match product {
            Product::SecureSna | Product::Discovery => routes
                .iter()
                .any(|route| self.is_among(&network.id, &route.networks) && route.connector.serves(*product)),
            Product::SimSwap => sim_swap_routes.iter().any(|route| self.is_among(&network.id, &route.networks)),
            Product::ReverseSms => self.has_receiver(network),
            Product::Eligibility => false,
        };
        PRODUCTS.into_iter().filter(can).collect()
    }

    /// The networks of the deployment, of one country if it is named, each with what connections to its operator can do.
    pub fn page(&self, country: Option<Country>, request: PageRequest) -> Page<(Arc<UserNetwork>, Vec<Product>)> {
        let directory = self.directory();
        let wanted = || directory.networks().filter(|network| country.is_none_or(|country| network.country == country));
        let offset = usize::try_from(request.offset()).unwrap_or(usize::MAX);
        let items = wanted().skip(offset).take(request.size() as usize);
        let items = items.map(|network| (self.shown(network), self.supported(network))).collect();
        Page { items, request, total_items: wanted().count() as u64 }
    }

    /// Whether a subscriber of this network can text anybody who hears.
    pub fn has_receiver(&self, network: &Network) -> bool {
        let (directory, deaf) = (self.directory(), self.deaf.load());
        directory.pools(network).flat_map(|(_, pool)| pool).any(|receiver| !deaf.contains(receiver))
    }

    /// A connector says whether it hears what is sent to its numbers.
    pub fn hears(&self, connector: &Arc<str>, receivers: &[Msisdn], hears: bool) {
        self.change(|lines| {
            for receiver in receivers {
                lines.entry(receiver.clone()).or_default().insert(Arc::clone(connector), hears);
            }
        });
    }

    /// Which connectors bring what is sent to a number, and whether each hears it at the moment.
    pub fn lines_of(&self, receiver: &Msisdn) -> Vec<(Arc<str>, bool)> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let connectors = lines.get(receiver).into_iter().flatten();
        let mut found: Vec<_> = connectors.map(|(connector, hears)| (Arc::clone(connector), *hears)).collect();
        found.sort();
        found
    }

    /// A connector that is no longer configured serves nothing.
    pub fn forget(&self, connector: &str) {
        self.change(|lines| {
            for connectors in lines.values_mut() {
                connectors.remove(connector);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<Msisdn, HashMap<Arc<str>, bool>>)) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut lines);
        lines.retain(|_, connectors| !connectors.is_empty());
        let deaf = lines.iter().filter(|(_, connectors)| !connectors.values().any(|hears| *hears));
        self.deaf.store(Arc::new(deaf.map(|(receiver, _)| receiver.clone()).collect()));
    }

    /// The next number that a subscriber of this network can text, if there is one that anybody hears. Each pool goes
    /// through those of its numbers that are heard by itself.
    pub fn receiver(&self, network: &Network) -> Option<Msisdn> {
        let (directory, deaf, cursors) = (self.directory(), self.deaf.load(), self.cursors.load());
        directory.pools(network).find_map(|(audience, pool)| {
            let mut heard = pool.iter().filter(|receiver| !deaf.contains(*receiver));
            let count = heard.clone().count();
            if count == 0 {
                return None;
            }
            // A pool has no cursor only while the directory is being replaced.
            let turn = cursors.get(&audience.into()).map_or(0, |cursor| cursor.fetch_add(1, Ordering::Relaxed));
            heard.nth(turn % count).cloned()
        })
    }

    /// A number that goes up by one for each receiver of the simulated operator.
    pub(crate) fn next_simulated(&self) -> usize {
        self.simulated_cursor.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::tenancy::Mode;

    use super::*;

    fn number(last: u8) -> Msisdn {
        Msisdn::parse(&format!("+4477009000{last:02}"), Mode::Live).unwrap()
    }

    fn network() -> Network {
        Network {
            id: "23410".parse().unwrap(),
            name: "Test".to_owned(),
            aliases: vec![],
            country: "GB".parse().unwrap(),
            prefixes: vec![],
            receivers: vec![number(1), number(2)],
        }
    }

    #[test]
    fn each_pool_is_used_in_turn_by_itself() {
        let networks = Networks::default();
        let pool = |numbers: &[u8]| numbers.iter().copied().map(number).collect::<Vec<_>>();
        let with = |id: &str, country: &str, receivers: &[u8]| Network {
            id: id.parse().unwrap(),
            country: country.parse().unwrap(),
            receivers: pool(receivers),
            ..network()
        };
        let all = [
            with("23410", "GB", &[1, 2]),
            with("23420", "GB", &[]),
            with("27203", "IE", &[]),
            with("26201", "DE", &[]),
        ];
        let countries = vec![("GB".parse().unwrap(), pool(&[3, 4])), ("IE".parse().unwrap(), pool(&[5, 6]))];
        networks.replace(NetworkDirectory::new(all.to_vec(), countries, pool(&[7, 8, 9])).unwrap());
        // Interleaved, so that a turn common to all would leave numbers out.
        let used: Vec<Vec<u8>> = (0..6)
            .map(|_| all.iter().map(|network| networks.receiver(network).unwrap().tail().value()).collect())
            .collect();
        let of = |place: usize| used.iter().map(|round| round[place]).collect::<Vec<_>>();
        assert_eq!(of(0), [1, 2, 1, 2, 1, 2]);
        assert_eq!(of(1), [3, 4, 3, 4, 3, 4]);
        assert_eq!(of(2), [5, 6, 5, 6, 5, 6]);
        assert_eq!(of(3), [7, 8, 9, 7, 8, 9]);
        networks.hears(&"one".into(), &[number(7)], false);
        let next: Vec<_> = (0..4).map(|_| networks.receiver(&all[3]).unwrap().tail().value()).collect();
        assert_eq!(next, [8, 9, 8, 9], "a number that nobody hears takes no turn");
    }

    #[test]
    fn receivers_are_used_in_turn_while_somebody_hears_them() {
        let networks = Networks::default();
        let network = network();
        networks.replace(NetworkDirectory::new(vec![network.clone()], vec![], vec![number(3)]).unwrap());
        let next = || networks.receiver(&network).map(|number| number.tail().value());
        let two: HashSet<_> = [next(), next()].into();
        assert_eq!(two, HashSet::from([Some(1), Some(2)]));

        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        networks.hears(&one, &[number(1), number(2)], false);
        assert_eq!([next(), next()], [Some(3), Some(3)], "the next pool helps out");
        networks.hears(&other, &[number(2)], true);
        assert_eq!([next(), next()], [Some(2), Some(2)]);
        assert_eq!(networks.lines_of(&number(2)), [(one.clone(), false), (other.clone(), true)]);
        assert_eq!(networks.lines_of(&number(3)), []);
        networks.hears(&one, &[number(3)], false);
        networks.hears(&other, &[number(2)], false);
        assert_eq!(next(), None);
        networks.forget("one");
        assert!(next().is_some());
    }
}
