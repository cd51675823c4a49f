//! Connectors of the kind `camara`.

use jiff::SignedDuration;
use ringtrue_operators::camara::{Audience, CamaraConfig, Provider, SimSwapConfig, SimSwapFlow, SimSwapOperation};

use super::{assert_rejected, load_valid};
use crate::config::{Connector, ConnectorSection};

/// Required settings on eight lines, then `rest`.
fn three(rest: &str) -> String {
    format!(
        "[connectors.three]\nkind = \"camara\"\nnetworks = [\"23420\"]\nissuer = \"https://op.example\"\n\
         api_root = \"https://api.op.example\"\nclient_id = \"us\"\nclient_authentication = \"client_secret_basic\"\n\
         client_secret_env = \"SECRET\"\n{rest}"
    )
}

fn camara(rest: &str) -> CamaraConfig {
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let config = load_valid(&three(rest), [("SECRET", "hunter2"), ("KEY", &key)]);
    let [ConnectorSection { connector: Connector::Camara(camara), .. }] = &*config.connectors else { panic!() };
    camara.config.clone()
}

fn sim_swap(rest: &str) -> SimSwapConfig {
    camara(rest).sim_swap.unwrap()
}

#[test]
fn sim_swap_is_off_by_default() {
    for off in ["", "sim_swap = \"off\""] {
        let config = camara(off);
        assert!(config.sim_swap.is_none() && config.scopes.verify.is_some());
    }
    let default = sim_swap("sim_swap = \"client_credentials\"");
    let expected = SimSwapConfig::new(SimSwapFlow::ClientCredentials);
    assert_eq!(format!("{default:?}"), format!("{expected:?}"));
    assert_eq!((&*default.path, default.operations), ("/sim-swap/v2", vec![SimSwapOperation::RetrieveDate]));

    let config = camara("sim_swap = \"ciba\"\nverify_scope = \"\"\ndevice_phone_number_scope = \"off\"");
    assert!(matches!(config.sim_swap.unwrap().flow, SimSwapFlow::Ciba));
    assert!(config.scopes.verify.is_none() && config.scopes.device_phone_number.is_none());
}

#[test]
fn every_member_of_sim_swap_is_read() {
    let sim_swap = sim_swap(
        "sim_swap = \"jwt_bearer\"
        sim_swap_path = \"/sim-swap/v1\"
        sim_swap_operations = [\"check\", \"retrieve_date\"]
        sim_swap_retrieve_date_scope = \"sim-swap\"
        sim_swap_check_scope = \"sim-swap:c\"
        sim_swap_assumed_days = 30
        signing_key_env = \"KEY\"
        signing_key_id = \"2026-11\"
        assertion_audience = \"issuer\"",
    );
    assert!(matches!(sim_swap.flow, SimSwapFlow::JwtBearer { audience: Audience::Issuer, .. }));
    assert_eq!(sim_swap.operations, [SimSwapOperation::Check, SimSwapOperation::RetrieveDate]);
    let written = (&*sim_swap.path, &*sim_swap.retrieve_date_scope, &*sim_swap.check_scope);
    assert_eq!(written, ("/sim-swap/v1", "sim-swap", "sim-swap:c"));
    assert_eq!(sim_swap.assumed_window, Some(SignedDuration::from_hours(24 * 30)));
}

#[test]
fn provider_without_discovery_needs_the_endpoints_in_use() {
    let endpoints = |rest: &str| match camara(rest).provider {
        Provider::Endpoints(endpoints) => endpoints,
        other => panic!("{other:?}"),
    };
    let only_sims =
        "verify_scope = \"\"\ndevice_phone_number_scope = \"\"\ntoken_endpoint = \"https://op.example/token\"";
    let found = endpoints(&format!("sim_swap = \"client_credentials\"\n{only_sims}"));
    assert_eq!((found.authorization.clone(), found.backchannel.clone()), (None, None));
    let backchannel = "backchannel_authentication_endpoint = \"https://op.example/bc\"";
    let found = endpoints(&format!("sim_swap = \"ciba\"\n{backchannel}\n{only_sims}"));
    assert_eq!(found.backchannel.as_ref().map(AsRef::as_ref), Some("https://op.example/bc"));
}

#[test]
fn invalid_settings_are_rejected() {
    let url = "allowed: an absolute http:// or https:// URL";
    let token = "token_endpoint = \"https://op.example/token\"";
    for (rest, member, line, says) in [
        (
            "sim_swap = \"on\"".to_owned(),
            "sim_swap",
            9,
            "found \"on\"; allowed: \"off\", \"client_credentials\", \"ciba\" or \"jwt_bearer\"".to_owned(),
        ),
        (
            "sim_swap = \"jwt_bearer\"".to_owned(),
            "sim_swap",
            9,
            "found \"jwt_bearer\"; allowed: another flow, because no signing key is set".to_owned(),
        ),
        (
            "sim_swap_path = \"/v2\"".to_owned(),
            "sim_swap_path",
            9,
            "found \"/v2\"; allowed: nothing, because `connectors.three.sim_swap` is \"off\"".to_owned(),
        ),
        (
            "sim_swap = \"ciba\"\nsim_swap_operations = []".to_owned(),
            "sim_swap_operations",
            10,
            "found []; allowed: \"retrieve_date\", \"check\" or both, each only once".to_owned(),
        ),
        (
            "sim_swap = \"ciba\"\nsim_swap_operations = [\"check\", \"check\"]".to_owned(),
            "sim_swap_operations",
            10,
            "found a duplicate; allowed: \"retrieve_date\", \"check\" or both, each only once".to_owned(),
        ),
        (
            "sim_swap = \"ciba\"\nsim_swap_assumed_days = 0".to_owned(),
            "sim_swap_assumed_days",
            10,
            "found 0; allowed: an integer from 1 to 3650".to_owned(),
        ),
        (token.to_owned(), "authorization_endpoint", 1, format!("found nothing; {url}")),
        (
            format!("{token}\nauthorization_endpoint = \"https://op.example/a\"\nsim_swap = \"ciba\""),
            "backchannel_authentication_endpoint",
            1,
            format!("found nothing; {url}"),
        ),
    ] {
        let message = format!("connectors.three.{member} (/etc/ringtrue/ringtrue.toml:{line}): {says}");
        assert_rejected(&three(&rest), [("SECRET", "hunter2")], &message);
    }
}
