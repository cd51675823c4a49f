//! Looking addresses up among 100,000 ranges in memory: ours, which gives the network, against the crate `maxminddb` on
//! a database with the same ranges. One thread each.
//!
//! The crate is let off lightly: finding where its record is counts, reading the record does not.

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
use ringtrue_engine::ports::{AddressBook, Located};
use ringtrue_operators::ip_routing::{IpRouting, IpRoutingConfig};
use tokio::time::Instant;

use crate::{
    load::per_second,
    mmdb,
    report::{self, Rates},
};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(500);
/// How many are looked up in turn.
const ADDRESSES: u32 = 1 << 16;
const V4_RANGES: u32 = 80_000;
const V6_RANGES: u32 = 20_000;
const NETWORKS: u32 = 500;
/// Odd, so that its multiples are all different; they look as if they had no order.
const STRIDE: u32 = 0x9e37_79b1;

/// The one that the first range is of, and every five-hundredth after it.
pub const FIRST_NETWORK: &str = "23410";

pub fn compare() -> anyhow::Result<bool> {
    report::heading("Addresses: look-ups among 100,000 ranges, 80,000 of IPv4 and 20,000 of IPv6, one thread");
    let ranges = ranges()?;
    let routing = routing(&ranges)?;
    let database = Reader::from_source(mmdb::database(&ranges)?)?;
    let addresses: Vec<IpAddr> =
        (0..ADDRESSES).map(|turn| address_in(ranges[pick(turn, ranges.len())].1, turn)).collect();
    for address in &addresses {
        let ours = routing.locate(*address);
        let theirs = in_database(&database, *address)?;
        ensure!(ours == Located::Mobile(theirs), "they do not agree on {address}");
    }

    let ours_once = || look_up(&addresses, |address| routing.locate(address));
    let theirs_once = || look_up(&addresses, |address| database.lookup(address).map(|found| found.has_data()));
    let mut ours = Rates::new("ringtrue");
    let mut theirs = Rates::new("maxminddb");
    // Nobody is measured cold.
    ours_once();
    theirs_once();
    for _ in 0..ROUNDS {
        ours.rounds.push(ours_once());
        theirs.rounds.push(theirs_once());
    }
    report::rates(&ours, "look-ups/s");
    report::rates(&theirs, "look-ups/s");
    Ok(report::ratio(&ours, &theirs, 1.0))
}

/// Networks and their ranges, none of which lies in another.
pub fn ranges() -> anyhow::Result<Vec<(NetworkId, IpNet)>> {
    let networks = (0..NETWORKS).map(|network| match network {
        0 => FIRST_NETWORK.parse(),
        _ => format!("{}{:02}", 300 + network, network % 100).parse(),
    });
    let networks = networks.collect::<Result<Vec<NetworkId>, _>>()?;
    // 80.0.0.0/4, which is public throughout.
    let v4 = (0..V4_RANGES).map(|range| {
        let place = range.wrapping_mul(STRIDE) & 0x000f_ffff;
        Ipv4Net::new(Ipv4Addr::from_bits(0x5000_0000 | place << 8), 24).map(IpNet::V4)
    });
    // 2a00::/8, likewise.
    let v6 = (0..V6_RANGES).map(|range| {
        let place = u128::from(range.wrapping_mul(STRIDE));
        Ipv6Net::new(Ipv6Addr::from_bits(0x2a << 120 | place << 80), 48).map(IpNet::V6)
    });
    let ranges = v4.chain(v6).collect::<Result<Vec<IpNet>, _>>()?;
    Ok(ranges.into_iter().enumerate().map(|(turn, range)| (networks[turn % networks.len()].clone(), range)).collect())
}

/// One of the addresses in a range.
pub fn address_in(range: IpNet, turn: u32) -> IpAddr {
    let host = turn.wrapping_mul(STRIDE);
    match range {
        IpNet::V4(range) => Ipv4Addr::from_bits(range.network().to_bits() | host >> range.prefix_len()).into(),
        IpNet::V6(range) => Ipv6Addr::from_bits(range.network().to_bits() | u128::from(host)).into(),
    }
}

fn pick(turn: u32, among: usize) -> usize {
    turn.wrapping_mul(STRIDE) as usize % among
}

fn routing(ranges: &[(NetworkId, IpNet)]) -> anyhow::Result<IpRouting> {
    let mut by_network = BTreeMap::<NetworkId, Vec<IpNet>>::new();
    for (network, range) in ranges {
        by_network.entry(network.clone()).or_default().push(*range);
    }
    Ok(IpRouting::load(&IpRoutingConfig { ranges: by_network, ..IpRoutingConfig::default() })?)
}

fn in_database(database: &Reader<Vec<u8>>, address: IpAddr) -> anyhow::Result<NetworkId> {
    let found = database.lookup(address)?.decode::<geoip2::Isp<'_>>()?.context("not in the database")?;
    let (country, network) = found.mobile_country_code.zip(found.mobile_network_code).context("no codes")?;
    Ok(format!("{country}{network}").parse()?)
}

fn look_up<T>(addresses: &[IpAddr], find: impl Fn(IpAddr) -> T) -> f64 {
    let begun = Instant::now();
    let mut found = 0;
    while begun.elapsed() < ROUND {
        for address in addresses {
            black_box(find(black_box(*address)));
            found += 1;
        }
    }
    per_second(found, begun.elapsed())
}
