//! Configuration of a header enrichment connector.

use std::sync::Arc;

use ipnet::IpNet;
use ringtrue_domain::{network::NetworkId, phone::Msisdn, tenancy::Mode};
use url::Url;

use super::{
    EnrichmentError,
    cipher::Cipher,
    msisdn_location::MsisdnLocation,
    value::{Encoding, ValueFormat, is_repeated_digit},
};

#[derive(Clone, Debug)]
pub struct HeaderEnrichmentConfig {
    /// Used in logs, metrics and the path.
    pub name: Arc<str>,
    pub mode: Mode,
    /// Networks whose devices are redirected here.
    pub networks: Vec<NetworkId>,
    /// Public URL of the listener for enriched requests. Gateways can enrich only plain HTTP.
    pub base_url: Url,
    /// Addresses of the operator's devices or gateways.
    pub egress: Vec<IpNet>,
    /// Our own proxies in front of the listener, whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    pub msisdn_location: MsisdnLocation,
    pub encoding: Encoding,
    pub cipher: Cipher,
    pub format: ValueFormat,
    /// Values that the operator sends for unknown numbers, besides one repeated digit.
    pub placeholders: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderEnrichmentConfigError {
    #[error(
        "header enrichment {0}: the base URL must be http:// with a host and no path, since only plain HTTP is enriched"
    )]
    BaseUrl(Arc<str>),
    #[error("header enrichment {0}: the operator's addresses are missing; without them anyone could forge the header")]
    NoEgress(Arc<str>),
    #[error("header enrichment {0}: an address range must not include every address")]
    CatchAllRange(Arc<str>),
    #[error("header enrichment {0}: a header or cookie name is required; use letters, digits, `-` and `_`")]
    MsisdnLocation(Arc<str>),
    #[error("header enrichment {0}: encrypted values require the encoding hex or base64")]
    Encoding(Arc<str>),
    #[error("header enrichment {0}: no network is configured")]
    NoNetwork(Arc<str>),
}

impl HeaderEnrichmentConfig {
    pub(super) fn validate(&self) -> Result<(), HeaderEnrichmentConfigError> {
        let fail = |problem: fn(Arc<str>) -> HeaderEnrichmentConfigError| Err(problem(Arc::clone(&self.name)));
        let url = &self.base_url;
        let url_is_plain = url.scheme() == "http"
            && url.has_host()
            && url.path() == "/"
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !url_is_plain {
            return fail(HeaderEnrichmentConfigError::BaseUrl);
        }
        if self.networks.is_empty() {
            return fail(HeaderEnrichmentConfigError::NoNetwork);
        }
        if self.egress.is_empty() {
            return fail(HeaderEnrichmentConfigError::NoEgress);
        }
        if self.egress.iter().chain(&self.trusted_proxies).any(|range| range.prefix_len() == 0) {
            return fail(HeaderEnrichmentConfigError::CatchAllRange);
        }
        let is_name = |name: &String| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let mut names = self.msisdn_location.header.iter().chain(&self.msisdn_location.cookie).peekable();
        if names.peek().is_none() || !names.all(is_name) {
            return fail(HeaderEnrichmentConfigError::MsisdnLocation);
        }
        if !self.cipher.is_none() && self.encoding == Encoding::Plain {
            return fail(HeaderEnrichmentConfigError::Encoding);
        }
        Ok(())
    }

    /// Decodes, decrypts and parses a value.
    pub(super) fn parse_number(&self, value: &[u8]) -> Result<Msisdn, EnrichmentError> {
        if self.is_placeholder(value) {
            return Err(EnrichmentError::Placeholder);
        }
        let plaintext = self.cipher.decrypt(self.encoding.decode(value)?)?;
        let text = std::str::from_utf8(&plaintext).map_err(|_| EnrichmentError::InvalidNumber)?.trim();
        if is_repeated_digit(text) || self.is_placeholder(text.as_bytes()) {
            return Err(EnrichmentError::Placeholder);
        }
        let msisdn = self.format.parse(text)?;
        let is_placeholder =
            self.placeholders.iter().any(|placeholder| placeholder.trim_start_matches('+') == msisdn.digits());
        match (is_placeholder, msisdn.is_simulated(), self.mode) {
            (true, _, _) => Err(EnrichmentError::Placeholder),
            // Simulated numbers are valid only in sandbox mode.
            (false, true, Mode::Live) => Err(EnrichmentError::InvalidNumber),
            _ => Ok(msisdn),
        }
    }

    fn is_placeholder(&self, text: &[u8]) -> bool {
        self.placeholders.iter().any(|placeholder| placeholder.as_bytes() == text)
    }
}
