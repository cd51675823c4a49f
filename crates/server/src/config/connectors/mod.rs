//! The connectors: how operators and aggregators bring SMS, and how operators are asked.

pub(super) mod authentication;
pub(super) mod camara;
mod header_enrichment;
pub(super) mod reader;
mod sim_swap;
mod smpp;
mod sms_http;
mod tls;

use std::collections::BTreeMap;

use ringtrue_domain::phone::{Country, Msisdn};
use ringtrue_operators::{header_enrichment::HeaderEnrichmentConfig, smpp::SmppConfig, sms_http::WebhookConfig};

use self::reader::Reader;
pub use self::{camara::CamaraSection, reader::Fingerprint};
use super::{
    ConfigError, Environment, HeaderEnrichment, Ingress,
    family::{Family, Named},
    kind::{Text, Word},
    networks::{check_once, receivers},
    settings::Settings,
};

/// A connector, and by what to tell whether it has changed.
#[derive(Clone, Debug)]
pub struct ConnectorSection {
    pub connector: Connector,
    pub fingerprint: Fingerprint,
}

#[derive(Clone, Debug)]
pub enum Connector {
    Smpp(Box<SmppConfig>),
    SmsHttp(Box<WebhookConfig>),
    Camara(Box<CamaraSection>),
    HeaderEnrichment(Box<HeaderEnrichmentConfig>),
}

/// The same settings and the same secrets: what runs by the one need not be stopped for the other.
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

    /// The numbers whose SMS it brings.
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

const KINDS: Word<ConnectorKind> = Word(&[
    ("smpp", ConnectorKind::Smpp),
    ("sms_http", ConnectorKind::SmsHttp),
    ("camara", ConnectorKind::Camara),
    ("header_enrichment", ConnectorKind::HeaderEnrichment),
]);

/// The name of the simulated operator.
const SANDBOX: &str = "sandbox";

pub(super) fn read(
    settings: &Settings,
    environment: &Environment,
    ingress: Option<&Ingress>,
    enrichment: Option<&HeaderEnrichment>,
) -> Result<Vec<ConnectorSection>, ConfigError> {
    let mut connectors: Vec<ConnectorSection> = vec![];
    let mut countries: BTreeMap<Msisdn, (String, Option<Country>)> = BTreeMap::new();
    for section in settings.named(Family::Connectors) {
        let connector = connector(section, environment, enrichment)?;
        if matches!(connector.connector, Connector::SmsHttp(_)) && ingress.is_none() {
            let key = section.key("kind");
            let allowed = format!("an IP address and a port, because `{key}` is \"sms_http\", which operators call");
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
                Some((other, of_other)) if *of_other != country => {
                    let found = format!("{:?}, which `connectors.{other}` serves too", receiver.as_str());
                    let allowed = format!(
                        "receivers of this connector alone, or the same `country` as that of `connectors.{other}`: the \
                         sender of an SMS would depend on who brings it"
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

fn connector(
    section: Named<'_>,
    environment: &Environment,
    enrichment: Option<&HeaderEnrichment>,
) -> Result<ConnectorSection, ConfigError> {
    section.read_name(&name())?;
    let kind = section.read("kind", &KINDS)?;
    let mut reader = Reader::new(section, environment);
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

/// It is part of a path, and a label of metrics.
fn name() -> Text<()> {
    Text {
        allowed: "a name of 1 to 40 small letters, digits, `-` and `_`, other than \"sandbox\"",
        parse: |text| {
            let is_plain =
                text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
            (is_plain && (1..=40).contains(&text.len()) && text != SANDBOX).then_some(())
        },
    }
}

/// The numbers of a connector: at least one, and each once.
fn own_receivers(section: &Named<'_>) -> Result<Vec<Msisdn>, ConfigError> {
    let own = section.read("receivers", &receivers())?;
    if own.is_empty() {
        let allowed = "at least one number: without any, every SMS would be for somebody else";
        return Err(section.invalid("receivers", "[]", allowed));
    }
    check_once(&own, |found, allowed| section.invalid("receivers", found, allowed))?;
    Ok(own)
}
