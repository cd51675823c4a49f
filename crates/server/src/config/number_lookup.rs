//! Settings of the number lookup: the sources that map a number to its network, and their order.

use std::{collections::HashSet, iter, time::Duration};

use http::{HeaderName, HeaderValue, Method};
use ringtrue_domain::network::{Network, NetworkDirectory, NetworkId};
use ringtrue_engine::lookups::number_lookup::PrefixPolicy;
use ringtrue_operators::{
    client::ClientSettings,
    number_lookup::{
        EnumConfig, HlrConfig, KnownNetworks, TelcoFinderConfig,
        enum_dns::{CodeTable, NameServer},
        http_hlr::{
            GenericJson, HlrDriver, HlrLookupKind, HlrLookupsCom, Infobip, InfobipCredentials, NetworkPointers, Twilio,
            VonageInsights,
        },
        telco_finder::{SearchDepth, TelcoFinderOperation},
    },
};
use serde::Deserialize;
use url::Url;

use super::{
    ConfigError,
    connectors::client::{
        AUTHENTICATION_MEMBERS, CLIENT_MEMBERS, SIGNING_KEY_MEMBERS, read_authentication, read_breaker, read_client,
        read_client_secret, read_signing_key, require_signing_key,
    },
    document::{ConfigDocument, Section},
    value_parser::{
        MILLISECOND, SECOND, ValueParser, boolean, duration, from_str, integer, keyword, list, network_id, string,
        text, token, variant, web_url,
    },
};

#[derive(Clone, Debug)]
pub struct NumberLookupSection {
    pub prefixes: PrefixPolicy,
    /// Time limit for a lookup in all sources together.
    pub deadline: Duration,
    /// Sources, in the order in which they are asked.
    pub sources: Vec<NumberSourceSection>,
}

#[derive(Clone, Debug)]
pub enum NumberSourceSection {
    Enum(Box<EnumConfig>),
    Hlr(Box<HlrConfig>, ClientSettings),
    TelcoFinder(Box<TelcoFinderConfig>, ClientSettings),
}

impl NumberSourceSection {
    pub fn name(&self) -> &str {
        match self {
            NumberSourceSection::Enum(config) => &config.name,
            NumberSourceSection::Hlr(config, _) => &config.name,
            NumberSourceSection::TelcoFinder(config, _) => &config.name,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SourceKind {
    EnumDns,
    HttpHlr,
    TelcoFinder,
}

pub(super) fn read(
    document: &ConfigDocument<'_>,
    networks: &NetworkDirectory,
) -> Result<NumberLookupSection, ConfigError> {
    const PREFIX_POLICIES: &[(&str, PrefixPolicy)] =
        &[("fallback", PrefixPolicy::Fallback), ("final", PrefixPolicy::Final), ("never", PrefixPolicy::Never)];
    let section = document.section("number_lookup");
    let order = section.get("order", list(token()))?;
    let known = known_networks(networks);
    let sources: Vec<_> = document.named_sections("number_sources").collect();
    let names: HashSet<&str> = sources.iter().map(Section::name).collect();
    let unknown = order.iter().find(|name| !names.contains(name.as_str()) && document.is_complete()).cloned();
    let mut sources: Vec<_> = sources
        .into_iter()
        .map(|source| {
            // Sources that the setting `order` does not name come last, sorted by name.
            let position = order.iter().position(|name| name == source.name()).unwrap_or(usize::MAX);
            Ok((position, read_source(&source, &known)?))
        })
        .collect::<Result<_, ConfigError>>()?;
    if let Some(unknown) = unknown {
        return Err(section.invalid("order", format!("{unknown:?}"), "names of `[number_sources.NAME]` sections"));
    }
    sources.sort_by_key(|(position, _)| *position);
    let prefixes = section.get("prefixes", keyword(PREFIX_POLICIES))?;
    if prefixes == PrefixPolicy::Never && sources.is_empty() {
        let allowed = "\"never\" only with a `[number_sources.NAME]` section, since no number would have a network";
        return Err(section.invalid("prefixes", "\"never\"", allowed));
    }
    let deadline = section.get("deadline", duration(100 * MILLISECOND, 30 * SECOND))?;
    Ok(NumberLookupSection { prefixes, deadline, sources: sources.into_iter().map(|(_, source)| source).collect() })
}

/// Returns the ids of all networks. Includes aliases, because a source may return any id of a network.
fn known_networks(networks: &NetworkDirectory) -> KnownNetworks {
    let ids = |network: &Network| -> Vec<NetworkId> {
        let aliases = network.aliases.iter().filter_map(|alias| alias.parse().ok());
        iter::once(network.id.clone()).chain(aliases).collect()
    };
    networks.networks().flat_map(ids).collect()
}

fn read_source(section: &Section<'_>, known: &KnownNetworks) -> Result<NumberSourceSection, ConfigError> {
    Ok(match section.get("kind", variant())? {
        SourceKind::EnumDns => NumberSourceSection::Enum(Box::new(read_enum_dns(section, known)?)),
        SourceKind::HttpHlr => {
            let mut config = HlrConfig::new(section.name(), read_hlr_driver(section)?);
            config.known_networks = known.clone();
            config.breaker = read_breaker(section)?;
            NumberSourceSection::Hlr(Box::new(config), read_client(section)?)
        }
        SourceKind::TelcoFinder => {
            let config = read_telco_finder(section, known)?;
            NumberSourceSection::TelcoFinder(Box::new(config), read_client(section)?)
        }
    })
}

fn read_enum_dns(section: &Section<'_>, known: &KnownNetworks) -> Result<EnumConfig, ConfigError> {
    #[rustfmt::skip]
    section.reject_unknown(&[&[
        "kind", "servers", "suffix", "timeout", "tries", "mixed_case", "routing_numbers", "service_providers",
        "not_ported", "authoritative", "breaker_failures", "breaker_open_for",
    ]])?;
    let server = from_str::<NameServer>("a host and a port, such as \"192.0.2.53:53\"");
    let servers = section.get("servers", list(server))?;
    if servers.is_empty() {
        return Err(section.invalid("servers", "[]", "at least one name server"));
    }
    let mut config = EnumConfig::new(section.name(), servers);
    section.update("suffix", token(), &mut config.suffix)?;
    section.update("timeout", duration(50 * MILLISECOND, 10 * SECOND), &mut config.timeout)?;
    section.update("tries", integer(1..=5), &mut config.tries)?;
    section.update("mixed_case", boolean(), &mut config.mixed_case)?;
    section.update("routing_numbers", code_table_parser(), &mut config.rules.routing_numbers)?;
    section.update("service_providers", code_table_parser(), &mut config.rules.service_providers)?;
    config.rules.not_ported = section.get_opt("not_ported", network_id())?;
    section.update("authoritative", boolean(), &mut config.rules.is_authoritative)?;
    config.rules.known_networks = known.clone();
    config.breaker = read_breaker(section)?;
    Ok(config)
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Driver {
    Infobip,
    HlrLookups,
    Twilio,
    VonageIdentityInsights,
    GenericJson,
}

const SECRET_MEMBERS: [&str; 2] = ["client_secret_file", "client_secret_env"];

fn read_hlr_driver(section: &Section<'_>) -> Result<HlrDriver, ConfigError> {
    const LOOKUPS: &[(&str, HlrLookupKind)] = &[("hlr", HlrLookupKind::Hlr), ("mnp", HlrLookupKind::Mnp)];
    let reject_unknown = |own: &[&str], credentials: &[&str]| {
        section.reject_unknown(&[&["kind", "driver"], &CLIENT_MEMBERS, own, credentials])
    };
    Ok(match section.get("driver", variant())? {
        Driver::Infobip => {
            reject_unknown(&["base_url", "user"], &SECRET_MEMBERS)?;
            let secret = read_client_secret(section)?;
            let credentials = match section.get_opt("user", token())? {
                Some(user) => InfobipCredentials::Basic { user, password: secret },
                None => InfobipCredentials::ApiKey(secret),
            };
            HlrDriver::Infobip(Infobip { base_url: section.get("base_url", web_url())?, credentials })
        }
        Driver::HlrLookups => {
            reject_unknown(&["base_url", "key", "lookup"], &SECRET_MEMBERS)?;
            HlrDriver::HlrLookups(HlrLookupsCom {
                base_url: read_base_url(section, HlrLookupsCom::BASE_URL)?,
                key: section.get("key", token())?,
                lookup: section.get_or("lookup", keyword(LOOKUPS), HlrLookupKind::Hlr)?,
                secret: read_client_secret(section)?,
            })
        }
        Driver::Twilio => {
            reject_unknown(&["base_url", "key"], &SECRET_MEMBERS)?;
            HlrDriver::Twilio(Twilio {
                base_url: read_base_url(section, Twilio::BASE_URL)?,
                key: section.get("key", token())?,
                secret: read_client_secret(section)?,
            })
        }
        Driver::VonageIdentityInsights => {
            reject_unknown(&["base_url", "application_id", "purpose"], &SIGNING_KEY_MEMBERS)?;
            HlrDriver::VonageIdentityInsights(VonageInsights {
                key: require_signing_key(section, read_signing_key(section)?)?,
                base_url: read_base_url(section, VonageInsights::BASE_URL)?,
                application_id: section.get("application_id", token())?,
                purpose: Some(section.get_or("purpose", token(), VonageInsights::PURPOSE.to_owned())?),
            })
        }
        Driver::GenericJson => {
            #[rustfmt::skip]
            reject_unknown(&[
                "method", "url", "headers", "secret_header", "body", "network_pointer", "country_code_pointer",
                "network_code_pointer", "state_pointer", "absent_values", "invalid_values", "failed_values",
                "no_data_statuses",
            ], &SECRET_MEMBERS)?;
            HlrDriver::GenericJson(read_generic_json(section)?)
        }
    })
}

fn read_base_url(section: &Section<'_>, default: &str) -> Result<Url, ConfigError> {
    let default = || Url::parse(default).map_err(|_| section.invalid("base_url", "nothing", "a URL"));
    section.get_opt("base_url", web_url())?.map_or_else(default, Ok)
}

fn read_generic_json(section: &Section<'_>) -> Result<GenericJson, ConfigError> {
    let network = match section.get_opt("network_pointer", token())? {
        Some(pointer) => NetworkPointers::Codes(pointer),
        None => NetworkPointers::Separate {
            country: section.get("country_code_pointer", token())?,
            network: section.get("network_code_pointer", token())?,
        },
    };
    let mut config = GenericJson::new(section.get("url", token())?, network);
    let methods = text("\"GET\" or \"POST\"", |text| match text {
        "GET" => Some(Method::GET),
        "POST" => Some(Method::POST),
        _ => None,
    });
    section.update("method", methods, &mut config.method)?;
    let header = text("a header, such as \"Accept: application/json\"", |text| {
        let (name, value) = text.split_once(':')?;
        Some((name.trim().parse::<HeaderName>().ok()?, value.trim().parse().ok()?))
    });
    config.headers.extend(section.get_or("headers", list(header), vec![])?);
    if let Some(name) = section.get_opt("secret_header", from_str::<HeaderName>("a header name"))? {
        let mut value = section.get_secret(
            "client_secret",
            &("a secret that is valid in an HTTP header", |text| {
                HeaderValue::from_str(text).ok().filter(|value| !value.is_empty())
            }),
        )?;
        value.set_sensitive(true);
        config.headers.append(name, value);
    }
    config.body = section.get_opt("body", string("up to 4096 characters", |text| text.len() <= 4_096))?;
    config.state = section.get_opt("state_pointer", token())?;
    section.update("absent_values", list(token()), &mut config.absent_values)?;
    section.update("invalid_values", list(token()), &mut config.invalid_values)?;
    section.update("failed_values", list(token()), &mut config.failed_values)?;
    section.update("no_data_statuses", list(integer(400..=499)), &mut config.no_data_statuses)?;
    Ok(config)
}

fn read_telco_finder(section: &Section<'_>, known: &KnownNetworks) -> Result<TelcoFinderConfig, ConfigError> {
    const DEPTHS: &[(&str, SearchDepth)] = &[
        ("shallow", SearchDepth::Shallow),
        ("shallow_then_deep", SearchDepth::ShallowThenDeep),
        ("deep", SearchDepth::Deep),
    ];
    section.reject_unknown(&[
        &["kind", "root", "interface", "operators", "depth", "token_endpoint", "issuer", "scope"],
        &AUTHENTICATION_MEMBERS,
        &SIGNING_KEY_MEMBERS,
        &CLIENT_MEMBERS,
    ])?;
    let key = read_signing_key(section)?;
    let interfaces = keyword(&[("telco_finder", true), ("network_id", false)]);
    let operation = if section.get_or("interface", interfaces, true)? {
        TelcoFinderOperation::Search {
            operators: section.get("operators", list(code_mapping_parser()))?.into_iter().collect(),
            depth: section.get_or("depth", keyword(DEPTHS), SearchDepth::default())?,
        }
    } else {
        TelcoFinderOperation::NetworkId
    };
    let mut config = TelcoFinderConfig::new(
        section.name(),
        section.get("root", web_url())?,
        operation,
        section.get("token_endpoint", web_url())?,
        section.get("client_id", token())?,
        read_authentication(section, key)?,
    );
    section.update("issuer", token(), &mut config.issuer)?;
    config.scope = section.get_opt("scope", token())?.or(config.scope);
    config.known_networks = known.clone();
    config.breaker = read_breaker(section)?;
    Ok(config)
}

/// Parses `CODE=NETWORK_ID`: the code by which a number source identifies a network, and the id of this network.
fn code_mapping_parser() -> ValueParser<(String, NetworkId)> {
    text("a code, `=` and a network id, such as \"d2701=25001\"", |text| {
        let (code, network) = text.rsplit_once('=').filter(|(code, _)| !code.is_empty())?;
        Some((code.to_owned(), network.parse().ok()?))
    })
}

fn code_table_parser() -> ValueParser<CodeTable> {
    list(code_mapping_parser()).map(|codes| codes.into_iter().collect())
}
