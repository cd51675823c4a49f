//! Number lookup: the sources that map a number to its network, and their order.

use std::{iter, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ringtrue_domain::network::{Network, NetworkDirectory, NetworkId};
use ringtrue_engine::number_lookup::PrefixPolicy;
use ringtrue_operators::{
    client::ClientSettings,
    number_lookup::{
        BreakerSettings, EnumConfig, HlrConfig, KnownNetworks, TelcoFinderConfig,
        enum_dns::{CodeTable, NameServer, RecordRules},
        http_hlr::{
            GenericJson, HlrDriver, HlrLookupKind, HlrLookups, Infobip, InfobipCredentials, NetworkPointers, Twilio,
            VonageInsights,
        },
        telco_finder::{SearchDepth, TelcoFinderOperation},
    },
};
use url::Url;

use super::{
    ConfigError, Environment,
    connectors::{
        authentication::{
            AUTHENTICATION_MEMBERS, CLIENT_MEMBERS, read_client, read_client_authentication, read_client_secret,
            read_secret_text, read_signing_key, token_text, web_url,
        },
        camara::{network_id, read_breaker},
        section_reader::SectionReader,
    },
    named_sections::SectionGroup,
    settings::Settings,
    value_type::{Bool, DurationRange, Integer, ListOf, OneOf, Text, text},
};

#[derive(Clone, Debug)]
pub struct NumberLookupSection {
    pub prefixes: PrefixPolicy,
    /// For all sources together.
    pub deadline: Duration,
    /// In lookup order.
    pub sources: Vec<NumberSourceSection>,
}

#[derive(Clone, Debug)]
pub enum NumberSourceSection {
    Enum(Box<EnumConfig>),
    Hlr(Box<HlrConfig>, ClientSettings),
    TelcoFinder(Box<TelcoFinderConfig>, ClientSettings),
}

const PREFIX_MODES: OneOf<PrefixPolicy> =
    OneOf(&[("fallback", PrefixPolicy::Fallback), ("final", PrefixPolicy::Final), ("never", PrefixPolicy::Never)]);

#[derive(Clone, Copy)]
enum SourceKind {
    Enum,
    Hlr,
    TelcoFinder,
}

const SOURCE_KINDS: OneOf<SourceKind> =
    OneOf(&[("enum_dns", SourceKind::Enum), ("http_hlr", SourceKind::Hlr), ("telco_finder", SourceKind::TelcoFinder)]);

const COMMON_MEMBERS: [&str; 3] = ["kind", "breaker_failures", "breaker_open_for"];

pub(super) fn read(
    settings: &Settings,
    environment: &Environment,
    networks: &NetworkDirectory,
) -> Result<NumberLookupSection, ConfigError> {
    const ORDER_KEY: &str = "number_lookup.order";
    const PREFIXES_KEY: &str = "number_lookup.prefixes";
    let known = known_networks(networks);
    let order = settings.read(ORDER_KEY, &ListOf(token_text()))?;
    let mut sources = Vec::new();
    for section in settings.named_sections(SectionGroup::NumberSources) {
        let position = order.iter().position(|name| name == section.name);
        let kind = section.read("kind", &SOURCE_KINDS)?;
        let mut reader = SectionReader::new(section, environment);
        let source = match kind {
            SourceKind::Enum => NumberSourceSection::Enum(Box::new(read_enum_dns(&reader, &known)?)),
            SourceKind::Hlr => {
                let config = read_http_hlr(&mut reader, &known)?;
                NumberSourceSection::Hlr(Box::new(config), read_client(&mut reader)?)
            }
            SourceKind::TelcoFinder => {
                let config = read_telco_finder(&mut reader, &known)?;
                NumberSourceSection::TelcoFinder(Box::new(config), read_client(&mut reader)?)
            }
        };
        // Sources missing from the order follow, sorted by name.
        sources.push((position.unwrap_or(usize::MAX), section.name, source));
    }
    if let Some(unknown) = order.iter().find(|name| !sources.iter().any(|(_, known, _)| known == name)) {
        let allowed = "names of `[number_sources.NAME]` sections";
        return Err(settings.invalid(ORDER_KEY, format!("{unknown:?}"), allowed));
    }
    sources.sort_by_key(|(position, name, _)| (*position, *name));
    let prefixes = settings.read(PREFIXES_KEY, &PREFIX_MODES)?;
    if prefixes == PrefixPolicy::Never && sources.is_empty() {
        let allowed = "\"never\" only with a `[number_sources.NAME]` section, since no number would have a network";
        return Err(settings.invalid(PREFIXES_KEY, "\"never\"".to_owned(), allowed));
    }
    Ok(NumberLookupSection {
        prefixes,
        deadline: settings
            .read("number_lookup.deadline", &DurationRange(Duration::from_millis(100)..=Duration::from_secs(30)))?,
        sources: sources.into_iter().map(|(_, _, source)| source).collect(),
    })
}

/// Includes aliases, since sources may return any id of a network.
fn known_networks(networks: &NetworkDirectory) -> KnownNetworks {
    let ids = |network: &Network| -> Vec<NetworkId> {
        let aliases = network.aliases.iter().filter_map(|alias| alias.parse().ok());
        iter::once(network.id.clone()).chain(aliases).collect()
    };
    networks.networks().flat_map(ids).collect()
}

fn read_enum_dns(reader: &SectionReader<'_>, known: &KnownNetworks) -> Result<EnumConfig, ConfigError> {
    const MEMBERS: [&str; 9] = [
        "servers",
        "suffix",
        "timeout",
        "tries",
        "mixed_case",
        "routing_numbers",
        "service_providers",
        "not_ported",
        "authoritative",
    ];
    let section = reader.section;
    section.reject_unknown(&[&COMMON_MEMBERS[..], &MEMBERS].concat())?;
    let servers =
        section.read("servers", &ListOf(text::<NameServer>("a host and a port, such as \"192.0.2.53:53\"")))?;
    if servers.is_empty() {
        return Err(section.invalid("servers", "[]", "at least one name server"));
    }
    let defaults = EnumConfig::new(section.name, servers);
    let span = DurationRange(Duration::from_millis(50)..=Duration::from_secs(10));
    let table = |member| -> Result<CodeTable, ConfigError> {
        Ok(section.read_optional(member, &ListOf(code_to_network()))?.unwrap_or_default().into_iter().collect())
    };
    Ok(EnumConfig {
        suffix: section.read_optional("suffix", &token_text())?.unwrap_or(defaults.suffix.clone()),
        timeout: section.read_optional("timeout", &span)?.unwrap_or(defaults.timeout),
        tries: section.read_optional("tries", &Integer(1..=5))?.unwrap_or(defaults.tries),
        randomize_case: section.read_optional("mixed_case", &Bool)?.unwrap_or(defaults.randomize_case),
        rules: RecordRules {
            known_networks: known.clone(),
            routing_numbers: table("routing_numbers")?,
            service_providers: table("service_providers")?,
            not_ported: section.read_optional("not_ported", &network_id())?,
            is_authoritative: section.read_optional("authoritative", &Bool)?.unwrap_or(false),
        },
        breaker: read_breaker(reader)?,
        ..defaults
    })
}

#[derive(Clone, Copy)]
enum DriverKind {
    Infobip,
    HlrLookups,
    Twilio,
    Vonage,
    Generic,
}

const DRIVERS: OneOf<DriverKind> = OneOf(&[
    ("infobip", DriverKind::Infobip),
    ("hlr_lookups", DriverKind::HlrLookups),
    ("twilio", DriverKind::Twilio),
    ("vonage_identity_insights", DriverKind::Vonage),
    ("generic_json", DriverKind::Generic),
]);
const LOOKUPS: OneOf<HlrLookupKind> = OneOf(&[("hlr", HlrLookupKind::Hlr), ("mnp", HlrLookupKind::Mnp)]);

fn read_http_hlr(reader: &mut SectionReader<'_>, known: &KnownNetworks) -> Result<HlrConfig, ConfigError> {
    let section = reader.section;
    let driver = match section.read("driver", &DRIVERS)? {
        DriverKind::Infobip => {
            reject_unknown(reader, &["base_url", "user", "client_secret_file", "client_secret_env"])?;
            let credentials = match section.read_optional("user", &token_text())? {
                Some(user) => InfobipCredentials::Basic { user, password: read_client_secret(reader)? },
                None => InfobipCredentials::ApiKey(read_client_secret(reader)?),
            };
            HlrDriver::Infobip(Infobip { base_url: section.read("base_url", &web_url())?, credentials })
        }
        DriverKind::HlrLookups => {
            reject_unknown(reader, &["base_url", "key", "lookup", "client_secret_file", "client_secret_env"])?;
            HlrDriver::HlrLookups(HlrLookups {
                base_url: read_base_url(reader, HlrLookups::BASE_URL)?,
                key: section.read("key", &token_text())?,
                lookup: section.read_optional("lookup", &LOOKUPS)?.unwrap_or(HlrLookupKind::Hlr),
                secret: read_client_secret(reader)?,
            })
        }
        DriverKind::Twilio => {
            reject_unknown(reader, &["base_url", "key", "client_secret_file", "client_secret_env"])?;
            HlrDriver::Twilio(Twilio {
                base_url: read_base_url(reader, Twilio::BASE_URL)?,
                key: section.read("key", &token_text())?,
                secret: read_client_secret(reader)?,
            })
        }
        DriverKind::Vonage => {
            let own = ["base_url", "application_id", "purpose", "signing_key_file", "signing_key_env"];
            reject_unknown(reader, &[&own[..], &["signing_key_id", "signing_algorithm"]].concat())?;
            let key = read_signing_key(reader)?;
            HlrDriver::VonageIdentityInsights(VonageInsights {
                base_url: read_base_url(reader, VonageInsights::BASE_URL)?,
                application_id: section.read("application_id", &token_text())?,
                key: key
                    .ok_or_else(|| section.invalid("signing_key_file", "nothing", "a path to a private key (PEM)"))?,
                purpose: section
                    .read_optional("purpose", &token_text())?
                    .or_else(|| Some(VonageInsights::PURPOSE.to_owned())),
            })
        }
        DriverKind::Generic => HlrDriver::GenericJson(read_generic_json(reader)?),
    };
    Ok(HlrConfig {
        known_networks: known.clone(),
        breaker: read_breaker(reader)?,
        ..HlrConfig::new(section.name, driver)
    })
}

fn reject_unknown(reader: &SectionReader<'_>, own: &[&str]) -> Result<(), ConfigError> {
    reader.section.reject_unknown(&[&COMMON_MEMBERS[..], &["driver"], &CLIENT_MEMBERS, own].concat())
}

fn read_generic_json(reader: &mut SectionReader<'_>) -> Result<GenericJson, ConfigError> {
    const OWN: [&str; 14] = [
        "method",
        "url",
        "headers",
        "secret_header",
        "client_secret_file",
        "client_secret_env",
        "body",
        "network_pointer",
        "country_code_pointer",
        "network_code_pointer",
        "state_pointer",
        "absent_values",
        "invalid_values",
        "failed_values",
    ];
    reject_unknown(reader, &[&OWN[..], &["no_data_statuses"]].concat())?;
    let section = reader.section;
    let network = match section.read_optional("network_pointer", &token_text())? {
        Some(pointer) => NetworkPointers::Codes(pointer),
        None => NetworkPointers::Separate {
            country: section.read("country_code_pointer", &token_text())?,
            network: section.read("network_code_pointer", &token_text())?,
        },
    };
    let defaults = GenericJson::new(section.read("url", &token_text())?, network);
    let mut headers = HeaderMap::new();
    for (name, value) in section.read_optional("headers", &ListOf(header()))?.unwrap_or_default() {
        headers.append(name, value);
    }
    if let Some(name) = section.read_optional("secret_header", &header_name())? {
        let value = read_secret_text(reader)?;
        let allowed = "a secret that is valid in an HTTP header";
        let mut value = HeaderValue::from_str(value.as_str())
            .map_err(|_| section.invalid("client_secret_file", "an invalid secret", allowed))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    let values = |member| section.read_optional(member, &ListOf(token_text()));
    Ok(GenericJson {
        method: section
            .read_optional("method", &METHODS)?
            .map_or(defaults.method, |post| if post { Method::POST } else { Method::GET }),
        headers,
        body: section.read_optional("body", &body_text())?,
        state: section.read_optional("state_pointer", &token_text())?,
        absent_values: values("absent_values")?.unwrap_or(defaults.absent_values),
        invalid_values: values("invalid_values")?.unwrap_or(defaults.invalid_values),
        failed_values: values("failed_values")?.unwrap_or(defaults.failed_values),
        no_data_statuses: section
            .read_optional("no_data_statuses", &ListOf(Integer(400..=499)))?
            .unwrap_or(defaults.no_data_statuses),
        ..defaults
    })
}

const METHODS: OneOf<bool> = OneOf(&[("GET", false), ("POST", true)]);

const DEPTHS: OneOf<SearchDepth> = OneOf(&[
    ("shallow", SearchDepth::Shallow),
    ("shallow_then_deep", SearchDepth::ShallowThenDeep),
    ("deep", SearchDepth::Deep),
]);

fn read_telco_finder(reader: &mut SectionReader<'_>, known: &KnownNetworks) -> Result<TelcoFinderConfig, ConfigError> {
    const OWN: [&str; 7] = ["root", "interface", "operators", "depth", "token_endpoint", "issuer", "scope"];
    const SEARCHES: OneOf<bool> = OneOf(&[("telco_finder", true), ("network_id", false)]);
    let section = reader.section;
    section.reject_unknown(&[&COMMON_MEMBERS[..], &OWN, &AUTHENTICATION_MEMBERS, &CLIENT_MEMBERS].concat())?;
    let key = read_signing_key(reader)?;
    let operation = if section.read_optional("interface", &SEARCHES)?.unwrap_or(true) {
        let operators = section.read("operators", &ListOf(code_to_network()))?.into_iter().collect();
        TelcoFinderOperation::Search { operators, depth: section.read_optional("depth", &DEPTHS)?.unwrap_or_default() }
    } else {
        TelcoFinderOperation::NetworkId
    };
    let defaults = TelcoFinderConfig::new(
        section.name,
        section.read("root", &web_url())?,
        operation,
        section.read("token_endpoint", &web_url())?,
        section.read("client_id", &token_text())?,
        read_client_authentication(reader, key.as_ref())?,
    );
    let breaker: BreakerSettings = read_breaker(reader)?;
    Ok(TelcoFinderConfig {
        issuer: section.read_optional("issuer", &token_text())?.unwrap_or(defaults.issuer.clone()),
        scope: section.read_optional("scope", &token_text())?.or(defaults.scope.clone()),
        known_networks: known.clone(),
        breaker,
        ..defaults
    })
}

fn read_base_url(reader: &SectionReader<'_>, defaults: &str) -> Result<Url, ConfigError> {
    let given = reader.section.read_optional("base_url", &web_url())?;
    let defaults = || Url::parse(defaults).map_err(|_| reader.section.invalid("base_url", "nothing", "a URL"));
    given.map_or_else(defaults, Ok)
}

/// Parses `CODE=NETWORK_ID`.
fn code_to_network() -> Text<(String, NetworkId)> {
    Text {
        allowed: "a code, `=` and a network id, such as \"d2701=25001\"",
        parse: |text| {
            let (code, network) = text.rsplit_once('=')?;
            (!code.is_empty()).then_some(())?;
            Some((code.to_owned(), network.parse().ok()?))
        },
    }
}

fn header() -> Text<(HeaderName, HeaderValue)> {
    Text {
        allowed: "a header, such as \"Accept: application/json\"",
        parse: |text| {
            let (name, value) = text.split_once(':')?;
            Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
        },
    }
}

fn header_name() -> Text<HeaderName> {
    text("a header name")
}

fn body_text() -> Text<String> {
    Text { allowed: "up to 4096 characters", parse: |text| (text.len() <= 4_096).then(|| text.to_owned()) }
}
