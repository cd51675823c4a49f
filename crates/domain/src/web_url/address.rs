//! Which addresses we connect to on a caller's word.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::Host;

/// The one rule about addresses that come from a caller.
///
/// It is asked when a URL is given, about a host that is an address or is known to name one; and it is asked again by
/// the outbound client, at each attempt, about every address that a name resolved to. Only the second time is decisive:
/// a name may resolve to one address today and to another tomorrow.
///
/// What is not public is refused by default: the tables below list what is not, and whatever lies outside the space
/// of global unicast addresses is not either. The operator makes exceptions, by range or by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Ranges that are permitted although they are not public.
    pub allow: Vec<IpNet>,
    /// Names, in punycode, that are permitted whatever they resolve to.
    pub allow_hosts: Vec<String>,
    /// The names, in punycode, and the addresses under which this service is reached itself: a callback to us is a loop.
    pub own_hosts: Vec<Host>,
    /// Where this service listens on loopback addresses. A range that is allowed for receivers on the same machine does
    /// not open them; only the very address does.
    pub own_listeners: Vec<SocketAddr>,
}

impl AddressPolicy {
    /// Whether a connection to this address may be made.
    pub fn permits(&self, address: IpAddr) -> bool {
        self.allows(address) || is_public(address) && !self.is_own(address)
    }

    /// Whether a connection to this port of an address may be made. `resolved_own`: addresses that the names in
    /// [`own_hosts`](Self::own_hosts) have, as far as they are known.
    pub fn permits_endpoint(&self, address: IpAddr, port: u16, resolved_own: &[IpAddr]) -> bool {
        let is_own = resolved_own.iter().any(|own| own.to_canonical() == address.to_canonical());
        self.permits(address) && !self.is_own_listener(address, port) && (!is_own || self.allows(address))
    }

    /// Whether a URL with this name and port may be taken, as far as that is known before it is resolved.
    pub fn permits_name_and_port(&self, name: &str, port: u16) -> bool {
        let is_own_listener = is_within(name, "localhost") && self.own_listeners.iter().any(|own| own.port() == port);
        self.trusts(name) || (self.permits_name(name) && !is_own_listener)
    }

    fn is_own_listener(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let is_ours = self.own_listeners.iter().any(|own| own.port() == port && own.ip().to_canonical() == address);
        let is_named = |range: &IpNet| range.prefix_len() == range.max_prefix_len() && range.addr() == address;
        is_ours && !self.allow.iter().any(is_named)
    }

    /// Whether a host of this name may be asked for. What it resolves to is for [`permits`](Self::permits) to judge,
    /// unless the operator [`trusts`](Self::trusts) the name.
    ///
    /// Only names whose answer is known beforehand are refused. There are others like them; they are found out when
    /// they resolve.
    pub fn permits_name(&self, name: &str) -> bool {
        if self.trusts(name) {
            return true;
        }
        if self.is_own_name(name) || SPELLS_AN_ADDRESS.iter().any(|parent| is_within(name, parent)) {
            return false;
        }
        let is_loopback = is_within(name, "localhost");
        !is_loopback || self.permits(Ipv4Addr::LOCALHOST.into()) || self.permits(Ipv6Addr::LOCALHOST.into())
    }

    /// Whether the operator vouches for this name, so that its addresses need not be asked about.
    pub fn trusts(&self, name: &str) -> bool {
        names(&self.allow_hosts, name)
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.own_hosts.iter().any(|host| matches!(host, Host::Domain(own) if own.eq_ignore_ascii_case(name)))
    }

    /// However the two are spelt: in IPv6 an IPv4 address has another form.
    fn is_own(&self, address: IpAddr) -> bool {
        let own = |host: &Host| match host {
            Host::Domain(_) => None,
            Host::Ipv4(own) => Some(IpAddr::V4(*own)),
            Host::Ipv6(own) => Some(IpAddr::V6(*own)),
        };
        let address = address.to_canonical();
        self.own_hosts.iter().filter_map(own).any(|own| own.to_canonical() == address)
    }

    fn allows(&self, address: IpAddr) -> bool {
        // A connection to `::ffff:10.0.0.1` is a connection to `10.0.0.1`, so whoever allowed the one allowed the other.
        let unwrapped = address.to_canonical();
        self.allow.iter().any(|range| range.contains(&address) || range.contains(&unwrapped))
    }
}

/// Services that answer `10.0.0.1.<name>` with `10.0.0.1`: an address in disguise, and no receiver's own name.
const SPELLS_AN_ADDRESS: [&str; 2] = ["nip.io", "sslip.io"];

/// Not public in IPv4, after the IANA registry of special-purpose addresses.
const SPECIAL_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 0, 8),       // this network, the unspecified address in it
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // shared, behind carrier-grade NAT
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local, the metadata services of clouds in it
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 88, 99, 0, 24),  // relays of 6to4, withdrawn
    v4(192, 168, 0, 0, 16),  // private
    v4(198, 18, 0, 0, 15),   // benchmarking
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved, broadcast in it
];

/// All that is public in IPv6 lies in here. Loopback, link-local, site-local and unique local addresses, multicast, the
/// discard prefix, IPv4 mapped, compatible or translated (NAT64: `64:ff9b::/96` and `64:ff9b:1::/48`) lie elsewhere.
const GLOBAL_UNICAST_V6: Ipv6Net = v6([0x2000, 0, 0], 3);

/// Not public in IPv6, although in the space of global unicast.
const SPECIAL_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0], 23),      // protocol assignments: Teredo, benchmarking, ORCHID
    v6([0x2001, 0x0db8, 0], 32), // documentation
    v6([0x2002, 0, 0], 16),      // 6to4, any IPv4 address in disguise
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

fn names(hosts: &[String], name: &str) -> bool {
    hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// Whether `name` is `parent` or a name below it.
fn is_within(name: &str, parent: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.strip_suffix(parent).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}
