//! Checks everything to which a server connects: name servers, operators, number sources, the trace collector and the
//! console's OpenID provider.
//!
//! The checks open no SMPP bind, because the SMSC would deliver messages to it. They look up no number at a provider
//! that charges for it.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, join_all};
use http::{HeaderMap, Method};
use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{
    clock::{Clock, SystemClock},
    entropy::{Entropy, SystemEntropy},
    lookups::LookupSource,
};
use ringtrue_operators::{
    camara::{CamaraConfig, Provider},
    client::{Client, ClientSettings},
    number_lookup::{EnumConfig, EnumDns, http_hlr::HlrDriver},
    smpp::SmppConfig,
};
use serde_json::Value;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::Url;

use super::{
    Finding,
    dns::{check_dns, check_own_hosts},
    failed, passed, skipped, warning,
};
use crate::{
    config::{CamaraSection, Config, Connector, ConnectorSection, NumberSourceSection, OpenIdConnectSection},
    connectors::ConnectorFactory,
    identity_provider::build_identity_provider,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Number to look up. It has no subscriber: Ofcom reserves its range for use in drama.
const UNASSIGNED_NUMBER: &str = "+447700900000";

/// Result of an attempt to connect to a peer: a description of the peer, or the reason why the attempt failed.
type Reached = Result<String, String>;

pub(super) async fn check_peers(config: &Config) -> Vec<Finding> {
    let mut findings = vec![check_dns(config).await, check_own_hosts(config).await];
    let connectors = config.connectors.iter().map(|section| check_connector(section).boxed());
    let sources = config.number_lookup.sources.iter().map(|source| check_source(source).boxed());
    let collector = config.telemetry.otlp_endpoint.iter().map(|url| check_collector(url).boxed());
    let provider = config.openid_connect.iter().map(|section| check_openid_provider(config, section).boxed());
    let checks: Vec<BoxFuture<'_, Finding>> = connectors.chain(sources).chain(collector).chain(provider).collect();
    findings.extend(join_all(checks).await);
    findings
}

/// Warns if the configuration lacks something that live projects need. Sandbox projects work without it.
pub(super) fn check_products(config: &Config) -> [Finding; 3] {
    let count = |check: &'static str, number: usize, missing: &str, hint: &str| match number {
        0 => warning(check, missing, hint),
        number => passed(check, format!("{number} configured")),
    };
    let receivers: BTreeSet<&Msisdn> = config.networks.receivers().collect();
    [
        count(
            "connectors",
            config.connectors.len(),
            "none: only sandbox projects can verify numbers",
            "Add a `[connectors.NAME]` section for each operator or SMS vendor: see docs/connectors.md.",
        ),
        count(
            "receivers",
            receivers.len(),
            "none: live projects cannot use Reverse SMS",
            "List the numbers that users text in `receivers.default`, or in the `receivers` of a network.",
        ),
        count(
            "networks",
            config.networks.networks().count(),
            "none: every number of a live project is rejected with `mno_not_supported`",
            "Add a `[networks.MCCMNC]` section with the number prefixes of each mobile network.",
        ),
    ]
}

async fn check_openid_provider(config: &Config, section: &OpenIdConnectSection) -> Finding {
    const CHECK: &str = "OpenID provider";
    const HINT: &str =
        "Check `console.openid_connect`, and that this machine can reach the provider. Passwords still work.";
    let dependencies: (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    // The check sends no redirect, so any base URL will do.
    let base_url = config.base_url.as_ref().map_or_else(|| "http://localhost".to_owned(), ToString::to_string);
    let provider = ConnectorFactory::new(config, base_url.clone(), None, dependencies)
        .and_then(|factory| build_identity_provider(section.clone(), &base_url, &factory));
    match provider {
        Err(error) => failed(CHECK, format!("{error:#}"), HINT),
        Ok(provider) => match provider.check().await {
            Ok(()) => passed(CHECK, section.issuer.clone()),
            Err(error) => failed(CHECK, format!("{}: {error}", section.issuer), HINT),
        },
    }
}

async fn check_connector(section: &ConnectorSection) -> Finding {
    let check = format!("connector {}", section.name());
    let key = format!("connectors.{}", section.name());
    let (reached, hint) = match &section.connector {
        Connector::Smpp(smpp) => (
            reach_smsc(smpp).await,
            format!("Check `{key}.host` and `{key}.port`, and whether the operator permits this machine's address."),
        ),
        Connector::Camara(camara) => {
            (reach_camara(camara).await, format!("Check the URLs and certificates in `[{key}]`, and the firewall."))
        }
        Connector::SmsHttp(_) => return skipped(check, "waits for webhooks: send an SMS to one of its receivers"),
        Connector::HeaderEnrichment(_) => return skipped(check, "waits for devices: see `header_enrichment.listen`"),
    };
    to_finding(check, reached, hint)
}

async fn check_source(source: &NumberSourceSection) -> Finding {
    let (name, reached) = match source {
        NumberSourceSection::Enum(config) => (&config.name, query_enum(config).await),
        NumberSourceSection::Hlr(config, client) => (&config.name, reach_hlr(&config.driver, client).await),
        NumberSourceSection::TelcoFinder(config, client) => {
            (&config.name, reach_all(client, &[&config.token_endpoint, &config.root]).await)
        }
    };
    let hint = format!("Check the addresses in `[number_sources.{name}]`, and the firewall.");
    to_finding(format!("number source {name}"), reached, hint)
}

async fn check_collector(endpoint: &Url) -> Finding {
    let reached = reach_all(&ClientSettings::default(), &[endpoint]).await;
    to_finding(
        "traces".to_owned(),
        reached,
        "Check `telemetry.otlp_endpoint`, and that the collector is running.".into(),
    )
}

fn to_finding(check: String, reached: Reached, hint: String) -> Finding {
    match reached {
        Ok(detail) => passed(check, detail),
        Err(detail) => failed(check, detail, hint),
    }
}

/// Connects to the SMSC, with TLS if it is configured, and closes the connection without a bind.
async fn reach_smsc(config: &SmppConfig) -> Reached {
    let peer = format!("{}:{}", config.host, config.port);
    let connect = async {
        let addresses: Vec<SocketAddr> =
            lookup_host((config.host.as_str(), config.port)).await.map_err(|error| error.to_string())?.collect();
        let stream = TcpStream::connect(&*addresses).await.map_err(|error| error.to_string())?;
        match &config.tls {
            None => Ok("accepts connections"),
            Some(tls) => {
                match TlsConnector::from(Arc::clone(&tls.config)).connect(tls.server_name.clone(), stream).await {
                    Ok(_) => Ok("accepts connections, with a valid certificate"),
                    Err(error) => Err(format!("TLS: {error}")),
                }
            }
        }
    };
    match timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err("connection timed out".to_owned())) {
        Ok(detail) => Ok(format!("{peer} {detail}; the password is not tried")),
        Err(error) => Err(format!("{peer}: {error}")),
    }
}

/// Reads the operator's discovery document, and connects to its APIs.
async fn reach_camara(section: &CamaraSection) -> Reached {
    let CamaraSection { config, client, .. } = section;
    match discovery_url(config)? {
        Some(url) => {
            let token_endpoint = read_token_endpoint(client, &url).await?;
            reach_all(client, &[&token_endpoint, &config.api_root]).await
        }
        None => match &config.provider {
            Provider::Endpoints(endpoints) => reach_all(client, &[&endpoints.token, &config.api_root]).await,
            Provider::Issuer(_) | Provider::Discovery { .. } => reach_all(client, &[&config.api_root]).await,
        },
    }
}

/// Returns the URL of the discovery document. `None`: the endpoints are configured, so there is no discovery.
fn discovery_url(config: &CamaraConfig) -> Result<Option<Url>, String> {
    match &config.provider {
        Provider::Issuer(issuer) => {
            let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
            url.parse().map(Some).map_err(|error: url::ParseError| format!("{issuer}: {error}"))
        }
        Provider::Discovery { url, .. } => Ok(Some(url.clone())),
        Provider::Endpoints(_) => Ok(None),
    }
}

async fn read_token_endpoint(settings: &ClientSettings, discovery: &Url) -> Result<Url, String> {
    let client = Client::new(settings).map_err(|error| error.to_string())?;
    let response = client.request(Method::GET, discovery, HeaderMap::new(), vec![]).await;
    let response = response.map_err(|error| format!("{discovery}: {error}"))?;
    if response.status != 200 {
        return Err(format!("{discovery}: status {}", response.status));
    }
    let document: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let endpoint = document.get("token_endpoint").and_then(Value::as_str).and_then(|url| url.parse().ok());
    endpoint.ok_or_else(|| format!("{discovery} is not a discovery document with a `token_endpoint`"))
}

async fn reach_hlr(driver: &HlrDriver, settings: &ClientSettings) -> Reached {
    match driver {
        HlrDriver::Infobip(vendor) => reach_all(settings, &[&vendor.base_url]).await,
        HlrDriver::HlrLookups(vendor) => reach_all(settings, &[&vendor.base_url]).await,
        HlrDriver::Twilio(vendor) => reach_all(settings, &[&vendor.base_url]).await,
        HlrDriver::VonageIdentityInsights(vendor) => reach_all(settings, &[&vendor.base_url]).await,
        HlrDriver::GenericJson(vendor) => match vendor.url.parse::<Url>() {
            Ok(url) => reach_all(settings, &[&url]).await,
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Requests the root of each origin, where a request has no effect. Any response passes.
async fn reach_all(settings: &ClientSettings, urls: &[&Url]) -> Reached {
    let client = Client::new(settings).map_err(|error| error.to_string())?;
    let mut origins: Vec<String> = urls.iter().map(|url| url.origin().ascii_serialization()).collect();
    origins.dedup();
    for origin in &origins {
        let root: Url = origin.parse().map_err(|error: url::ParseError| error.to_string())?;
        let response = client.request(Method::GET, &root, HeaderMap::new(), vec![]).await;
        response.map_err(|error| format!("{origin}: {error}"))?;
    }
    let verb = if origins.len() == 1 { "responds" } else { "respond" };
    Ok(format!("{} {verb}; the credentials are not tried", origins.join(" and ")))
}

/// Queries the ENUM servers for a number without a subscriber. An empty response passes, too.
async fn query_enum(config: &EnumConfig) -> Reached {
    let servers: Vec<String> = config.servers.iter().map(ToString::to_string).collect();
    let servers = servers.join(", ");
    let source = EnumDns::new(config.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    let source = source.map_err(|error| error.to_string())?;
    let number = Msisdn::parse(UNASSIGNED_NUMBER, Mode::Live).map_err(|error| error.to_string())?;
    match source.resolve(&number).await {
        Ok(_) => Ok(format!("{servers}: answers queries")),
        Err(error) => Err(format!("{servers}: {error}")),
    }
}
