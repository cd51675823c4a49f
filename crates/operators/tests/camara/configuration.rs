use std::sync::Arc;

use ringtrue_engine::ports::{SystemClock, SystemEntropy};
use ringtrue_operators::camara::{
    Algorithm, BadConfig, BadKey, Camara, CamaraConfig, ClientAuthentication, Endpoints, Provider, Scopes, SigningKey,
    SimSwapConfig, SimSwapFlow,
};
use url::Url;

use super::{
    keys::Key,
    world::{CALLBACK, impatient},
};

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn what_cannot_work_is_refused() {
    type Change = fn(&mut CamaraConfig);
    let cases: &[(Change, Option<BadConfig>)] = &[
        (|_| {}, None),
        (|config| config.api_root = url("https://op.example/camara?x"), Some(BadConfig::ApiRoot)),
        (|config| config.api_root = url("ftp://op.example"), Some(BadConfig::ApiRoot)),
        (|config| config.number_verification_path = "v2".to_owned(), Some(BadConfig::BasePath)),
        (|config| config.number_verification_path = "/v2?x".to_owned(), Some(BadConfig::BasePath)),
        (|config| config.client_id.clear(), Some(BadConfig::ClientId)),
        (|config| config.redirect_uri = url("https://us.example/#x"), Some(BadConfig::RedirectUri)),
        (|config| config.pkce = false, None),
        (|config| (config.pkce, config.scopes.openid) = (false, false), Some(BadConfig::NothingTies)),
        (
            |config| config.scopes = Scopes { verify: None, device_phone_number: None, ..Scopes::default() },
            Some(BadConfig::NoScopes),
        ),
        (|config| config.provider = Provider::Issuer("op.example".to_owned()), Some(BadConfig::Provider)),
        (|config| config.provider = Provider::Issuer("https://op.example/?x".to_owned()), Some(BadConfig::Provider)),
        (
            |config| config.provider = Provider::Discovery { url: url("data:,x"), issuer: None },
            Some(BadConfig::Provider),
        ),
        (|config| config.provider = endpoints(None), Some(BadConfig::NoAuthorization)),
        (|config| config.provider = endpoints(Some("https://op.example/authorize")), Some(BadConfig::NoKeys)),
        (|config| config.sim_swap = Some(SimSwapConfig::new(SimSwapFlow::Ciba)), None),
        (
            |config| {
                let usual = SimSwapConfig::new(SimSwapFlow::Ciba);
                config.sim_swap = Some(SimSwapConfig { path: "v2".to_owned(), ..usual });
            },
            Some(BadConfig::BasePath),
        ),
        (
            |config| {
                let usual = SimSwapConfig::new(SimSwapFlow::Ciba);
                config.sim_swap = Some(SimSwapConfig { operations: vec![], ..usual });
            },
            Some(BadConfig::NoOperations),
        ),
        // About SIM cards alone, devices are sent nowhere and no ID token comes.
        (|config| only_sim_swap(config, SimSwapFlow::ClientCredentials), None),
        (
            |config| {
                only_sim_swap(config, SimSwapFlow::ClientCredentials);
                (config.pkce, config.scopes.openid) = (false, false);
            },
            None,
        ),
        (|config| only_sim_swap(config, SimSwapFlow::Ciba), Some(BadConfig::NoBackchannel)),
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
            url(CALLBACK),
        );
        change(&mut config);
        let made =
            Camara::new(config, Arc::new(impatient()), Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
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
        keys: None,
        names_itself: false,
    }))
}

#[test]
fn a_key_is_of_the_kind_that_its_algorithm_needs() {
    let keys = [Algorithm::Es256, Algorithm::Rs256, Algorithm::EdDsa].map(|algorithm| Key::new(algorithm, "k"));
    for key in &keys {
        for algorithm in Algorithm::ALL {
            let is_rsa = |algorithm| matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256);
            let fits = key.algorithm == algorithm || is_rsa(key.algorithm) && is_rsa(algorithm);
            let made = SigningKey::from_pem(key.pem().as_bytes(), algorithm, "k");
            assert_eq!(made.err(), (!fits).then_some(BadKey::OtherKind), "{:?} {algorithm:?}", key.algorithm);
        }
    }
    for pem in ["", "secret", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"] {
        assert_eq!(SigningKey::from_pem(pem.as_bytes(), Algorithm::Es256, "k").err(), Some(BadKey::NotPkcs8), "{pem}");
    }
    assert_eq!(format!("{:?}", keys[0].signing()), "SigningKey(ES256, k)");
}
