//! The networks that a deployment knows, and the numbers that their subscribers text.

use std::collections::BTreeSet;

use ringtrue_domain::{
    network::{DirectoryError, Network, NetworkDirectory, NetworkId, Pool},
    phone::{Country, Msisdn},
    tenancy::Mode,
};

use super::{
    ConfigError, ConnectorSection, Origin,
    family::{Family, Named},
    ip_routing,
    kind::{Kind, ListOf, Text, text},
    settings::Settings,
};

const MEMBERS: [&str; 5] = ["name", "aliases", "country", "prefixes", "receivers"];
const DEFAULT_POOL: &str = "receivers.default";

pub(super) fn read(settings: &Settings, connectors: &[ConnectorSection]) -> Result<NetworkDirectory, ConfigError> {
    let sections: Vec<_> = settings.named(Family::Networks).collect();
    let networks: Vec<Network> = sections.iter().map(network).collect::<Result<_, _>>()?;
    for (section, network) in sections.iter().zip(&networks) {
        let invalid = |found, allowed| section.invalid("receivers", found, allowed);
        check_pool(&network.receivers, connectors, invalid)?;
    }
    let mut countries = vec![];
    for section in settings.named(Family::Countries) {
        let pool = section.read_itself(&receivers())?;
        check_pool(&pool, connectors, |found, allowed| section.invalid("", found, allowed))?;
        countries.push((section.read_name(&country())?, pool));
    }
    let everybody: Pool = settings.read(DEFAULT_POOL, &receivers())?;
    check_pool(&everybody, connectors, |found, allowed| settings.invalid(DEFAULT_POOL, found, allowed))?;
    NetworkDirectory::new(networks, countries, everybody).map_err(|error| contradiction(&sections, &error))
}

fn network(section: &Named<'_>) -> Result<Network, ConfigError> {
    let id = section.read_name(&id())?;
    section.only(&[&MEMBERS[..], &ip_routing::MEMBERS].concat())?;
    Ok(Network {
        id,
        name: section.read("name", &name())?,
        aliases: section.read_if("aliases", &ListOf(name()))?.unwrap_or_default(),
        country: section.read("country", &country())?,
        prefixes: section.read_if("prefixes", &ListOf(prefix()))?.unwrap_or_default(),
        receivers: section.read_if("receivers", &receivers())?.unwrap_or_default(),
    })
}

/// Says where it stands that networks contradict each other.
fn contradiction(sections: &[Named<'_>], error: &DirectoryError) -> ConfigError {
    let (id, member) = match error {
        DirectoryError::SharedAlias { second, .. } => (Some(second), "aliases"),
        DirectoryError::SharedPrefix { second, .. } => (Some(second), "prefixes"),
        DirectoryError::Twice(id) => (Some(id), "prefixes"),
        DirectoryError::NotAPrefix(_) => (None, "prefixes"),
    };
    let (found, allowed) = match error {
        DirectoryError::SharedAlias { alias, first, .. } if alias == first => {
            let allowed = format!("ids that are of this network alone; this one is that of `networks.{first}`");
            (format!("\"{alias}\""), allowed)
        }
        DirectoryError::SharedAlias { alias, first, .. } => {
            let allowed = format!("ids that are of this network alone; this one is in `networks.{first}.aliases` too");
            (format!("\"{alias}\""), allowed)
        }
        DirectoryError::SharedPrefix { prefix, first, second } if first == second => {
            (format!("{prefix:?} twice"), "each prefix once".to_owned())
        }
        DirectoryError::SharedPrefix { prefix, first, .. } => {
            let allowed = format!("prefixes of this network alone; this one is in `networks.{first}.prefixes` too");
            (format!("{prefix:?}"), allowed)
        }
        // Names are different from each other, and prefixes have been read as such: this is for the compiler.
        DirectoryError::Twice(_) => (error.to_string(), "each network once".to_owned()),
        DirectoryError::NotAPrefix(_) => (error.to_string(), prefix().allowed()),
    };
    let section = sections.iter().find(|section| id.is_some_and(|id| id.as_str() == section.name));
    match section {
        Some(section) => section.invalid(member, found, allowed),
        None => {
            ConfigError::Invalid { key: Family::Networks.section().to_owned(), origin: Origin::Default, found, allowed }
        }
    }
}

/// Each number once, and each served by somebody.
fn check_pool(
    pool: &Pool,
    connectors: &[ConnectorSection],
    invalid: impl Fn(String, String) -> ConfigError,
) -> Result<(), ConfigError> {
    check_once(pool, &invalid)?;
    let served: BTreeSet<&Msisdn> = connectors.iter().flat_map(ConnectorSection::receivers).collect();
    match pool.iter().find(|receiver| !served.contains(receiver)) {
        None => Ok(()),
        Some(deaf) => {
            let allowed = if served.is_empty() {
                "receivers of connectors; there is no connector yet".to_owned()
            } else {
                let served: Vec<_> = served.iter().map(|receiver| format!("{:?}", receiver.as_str())).collect();
                format!("receivers of connectors: {}", served.join(", "))
            };
            Err(invalid(format!("{:?}, which no connector serves", deaf.as_str()), allowed))
        }
    }
}

pub(super) fn check_once(pool: &Pool, invalid: impl Fn(String, String) -> ConfigError) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    match pool.iter().find(|receiver| !seen.insert(*receiver)) {
        None => Ok(()),
        Some(twice) => Err(invalid(format!("{:?} twice", twice.as_str()), "each number once".to_owned())),
    }
}

pub(super) fn receivers() -> ListOf<Text<Msisdn>> {
    ListOf(Text {
        allowed: "a phone number in E.164 form, such as \"+447700900001\"",
        parse: |text| Msisdn::parse(text, Mode::Live).ok(),
    })
}

pub(super) fn country() -> Text<Country> {
    text("the two capital letters of a country, such as \"GB\"")
}

pub(super) fn id() -> Text<NetworkId> {
    text("the id of a network: five or six digits, the country code (MCC) and the network code (MNC)")
}

pub(super) fn name() -> Text<String> {
    Text {
        allowed: "1 to 100 characters, none of them a control character",
        parse: |text| {
            let is_right = (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
            is_right.then(|| text.to_owned())
        },
    }
}

fn prefix() -> Text<String> {
    Text {
        allowed: "the first 1 to 15 digits of numbers, with the country code, such as \"+447700\"",
        parse: |text| {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let shape_is_right = (1..=15).contains(&digits.len())
                && !digits.starts_with('0')
                && digits.bytes().all(|byte| byte.is_ascii_digit());
            shape_is_right.then(|| digits.to_owned())
        },
    }
}
