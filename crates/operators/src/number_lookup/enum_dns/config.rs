//! What is to be known of a number database to ask it by DNS.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};

use hickory_resolver::proto::rr::Name;
use ringtrue_domain::network::NetworkId;

use crate::{breaker::BreakerSettings, number_lookup::KnownNetworks};

/// How many characters fifteen digits take before the suffix, each with its dot.
const DIGITS: usize = 30;
const LONGEST_NAME: usize = 253;

#[derive(Clone, Debug)]
pub struct EnumConfig {
    /// Tells this source from others, in logs.
    pub name: Arc<str>,
    /// Asked in this order, beginning with the one that answered last.
    pub servers: Vec<NameServer>,
    /// What numbers become names under.
    pub suffix: String,
    /// How long one server may take for one question.
    pub timeout: Duration,
    /// How often each server is asked.
    pub tries: u32,
    /// Sends letters of the name in random case, as one more thing that whoever forges an answer must guess. A server
    /// that does not give them back is asked again over TCP.
    pub mixes_case: bool,
    pub reading: Reading,
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
            mixes_case: true,
            reading: Reading::default(),
            breaker: BreakerSettings::default(),
        }
    }

    /// Says what cannot work, before anything is asked.
    pub(super) fn checked(mut self) -> Result<Self, BadEnumConfig> {
        self.suffix = self.suffix.trim_matches('.').to_owned();
        let suffix_fits = self.suffix.len() + DIGITS <= LONGEST_NAME && Name::from_ascii(&self.suffix).is_ok();
        if self.suffix.is_empty() || !suffix_fits {
            return Err(BadEnumConfig::Suffix);
        }
        if !(1..=8).contains(&self.servers.len()) {
            return Err(BadEnumConfig::Servers);
        }
        if self.timeout.is_zero() || !(1..=5).contains(&self.tries) {
            return Err(BadEnumConfig::Patience);
        }
        Ok(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEnumConfig {
    #[error("the suffix is a domain name, such as e164.arpa")]
    Suffix,
    #[error("one to eight servers are asked")]
    Servers,
    #[error("a server is asked one to five times, and may take some time for each answer")]
    Patience,
}

/// A name server: an address or a name, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    pub host: Box<str>,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name server is a host and a port, such as 192.0.2.53:53, [2001:db8::53]:53 or enum.example.com:5353")]
pub struct NotAServer;

impl FromStr for NameServer {
    type Err = NotAServer;

    fn from_str(text: &str) -> Result<Self, NotAServer> {
        let (host, port) = text.rsplit_once(':').ok_or(NotAServer)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(NotAServer)?;
        let host = match url::Host::parse(host).map_err(|_| NotAServer)? {
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

/// What the source's records mean.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub known: KnownNetworks,
    /// Whose a routing number (`rn`) is.
    pub routing_numbers: CodeTable,
    /// Whose a service provider number (`spn`) is.
    pub service_providers: CodeTable,
    /// Whose numbers are that the source knows and that were never ported. `None`: the source does not tell.
    pub not_ported: Option<NetworkId>,
    /// The source knows every number that anybody has: what it does not know, nobody has.
    pub is_authoritative: bool,
}

/// Codes of operators in one country, and their networks.
///
/// A code that ends with `*` stands for all that begin so; of several that fit, the longest counts. Case does not
/// matter, and neither do `-`, `.` and parentheses.
#[derive(Clone, Debug, Default)]
pub struct CodeTable {
    whole: BTreeMap<String, NetworkId>,
    beginnings: BTreeMap<String, NetworkId>,
}

impl<T: AsRef<str>> FromIterator<(T, NetworkId)> for CodeTable {
    fn from_iter<I: IntoIterator<Item = (T, NetworkId)>>(entries: I) -> Self {
        let mut table = CodeTable::default();
        for (code, network) in entries {
            match code.as_ref().trim().strip_suffix('*') {
                Some(beginning) => table.beginnings.insert(plain(beginning), network),
                None => table.whole.insert(plain(code.as_ref()), network),
            };
        }
        table
    }
}

impl CodeTable {
    pub fn find(&self, code: &str) -> Option<&NetworkId> {
        let code = plain(code);
        let of_beginning = || (0..=code.len()).rev().find_map(|length| self.beginnings.get(code.get(..length)?));
        self.whole.get(&code).or_else(of_beginning)
    }
}

fn plain(code: &str) -> String {
    let is_meant = |character: &char| !matches!(character, '-' | '.' | '(' | ')' | ' ');
    code.chars().filter(is_meant).map(|character| character.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for (text, shown) in [
            ("192.0.2.53:53", "192.0.2.53:53"),
            ("[2001:DB8::53]:5353", "[2001:db8::53]:5353"),
            ("Enum.example.com:16090", "enum.example.com:16090"),
        ] {
            assert_eq!(text.parse::<NameServer>().unwrap().to_string(), shown);
        }
        for bad in ["", "192.0.2.53", "192.0.2.53:0", "192.0.2.53:65536", "2001:db8::53", ":53", "a b:53", "[::1:53"] {
            assert_eq!(bad.parse::<NameServer>(), Err(NotAServer), "{bad}");
        }
    }

    #[test]
    fn the_longest_code_counts() {
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
    fn what_cannot_work_is_said_at_once() {
        let good = || EnumConfig::new("enum", vec!["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(good().checked().unwrap().suffix, "e164.arpa");
        let told = |change: fn(&mut EnumConfig)| {
            let mut config = good();
            change(&mut config);
            config.checked().map(|config| config.suffix)
        };
        assert_eq!(told(|config| config.suffix = ".e164enum.net.".to_owned()).unwrap(), "e164enum.net");
        for bad in ["", ".", "a..b"] {
            let config = EnumConfig { suffix: bad.to_owned(), ..good() };
            assert_eq!(config.checked().err(), Some(BadEnumConfig::Suffix), "{bad}");
        }
        assert_eq!(told(|config| config.suffix = ["a"; 113].join(".")), Err(BadEnumConfig::Suffix));
        assert_eq!(told(|config| config.servers.clear()), Err(BadEnumConfig::Servers));
        assert_eq!(told(|config| config.tries = 0), Err(BadEnumConfig::Patience));
        assert_eq!(told(|config| config.timeout = Duration::ZERO), Err(BadEnumConfig::Patience));
    }
}
