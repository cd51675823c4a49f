//! IP address lookups in 100,000 ranges: our IP routing, which returns the network, against the crate `maxminddb` with
//! the same ranges. One thread each.
//!
//! Only the lookup of `maxminddb` is measured, not the decoding of its record.

use std::{
    collections::BTreeMap,
    hint::black_box,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use anyhow::{Context, ensure};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use maxminddb::{Reader, geoip2};
use ringtrue_domain::network::NetworkId;
use ringtrue_engine::ports::lookups::{AddressNetwork, AddressNetworkTable};
use ringtrue_operators::ip_routing::{IpRouting, IpRoutingConfig};
use tokio::time::Instant;

use crate::{
    load::per_second,
    mmdb,
    report::{self, Rates},
};

const ROUNDS: usize = 7;
const ROUND_DURATION: Duration = Duration::from_millis(500);
const ADDRESS_COUNT: u32 = 1 << 16;
const V4_RANGES: u32 = 80_000;
const V6_RANGES: u32 = 20_000;
const NETWORKS: u32 = 500;
/// Odd, so that its multiples are distinct and look random.
const STRIDE: u32 = 0x9e37_79b1;

/// Network of the first range and of every 500th after it.
pub const FIRST_NETWORK: &str = "23410";

pub fn compare() -> anyhow::Result<bool> {
    report::heading("IP address lookups: 80,000 IPv4 and 20,000 IPv6 ranges, one thread");
    let ranges = ranges()?;
    let routing = routing(&ranges)?;
    let database = Reader::from_source(mmdb::build_database(&ranges)?)?;
    let addresses: Vec<IpAddr> =
        (0..ADDRESS_COUNT).map(|turn| pick_address(ranges[pick_index(turn, ranges.len())].1, turn)).collect();
    for address in &addresses {
        let ours = routing.network_of_address(*address);
        let theirs = lookup_in_database(&database, *address)?;
        ensure!(ours == AddressNetwork::Mobile(theirs), "different results for {address}");
    }

    let measure_ours = || measure_lookups(&addresses, |address| routing.network_of_address(address));
    let measure_theirs =
        || measure_lookups(&addresses, |address| database.lookup(address).map(|found| found.has_data()));
    let mut ours = Rates::new("ringtrue");
    let mut theirs = Rates::new("maxminddb");
    // Warm-up.
    measure_ours();
    measure_theirs();
    for _ in 0..ROUNDS {
        ours.rounds.push(measure_ours());
        theirs.rounds.push(measure_theirs());
    }
    report::rates(&ours, "lookups/s");
    report::rates(&theirs, "lookups/s");
    Ok(report::ratio_at_least(&ours, &theirs, 1.0))
}

/// Networks and their disjoint ranges.
pub fn ranges() -> anyhow::Result<Vec<(NetworkId, IpNet)>> {
    let networks = (0..NETWORKS).map(|network| match network {
        0 => FIRST_NETWORK.parse(),
        _ => format!("{}{:02}", 300 + network, network % 100).parse(),
    });
    let networks = networks.collect::<Result<Vec<NetworkId>, _>>()?;
    // 80.0.0.0/4 is public.
    let v4 = (0..V4_RANGES).map(|range| {
        let offset = range.wrapping_mul(STRIDE) & 0x000f_ffff;
        Ipv4Net::new(Ipv4Addr::from_bits(0x5000_0000 | offset << 8), 24).map(IpNet::V4)
    });
    // 2a00::/8 is public.
    let v6 = (0..V6_RANGES).map(|range| {
        let offset = u128::from(range.wrapping_mul(STRIDE));
        Ipv6Net::new(Ipv6Addr::from_bits(0x2a << 120 | offset << 80), 48).map(IpNet::V6)
    });
    let ranges = v4.chain(v6).collect::<Result<Vec<IpNet>, _>>()?;
    Ok(ranges.into_iter().enumerate().map(|(turn, range)| (networks[turn % networks.len()].clone(), range)).collect())
}

pub fn pick_address(range: IpNet, turn: u32) -> IpAddr {
    let host = turn.wrapping_mul(STRIDE);
    match range {
        IpNet::V4(range) => Ipv4Addr::from_bits(range.network().to_bits() | host >> range.prefix_len()).into(),
        IpNet::V6(range) => Ipv6Addr::from_bits(range.network().to_bits() | u128::from(host)).into(),
    }
}

fn pick_index(turn: u32, count: usize) -> usize {
    turn.wrapping_mul(STRIDE) as usize % count
}

fn routing(ranges: &[(NetworkId, IpNet)]) -> anyhow::Result<IpRouting> {
    let mut by_network = BTreeMap::<NetworkId, Vec<IpNet>>::new();
    for (network, range) in ranges {
        by_network.entry(network.clone()).or_default().push(*range);
    }
    Ok(IpRouting::load(&IpRoutingConfig { address_ranges: by_network, ..IpRoutingConfig::default() })?)
}

fn lookup_in_database(database: &Reader<Vec<u8>>, address: IpAddr) -> anyhow::Result<NetworkId> {
    let found = database.lookup(address)?.decode::<geoip2::Isp<'_>>()?.context("not in the database")?;
    let (country, network) = found.mobile_country_code.zip(found.mobile_network_code).context("no MCC and MNC")?;
    Ok(format!("{country}{network}").parse()?)
}

fn measure_lookups<T>(addresses: &[IpAddr], find: impl Fn(IpAddr) -> T) -> f64 {
    let started = Instant::now();
    let mut found = 0;
    while started.elapsed() < ROUND_DURATION {
        for address in addresses {
            black_box(find(black_box(*address)));
            found += 1;
        }
    }
    per_second(found, started.elapsed())
}
