//! Scenarios of CAMARA's `sim-swap-retrieveSimSwapDate.feature`. The tests of `check_sim_swap` cover its error
//! scenarios.

use jiff::Timestamp;
use ringtrue_sandbox::camara::{Endpoint, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    Bearer::{self, Client, Network},
    EVEN, Fixture, ODD, SIM_SWAP, START,
    client::TestResponse,
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

impl Fixture {
    async fn retrieve_date(&self, bearer: Bearer, body: &Value) -> TestResponse {
        self.call(Endpoint::RetrieveSimSwapDate, bearer, &body.to_string()).await
    }

    /// Returns the response for a number, after checking that it is the same for two-legged tokens (without a user) and
    /// three-legged tokens.
    async fn date(&self, scenario: &str, number: &'static str) -> Value {
        let three_legged = self.retrieve_date(Network(number, SIM_SWAP), &json!({})).await;
        three_legged.assert_camara_conventions(scenario);
        let two_legged = self.retrieve_date(Client(SIM_SWAP), &json!({ "phoneNumber": number })).await;
        assert_eq!(three_legged.json(), two_legged.json(), "{scenario}");
        two_legged.json()
    }

    /// Returns the number of seconds since the SIM change.
    async fn age(&self, scenario: &str, number: &'static str) -> i64 {
        let response = self.date(scenario, number).await;
        assert_eq!(response.as_object().unwrap().len(), 1, "{scenario}");
        let date: Timestamp = response["latestSimChange"].as_str().unwrap().parse().unwrap();
        self.now() - date.as_second()
    }
}

#[tokio::test]
async fn every_success_scenario() {
    let fixture = Fixture::start().await;
    let scenario = "retrieve_sim_swap_date_1_generic_success_scenario";
    assert!(fixture.age(scenario, EVEN).await > 365 * DAY);

    let scenario = "retrieve_sim_swap_date_2_valid_sim_swap";
    assert_eq!(fixture.age(scenario, ODD).await, 20 * HOUR);
    fixture.operator.swap_sim(&EVEN.parse().unwrap());
    fixture.advance(7);
    assert_eq!(fixture.age(scenario, EVEN).await, 7);

    let scenario = "retrieve_sim_swap_date_3_no_sim_swap_returns_activation_date";
    let unswapped = "+990123456702";
    let before = fixture.age(scenario, unswapped).await;
    fixture.advance(DAY);
    assert_eq!(fixture.age(scenario, unswapped).await, before + DAY);

    let scenario = "retrieve_sim_swap_date_4_sim_never_associated";
    let unmonitored = "+990123456798";
    let issued = fixture.jwt_bearer(&json!({ "sub": format!("tel:{unmonitored}"), "scope": SIM_SWAP })).await.json();
    let response = fixture.call_with_token(Endpoint::RetrieveSimSwapDate, issued["access_token"].as_str(), "{}").await;
    assert_eq!(response.json(), json!({ "latestSimChange": null, "monitoredPeriod": 400 }), "{scenario}");

    let scenario = "retrieve_sim_swap_date_5_no_sim_swap_or_activation_date_due_to_legal_constrain";
    let limited = Fixture::with_config(OperatorConfig { monitored_days: Some(120), ..OperatorConfig::default() }).await;
    let not_monitored = json!({ "latestSimChange": null, "monitoredPeriod": 120 });
    assert_eq!(limited.date(scenario, EVEN).await, not_monitored);
    limited.operator.swap_sim(&EVEN.parse().unwrap());
    limited.advance(120 * DAY);
    assert_eq!(limited.age(scenario, EVEN).await, 120 * DAY);
    limited.advance(1);
    assert_eq!(limited.date(scenario, EVEN).await, not_monitored);
}

#[tokio::test]
async fn last_two_digits_select_the_outcome() {
    let fixture = Fixture::start().await;
    for (number, expected) in [
        ("+990123456799", (500, "INTERNAL")),
        ("+990123456797", (422, "SERVICE_NOT_APPLICABLE")),
        ("+990123456795", (504, "TIMEOUT")),
        ("+990123456794", (404, "IDENTIFIER_NOT_FOUND")),
        ("+990123456793", (503, "UNAVAILABLE")),
    ] {
        // A swap does not change error outcomes.
        fixture.operator.swap_sim(&number.parse().unwrap());
        for endpoint in [Endpoint::RetrieveSimSwapDate, Endpoint::CheckSimSwap] {
            let response =
                fixture.call(endpoint, Client(SIM_SWAP), &json!({ "phoneNumber": number }).to_string()).await;
            assert_eq!(response.error(), (expected.0, expected.1.to_owned()), "{number} {endpoint:?}");
        }
    }
    let not_monitored = json!({ "phoneNumber": "+990123456798" });
    let check = fixture.call(Endpoint::CheckSimSwap, Client(SIM_SWAP), &not_monitored.to_string()).await;
    assert_eq!(check.json(), json!({ "swapped": false }));
    fixture.operator.swap_sim(&"+990123456798".parse().unwrap());
    let date = fixture.retrieve_date(Client(SIM_SWAP), &not_monitored).await.json();
    let now = Timestamp::from_second(START).unwrap().to_string();
    assert_eq!(date, json!({ "latestSimChange": now }));
}

#[tokio::test]
async fn unknown_properties_are_ignored() {
    let fixture = Fixture::start().await;
    let body = json!({ "phoneNumber": EVEN, "more": true });
    assert_eq!(fixture.retrieve_date(Client(SIM_SWAP), &body).await.status, 200);
    assert_eq!(fixture.call(Endpoint::CheckSimSwap, Client(SIM_SWAP), &body.to_string()).await.status, 200);
}
