use std::sync::Arc;

use ringtrue_operators::header_enrichment::BadConfig;

use super::*;

#[test]
fn what_would_let_anybody_in_is_refused() {
    type Change = fn(&mut HeaderEnrichmentConfig);
    type Problem = fn(Arc<str>) -> BadConfig;
    let cases: [(Change, Problem); 13] = [
        (|config| config.base_url = "https://he.example.com".parse().unwrap(), BadConfig::BaseUrl),
        (|config| config.base_url = "http://he.example.com/path".parse().unwrap(), BadConfig::BaseUrl),
        (|config| config.base_url = "http://u:p@he.example.com".parse().unwrap(), BadConfig::BaseUrl),
        (|config| config.base_url = "http://he.example.com/?a=b".parse().unwrap(), BadConfig::BaseUrl),
        (|config| config.networks.clear(), BadConfig::NoNetwork),
        (|config| config.egress.clear(), BadConfig::NoEgress),
        (|config| config.egress.push("0.0.0.0/0".parse().unwrap()), BadConfig::Everybody),
        (|config| config.trusted_proxies.push("::/0".parse().unwrap()), BadConfig::Everybody),
        (|config| config.carrier = Carrier { header: None, cookie: None }, BadConfig::Carrier),
        (|config| config.carrier = Carrier::header(""), BadConfig::Carrier),
        (|config| config.carrier = Carrier::header("x msisdn"), BadConfig::Carrier),
        (|config| config.carrier = Carrier::cookie("a=b"), BadConfig::Carrier),
        (|config| config.cipher = Cipher::aes256_gcm(vec![0; 32].into()).unwrap(), BadConfig::Encoding),
    ];
    for (change, problem) in cases {
        let mut config = config();
        change(&mut config);
        assert_eq!(HeaderEnrichment::new(config).err(), Some(problem("example".into())));
    }
    assert!(HeaderEnrichment::new(config()).is_ok());
}
