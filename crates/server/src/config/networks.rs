//! Networks and receiver pools.

use std::collections::BTreeSet;

use ringtrue_domain::{
    network::{DirectoryError, Network, NetworkDirectory, NetworkId, ReceiverPool},
    phone::{Country, Msisdn},
    tenancy::Mode,
};

use super::{
    ConfigError, ConnectorSection, Origin, ip_routing,
    named_sections::{NamedSection, SectionGroup},
    settings::Settings,
    value_type::{ListOf, Text, ValueType, text},
};

const MEMBERS: [&str; 5] = ["name", "aliases", "country", "prefixes", "receivers"];
const DEFAULT_POOL_KEY: &str = "receivers.default";

pub(super) fn read(settings: &Settings, connectors: &[ConnectorSection]) -> Result<NetworkDirectory, ConfigError> {
    let sections: Vec<_> = settings.named_sections(SectionGroup::Networks).collect();
    let networks: Vec<Network> = sections.iter().map(read_network).collect::<Result<_, _>>()?;
    for (section, network) in sections.iter().zip(&networks) {
        let invalid = |found, allowed| section.invalid("receivers", found, allowed);
        check_pool(&network.receivers, connectors, invalid)?;
    }
    let mut countries = vec![];
    for section in settings.named_sections(SectionGroup::Countries) {
        let pool = section.read_value(&receiver_list())?;
        check_pool(&pool, connectors, |found, allowed| section.invalid("", found, allowed))?;
        countries.push((section.read_name(&country_code())?, pool));
    }
    let default_pool: ReceiverPool = settings.read(DEFAULT_POOL_KEY, &receiver_list())?;
    check_pool(&default_pool, connectors, |found, allowed| settings.invalid(DEFAULT_POOL_KEY, found, allowed))?;
    NetworkDirectory::new(networks, countries, default_pool).map_err(|error| conflict_error(&sections, &error))
}

fn read_network(section: &NamedSection<'_>) -> Result<Network, ConfigError> {
    let id = section.read_name(&network_id())?;
    section.reject_unknown(&[&MEMBERS[..], &ip_routing::MEMBERS].concat())?;
    Ok(Network {
        id,
        name: section.read("name", &display_name())?,
        aliases: section.read_optional("aliases", &ListOf(display_name()))?.unwrap_or_default(),
        country: section.read("country", &country_code())?,
        prefixes: section.read_optional("prefixes", &ListOf(prefix()))?.unwrap_or_default(),
        receivers: section.read_optional("receivers", &receiver_list())?.unwrap_or_default(),
    })
}

/// Locates a conflict between networks.
fn conflict_error(sections: &[NamedSection<'_>], error: &DirectoryError) -> ConfigError {
    let (id, member) = match error {
        DirectoryError::SharedAlias { second, .. } => (Some(second), "aliases"),
        DirectoryError::SharedPrefix { second, .. } => (Some(second), "prefixes"),
        DirectoryError::DuplicateNetwork(id) => (Some(id), "prefixes"),
        DirectoryError::InvalidPrefix(_) => (None, "prefixes"),
    };
    let (found, allowed) = match error {
        DirectoryError::SharedAlias { alias, first, .. } if alias == first => {
            let allowed = format!("ids of this network only; this is the id of `networks.{first}`");
            (format!("\"{alias}\""), allowed)
        }
        DirectoryError::SharedAlias { alias, first, .. } => {
            let allowed = format!("ids of this network only; this one is also in `networks.{first}.aliases`");
            (format!("\"{alias}\""), allowed)
        }
        DirectoryError::SharedPrefix { prefix, first, second } if first == second => {
            (format!("{prefix:?} twice"), "each prefix only once".to_owned())
        }
        DirectoryError::SharedPrefix { prefix, first, .. } => {
            let allowed = format!("prefixes of this network only; this one is also in `networks.{first}.prefixes`");
            (format!("{prefix:?}"), allowed)
        }
        // Unreachable: section names are distinct and prefixes are parsed.
        DirectoryError::DuplicateNetwork(_) => (error.to_string(), "each network only once".to_owned()),
        DirectoryError::InvalidPrefix(_) => (error.to_string(), prefix().allowed()),
    };
    let section = sections.iter().find(|section| id.is_some_and(|id| id.as_str() == section.name));
    match section {
        Some(section) => section.invalid(member, found, allowed),
        None => ConfigError::Invalid {
            key: SectionGroup::Networks.prefix().to_owned(),
            origin: Origin::Default,
            found,
            allowed,
        },
    }
}

/// Rejects duplicate receivers, and receivers that no connector serves.
fn check_pool(
    pool: &ReceiverPool,
    connectors: &[ConnectorSection],
    invalid: impl Fn(String, String) -> ConfigError,
) -> Result<(), ConfigError> {
    reject_duplicates(pool, &invalid)?;
    let served: BTreeSet<&Msisdn> = connectors.iter().flat_map(ConnectorSection::receivers).collect();
    match pool.iter().find(|receiver| !served.contains(receiver)) {
        None => Ok(()),
        Some(unserved) => {
            let allowed = if served.is_empty() {
                "receivers of connectors; no connector is configured".to_owned()
            } else {
                let served: Vec<_> = served.iter().map(|receiver| format!("{:?}", receiver.as_str())).collect();
                format!("receivers of connectors: {}", served.join(", "))
            };
            Err(invalid(format!("{:?}, which no connector serves", unserved.as_str()), allowed))
        }
    }
}

pub(super) fn reject_duplicates(
    pool: &ReceiverPool,
    invalid: impl Fn(String, String) -> ConfigError,
) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    match pool.iter().find(|receiver| !seen.insert(*receiver)) {
        None => Ok(()),
        Some(duplicate) => Err(invalid(format!("{:?} twice", duplicate.as_str()), "each number only once".to_owned())),
    }
}

pub(super) fn receiver_list() -> ListOf<Text<Msisdn>> {
    ListOf(Text {
        allowed: "a phone number in E.164 format, such as \"+447700900001\"",
        parse: |text| Msisdn::parse(text, Mode::Live).ok(),
    })
}

pub(super) fn country_code() -> Text<Country> {
    text("a two-letter country code, such as \"GB\"")
}

pub(super) fn network_id() -> Text<NetworkId> {
    text("a network id: five or six digits, MCC and MNC")
}

pub(super) fn display_name() -> Text<String> {
    Text {
        allowed: "1 to 100 characters without control characters",
        parse: |text| {
            let is_valid = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
            is_valid.then(|| text.to_owned())
        },
    }
}

fn prefix() -> Text<String> {
    Text {
        allowed: "a number prefix of 1 to 15 digits with the country code, such as \"+447700\"",
        parse: |text| {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let is_valid = (1..=15).contains(&digits.len())
                && !digits.starts_with('0')
                && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_valid.then(|| digits.to_owned())
        },
    }
}
