//! Configuration of an ENUM source.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};

use hickory_resolver::proto::rr::Name;
use ringtrue_domain::network::NetworkId;

use crate::{breaker::BreakerSettings, number_lookup::KnownNetworks};

/// Length of the longest number in a domain name: fifteen digits, each followed by a dot.
const NUMBER_LABELS_BYTES: usize = 30;
const MAX_NAME_BYTES: usize = 253;

#[derive(Clone, Debug)]
pub struct EnumConfig {
    /// Identifies this source in logs.
    pub name: Arc<str>,
    /// Queried in this order, starting with the server that gave the last result.
    pub servers: Vec<NameServer>,
    /// Domain that is appended to the reversed digits of a number.
    pub suffix: String,
    /// Timeout of one query.
    pub timeout: Duration,
    /// Maximum number of queries to each server.
    pub tries: u32,
    /// Randomises the case of letters in the name (DNS 0x20), which makes forged responses harder. If a server does not
    /// preserve the case, the query is repeated over TCP.
    pub mixed_case: bool,
    pub rules: RecordRules,
    pub breaker: BreakerSettings,
}

impl EnumConfig {
    pub fn new(name: impl Into<Arc<str>>, servers: Vec<NameServer>) -> Self {
        EnumConfig {
            name: name.into(),
            servers,
            suffix: "e164.arpa".to_owned(),
            timeout: Duration::from_millis(800),
            tries: 2,
            mixed_case: true,
            rules: RecordRules::default(),
            breaker: BreakerSettings::default(),
        }
    }

    /// Normalises the suffix and rejects invalid settings.
    pub(super) fn validated(mut self) -> Result<Self, EnumConfigError> {
        self.suffix = self.suffix.trim_matches('.').to_owned();
        let suffix_fits =
            self.suffix.len() + NUMBER_LABELS_BYTES <= MAX_NAME_BYTES && Name::from_ascii(&self.suffix).is_ok();
        if self.suffix.is_empty() || !suffix_fits {
            return Err(EnumConfigError::Suffix);
        }
        if !(1..=8).contains(&self.servers.len()) {
            return Err(EnumConfigError::Servers);
        }
        if self.timeout.is_zero() || !(1..=5).contains(&self.tries) {
            return Err(EnumConfigError::Timing);
        }
        Ok(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnumConfigError {
    #[error("the suffix must be a domain name, such as e164.arpa")]
    Suffix,
    #[error("configure one to eight servers")]
    Servers,
    #[error("tries must be 1 to 5, and the timeout must not be zero")]
    Timing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    pub host: Box<str>,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a host and a port, such as 192.0.2.53:53, [2001:db8::53]:53 or enum.example.com:5353")]
pub struct InvalidNameServer;

impl FromStr for NameServer {
    type Err = InvalidNameServer;

    fn from_str(text: &str) -> Result<Self, InvalidNameServer> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidNameServer)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(InvalidNameServer)?;
        let host = match url::Host::parse(host).map_err(|_| InvalidNameServer)? {
            url::Host::Ipv6(address) => address.to_string(),
            host => host.to_string(),
        };
        Ok(NameServer { host: host.into(), port })
    }
}

impl fmt::Display for NameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Rules for interpreting the source's records.
#[derive(Clone, Debug, Default)]
pub struct RecordRules {
    pub known_networks: KnownNetworks,
    /// Networks by routing number (`rn`).
    pub routing_numbers: CodeTable,
    /// Networks by service provider number (`spn`).
    pub service_providers: CodeTable,
    /// Network of numbers that the source reports as not ported. `None`: their network is unknown.
    pub not_ported: Option<NetworkId>,
    /// Whether the source contains every number that has a subscriber. A number that it does not contain then has none.
    pub is_authoritative: bool,
}

/// Maps operators' national codes to networks.
///
/// A code that ends with `*` is a prefix; the longest match wins. Case, `-`, `.`, spaces and parentheses are ignored.
#[derive(Clone, Debug, Default)]
pub struct CodeTable {
    exact: BTreeMap<String, NetworkId>,
    prefixes: BTreeMap<String, NetworkId>,
}

impl<T: AsRef<str>> FromIterator<(T, NetworkId)> for CodeTable {
    fn from_iter<I: IntoIterator<Item = (T, NetworkId)>>(entries: I) -> Self {
        let mut table = CodeTable::default();
        for (code, network) in entries {
            match code.as_ref().trim().strip_suffix('*') {
                Some(prefix) => table.prefixes.insert(normalize_code(prefix), network),
                None => table.exact.insert(normalize_code(code.as_ref()), network),
            };
        }
        table
    }
}

impl CodeTable {
    pub fn find(&self, code: &str) -> Option<&NetworkId> {
        let code = normalize_code(code);
        let by_prefix = || (0..=code.len()).rev().find_map(|length| self.prefixes.get(code.get(..length)?));
        self.exact.get(&code).or_else(by_prefix)
    }
}

fn normalize_code(code: &str) -> String {
    let is_significant = |character: &char| !matches!(character, '-' | '.' | '(' | ')' | ' ');
    code.chars().filter(is_significant).map(|character| character.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_server_is_parsed() {
        for (text, shown) in [
            ("192.0.2.53:53", "192.0.2.53:53"),
            ("[2001:DB8::53]:5353", "[2001:db8::53]:5353"),
            ("Enum.example.com:16090", "enum.example.com:16090"),
        ] {
            assert_eq!(text.parse::<NameServer>().unwrap().to_string(), shown);
        }
        for bad in ["", "192.0.2.53", "192.0.2.53:0", "192.0.2.53:65536", "2001:db8::53", ":53", "a b:53", "[::1:53"] {
            assert_eq!(bad.parse::<NameServer>(), Err(InvalidNameServer), "{bad}");
        }
    }

    #[test]
    fn longest_prefix_wins() {
        let entries = [("D27*", "25001"), ("d2701", "25002"), ("*", "25099"), ("+1-215-555-0199", "310260")];
        let table: CodeTable = entries.map(|(code, id)| (code, id.parse().unwrap())).into_iter().collect();
        for (code, id) in
            [("d2701", "25002"), ("D2799", "25001"), ("d1", "25099"), ("é", "25099"), ("+1(215)555.0199", "310260")]
        {
            assert_eq!(table.find(code).unwrap().as_str(), id, "{code}");
        }
        assert_eq!(CodeTable::default().find("d2701"), None);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let valid = || EnumConfig::new("enum", vec!["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(valid().validated().unwrap().suffix, "e164.arpa");
        let changed = |change: fn(&mut EnumConfig)| {
            let mut config = valid();
            change(&mut config);
            config.validated().map(|config| config.suffix)
        };
        assert_eq!(changed(|config| config.suffix = ".e164enum.net.".to_owned()).unwrap(), "e164enum.net");
        for bad in ["", ".", "a..b"] {
            let config = EnumConfig { suffix: bad.to_owned(), ..valid() };
            assert_eq!(config.validated().err(), Some(EnumConfigError::Suffix), "{bad}");
        }
        assert_eq!(changed(|config| config.suffix = ["a"; 113].join(".")), Err(EnumConfigError::Suffix));
        assert_eq!(changed(|config| config.servers.clear()), Err(EnumConfigError::Servers));
        assert_eq!(changed(|config| config.tries = 0), Err(EnumConfigError::Timing));
        assert_eq!(changed(|config| config.timeout = Duration::ZERO), Err(EnumConfigError::Timing));
    }
}
