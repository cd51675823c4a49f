//! Connectors to operators and aggregators.

pub(super) mod authentication;
pub(super) mod camara;
mod header_enrichment;
pub(super) mod section_reader;
mod sim_swap;
mod smpp;
mod sms_http;
mod tls;

use std::collections::BTreeMap;

use ringtrue_domain::phone::{Country, Msisdn};
use ringtrue_operators::{header_enrichment::HeaderEnrichmentConfig, smpp::SmppConfig, sms_http::WebhookConfig};

use self::section_reader::SectionReader;
pub use self::{camara::CamaraSection, section_reader::ConnectorFingerprint};
use super::{
    ConfigError, Environment, HeaderEnrichmentSection, IngressSection,
    named_sections::{NamedSection, SectionGroup},
    networks::{receiver_list, reject_duplicates},
    settings::Settings,
    value_type::{OneOf, Text},
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

/// Equal settings and secrets: a running connector need not restart.
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

    /// Numbers whose SMS the connector delivers.
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

#[derive(Clone, Copy)]
enum ConnectorKind {
    Smpp,
    SmsHttp,
    Camara,
    HeaderEnrichment,
}

const CONNECTOR_KINDS: OneOf<ConnectorKind> = OneOf(&[
    ("smpp", ConnectorKind::Smpp),
    ("sms_http", ConnectorKind::SmsHttp),
    ("camara", ConnectorKind::Camara),
    ("header_enrichment", ConnectorKind::HeaderEnrichment),
]);

/// Connector name of the simulated operator.
const SANDBOX_NAME: &str = "sandbox";

pub(super) fn read(
    settings: &Settings,
    environment: &Environment,
    ingress: Option<&IngressSection>,
    enrichment: Option<&HeaderEnrichmentSection>,
) -> Result<Vec<ConnectorSection>, ConfigError> {
    let mut connectors: Vec<ConnectorSection> = vec![];
    let mut countries: BTreeMap<Msisdn, (String, Option<Country>)> = BTreeMap::new();
    for section in settings.named_sections(SectionGroup::Connectors) {
        let connector = read_connector(section, environment, enrichment)?;
        if matches!(connector.connector, Connector::SmsHttp(_)) && ingress.is_none() {
            let key = section.key("kind");
            let allowed = format!("an IP address and a port, because `{key}` is \"sms_http\"");
            return Err(settings.invalid("ingress.listen", "\"off\"", allowed));
        }
        if matches!(connector.connector, Connector::HeaderEnrichment(_)) && enrichment.is_none() {
            let key = section.key("kind");
            let allowed = format!("an IP address and a port, because `{key}` is \"header_enrichment\"");
            return Err(settings.invalid("header_enrichment.listen", "\"off\"", allowed));
        }
        for receiver in connector.receivers() {
            let country = connector.country();
            match countries.get(receiver) {
                Some((other, other_country)) if *other_country != country => {
                    let found = format!("{:?}, which `connectors.{other}` also serves", receiver.as_str());
                    let allowed = format!(
                        "receivers of this connector only, or the same `country` as `connectors.{other}`: otherwise the \
                         sender of an SMS would depend on the connector"
                    );
                    return Err(section.invalid("receivers", found, allowed));
                }
                _ => countries.insert(receiver.clone(), (section.name.to_owned(), country)),
            };
        }
        connectors.push(connector);
    }
    Ok(connectors)
}

fn read_connector(
    section: NamedSection<'_>,
    environment: &Environment,
    enrichment: Option<&HeaderEnrichmentSection>,
) -> Result<ConnectorSection, ConfigError> {
    section.read_name(&connector_name())?;
    let kind = section.read("kind", &CONNECTOR_KINDS)?;
    let mut reader = SectionReader::new(section, environment);
    let connector = match kind {
        ConnectorKind::Smpp => Connector::Smpp(Box::new(smpp::read(&mut reader)?)),
        ConnectorKind::SmsHttp => Connector::SmsHttp(Box::new(sms_http::read(&mut reader)?)),
        ConnectorKind::Camara => Connector::Camara(Box::new(camara::read(&mut reader)?)),
        ConnectorKind::HeaderEnrichment => {
            let proxies = enrichment.map_or(&[][..], |enrichment| &enrichment.trusted_proxies);
            Connector::HeaderEnrichment(Box::new(header_enrichment::read(&mut reader, proxies)?))
        }
    };
    Ok(ConnectorSection { connector, fingerprint: reader.fingerprint() })
}

/// Used in paths and metric labels.
fn connector_name() -> Text<()> {
    Text {
        allowed: "a name of 1 to 40 lower-case letters, digits, `-` and `_`, other than \"sandbox\"",
        parse: |text| {
            let is_plain =
                text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
            (is_plain && (1..=40).contains(&text.len()) && text != SANDBOX_NAME).then_some(())
        },
    }
}

/// Requires at least one number and no duplicates.
fn read_receivers(section: &NamedSection<'_>) -> Result<Vec<Msisdn>, ConfigError> {
    let numbers = section.read("receivers", &receiver_list())?;
    if numbers.is_empty() {
        let allowed = "at least one number";
        return Err(section.invalid("receivers", "[]", allowed));
    }
    reject_duplicates(&numbers, |found, allowed| section.invalid("receivers", found, allowed))?;
    Ok(numbers)
}
