//! What is agreed with an operator that enriches headers.

use std::sync::Arc;

use ipnet::IpNet;
use ringtrue_domain::{network::NetworkId, phone::Msisdn, tenancy::Mode};
use url::Url;

use super::{
    Refusal,
    carrier::Carrier,
    cipher::Cipher,
    value::{Encoding, ValueFormat, is_stand_in},
};

#[derive(Clone, Debug)]
pub struct HeaderEnrichmentConfig {
    /// As logs, metrics and the path call it.
    pub name: Arc<str>,
    pub mode: Mode,
    /// The networks whose devices are sent here.
    pub networks: Vec<NetworkId>,
    /// Where the listener for enriched requests is reached: plain HTTP, for nothing else can be enriched.
    pub base_url: Url,
    /// From where the operator's devices, or its gateways, reach us.
    pub egress: Vec<IpNet>,
    /// Proxies of ours in front of the listener, which say where they have a request from.
    pub trusted_proxies: Vec<IpNet>,
    pub carrier: Carrier,
    pub encoding: Encoding,
    pub cipher: Cipher,
    pub format: ValueFormat,
    /// What the operator writes when it does not know the number, besides one digit again and again.
    pub stand_ins: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    #[error(
        "header enrichment {0}: the base URL is http:// with a host and nothing behind it, for only plain HTTP can be enriched"
    )]
    BaseUrl(Arc<str>),
    #[error("header enrichment {0}: without the operator's addresses, anybody could write the header")]
    NoEgress(Arc<str>),
    #[error("header enrichment {0}: an address range that holds every address keeps nobody out")]
    Everybody(Arc<str>),
    #[error("header enrichment {0}: a header or a cookie must be named, by letters, digits and `-` or `_`")]
    Carrier(Arc<str>),
    #[error("header enrichment {0}: what is encrypted is written in hexadecimal digits or in base64")]
    Encoding(Arc<str>),
    #[error("header enrichment {0}: it serves no network")]
    NoNetwork(Arc<str>),
}

impl HeaderEnrichmentConfig {
    pub(super) fn check(&self) -> Result<(), BadConfig> {
        let fail = |problem: fn(Arc<str>) -> BadConfig| Err(problem(Arc::clone(&self.name)));
        let url = &self.base_url;
        let url_is_plain = url.scheme() == "http"
            && url.has_host()
            && url.path() == "/"
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !url_is_plain {
            return fail(BadConfig::BaseUrl);
        }
        if self.networks.is_empty() {
            return fail(BadConfig::NoNetwork);
        }
        if self.egress.is_empty() {
            return fail(BadConfig::NoEgress);
        }
        if self.egress.iter().chain(&self.trusted_proxies).any(|range| range.prefix_len() == 0) {
            return fail(BadConfig::Everybody);
        }
        let is_name = |name: &String| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let mut names = self.carrier.header.iter().chain(&self.carrier.cookie).peekable();
        if names.peek().is_none() || !names.all(is_name) {
            return fail(BadConfig::Carrier);
        }
        if !self.cipher.is_none() && self.encoding == Encoding::Plain {
            return fail(BadConfig::Encoding);
        }
        Ok(())
    }

    /// The number that a value stands for.
    pub(super) fn number(&self, value: &[u8]) -> Result<Msisdn, Refusal> {
        if self.is_a_stand_in(value) {
            return Err(Refusal::StandIn);
        }
        let open = self.cipher.open(self.encoding.decode(value)?)?;
        let text = std::str::from_utf8(&open).map_err(|_| Refusal::NotANumber)?.trim();
        if is_stand_in(text) || self.is_a_stand_in(text.as_bytes()) {
            return Err(Refusal::StandIn);
        }
        let number = self.format.read(text)?;
        let is_listed = self.stand_ins.iter().any(|stand_in| stand_in.trim_start_matches('+') == number.digits());
        match (is_listed, number.is_simulated(), self.mode) {
            (true, _, _) => Err(Refusal::StandIn),
            // A live operator has no simulated numbers.
            (false, true, Mode::Live) => Err(Refusal::NotANumber),
            _ => Ok(number),
        }
    }

    fn is_a_stand_in(&self, text: &[u8]) -> bool {
        self.stand_ins.iter().any(|stand_in| stand_in.as_bytes() == text)
    }
}
