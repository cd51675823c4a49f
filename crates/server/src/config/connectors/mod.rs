//! Settings of connectors to operators and aggregators.

mod camara;
pub(super) mod client;
mod header_enrichment;
mod smpp;
mod sms_http;

use std::collections::BTreeMap;

use ringtrue_domain::phone::{Country, Msisdn};
use ringtrue_operators::{header_enrichment::HeaderEnrichmentConfig, smpp::SmppConfig, sms_http::WebhookConfig};

pub use self::camara::CamaraSection;
use super::{
    ConfigError, ConnectorFingerprint,
    document::{ConfigDocument, Section},
    listeners::Listeners,
    networks::reject_duplicates,
    value_parser::{ValueParser, keyword, numbers, string},
};

#[derive(Clone, Debug)]
pub struct ConnectorSection {
    pub connector: Connector,
    pub fingerprint: ConnectorFingerprint,
}

#[derive(Clone, Debug)]
pub enum Connector {
    Smpp(Box<SmppConfig>),
    SmsHttp(Box<WebhookConfig>),
    Camara(Box<CamaraSection>),
    HeaderEnrichment(Box<HeaderEnrichmentConfig>),
}

/// Compares settings and secrets. If they are equal, a reload need not restart the connector.
impl PartialEq for ConnectorSection {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for ConnectorSection {}

impl ConnectorSection {
    pub fn name(&self) -> &str {
        match &self.connector {
            Connector::Smpp(smpp) => &smpp.name,
            Connector::SmsHttp(webhook) => &webhook.name,
            Connector::Camara(camara) => &camara.config.name,
            Connector::HeaderEnrichment(enrichment) => &enrichment.name,
        }
    }

    /// Returns the receiver numbers whose SMS the connector delivers.
    pub fn receivers(&self) -> &[Msisdn] {
        match &self.connector {
            Connector::Smpp(smpp) => &smpp.receivers,
            Connector::SmsHttp(webhook) => &webhook.receivers,
            Connector::Camara(_) | Connector::HeaderEnrichment(_) => &[],
        }
    }

    fn country(&self) -> Option<Country> {
        match &self.connector {
            Connector::Smpp(smpp) => smpp.country,
            Connector::SmsHttp(webhook) => webhook.country,
            Connector::Camara(_) | Connector::HeaderEnrichment(_) => None,
        }
    }
}

type ReadConnector = fn(&Section<'_>, &Listeners) -> Result<Connector, ConfigError>;

const KINDS: &[(&str, ReadConnector)] = &[
    ("smpp", smpp::read),
    ("sms_http", sms_http::read),
    ("camara", camara::read),
    ("header_enrichment", header_enrichment::read),
];

/// Name of the simulated operator's connector, which configured connectors cannot have.
const SANDBOX_NAME: &str = "sandbox";

pub(super) fn read(document: &ConfigDocument<'_>, listeners: &Listeners) -> Result<Vec<ConnectorSection>, ConfigError> {
    let mut connectors = vec![];
    let mut countries: BTreeMap<Msisdn, (String, Option<Country>)> = BTreeMap::new();
    for section in document.named_sections("connectors") {
        section.parse_name(connector_name_parser())?;
        let read = section.get("kind", keyword(KINDS))?;
        let connector = ConnectorSection { connector: read(&section, listeners)?, fingerprint: section.fingerprint() };
        let country = connector.country();
        for receiver in connector.receivers() {
            let key = section.key("");
            match countries.insert(receiver.clone(), (key, country)) {
                Some((other, other_country)) if other_country != country => {
                    let found = format!("{:?}, which `{other}` also serves", receiver.as_str());
                    let allowed = format!(
                        "receivers of this connector only, or the same `country` as `{other}`: otherwise the sender of \
                         an SMS would depend on the connector"
                    );
                    return Err(section.invalid("receivers", found, allowed));
                }
                _ => {}
            }
        }
        connectors.push(connector);
    }
    Ok(connectors)
}

/// Parses the name of a connector, which appears in paths and metric labels.
fn connector_name_parser() -> ValueParser<String> {
    string("a name of 1 to 40 lower-case letters, digits, `-` and `_`, other than \"sandbox\"", |text| {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        text.bytes().all(is_allowed) && (1..=40).contains(&text.len()) && text != SANDBOX_NAME
    })
}

/// Fails if the listener that a connector needs is off.
fn require_listener<T: Clone>(section: &Section<'_>, key: &str, listener: Option<&T>) -> Result<T, ConfigError> {
    listener.cloned().ok_or_else(|| {
        let allowed =
            format!("an IP address and a port, because `{}` is {}", section.key("kind"), section.render_value("kind"));
        section.document.invalid(key, "\"off\"", allowed)
    })
}

/// Reads the receiver numbers. Requires at least one, and no duplicates.
fn read_receivers(section: &Section<'_>) -> Result<Vec<Msisdn>, ConfigError> {
    let receivers = section.get("receivers", numbers())?;
    if receivers.is_empty() {
        return Err(section.invalid("receivers", "[]", "at least one number"));
    }
    reject_duplicates(section, "receivers", &receivers)?;
    Ok(receivers)
}
