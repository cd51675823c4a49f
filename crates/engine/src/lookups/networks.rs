//! The networks of a deployment: their directory, the networks of IP addresses, the receiver numbers for SMS, and the
//! connectors to their operators.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use ringtrue_domain::{
    eligibility::PRODUCTS,
    network::{Network, NetworkDirectory, NetworkId, PoolScope},
    page::{Page, PageRequest},
    phone::{Country, Msisdn},
    product::Product,
};

use crate::ports::{
    lookups::{AddressNetwork, AddressNetworkTable},
    silent::SilentConnector,
    sim_swap::SimSwapConnector,
};

/// A network in the form in which API clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInfo {
    pub id: NetworkId,
    pub name: String,
    pub aliases: Vec<String>,
    /// ISO 3166-1 alpha-2 code, or `ZZ` for the simulated operator.
    pub country: String,
    /// Dialling code of the country, without a `+`.
    pub dialing_code: String,
}

impl From<&Network> for NetworkInfo {
    fn from(network: &Network) -> Self {
        NetworkInfo {
            id: network.id.clone(),
            name: network.name.clone(),
            aliases: network.aliases.clone(),
            country: network.country.to_string(),
            dialing_code: dialing_code(network.country),
        }
    }
}

pub(crate) fn dialing_code(country: Country) -> String {
    country.dialing_code().map_or_else(String::new, |code| code.to_string())
}

/// The configured networks and the connectors to their operators. A configuration reload replaces each field as a
/// whole. Connectors report which receiver numbers are available.
#[derive(Debug, Default)]
pub struct Networks {
    directory: ArcSwap<NetworkDirectory>,
    infos: ArcSwap<HashMap<NetworkId, Arc<NetworkInfo>>>,
    /// Receiver numbers for which no connector currently receives SMS.
    unavailable: ArcSwap<HashSet<Msisdn>>,
    /// For each receiver, the names of its connectors, and whether each currently receives SMS.
    receiver_connectors: Mutex<HashMap<Msisdn, HashMap<Arc<str>, bool>>>,
    /// Round-robin position in each pool of receivers.
    cursors: ArcSwap<HashMap<PoolKey, AtomicUsize>>,
    address_table: ArcSwapOption<Box<dyn AddressNetworkTable>>,
    silent_routes: ArcSwap<Vec<SilentNetworkRoute>>,
    sim_swap_routes: ArcSwap<Vec<SimSwapNetworkRoute>>,
}

/// Identifies a pool of receiver numbers by its users: the subscribers of a network or a country, or everybody.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PoolKey {
    Network(NetworkId),
    Country(Country),
    Everybody,
}

impl From<PoolScope<'_>> for PoolKey {
    fn from(audience: PoolScope<'_>) -> Self {
        match audience {
            PoolScope::Network(network) => PoolKey::Network(network.id.clone()),
            PoolScope::Country(country) => PoolKey::Country(country),
            PoolScope::Global => PoolKey::Everybody,
        }
    }
}

/// A connector for SIM Swap and the networks it serves.
#[derive(Clone, Debug)]
pub struct SimSwapNetworkRoute {
    pub networks: Vec<NetworkId>,
    pub connector: Arc<dyn SimSwapConnector>,
}

/// A connector for silent checks and the networks it serves.
#[derive(Clone, Debug)]
pub struct SilentNetworkRoute {
    pub networks: Vec<NetworkId>,
    pub connector: Arc<dyn SilentConnector>,
}

impl Networks {
    pub fn directory(&self) -> arc_swap::Guard<Arc<NetworkDirectory>> {
        self.directory.load()
    }

    pub fn replace(&self, directory: NetworkDirectory) {
        let infos = directory.networks().map(|network| (network.id.clone(), Arc::new(network.into())));
        self.infos.store(Arc::new(infos.collect()));
        let cursors = directory.all_pools().map(|(audience, _)| (audience.into(), AtomicUsize::new(0)));
        self.cursors.store(Arc::new(cursors.collect()));
        self.directory.store(Arc::new(directory));
    }

    pub fn info(&self, network: &Network) -> Arc<NetworkInfo> {
        // The entry is missing only during `replace`, which stores the infos and the directory one after the other.
        self.infos.load().get(&network.id).map_or_else(|| Arc::new(network.into()), Arc::clone)
    }

    pub fn set_address_networks(&self, table: Box<dyn AddressNetworkTable>) {
        self.address_table.store(Some(Arc::new(table)));
    }

    /// Returns the network of an IP address. If the table has an alias id of a configured network, replaces it with the
    /// network's main id.
    pub fn network_of_address(&self, address: IpAddr) -> AddressNetwork {
        match self
            .address_table
            .load()
            .as_ref()
            .map_or(AddressNetwork::Unknown, |table| table.network_of_address(address))
        {
            AddressNetwork::Mobile(id) => match self.directory().find_by_any_id(&id) {
                Some(network) if network.id != id => AddressNetwork::Mobile(network.id.clone()),
                _ => AddressNetwork::Mobile(id),
            },
            other => other,
        }
    }

    pub fn set_silent_routes(&self, routes: Vec<SilentNetworkRoute>) {
        self.silent_routes.store(Arc::new(routes));
    }

    pub fn silent_connector_of_network(
        &self,
        network: &NetworkId,
        product: Product,
    ) -> Option<Arc<dyn SilentConnector>> {
        let routes = self.silent_routes.load();
        let serves =
            |route: &&SilentNetworkRoute| self.is_listed(network, &route.networks) && route.connector.supports(product);
        routes.iter().find(serves).map(|route| Arc::clone(&route.connector))
    }

    /// Returns a connector that serves both networks, for example a virtual operator (MVNO) and its host network.
    pub fn shared_silent_connector(
        &self,
        one: &NetworkId,
        other: &NetworkId,
        product: Product,
    ) -> Option<Arc<dyn SilentConnector>> {
        let routes = self.silent_routes.load();
        let serves_both = |route: &&SilentNetworkRoute| {
            self.is_listed(one, &route.networks) && self.is_listed(other, &route.networks)
        };
        routes.iter().filter(serves_both).map(|route| &route.connector).find(|route| route.supports(product)).cloned()
    }

    /// Returns a connector that verifies numbers of this network by tokens from wallets.
    pub fn operator_token_connector(&self, network: &NetworkId) -> Option<Arc<dyn SilentConnector>> {
        let routes = self.silent_routes.load();
        let serves = |route: &&SilentNetworkRoute| {
            self.is_listed(network, &route.networks) && route.connector.operator_token_verifier().is_some()
        };
        routes.iter().find(serves).map(|route| Arc::clone(&route.connector))
    }

    /// Returns the network of a SIM, given as MCC and MNC, and a connector that verifies numbers by its tokens.
    pub fn operator_token_connector_of_carrier(&self, carrier: &str) -> Option<(NetworkId, Arc<dyn SilentConnector>)> {
        let routes = self.silent_routes.load();
        routes.iter().find_map(|SilentNetworkRoute { connector, .. }| {
            Some((connector.operator_token_verifier()?.network_of_carrier(carrier)?, Arc::clone(connector)))
        })
    }

    pub fn silent_connector_by_name(&self, name: &str) -> Option<Arc<dyn SilentConnector>> {
        let routes = self.silent_routes.load();
        routes.iter().map(|route| &route.connector).find(|connector| connector.name() == name).cloned()
    }

    pub fn set_sim_swap_routes(&self, routes: Vec<SimSwapNetworkRoute>) {
        self.sim_swap_routes.store(Arc::new(routes));
    }

    pub fn sim_swap_connector(&self, network: &NetworkId) -> Option<Arc<dyn SimSwapConnector>> {
        let routes = self.sim_swap_routes.load();
        routes.iter().find(|route| self.is_listed(network, &route.networks)).map(|route| Arc::clone(&route.connector))
    }

    /// Returns whether `listed` contains the network, by any of its ids.
    fn is_listed(&self, id: &NetworkId, listed: &[NetworkId]) -> bool {
        listed.contains(id) || self.directory().get(id).is_some_and(|network| network.matches_any(listed))
    }

    pub fn supported_products(&self, network: &Network) -> Vec<Product> {
        let (routes, sim_swap_routes) = (self.silent_routes.load(), self.sim_swap_routes.load());
        let can = |product: &Product| match product {
            Product::SecureSna | Product::Discovery => routes
                .iter()
                .any(|route| self.is_listed(&network.id, &route.networks) && route.connector.supports(*product)),
            Product::SimSwap => sim_swap_routes.iter().any(|route| self.is_listed(&network.id, &route.networks)),
            Product::ReverseSms => self.has_receiver(network),
            // The other products involve no operator.
            _ => false,
        };
        PRODUCTS.into_iter().filter(can).collect()
    }

    /// Returns whether the deployment can currently serve a product for subscribers of this network.
    pub fn is_reachable(&self, network: &Network, product: Product) -> bool {
        match product {
            Product::SecureSna | Product::Discovery => {
                self.silent_connector_of_network(&network.id, product).is_some_and(|connector| connector.is_reachable())
            }
            Product::SimSwap => self.sim_swap_connector(&network.id).is_some_and(|connector| connector.is_reachable()),
            Product::ReverseSms => self.has_receiver(network),
            Product::Eligibility | Product::Verification | Product::SignIn => true,
        }
    }

    /// Lists the configured networks with their supported products. Without a `country`, lists the networks of all
    /// countries.
    pub fn list_networks(
        &self,
        country: Option<Country>,
        request: PageRequest,
    ) -> Page<(Arc<NetworkInfo>, Vec<Product>)> {
        let directory = self.directory();
        let matching =
            || directory.networks().filter(|network| country.is_none_or(|country| network.country == country));
        let offset = usize::try_from(request.offset()).unwrap_or(usize::MAX);
        let items = matching().skip(offset).take(request.size() as usize);
        let items = items.map(|network| (self.info(network), self.supported_products(network))).collect();
        Page { items, request, total_items: matching().count() as u64 }
    }

    /// Returns whether subscribers of this network have an available receiver to send SMS to.
    pub fn has_receiver(&self, network: &Network) -> bool {
        let (directory, unavailable) = (self.directory(), self.unavailable.load());
        directory.pools_for_network(network).flat_map(|(_, pool)| pool).any(|receiver| !unavailable.contains(receiver))
    }

    /// Records whether a connector currently receives SMS for these numbers.
    pub fn set_receivers_available(&self, connector: &Arc<str>, receivers: &[Msisdn], is_available: bool) {
        self.update_receivers(|receiver_connectors| {
            for receiver in receivers {
                receiver_connectors.entry(receiver.clone()).or_default().insert(Arc::clone(connector), is_available);
            }
        });
    }

    /// Returns the names of the connectors that serve a receiver, and whether each currently receives SMS.
    pub fn connectors_of_receiver(&self, receiver: &Msisdn) -> Vec<(Arc<str>, bool)> {
        let receiver_connectors = self.receiver_connectors.lock();
        let connectors = receiver_connectors.get(receiver).into_iter().flatten();
        let mut found: Vec<_> =
            connectors.map(|(connector, is_available)| (Arc::clone(connector), *is_available)).collect();
        found.sort();
        found
    }

    /// Returns the names of the connectors that serve a product for subscribers of a network.
    pub fn connector_names(&self, network: &NetworkId, product: Product) -> Vec<String> {
        match product {
            Product::SecureSna | Product::Discovery => self
                .silent_connector_of_network(network, product)
                .iter()
                .map(|connector| connector.name().to_owned())
                .collect(),
            Product::SimSwap => {
                self.sim_swap_connector(network).iter().map(|connector| connector.name().to_owned()).collect()
            }
            Product::ReverseSms => {
                let directory = self.directory();
                let Some(network) = directory.find_by_any_id(network) else { return Vec::new() };
                let pool = directory.pools_for_network(network).next().map(|(_, pool)| pool);
                let receivers = pool.into_iter().flatten();
                let connectors = receivers.flat_map(|receiver| self.connectors_of_receiver(receiver));
                let mut names: Vec<_> = connectors.map(|(name, _)| name.to_string()).collect();
                names.sort_unstable();
                names.dedup();
                names
            }
            // The other products involve no operator.
            _ => Vec::new(),
        }
    }

    /// Removes a connector that is no longer configured from all receivers.
    pub fn remove_connector(&self, connector: &str) {
        self.update_receivers(|receiver_connectors| {
            for connectors in receiver_connectors.values_mut() {
                connectors.remove(connector);
            }
        });
    }

    fn update_receivers(&self, change: impl FnOnce(&mut HashMap<Msisdn, HashMap<Arc<str>, bool>>)) {
        let mut receiver_connectors = self.receiver_connectors.lock();
        change(&mut receiver_connectors);
        receiver_connectors.retain(|_, connectors| !connectors.is_empty());
        let unavailable =
            receiver_connectors.iter().filter(|(_, connectors)| !connectors.values().any(|is_available| *is_available));
        self.unavailable.store(Arc::new(unavailable.map(|(receiver, _)| receiver.clone()).collect()));
    }

    /// Returns the next available receiver for subscribers of this network. Takes the first pool with an available
    /// receiver, and rotates within this pool.
    pub fn next_receiver(&self, network: &Network) -> Option<Msisdn> {
        let (directory, unavailable, cursors) = (self.directory(), self.unavailable.load(), self.cursors.load());
        directory.pools_for_network(network).find_map(|(audience, pool)| {
            let mut available = pool.iter().filter(|receiver| !unavailable.contains(*receiver));
            let count = available.clone().count();
            if count == 0 {
                return None;
            }
            // The cursor is missing only during `replace`, which stores cursors and directory one after the other.
            let turn = cursors.get(&audience.into()).map_or(0, |cursor| cursor.fetch_add(1, Ordering::Relaxed));
            available.nth(turn % count).cloned()
        })
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use ringtrue_domain::{
        lifecycle::{CheckId, ErrorCode},
        tenancy::Mode,
    };

    use super::*;
    use crate::ports::{
        operator_tokens::{
            CredentialRequest, CredentialResponse, DigitalCredential, OperatorToken, OperatorTokenVerifier,
        },
        silent::{
            AuthorizationRedirect, DeviceQuestion, OperatorAuthorizationRequest, OperatorAuthorizationResponse,
            SilentResult,
        },
    };

    /// A connector that takes tokens of SIMs of one network.
    #[derive(Debug)]
    struct TokenConnector(&'static str);

    #[async_trait]
    impl SilentConnector for TokenConnector {
        fn name(&self) -> &str {
            self.0
        }

        fn supports(&self, product: Product) -> bool {
            product == Product::SecureSna
        }

        async fn begin_authorization(
            &self,
            _: OperatorAuthorizationRequest<'_>,
        ) -> Result<AuthorizationRedirect, ErrorCode> {
            Err(ErrorCode::MnoRedirectUnsupported)
        }

        async fn complete_authorization(
            &self,
            _: OperatorAuthorizationResponse<'_>,
        ) -> Result<SilentResult, ErrorCode> {
            Err(ErrorCode::MnoRedirectUnsupported)
        }

        async fn verify_device(&self, _: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
            Err(ErrorCode::MnoRedirectUnsupported)
        }

        fn operator_token_verifier(&self) -> Option<&dyn OperatorTokenVerifier> {
            Some(self)
        }
    }

    #[async_trait]
    impl OperatorTokenVerifier for TokenConnector {
        fn is_available(&self) -> bool {
            true
        }

        fn credential_request(&self, _: CredentialRequest<'_>) -> Result<DigitalCredential, ErrorCode> {
            Err(ErrorCode::InternalError)
        }

        fn stated_nonce(&self, _: &DigitalCredential) -> Option<String> {
            None
        }

        fn verify_credential(&self, _: &CredentialResponse<'_>) -> Result<OperatorToken, &'static str> {
            Err("no wallet")
        }

        fn network_of_carrier(&self, carrier: &str) -> Option<NetworkId> {
            (self.0 == carrier).then(|| carrier.parse().unwrap())
        }

        async fn verify_number_with_token(&self, _: CheckId, _: &Msisdn, _: &str) -> Result<bool, ErrorCode> {
            Err(ErrorCode::InternalError)
        }
    }

    #[test]
    fn tokens_go_to_the_operator_of_their_sim() {
        let networks = Networks::default();
        let route = |carrier: &'static str| SilentNetworkRoute {
            networks: vec![carrier.parse().unwrap()],
            connector: Arc::new(TokenConnector(carrier)),
        };
        networks.set_silent_routes(vec![route("23410"), route("23420")]);
        let connector = |carrier: &str| {
            let found = networks.operator_token_connector_of_carrier(carrier);
            found.map(|(network, connector)| (network.to_string(), connector.name().to_owned()))
        };
        let its_own = |carrier: &str| Some((carrier.to_owned(), carrier.to_owned()));
        assert_eq!(connector("23420"), its_own("23420"));
        assert_eq!(connector("23410"), its_own("23410"));
        assert_eq!(connector("23415"), None);
    }

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
    fn each_pool_has_its_own_round_robin() {
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
        // The requests for the networks alternate, so a cursor shared by all pools would skip numbers.
        let used: Vec<Vec<u8>> = (0..6)
            .map(|_| all.iter().map(|network| networks.next_receiver(network).unwrap().tail().value()).collect())
            .collect();
        let of = |index: usize| used.iter().map(|round| round[index]).collect::<Vec<_>>();
        assert_eq!(of(0), [1, 2, 1, 2, 1, 2]);
        assert_eq!(of(1), [3, 4, 3, 4, 3, 4]);
        assert_eq!(of(2), [5, 6, 5, 6, 5, 6]);
        assert_eq!(of(3), [7, 8, 9, 7, 8, 9]);
        networks.set_receivers_available(&"one".into(), &[number(7)], false);
        let next: Vec<_> = (0..4).map(|_| networks.next_receiver(&all[3]).unwrap().tail().value()).collect();
        assert_eq!(next, [8, 9, 8, 9], "unavailable receivers are skipped");
    }

    #[test]
    fn only_available_receivers_are_used() {
        let networks = Networks::default();
        let network = network();
        networks.replace(NetworkDirectory::new(vec![network.clone()], vec![], vec![number(3)]).unwrap());
        let next = || networks.next_receiver(&network).map(|number| number.tail().value());
        let two: HashSet<_> = [next(), next()].into();
        assert_eq!(two, HashSet::from([Some(1), Some(2)]));

        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        networks.set_receivers_available(&one, &[number(1), number(2)], false);
        assert_eq!([next(), next()], [Some(3), Some(3)], "the next pool is used");
        networks.set_receivers_available(&other, &[number(2)], true);
        assert_eq!([next(), next()], [Some(2), Some(2)]);
        assert_eq!(networks.connectors_of_receiver(&number(2)), [(one.clone(), false), (other.clone(), true)]);
        assert_eq!(networks.connectors_of_receiver(&number(3)), []);
        let names = |id: &str, product| networks.connector_names(&id.parse().unwrap(), product);
        assert_eq!(names("23410", Product::ReverseSms), ["one", "other"]);
        assert!(names("23410", Product::SimSwap).is_empty() && names("23420", Product::ReverseSms).is_empty());
        networks.set_receivers_available(&one, &[number(3)], false);
        networks.set_receivers_available(&other, &[number(2)], false);
        assert_eq!(next(), None);
        networks.remove_connector("one");
        assert!(next().is_some());
    }
}
