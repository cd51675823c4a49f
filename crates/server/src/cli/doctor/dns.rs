//! Checks the name servers of this machine, and the deployment's own host names.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use futures_util::future::join_all;
use ringtrue_operators::client::{Resolver as _, SystemResolver};
use tokio::{net::UdpSocket, time::timeout};
use url::{Host, Url};

use super::{Finding, failed, passed, skipped};
use crate::{config::Config, prepared::own_hosts};

const RESOLVER_CONFIGURATION: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;
const DNS_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks each name server for the host of the base URL. The answer that the host does not exist passes, too, because the
/// name may be unknown inside the network.
pub(super) async fn check_dns(config: &Config) -> Finding {
    const CHECK: &str = "DNS";
    let url = config.base_url.as_ref().and_then(|url| Url::parse(url.as_str()).ok());
    let Some(Host::Domain(name)) = url.as_ref().and_then(Url::host) else {
        return skipped(CHECK, "`base_url` has no host name to ask for");
    };
    let servers = parse_name_servers(&fs::read_to_string(RESOLVER_CONFIGURATION).unwrap_or_default());
    let answers = join_all(servers.iter().map(|server| name_server_responds(SocketAddr::new(*server, DNS_PORT), name)));
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
pub(super) async fn check_own_hosts(config: &Config) -> Finding {
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
async fn name_server_responds(server: SocketAddr, name: &str) -> bool {
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
            let (is_ok, ()) = tokio::join!(name_server_responds(server.local_addr().unwrap(), "eu.example"), answer);
            assert_eq!(is_ok, expected, "{code}");
        }
    }
}
