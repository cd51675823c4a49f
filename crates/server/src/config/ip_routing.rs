//! Mapping of device addresses to networks: address ranges and MaxMind databases.

use std::collections::BTreeMap;

use ipnet::IpNet;
use ringtrue_operators::ip_routing::IpRoutingConfig;

use super::{
    ConfigError,
    named_sections::{NamedSection, SectionGroup},
    networks::{display_name, network_id},
    sections::ip_networks,
    settings::Settings,
    value_type::{self, Integer, ListOf, Optional},
};

/// Members of `[networks.ID]` that this module reads.
pub(super) const MEMBERS: [&str; 3] = [ADDRESS_RANGES, ISPS, AUTONOMOUS_SYSTEMS];
const ADDRESS_RANGES: &str = "address_ranges";
const ISPS: &str = "isps";
const AUTONOMOUS_SYSTEMS: &str = "autonomous_systems";

pub(super) fn read(settings: &Settings) -> Result<IpRoutingConfig, ConfigError> {
    let database = |key| settings.read(key, &Optional(value_type::file_path()));
    let mut config = IpRoutingConfig {
        range_files: settings.read("ip_routing.range_files", &ListOf(value_type::file_path()))?,
        isp_database: database("ip_routing.isp_database")?,
        connection_type_database: database("ip_routing.connection_type_database")?,
        asn_database: database("ip_routing.asn_database")?,
        ..IpRoutingConfig::default()
    };
    let (mut ranges, mut isps, mut systems) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for section in settings.named_sections(SectionGroup::Networks) {
        let network = section.read_name(&network_id())?;
        let of_network = section.read_optional(ADDRESS_RANGES, &ip_networks())?.unwrap_or_default();
        for range in &of_network {
            claim_unique(&section, ADDRESS_RANGES, &mut ranges, range.trunc())?;
        }
        config.ranges.insert(network.clone(), of_network);
        for isp in section.read_optional(ISPS, &ListOf(display_name()))?.unwrap_or_default() {
            claim_unique(&section, ISPS, &mut isps, format!("{isp:?}"))?;
            config.isps.insert(isp, network.clone());
        }
        for system in section.read_optional(AUTONOMOUS_SYSTEMS, &ListOf(Integer(1..=u32::MAX - 1)))?.unwrap_or_default()
        {
            claim_unique(&section, AUTONOMOUS_SYSTEMS, &mut systems, system)?;
            config.autonomous_systems.insert(system, network.clone());
        }
    }
    config.ranges.retain(|_, ranges: &mut Vec<IpNet>| !ranges.is_empty());
    Ok(config)
}

/// Rejects an item that another network has, so that an address maps to one network.
fn claim_unique<T: Ord + ToString>(
    section: &NamedSection<'_>,
    member: &str,
    claimed: &mut BTreeMap<T, String>,
    item: T,
) -> Result<(), ConfigError> {
    let found = item.to_string();
    let allowed = match claimed.insert(item, section.name.to_owned()) {
        None => return Ok(()),
        Some(other) if other == section.name => "each value only once".to_owned(),
        Some(other) => format!("values of this network only; this one is also in `networks.{other}.{member}`"),
    };
    Err(section.invalid(member, found, allowed))
}
