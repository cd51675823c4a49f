//! The scenarios of CAMARA's `sim-swap-retrieveSimSwapDate.feature`, under their names.

use jiff::Timestamp;
use ringtrue_sandbox::camara::{Endpoint, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    Bearer::{self, Client, Expired, Network, Nonsense, Nothing},
    EVEN, ODD, SIM_SWAP, START, World,
    wire::Reply,
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

impl World {
    async fn retrieve_date(&self, bearer: Bearer, body: &Value) -> Reply {
        self.call(Endpoint::RetrieveSimSwapDate, bearer, &body.to_string()).await
    }

    /// What is said of a number, whichever way it is asked.
    async fn date(&self, scenario: &str, number: &'static str) -> Value {
        let three_legged = self.retrieve_date(Network(number, SIM_SWAP), &json!({})).await;
        three_legged.assert_is_camara(scenario);
        let two_legged = self.retrieve_date(Client(SIM_SWAP), &json!({ "phoneNumber": number })).await;
        assert_eq!(three_legged.json(), two_legged.json(), "{scenario}");
        two_legged.json()
    }

    /// How many seconds ago a number's SIM was changed.
    async fn age(&self, scenario: &str, number: &'static str) -> i64 {
        let said = self.date(scenario, number).await;
        assert_eq!(said.as_object().unwrap().len(), 1, "{scenario}");
        let date: Timestamp = said["latestSimChange"].as_str().unwrap().parse().unwrap();
        self.now() - date.as_second()
    }
}

#[tokio::test]
async fn every_success_scenario() {
    let world = World::start().await;
    let scenario = "retrieve_sim_swap_date_1_generic_success_scenario";
    assert!(world.age(scenario, EVEN).await > 365 * DAY);

    let scenario = "retrieve_sim_swap_date_2_valid_sim_swap";
    assert_eq!(world.age(scenario, ODD).await, 20 * HOUR);
    world.operator.swap(&EVEN.parse().unwrap());
    world.advance(7);
    assert_eq!(world.age(scenario, EVEN).await, 7);

    let scenario = "retrieve_sim_swap_date_3_no_sim_swap_returns_activation_date";
    let untouched = "+990123456702";
    let before = world.age(scenario, untouched).await;
    world.advance(DAY);
    assert_eq!(world.age(scenario, untouched).await, before + DAY);

    let scenario = "retrieve_sim_swap_date_4_sim_never_associated";
    let nothing = "+990123456798";
    let issued = world.bear(&json!({ "sub": format!("tel:{nothing}"), "scope": SIM_SWAP })).await.json();
    let reply = world.call_by(Endpoint::RetrieveSimSwapDate, issued["access_token"].as_str(), "{}").await;
    assert_eq!(reply.json(), json!({ "latestSimChange": null, "monitoredPeriod": 400 }), "{scenario}");

    let scenario = "retrieve_sim_swap_date_5_no_sim_swap_or_activation_date_due_to_legal_constrain";
    let forgetful = World::with(OperatorConfig { monitored_days: Some(120), ..OperatorConfig::default() }).await;
    let forgotten = json!({ "latestSimChange": null, "monitoredPeriod": 120 });
    assert_eq!(forgetful.date(scenario, EVEN).await, forgotten);
    forgetful.operator.swap(&EVEN.parse().unwrap());
    forgetful.advance(120 * DAY);
    assert_eq!(forgetful.age(scenario, EVEN).await, 120 * DAY);
    forgetful.advance(1);
    assert_eq!(forgetful.date(scenario, EVEN).await, forgotten);
}

#[tokio::test]
async fn every_error_scenario() {
    let good = || json!({ "phoneNumber": EVEN });
    let scenarios: [(&str, Bearer, Value, u16, &str); 8] = [
        ("retrieve_sim_swap_date_401.1_no_authorization_header", Nothing, good(), 401, "UNAUTHENTICATED"),
        ("retrieve_sim_swap_date_401.2_expired_access_token", Expired(SIM_SWAP), good(), 401, "UNAUTHENTICATED"),
        ("retrieve_sim_swap_date_401.3_invalid_access_token", Nonsense, good(), 401, "UNAUTHENTICATED"),
        (
            "retrieve_sim_swap_date_C02.01_phone_number_not_schema_compliant",
            Client(SIM_SWAP),
            json!({ "phoneNumber": 1 }),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "retrieve_sim_swap_date_C02.02_phone_number_not_found",
            Client(SIM_SWAP),
            json!({ "phoneNumber": "+990123456794" }),
            404,
            "IDENTIFIER_NOT_FOUND",
        ),
        (
            "retrieve_sim_swap_date_C02.03_unnecessary_phone_number",
            Network(EVEN, SIM_SWAP),
            good(),
            422,
            "UNNECESSARY_IDENTIFIER",
        ),
        ("retrieve_sim_swap_date_C02.04_missing_phone_number", Client(SIM_SWAP), json!({}), 422, "MISSING_IDENTIFIER"),
        (
            "retrieve_sim_swap_date_C02.05_phone_number_not_supported",
            Client(SIM_SWAP),
            json!({ "phoneNumber": "+990123456797" }),
            422,
            "SERVICE_NOT_APPLICABLE",
        ),
    ];
    let world = World::start().await;
    for (scenario, bearer, body, status, code) in scenarios {
        let reply = world.retrieve_date(bearer, &body).await;
        reply.assert_is_camara(scenario);
        assert_eq!(reply.error(), (status, code.to_owned()), "{scenario}");
    }
}

#[tokio::test]
async fn the_last_two_digits_decide() {
    let world = World::start().await;
    for (number, expected) in [
        ("+990123456799", (500, "INTERNAL")),
        ("+990123456797", (422, "SERVICE_NOT_APPLICABLE")),
        ("+990123456795", (504, "TIMEOUT")),
        ("+990123456794", (404, "IDENTIFIER_NOT_FOUND")),
        ("+990123456793", (503, "UNAVAILABLE")),
    ] {
        // What is an error stays one.
        world.operator.swap(&number.parse().unwrap());
        for endpoint in [Endpoint::RetrieveSimSwapDate, Endpoint::CheckSimSwap] {
            let reply = world.call(endpoint, Client(SIM_SWAP), &json!({ "phoneNumber": number }).to_string()).await;
            assert_eq!(reply.error(), (expected.0, expected.1.to_owned()), "{number} {endpoint:?}");
        }
    }
    let forgotten = json!({ "phoneNumber": "+990123456798" });
    let check = world.call(Endpoint::CheckSimSwap, Client(SIM_SWAP), &forgotten.to_string()).await;
    assert_eq!(check.json(), json!({ "swapped": false }));
    world.operator.swap(&"+990123456798".parse().unwrap());
    let date = world.retrieve_date(Client(SIM_SWAP), &forgotten).await.json();
    let now = Timestamp::from_second(START).unwrap().to_string();
    assert_eq!(date, json!({ "latestSimChange": now }));
}

#[tokio::test]
async fn properties_that_nobody_knows_do_no_harm() {
    let world = World::start().await;
    let body = json!({ "phoneNumber": EVEN, "more": true });
    assert_eq!(world.retrieve_date(Client(SIM_SWAP), &body).await.status, 200);
    assert_eq!(world.call(Endpoint::CheckSimSwap, Client(SIM_SWAP), &body.to_string()).await.status, 200);
}
