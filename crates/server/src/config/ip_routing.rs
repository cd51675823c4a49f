//! Whose a device's address is: ranges of networks, and databases that know more.

use std::collections::BTreeMap;

use ipnet::IpNet;
use ringtrue_operators::ip_routing::IpRoutingConfig;

use super::{
    ConfigError,
    family::{Family, Named},
    kind::{self, ListOf, OrNone, Whole},
    networks::{id, name},
    sections::ip_networks,
    settings::Settings,
};

/// The members of networks that are read here.
pub(super) const MEMBERS: [&str; 3] = [RANGES, ISPS, SYSTEMS];
const RANGES: &str = "address_ranges";
const ISPS: &str = "isps";
const SYSTEMS: &str = "autonomous_systems";

pub(super) fn read(settings: &Settings) -> Result<IpRoutingConfig, ConfigError> {
    let database = |key| settings.read(key, &OrNone(kind::path()));
    let mut config = IpRoutingConfig {
        range_files: settings.read("ip_routing.range_files", &ListOf(kind::path()))?,
        isp_database: database("ip_routing.isp_database")?,
        connection_type_database: database("ip_routing.connection_type_database")?,
        asn_database: database("ip_routing.asn_database")?,
        ..IpRoutingConfig::default()
    };
    let (mut ranges, mut isps, mut systems) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for section in settings.named(Family::Networks) {
        let network = section.read_name(&id())?;
        let of_network = section.read_if(RANGES, &ip_networks())?.unwrap_or_default();
        for range in &of_network {
            claim(&section, RANGES, &mut ranges, range.trunc())?;
        }
        config.ranges.insert(network.clone(), of_network);
        for isp in section.read_if(ISPS, &ListOf(name()))?.unwrap_or_default() {
            claim(&section, ISPS, &mut isps, format!("{isp:?}"))?;
            config.isps.insert(isp, network.clone());
        }
        for system in section.read_if(SYSTEMS, &ListOf(Whole(1..=u32::MAX - 1)))?.unwrap_or_default() {
            claim(&section, SYSTEMS, &mut systems, system)?;
            config.autonomous_systems.insert(system, network.clone());
        }
    }
    config.ranges.retain(|_, ranges: &mut Vec<IpNet>| !ranges.is_empty());
    Ok(config)
}

/// An address must not lead to two networks.
fn claim<T: Ord + ToString>(
    section: &Named<'_>,
    member: &str,
    claimed: &mut BTreeMap<T, String>,
    item: T,
) -> Result<(), ConfigError> {
    let found = item.to_string();
    let allowed = match claimed.insert(item, section.name.to_owned()) {
        None => return Ok(()),
        Some(other) if other == section.name => "each of them once".to_owned(),
        Some(other) => format!("what is of this network alone; this is in `networks.{other}.{member}` too"),
    };
    Err(section.invalid(member, found, allowed))
}
