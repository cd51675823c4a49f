//! Settings of networks and receiver pools, and the mapping of device addresses to networks.

use std::collections::{BTreeMap, BTreeSet};

use ringtrue_domain::{
    network::{Network, NetworkDirectory, NetworkId},
    phone::Msisdn,
};
use ringtrue_operators::ip_routing::IpRoutingConfig;

use super::{
    ConfigError, ConnectorSection,
    document::{COUNTRIES, ConfigDocument, Section},
    value_parser::{country, display_name, integer, ip_networks, list, network_id, numbers, optional, path, text},
};

#[rustfmt::skip]
const MEMBERS: [&str; 8] =
    ["name", "aliases", "country", "prefixes", "receivers", "address_ranges", "isps", "autonomous_systems"];

/// Detects duplicates of values that only one network may have. Maps each value to the configuration key that contains
/// it.
struct Claims<T>(BTreeMap<T, String>);

impl<T: Ord + ToString> Claims<T> {
    fn claim(&mut self, section: &Section<'_>, member: &str, value: T) -> Result<(), ConfigError> {
        let found = format!("{:?}", value.to_string());
        let key = section.key(member);
        let allowed = match self.0.insert(value, key.clone()) {
            None => return Ok(()),
            Some(owner) if owner == key => "each value only once".to_owned(),
            Some(owner) => format!("values of this network only; this one is also in `{owner}`"),
        };
        Err(section.invalid(member, found, allowed))
    }
}

pub(super) fn read(
    document: &ConfigDocument<'_>,
    connectors: &[ConnectorSection],
) -> Result<(NetworkDirectory, IpRoutingConfig), ConfigError> {
    let root = document.root();
    let served: BTreeSet<&Msisdn> = connectors.iter().flat_map(ConnectorSection::receivers).collect();
    let mut networks = vec![];
    let mut ip_routing = IpRoutingConfig {
        range_files: root.get("ip_routing.range_files", list(path()))?,
        isp_database: root.get("ip_routing.isp_database", optional(path()))?,
        connection_type_database: root.get("ip_routing.connection_type_database", optional(path()))?,
        asn_database: root.get("ip_routing.asn_database", optional(path()))?,
        ..IpRoutingConfig::default()
    };
    let mut ids = Claims(BTreeMap::new());
    for section in document.named_sections("networks") {
        ids.claim(&section, "", section.parse_name(network_id())?)?;
    }
    let mut prefixes = Claims(BTreeMap::new());
    let (mut ranges, mut isps, mut systems) =
        (Claims(BTreeMap::new()), Claims(BTreeMap::new()), Claims(BTreeMap::new()));
    for section in document.named_sections("networks") {
        let network = read_network(&section)?;
        for prefix in &network.prefixes {
            prefixes.claim(&section, "prefixes", prefix.clone())?;
        }
        for alias in network.aliases.iter().filter_map(|alias| alias.parse::<NetworkId>().ok()) {
            ids.claim(&section, "aliases", alias)?;
        }
        check_pool(&section, "receivers", &network.receivers, &served)?;
        let address_ranges = section.get_or("address_ranges", ip_networks(), vec![])?;
        for range in &address_ranges {
            ranges.claim(&section, "address_ranges", range.trunc())?;
        }
        if !address_ranges.is_empty() {
            ip_routing.address_ranges.insert(network.id.clone(), address_ranges);
        }
        for isp in section.get_or("isps", list(display_name()), vec![])? {
            isps.claim(&section, "isps", isp.clone())?;
            ip_routing.isps.insert(isp, network.id.clone());
        }
        for system in section.get_or("autonomous_systems", list(integer(1..=u32::MAX - 1)), vec![])? {
            systems.claim(&section, "autonomous_systems", system)?;
            ip_routing.autonomous_systems.insert(system, network.id.clone());
        }
        networks.push(network);
    }
    let mut countries = vec![];
    for section in document.named_sections(COUNTRIES) {
        let pool = section.get("", numbers())?;
        check_pool(&section, "", &pool, &served)?;
        countries.push((section.parse_name(country())?, pool));
    }
    let default_pool = root.get("receivers.default", numbers())?;
    check_pool(&root, "receivers.default", &default_pool, &served)?;
    let directory = NetworkDirectory::new(networks, countries, default_pool);
    let directory = directory.map_err(|error| document.invalid("networks", error, "networks without conflicts"))?;
    Ok((directory, ip_routing))
}

fn read_network(section: &Section<'_>) -> Result<Network, ConfigError> {
    let id = section.parse_name(network_id())?;
    section.reject_unknown(&[&MEMBERS])?;
    let allowed = "a number prefix of 1 to 15 digits with the country code, such as \"+447700\"";
    let prefix = text(allowed, |text| {
        let digits = text.strip_prefix('+').unwrap_or(text);
        let is_valid = (1..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_valid.then(|| digits.to_owned())
    });
    Ok(Network {
        id,
        name: section.get("name", display_name())?,
        aliases: section.get_or("aliases", list(display_name()), vec![])?,
        country: section.get("country", country())?,
        prefixes: section.get_or("prefixes", list(prefix), vec![])?,
        receivers: section.get_or("receivers", numbers(), vec![])?,
    })
}

/// Checks the receivers of a pool. Rejects duplicates, and receivers that no connector serves.
fn check_pool(
    section: &Section<'_>,
    member: &str,
    pool: &[Msisdn],
    served: &BTreeSet<&Msisdn>,
) -> Result<(), ConfigError> {
    reject_duplicates(section, member, pool)?;
    if !section.document.is_complete() {
        return Ok(());
    }
    let Some(unserved) = pool.iter().find(|receiver| !served.contains(receiver)) else { return Ok(()) };
    let allowed = if served.is_empty() {
        "receivers of connectors; no connector is configured".to_owned()
    } else {
        let served: Vec<_> = served.iter().map(|receiver| format!("{:?}", receiver.as_str())).collect();
        format!("receivers of connectors: {}", served.join(", "))
    };
    Err(section.invalid(member, format!("{:?}, which no connector serves", unserved.as_str()), allowed))
}

pub(super) fn reject_duplicates(section: &Section<'_>, member: &str, pool: &[Msisdn]) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    match pool.iter().find(|receiver| !seen.insert(*receiver)) {
        None => Ok(()),
        Some(duplicate) => {
            Err(section.invalid(member, format!("{:?} twice", duplicate.as_str()), "each number only once"))
        }
    }
}
