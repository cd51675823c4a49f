//! Who is asked which network serves a number: the order, and each source.

use std::{iter, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ringtrue_domain::network::{Network, NetworkDirectory, NetworkId};
use ringtrue_engine::number_lookup::Prefixes;
use ringtrue_operators::{
    client::ClientSettings,
    number_lookup::{
        BreakerSettings, EnumConfig, HlrConfig, KnownNetworks, TelcoFinderConfig,
        enum_dns::{CodeTable, NameServer, Reading},
        http_hlr::{
            Driver, GenericJson, HlrLookups, Infobip, InfobipCredentials, Lookup, NetworkPointers, Twilio,
            VonageInsights,
        },
        telco_finder::{Depth, Question},
    },
};
use url::Url;

use super::{
    ConfigError, Environment,
    connectors::{
        authentication::{
            AUTHENTICATION_MEMBERS, CLIENT_MEMBERS, client, client_authentication, secret, secret_text, signing_key,
            web_url, word,
        },
        camara::{breaker, network_id},
        reader::Reader,
    },
    family::Family,
    kind::{Flag, ListOf, Span, Text, Whole, Word, text},
    settings::Settings,
};

/// Who is asked, and in which order.
#[derive(Clone, Debug)]
pub struct NumberLookupSection {
    pub prefixes: Prefixes,
    /// How long all of them together may take.
    pub deadline: Duration,
    /// In their order.
    pub sources: Vec<NumberSourceSection>,
}

#[derive(Clone, Debug)]
pub enum NumberSourceSection {
    Enum(Box<EnumConfig>),
    Hlr(Box<HlrConfig>, ClientSettings),
    TelcoFinder(Box<TelcoFinderConfig>, ClientSettings),
}

const PREFIXES: Word<Prefixes> =
    Word(&[("fallback", Prefixes::Fallback), ("final", Prefixes::Final), ("never", Prefixes::Never)]);

#[derive(Clone, Copy)]
enum SourceKind {
    Enum,
    Hlr,
    TelcoFinder,
}

const KINDS: Word<SourceKind> =
    Word(&[("enum_dns", SourceKind::Enum), ("http_hlr", SourceKind::Hlr), ("telco_finder", SourceKind::TelcoFinder)]);

const COMMON: [&str; 3] = ["kind", "breaker_failures", "breaker_open_for"];

pub(super) fn read(
    settings: &Settings,
    environment: &Environment,
    networks: &NetworkDirectory,
) -> Result<NumberLookupSection, ConfigError> {
    const ORDER: &str = "number_lookup.order";
    const PREFIXES_SETTING: &str = "number_lookup.prefixes";
    let known = known(networks);
    let order = settings.read(ORDER, &ListOf(word()))?;
    let mut sources = Vec::new();
    for section in settings.named(Family::NumberSources) {
        let place = order.iter().position(|name| name == section.name);
        let kind = section.read("kind", &KINDS)?;
        let mut reader = Reader::new(section, environment);
        let source = match kind {
            SourceKind::Enum => NumberSourceSection::Enum(Box::new(enum_dns(&reader, &known)?)),
            SourceKind::Hlr => {
                let config = http_hlr(&mut reader, &known)?;
                NumberSourceSection::Hlr(Box::new(config), client(&mut reader)?)
            }
            SourceKind::TelcoFinder => {
                let config = telco_finder(&mut reader, &known)?;
                NumberSourceSection::TelcoFinder(Box::new(config), client(&mut reader)?)
            }
        };
        // Those that the order does not name come after, by their names.
        sources.push((place.unwrap_or(usize::MAX), section.name, source));
    }
    if let Some(unknown) = order.iter().find(|name| !sources.iter().any(|(_, known, _)| known == name)) {
        let allowed = "names of `[number_sources.NAME]` sections";
        return Err(settings.invalid(ORDER, format!("{unknown:?}"), allowed));
    }
    sources.sort_by_key(|(place, name, _)| (*place, *name));
    let prefixes = settings.read(PREFIXES_SETTING, &PREFIXES)?;
    if prefixes == Prefixes::Never && sources.is_empty() {
        let allowed = "\"never\" only beside a `[number_sources.NAME]` section, since no number would have a network";
        return Err(settings.invalid(PREFIXES_SETTING, "\"never\"".to_owned(), allowed));
    }
    Ok(NumberLookupSection {
        prefixes,
        deadline: settings
            .read("number_lookup.deadline", &Span(Duration::from_millis(100)..=Duration::from_secs(30)))?,
        sources: sources.into_iter().map(|(_, _, source)| source).collect(),
    })
}

/// By every id that they go by: others may write any of them.
fn known(networks: &NetworkDirectory) -> KnownNetworks {
    let ids = |network: &Network| -> Vec<NetworkId> {
        let aliases = network.aliases.iter().filter_map(|alias| alias.parse().ok());
        iter::once(network.id.clone()).chain(aliases).collect()
    };
    networks.networks().flat_map(ids).collect()
}

fn enum_dns(reader: &Reader<'_>, known: &KnownNetworks) -> Result<EnumConfig, ConfigError> {
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
    section.only(&[&COMMON[..], &MEMBERS].concat())?;
    let servers =
        section.read("servers", &ListOf(text::<NameServer>("a host and a port, such as \"192.0.2.53:53\"")))?;
    if servers.is_empty() {
        return Err(section.invalid("servers", "[]", "at least one name server"));
    }
    let usual = EnumConfig::new(section.name, servers);
    let span = Span(Duration::from_millis(50)..=Duration::from_secs(10));
    let table = |member| -> Result<CodeTable, ConfigError> {
        Ok(section.read_if(member, &ListOf(code_of_network()))?.unwrap_or_default().into_iter().collect())
    };
    Ok(EnumConfig {
        suffix: section.read_if("suffix", &word())?.unwrap_or(usual.suffix.clone()),
        timeout: section.read_if("timeout", &span)?.unwrap_or(usual.timeout),
        tries: section.read_if("tries", &Whole(1..=5))?.unwrap_or(usual.tries),
        mixes_case: section.read_if("mixed_case", &Flag)?.unwrap_or(usual.mixes_case),
        reading: Reading {
            known: known.clone(),
            routing_numbers: table("routing_numbers")?,
            service_providers: table("service_providers")?,
            not_ported: section.read_if("not_ported", &network_id())?,
            is_authoritative: section.read_if("authoritative", &Flag)?.unwrap_or(false),
        },
        breaker: breaker(reader)?,
        ..usual
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

const DRIVERS: Word<DriverKind> = Word(&[
    ("infobip", DriverKind::Infobip),
    ("hlr_lookups", DriverKind::HlrLookups),
    ("twilio", DriverKind::Twilio),
    ("vonage_identity_insights", DriverKind::Vonage),
    ("generic_json", DriverKind::Generic),
]);
const LOOKUPS: Word<Lookup> = Word(&[("hlr", Lookup::Hlr), ("mnp", Lookup::Mnp)]);

fn http_hlr(reader: &mut Reader<'_>, known: &KnownNetworks) -> Result<HlrConfig, ConfigError> {
    let section = reader.section;
    let driver = match section.read("driver", &DRIVERS)? {
        DriverKind::Infobip => {
            only(reader, &["base_url", "user", "client_secret_file", "client_secret_env"])?;
            let credentials = match section.read_if("user", &word())? {
                Some(user) => InfobipCredentials::Basic { user, password: secret(reader)? },
                None => InfobipCredentials::ApiKey(secret(reader)?),
            };
            Driver::Infobip(Infobip { base_url: section.read("base_url", &web_url())?, credentials })
        }
        DriverKind::HlrLookups => {
            only(reader, &["base_url", "key", "lookup", "client_secret_file", "client_secret_env"])?;
            Driver::HlrLookups(HlrLookups {
                base_url: base_url(reader, HlrLookups::BASE_URL)?,
                key: section.read("key", &word())?,
                lookup: section.read_if("lookup", &LOOKUPS)?.unwrap_or(Lookup::Hlr),
                secret: secret(reader)?,
            })
        }
        DriverKind::Twilio => {
            only(reader, &["base_url", "key", "client_secret_file", "client_secret_env"])?;
            Driver::Twilio(Twilio {
                base_url: base_url(reader, Twilio::BASE_URL)?,
                key: section.read("key", &word())?,
                secret: secret(reader)?,
            })
        }
        DriverKind::Vonage => {
            let own = ["base_url", "application_id", "purpose", "signing_key_file", "signing_key_env"];
            only(reader, &[&own[..], &["signing_key_id", "signing_algorithm"]].concat())?;
            let key = signing_key(reader)?;
            Driver::VonageIdentityInsights(VonageInsights {
                base_url: base_url(reader, VonageInsights::BASE_URL)?,
                application_id: section.read("application_id", &word())?,
                key: key
                    .ok_or_else(|| section.invalid("signing_key_file", "nothing", "a path to a private key (PEM)"))?,
                purpose: section.read_if("purpose", &word())?.or_else(|| Some(VonageInsights::PURPOSE.to_owned())),
            })
        }
        DriverKind::Generic => Driver::GenericJson(generic(reader)?),
    };
    Ok(HlrConfig { known: known.clone(), breaker: breaker(reader)?, ..HlrConfig::new(section.name, driver) })
}

fn only(reader: &Reader<'_>, own: &[&str]) -> Result<(), ConfigError> {
    reader.section.only(&[&COMMON[..], &["driver"], &CLIENT_MEMBERS, own].concat())
}

fn generic(reader: &mut Reader<'_>) -> Result<GenericJson, ConfigError> {
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
    only(reader, &[&OWN[..], &["no_data_statuses"]].concat())?;
    let section = reader.section;
    let network = match section.read_if("network_pointer", &word())? {
        Some(pointer) => NetworkPointers::Codes(pointer),
        None => NetworkPointers::Separate {
            country: section.read("country_code_pointer", &word())?,
            network: section.read("network_code_pointer", &word())?,
        },
    };
    let usual = GenericJson::new(section.read("url", &word())?, network);
    let mut headers = HeaderMap::new();
    for (name, value) in section.read_if("headers", &ListOf(header()))?.unwrap_or_default() {
        headers.append(name, value);
    }
    if let Some(name) = section.read_if("secret_header", &header_name())? {
        let value = secret_text(reader)?;
        let allowed = "a secret that a header can hold";
        let mut value = HeaderValue::from_str(value.as_str())
            .map_err(|_| section.invalid("client_secret_file", "something else", allowed))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    let values = |member| section.read_if(member, &ListOf(word()));
    Ok(GenericJson {
        method: section
            .read_if("method", &METHODS)?
            .map_or(usual.method, |post| if post { Method::POST } else { Method::GET }),
        headers,
        body: section.read_if("body", &anything())?,
        state: section.read_if("state_pointer", &word())?,
        absent_values: values("absent_values")?.unwrap_or(usual.absent_values),
        invalid_values: values("invalid_values")?.unwrap_or(usual.invalid_values),
        failed_values: values("failed_values")?.unwrap_or(usual.failed_values),
        no_data_statuses: section
            .read_if("no_data_statuses", &ListOf(Whole(400..=499)))?
            .unwrap_or(usual.no_data_statuses),
        ..usual
    })
}

const METHODS: Word<bool> = Word(&[("GET", false), ("POST", true)]);

const DEPTHS: Word<Depth> =
    Word(&[("shallow", Depth::Shallow), ("shallow_then_deep", Depth::ShallowThenDeep), ("deep", Depth::Deep)]);

fn telco_finder(reader: &mut Reader<'_>, known: &KnownNetworks) -> Result<TelcoFinderConfig, ConfigError> {
    const OWN: [&str; 7] = ["root", "interface", "operators", "depth", "token_endpoint", "issuer", "scope"];
    const SEARCHES: Word<bool> = Word(&[("telco_finder", true), ("network_id", false)]);
    let section = reader.section;
    section.only(&[&COMMON[..], &OWN, &AUTHENTICATION_MEMBERS, &CLIENT_MEMBERS].concat())?;
    let key = signing_key(reader)?;
    let question = if section.read_if("interface", &SEARCHES)?.unwrap_or(true) {
        let operators = section.read("operators", &ListOf(code_of_network()))?.into_iter().collect();
        Question::Search { operators, depth: section.read_if("depth", &DEPTHS)?.unwrap_or_default() }
    } else {
        Question::NetworkId
    };
    let usual = TelcoFinderConfig::new(
        section.name,
        section.read("root", &web_url())?,
        question,
        section.read("token_endpoint", &web_url())?,
        section.read("client_id", &word())?,
        client_authentication(reader, key.as_ref())?,
    );
    let breaker: BreakerSettings = breaker(reader)?;
    Ok(TelcoFinderConfig {
        issuer: section.read_if("issuer", &word())?.unwrap_or(usual.issuer.clone()),
        scope: section.read_if("scope", &word())?.or(usual.scope.clone()),
        known: known.clone(),
        breaker,
        ..usual
    })
}

fn base_url(reader: &Reader<'_>, usual: &str) -> Result<Url, ConfigError> {
    let given = reader.section.read_if("base_url", &web_url())?;
    let usual = || Url::parse(usual).map_err(|_| reader.section.invalid("base_url", "nothing", "a URL"));
    given.map_or_else(usual, Ok)
}

/// A code, and the network that it stands for.
fn code_of_network() -> Text<(String, NetworkId)> {
    Text {
        allowed: "a code, `=` and the id of a network, such as \"d2701=25001\"",
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
    text("the name of a header")
}

fn anything() -> Text<String> {
    Text { allowed: "up to 4096 characters", parse: |text| (text.len() <= 4_096).then(|| text.to_owned()) }
}
