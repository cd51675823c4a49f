//! The addresses that callback URLs may use (SSRF protection).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::Host;

/// Decides to which hosts and addresses callbacks may be sent.
///
/// It is applied twice: to the host when a client submits a URL, and by the outbound client to every resolved address
/// at each attempt. The second check is the decisive one, because a name may resolve to another address later.
///
/// By default only public addresses are permitted: global unicast addresses outside the special ranges listed below.
/// The configuration can allow further ranges and names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Address ranges that are permitted although they are not public.
    pub allowed_addresses: Vec<IpNet>,
    /// Host names (in punycode) that are permitted whatever address they resolve to.
    pub allowed_hosts: Vec<String>,
    /// Host names (in punycode) and addresses of this service. They are forbidden, because a callback to this service
    /// would be a loop.
    pub own_hosts: Vec<Host>,
    /// Loopback addresses and ports on which this service listens. They are forbidden even within an allowed range,
    /// unless their exact address is allowed.
    pub own_listeners: Vec<SocketAddr>,
}

impl AddressPolicy {
    pub fn permits(&self, address: IpAddr) -> bool {
        self.explicitly_allows(address) || is_public(address) && !self.is_own(address)
    }

    /// Whether a callback may be sent to an address and port. `resolved_own` contains the known addresses of the names
    /// in [`own_hosts`](Self::own_hosts).
    pub fn permits_endpoint(&self, address: IpAddr, port: u16, resolved_own: &[IpAddr]) -> bool {
        let is_own = resolved_own.iter().any(|own| own.to_canonical() == address.to_canonical());
        self.permits(address) && !self.is_own_listener(address, port) && (!is_own || self.explicitly_allows(address))
    }

    /// Whether a URL may contain a host name with a port, before the name is resolved.
    pub fn permits_name_and_port(&self, name: &str, port: u16) -> bool {
        let is_own_listener = is_within(name, "localhost") && self.own_listeners.iter().any(|own| own.port() == port);
        self.explicitly_allows_host(name) || (self.permits_name(name) && !is_own_listener)
    }

    fn is_own_listener(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let is_ours = self.own_listeners.iter().any(|own| own.port() == port && own.ip().to_canonical() == address);
        let is_named = |range: &IpNet| range.prefix_len() == range.max_prefix_len() && range.addr() == address;
        is_ours && !self.allowed_addresses.iter().any(is_named)
    }

    /// Whether a URL may contain a host name, before the name is resolved. After resolution, [`permits`](Self::permits)
    /// must also permit the addresses, unless the configuration [explicitly allows](Self::explicitly_allows_host) the
    /// name.
    pub fn permits_name(&self, name: &str) -> bool {
        if self.explicitly_allows_host(name) {
            return true;
        }
        if self.is_own_name(name) || WILDCARD_DNS_DOMAINS.iter().any(|parent| is_within(name, parent)) {
            return false;
        }
        let is_loopback = is_within(name, "localhost");
        !is_loopback || self.permits(Ipv4Addr::LOCALHOST.into()) || self.permits(Ipv6Addr::LOCALHOST.into())
    }

    /// Whether the configuration permits this name with any address.
    pub fn explicitly_allows_host(&self, name: &str) -> bool {
        self.allowed_hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.own_hosts.iter().any(|host| matches!(host, Host::Domain(own) if own.eq_ignore_ascii_case(name)))
    }

    /// Whether [`own_hosts`](Self::own_hosts) contains the address. Compares canonical forms, so that IPv4-mapped IPv6
    /// addresses match.
    fn is_own(&self, address: IpAddr) -> bool {
        let own = |host: &Host| match host {
            Host::Domain(_) => None,
            Host::Ipv4(own) => Some(IpAddr::V4(*own)),
            Host::Ipv6(own) => Some(IpAddr::V6(*own)),
        };
        let address = address.to_canonical();
        self.own_hosts.iter().filter_map(own).any(|own| own.to_canonical() == address)
    }

    /// Whether the configuration permits this address, even if it is an address of this service.
    pub fn explicitly_allows(&self, address: IpAddr) -> bool {
        // A connection to `::ffff:10.0.0.1` is a connection to `10.0.0.1`.
        let unwrapped = address.to_canonical();
        self.allowed_addresses.iter().any(|range| range.contains(&address) || range.contains(&unwrapped))
    }
}

/// DNS services that resolve `10.0.0.1.<name>` to `10.0.0.1`, and so hide private addresses in public names.
const WILDCARD_DNS_DOMAINS: [&str; 2] = ["nip.io", "sslip.io"];

/// Non-public IPv4 ranges (IANA special-purpose address registry).
const SPECIAL_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 0, 8),       // this network, with the unspecified address
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // shared, behind carrier-grade NAT
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local, with cloud metadata services
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 88, 99, 0, 24),  // 6to4 relays, deprecated
    v4(192, 168, 0, 0, 16),  // private
    v4(198, 18, 0, 0, 15),   // benchmarking
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved, with broadcast
];

/// The range that contains all public IPv6 addresses. Outside it are loopback, link-local, site-local, unique local,
/// multicast, discard, IPv4-mapped, IPv4-compatible and NAT64 addresses (`64:ff9b::/96`, `64:ff9b:1::/48`).
const GLOBAL_UNICAST_V6: Ipv6Net = v6([0x2000, 0, 0], 3);

/// Non-public ranges within global unicast IPv6.
const SPECIAL_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0], 23),      // protocol assignments: Teredo, benchmarking, ORCHID
    v6([0x2001, 0x0db8, 0], 32), // documentation
    v6([0x2002, 0, 0], 16),      // 6to4, embeds any IPv4 address
    v6([0x3fff, 0, 0], 20),      // documentation
];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_UNICAST_V6.contains(&address) && !SPECIAL_V6.iter().any(|range| range.contains(&address))
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(start: [u16; 3], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(start[0], start[1], start[2], 0, 0, 0, 0, 0), prefix)
}

/// Whether `name` is `parent` or a subdomain of it.
fn is_within(name: &str, parent: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.strip_suffix(parent).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}
