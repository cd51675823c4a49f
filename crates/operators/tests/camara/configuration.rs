use std::sync::Arc;

use ringtrue_engine::ports::{clock::SystemClock, entropy::SystemEntropy};
use ringtrue_operators::camara::{
    Algorithm, Camara, CamaraConfig, CamaraConfigError, ClientAuthentication, Endpoints, Provider, SIGNING_ALGORITHMS,
    Scopes, SigningKey, SigningKeyError, SimSwapConfig, SimSwapFlow,
};
use url::Url;

use super::{
    fixture::{REDIRECT_URI, short_timeout_client},
    keys::Key,
};

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn invalid_settings_are_rejected() {
    type Change = fn(&mut CamaraConfig);
    let cases: &[(Change, Option<CamaraConfigError>)] = &[
        (|_| {}, None),
        (|config| config.api_root = url("https://op.example/camara?x"), Some(CamaraConfigError::ApiRoot)),
        (|config| config.api_root = url("ftp://op.example"), Some(CamaraConfigError::ApiRoot)),
        (|config| config.number_verification_path = "v2".to_owned(), Some(CamaraConfigError::BasePath)),
        (|config| config.number_verification_path = "/v2?x".to_owned(), Some(CamaraConfigError::BasePath)),
        (|config| config.client_id.clear(), Some(CamaraConfigError::ClientId)),
        (|config| config.redirect_uri = url("https://us.example/#x"), Some(CamaraConfigError::RedirectUri)),
        (|config| config.pkce = false, None),
        (|config| (config.pkce, config.scopes.openid) = (false, false), Some(CamaraConfigError::CodeNotBound)),
        (
            |config| config.scopes = Scopes { verify: None, device_phone_number: None, ..Scopes::default() },
            Some(CamaraConfigError::NoScopes),
        ),
        (|config| config.provider = Provider::Issuer("op.example".to_owned()), Some(CamaraConfigError::Provider)),
        (
            |config| config.provider = Provider::Issuer("https://op.example/?x".to_owned()),
            Some(CamaraConfigError::Provider),
        ),
        (
            |config| config.provider = Provider::Discovery { url: url("data:,x"), issuer: None },
            Some(CamaraConfigError::Provider),
        ),
        (|config| config.provider = endpoints(None), Some(CamaraConfigError::NoAuthorization)),
        (|config| config.provider = endpoints(Some("https://op.example/authorize")), Some(CamaraConfigError::NoJwks)),
        (|config| config.sim_swap = Some(SimSwapConfig::new(SimSwapFlow::Ciba)), None),
        (
            |config| {
                let usual = SimSwapConfig::new(SimSwapFlow::Ciba);
                config.sim_swap = Some(SimSwapConfig { path: "v2".to_owned(), ..usual });
            },
            Some(CamaraConfigError::BasePath),
        ),
        (
            |config| {
                let usual = SimSwapConfig::new(SimSwapFlow::Ciba);
                config.sim_swap = Some(SimSwapConfig { operations: vec![], ..usual });
            },
            Some(CamaraConfigError::NoOperations),
        ),
        // SIM Swap alone needs neither an authorization endpoint nor a JWKS.
        (|config| only_sim_swap(config, SimSwapFlow::ClientCredentials), None),
        (
            |config| {
                only_sim_swap(config, SimSwapFlow::ClientCredentials);
                (config.pkce, config.scopes.openid) = (false, false);
            },
            None,
        ),
        (|config| only_sim_swap(config, SimSwapFlow::Ciba), Some(CamaraConfigError::NoBackchannel)),
        (
            |config| {
                config.provider = endpoints(Some("https://op.example/authorize"));
                config.scopes.openid = false;
            },
            None,
        ),
    ];
    for (position, (change, expected)) in cases.iter().enumerate() {
        let mut config = CamaraConfig::new(
            "op",
            Provider::Issuer("https://op.example".to_owned()),
            url("https://op.example"),
            "us",
            ClientAuthentication::SecretBasic("secret".into()),
            url(REDIRECT_URI),
        );
        change(&mut config);
        let made = Camara::new(
            config,
            Arc::new(short_timeout_client()),
            Arc::new(SystemClock),
            Arc::new(SystemEntropy::default()),
        );
        assert_eq!(made.err(), *expected, "case {position}");
    }
}

fn only_sim_swap(config: &mut CamaraConfig, flow: SimSwapFlow) {
    config.scopes = Scopes { verify: None, device_phone_number: None, ..Scopes::default() };
    config.provider = endpoints(None);
    config.sim_swap = Some(SimSwapConfig::new(flow));
}

fn endpoints(authorization: Option<&str>) -> Provider {
    Provider::Endpoints(Box::new(Endpoints {
        issuer: "https://op.example".to_owned(),
        authorization: authorization.map(url),
        token: url("https://op.example/token"),
        backchannel: None,
        jwks: None,
        supports_iss_parameter: false,
    }))
}

#[test]
fn key_type_must_match_the_algorithm() {
    let keys = [Algorithm::ES256, Algorithm::RS256, Algorithm::EdDSA].map(|algorithm| Key::new(algorithm, "k"));
    for key in &keys {
        for algorithm in SIGNING_ALGORITHMS {
            let is_rsa = |algorithm| matches!(algorithm, Algorithm::RS256 | Algorithm::PS256);
            let fits = key.algorithm == algorithm || is_rsa(key.algorithm) && is_rsa(algorithm);
            let made = SigningKey::from_pem(key.pem().as_bytes(), algorithm, "k");
            assert_eq!(
                made.err(),
                (!fits).then_some(SigningKeyError::WrongKeyType),
                "{:?} {algorithm:?}",
                key.algorithm
            );
        }
    }
    for pem in ["", "secret", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"] {
        assert_eq!(
            SigningKey::from_pem(pem.as_bytes(), Algorithm::ES256, "k").err(),
            Some(SigningKeyError::NotPkcs8),
            "{pem}"
        );
    }
    assert_eq!(format!("{:?}", keys[0].signing()), "SigningKey(ES256, k)");
}
