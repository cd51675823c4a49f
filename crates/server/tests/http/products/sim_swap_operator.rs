//! SIM Swap with the sandbox operator and with a configured one.

use ringtrue_sandbox::camara::{Clock, Endpoint, OAuthClient, Operator, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    client::Request,
    operators::networks::{AUTH_TOKEN, world_with},
    products::sim_swap::SimSwapClient,
    world::{START_TIME, World},
};

#[tokio::test]
async fn last_digits_select_the_sandbox_operator_response() {
    let world = World::sqlite().await;
    let backend = SimSwapClient::sandbox(&world).await;
    // Six rounds would open a circuit breaker if these simulated failures counted.
    for round in 0..6 {
        for (suffix, no_change, within, error) in [
            ("00", json!(true), json!(525_601), Value::Null),
            ("96", json!(true), json!(525_601), Value::Null),
            ("01", json!(false), json!(1440), Value::Null),
            ("98", json!(true), Value::Null, Value::Null),
            ("99", Value::Null, Value::Null, json!("mno_server_error")),
            ("95", Value::Null, Value::Null, json!("mno_timeout")),
        ] {
            let created = backend.create(&format!("+9901234567{suffix}")).await.assert(201).json();
            let get = |name: &str| created.get(name).cloned().unwrap_or_default();
            let result = (get("no_sim_change"), get("sim_change_within"), get("error_code"));
            assert_eq!(result, (no_change, within, error), "{suffix} in round {round}");
        }
    }
    for period in [60, 10_080, 540_000] {
        let created = backend.post(&json!({"phone_number": "+990123456700", "period": period})).await;
        let created = created.assert(201).json();
        let result = (&created["no_sim_change"], &created["no_sim_change_period"], &created["sim_change_within"]);
        assert_eq!(result, (&json!(true), &json!(period), &json!(525_601)));
    }
}

#[tokio::test]
async fn configured_operator_is_queried_for_its_networks() {
    let clients = vec![OAuthClient::new("us").with_secret(AUTH_TOKEN)];
    let clock = Clock::new(|| START_TIME);
    let operator = Operator::start(OperatorConfig { clients, clock, ..OperatorConfig::default() }).await.unwrap();
    let issuer = operator.issuer();
    let world = world_with(&format!(
        r#"
        [networks.23410]
        name = "O2"
        country = "GB"
        prefixes = ["+447700"]

        [networks.23415]
        name = "Vodafone"
        country = "GB"
        prefixes = ["+447702"]

        [connectors.swaps]
        kind = "camara"
        networks = ["23410"]
        issuer = "{issuer}"
        api_root = "{issuer}"
        client_id = "us"
        client_authentication = "client_secret_basic"
        client_secret_env = "AUTH_TOKEN"
        sim_swap = "client_credentials"
        verify_scope = ""
        device_phone_number_scope = ""

        [connectors.devices]
        kind = "camara"
        networks = ["23415"]
        issuer = "{issuer}"
        api_root = "{issuer}"
        client_id = "us"
        client_authentication = "client_secret_basic"
        client_secret_env = "AUTH_TOKEN"
        "#
    ))
    .await;
    let backend = SimSwapClient::new(&world, "Bank", json!({"mode": "live"})).await;
    let allowed = json!({"networks": [{"network_id": "23410", "products": ["sim_swap"]}]});
    let request = Request::put(&format!("{}/allowed-networks", backend.project.path));
    world.manage(request.json(&allowed)).await.assert(200);

    for (number, expected) in [
        ("+447700900124", json!({"no_sim_change": true, "sim_change_within": 525_601})),
        ("+447700900125", json!({"no_sim_change": false, "sim_change_within": 1440})),
        ("+447700900198", json!({"no_sim_change": true})),
        ("+447700900194", json!({"error_code": "mno_user_not_found"})),
        ("+447700900197", json!({"error_code": "mno_not_supported"})),
        ("+447700900199", json!({"error_code": "mno_server_error"})),
    ] {
        let created = backend.create(number).await.assert(201).json();
        for name in ["no_sim_change", "sim_change_within", "error_code"] {
            assert_eq!(created.get(name), expected.get(name), "{name} of {number}");
        }
    }
    assert_eq!(operator.request_count(Endpoint::Token), 1, "one token is used for all requests");
    // This number is on Vodafone, whose connector does not support SIM Swap.
    backend.create("+447702900124").await.assert_problem(400, "mno_not_supported");
}
