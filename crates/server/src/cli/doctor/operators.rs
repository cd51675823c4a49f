//! Checks everything to which a server connects: name servers, operators, number sources, the trace collector and the
//! console's OpenID provider.
//!
//! The checks open no SMPP bind, because the SMSC would deliver messages to it. They look up no number at a provider
//! that charges for it.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

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
    client::{Client, ClientSettings, Resolver as _, SystemResolver},
    number_lookup::{EnumConfig, EnumDns, http_hlr::HlrDriver},
    smpp::SmppConfig,
};
use serde_json::Value;
use tokio::{
    net::{TcpStream, UdpSocket, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::{Finding, failed, passed, skipped, warning};
use crate::{
    config::{CamaraSection, Config, Connector, ConnectorSection, NumberSourceSection, OpenIdConnectSection},
    connectors::ConnectorFactory,
    identity_provider::build_identity_provider,
    prepared::own_hosts,
};

const RESOLVER_CONFIGURATION: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;
const DNS_TIMEOUT: Duration = Duration::from_secs(2);
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

/// Asks each name server for the host of the base URL. The answer that the host does not exist passes, too, because the
/// name may be unknown inside the network.
async fn check_dns(config: &Config) -> Finding {
    const CHECK: &str = "DNS";
    let url = config.base_url.as_ref().and_then(|url| Url::parse(url.as_str()).ok());
    let Some(Host::Domain(name)) = url.as_ref().and_then(Url::host) else {
        return skipped(CHECK, "`base_url` has no host name to ask for");
    };
    let servers = parse_name_servers(&fs::read_to_string(RESOLVER_CONFIGURATION).unwrap_or_default());
    let answers = join_all(servers.iter().map(|server| ask_name_server(SocketAddr::new(*server, DNS_PORT), name)));
    let silent: Vec<String> =
        servers.iter().zip(answers.await).filter(|(_, is_ok)| !is_ok).map(|(server, _)| server.to_string()).collect();
    if silent.is_empty() {
        let all: Vec<String> = servers.iter().map(ToString::to_string).collect();
        return passed(CHECK, format!("answers from {}", all.join(", ")));
    }
    let hint =
        format!("Correct {RESOLVER_CONFIGURATION}, or permit DNS to these servers: callbacks are sent to host names.");
    failed(CHECK, format!("no answer from {}", silent.join(", ")), hint)
}

/// Resolves the deployment's own host names. The address guard rejects callbacks to their addresses, and blocks all
/// callbacks while it cannot resolve them.
async fn check_own_hosts(config: &Config) -> Finding {
    const CHECK: &str = "host names";
    const HINT: &str = "Add them to DNS or to /etc/hosts. Until then no callbacks are sent, because the service cannot tell its own addresses from receivers'.";
    let hosts = config.base_url.as_ref().map(|url| own_hosts(config, url.as_str())).unwrap_or_default();
    let names: BTreeSet<String> = hosts.into_iter().filter_map(|host| host_name(&host)).collect();
    if names.is_empty() {
        return skipped(CHECK, "this deployment has no host name");
    }
    let resolver = SystemResolver::default();
    let results = join_all(names.iter().map(|name| timeout(DNS_TIMEOUT, resolver.resolve(name)))).await;
    let is_known = |result: &Result<io::Result<Vec<IpAddr>>, _>| matches!(result, Ok(Ok(found)) if !found.is_empty());
    let unknown: Vec<&str> =
        (names.iter().zip(&results)).filter(|(_, result)| !is_known(result)).map(|(name, _)| name.as_str()).collect();
    if unknown.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return passed(CHECK, names.join(", "));
    }
    failed(CHECK, format!("cannot resolve {}", unknown.join(", ")), HINT)
}

fn host_name(host: &Host) -> Option<String> {
    match host {
        Host::Domain(name) => Some(name.clone()),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// Parses the name servers in `/etc/resolv.conf`. If there are none, the resolver asks this machine.
fn parse_name_servers(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let servers: Vec<IpAddr> = servers.filter_map(|server| server.trim().parse().ok()).collect();
    if servers.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { servers }
}

/// Returns whether the name server has resolved the name, or reports that it does not exist.
async fn ask_name_server(server: SocketAddr, name: &str) -> bool {
    const NO_ERROR: u8 = 0;
    const NXDOMAIN: u8 = 3;
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let exchange = async {
        let socket = UdpSocket::bind(local).await?;
        socket.connect(server).await?;
        socket.send(&address_query(name)).await?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).await?;
        io::Result::Ok(matches!(&answer[..length], [_, _, _, flags, ..] if matches!(flags & 0x0f, NO_ERROR | NXDOMAIN)))
    };
    matches!(timeout(DNS_TIMEOUT, exchange).await, Ok(Ok(true)))
}

/// Builds a recursive DNS query (RFC 1035) for the IPv4 addresses of a name.
fn address_query(name: &str) -> Vec<u8> {
    const HEADER: [u8; 12] = [0x52, 0x74, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    const TYPE_A_CLASS_IN: [u8; 4] = [0, 1, 0, 1];
    let mut query = HEADER.to_vec();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        // The length fits into a byte: the URL parser limits labels to 63 bytes.
        query.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(TYPE_A_CLASS_IN);
    query
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read_from_the_resolver_configuration() {
        let text = "# local\nsearch example.com\nnameserver 192.0.2.53\nnameserver 2001:db8::53\noptions edns0\n";
        let expected: Vec<IpAddr> = ["192.0.2.53", "2001:db8::53"].map(|ip| ip.parse().unwrap()).to_vec();
        assert_eq!(parse_name_servers(text), expected);
        assert_eq!(parse_name_servers(""), [IpAddr::from(Ipv4Addr::LOCALHOST)]);
    }

    #[tokio::test]
    async fn name_server_that_fails_is_not_accepted() {
        for (code, expected) in [(0, true), (3, true), (2, false), (5, false)] {
            let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let answer = async {
                let mut query = [0; 512];
                let (length, client) = server.recv_from(&mut query).await.unwrap();
                assert_eq!(&query[12..length], b"\x02eu\x07example\x00\x00\x01\x00\x01");
                query[2] |= 0x80;
                query[3] = code;
                server.send_to(&query[..length], client).await.unwrap();
            };
            let (is_ok, ()) = tokio::join!(ask_name_server(server.local_addr().unwrap(), "eu.example"), answer);
            assert_eq!(is_ok, expected, "{code}");
        }
    }
}
