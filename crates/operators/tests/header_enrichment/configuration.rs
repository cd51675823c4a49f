use std::sync::Arc;

use ringtrue_operators::header_enrichment::HeaderEnrichmentConfigError;

use super::*;

#[test]
fn insecure_configurations_are_rejected() {
    type Change = fn(&mut HeaderEnrichmentConfig);
    type Problem = fn(Arc<str>) -> HeaderEnrichmentConfigError;
    let cases: [(Change, Problem); 13] = [
        (|config| config.base_url = "https://he.example.com".parse().unwrap(), HeaderEnrichmentConfigError::BaseUrl),
        (
            |config| config.base_url = "http://he.example.com/path".parse().unwrap(),
            HeaderEnrichmentConfigError::BaseUrl,
        ),
        (|config| config.base_url = "http://u:p@he.example.com".parse().unwrap(), HeaderEnrichmentConfigError::BaseUrl),
        (
            |config| config.base_url = "http://he.example.com/?a=b".parse().unwrap(),
            HeaderEnrichmentConfigError::BaseUrl,
        ),
        (|config| config.networks.clear(), HeaderEnrichmentConfigError::NoNetwork),
        (|config| config.egress.clear(), HeaderEnrichmentConfigError::NoEgress),
        (|config| config.egress.push("0.0.0.0/0".parse().unwrap()), HeaderEnrichmentConfigError::CatchAllRange),
        (|config| config.trusted_proxies.push("::/0".parse().unwrap()), HeaderEnrichmentConfigError::CatchAllRange),
        (
            |config| config.msisdn_location = MsisdnLocation { header: None, cookie: None },
            HeaderEnrichmentConfigError::MsisdnLocation,
        ),
        (|config| config.msisdn_location = MsisdnLocation::header(""), HeaderEnrichmentConfigError::MsisdnLocation),
        (
            |config| config.msisdn_location = MsisdnLocation::header("x msisdn"),
            HeaderEnrichmentConfigError::MsisdnLocation,
        ),
        (|config| config.msisdn_location = MsisdnLocation::cookie("a=b"), HeaderEnrichmentConfigError::MsisdnLocation),
        (
            |config| config.cipher = Cipher::aes256_gcm(vec![0; 32].into()).unwrap(),
            HeaderEnrichmentConfigError::Encoding,
        ),
    ];
    for (change, problem) in cases {
        let mut config = config();
        change(&mut config);
        assert_eq!(HeaderEnrichment::new(config).err(), Some(problem("example".into())));
    }
    assert!(HeaderEnrichment::new(config()).is_ok());
}
