//! Scenarios of CAMARA's `sim-swap-checkSimSwap.feature`.

use ringtrue_sandbox::camara::{Endpoint, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    Bearer::{self, Client, Expired, Invalid, Missing, Network},
    EVEN, Fixture, ODD, SIM_SWAP, VERIFY,
    client::TestResponse,
};

const HOUR: i64 = 3600;

impl Fixture {
    async fn check(&self, bearer: Bearer, body: &Value) -> TestResponse {
        self.call(Endpoint::CheckSimSwap, bearer, &body.to_string()).await
    }

    /// Starts an operator at which the number's SIM was swapped this number of hours ago.
    async fn with_swap(number: &str, hours: i64) -> Self {
        let fixture = Self::start().await;
        fixture.operator.swap_sim(&number.parse().unwrap());
        fixture.advance(hours * HOUR);
        fixture
    }
}

#[tokio::test]
async fn every_success_scenario() {
    // Each scenario: its name, hours since the SIM swap (`None`: no swap), request body and expected result.
    let mut scenarios = vec![
        ("check_sim_swap_1_generic_success_scenario", None, json!({}), false),
        ("check_sim_swap_2_valid_sim_swap_no_max_age", Some(240), json!({}), true),
        ("check_sim_swap_4_more_than_240_hours", Some(241), json!({}), false),
        ("check_sim_swap_5_out_of_max_age", Some(100), json!({ "maxAge": 99 }), false),
        ("check_sim_swap_6_no_sim_swap_no_max_age", None, json!({}), false),
    ];
    for hours in [260, 120, 24, 12] {
        scenarios.push(("check_sim_swap_3_valid_sim_swap_max_age", Some(hours), json!({ "maxAge": hours }), true));
        scenarios.push(("check_sim_swap_3_valid_sim_swap_max_age", Some(hours), json!({ "maxAge": 2400 }), true));
        scenarios.push(("check_sim_swap_7_no_sim_swap_with_max_age", None, json!({ "maxAge": hours - 1 }), false));
    }
    for (scenario, hours, mut body, swapped) in scenarios {
        let fixture = match hours {
            Some(hours) => Fixture::with_swap(EVEN, hours).await,
            None => Fixture::start().await,
        };
        let three_legged = fixture.check(Network(EVEN, SIM_SWAP), &body).await;
        body["phoneNumber"] = EVEN.into();
        let two_legged = fixture.check(Client(SIM_SWAP), &body).await;
        for response in [three_legged, two_legged] {
            response.assert_camara_conventions(scenario);
            assert_eq!(response.json(), json!({ "swapped": swapped }), "{scenario} {body}");
        }
    }
}

/// Also covers the error scenarios of `sim-swap-retrieveSimSwapDate.feature`, which are the same as those of
/// `sim-swap-checkSimSwap.feature`.
#[tokio::test]
async fn every_common_error_scenario() {
    let fixture = Fixture::start().await;
    let valid = || json!({ "phoneNumber": EVEN });
    let client = Client(SIM_SWAP);
    for (scenario, bearer, body, status, code) in [
        ("401.1_no_authorization_header", Missing, valid(), 401, "UNAUTHENTICATED"),
        ("401.2_expired_access_token", Expired(SIM_SWAP), valid(), 401, "UNAUTHENTICATED"),
        ("401.3_invalid_access_token", Invalid, valid(), 401, "UNAUTHENTICATED"),
        ("C02.01_not_schema_compliant", client, json!({ "phoneNumber": "foo_bar" }), 400, "INVALID_ARGUMENT"),
        ("C02.01_not_schema_compliant", client, json!({ "phoneNumber": 1 }), 400, "INVALID_ARGUMENT"),
        ("C02.02_not_found", client, json!({ "phoneNumber": "+990123456794" }), 404, "IDENTIFIER_NOT_FOUND"),
        ("C02.03_unnecessary_phone_number", Network(EVEN, SIM_SWAP), valid(), 422, "UNNECESSARY_IDENTIFIER"),
        ("C02.04_missing_phone_number", client, json!({}), 422, "MISSING_IDENTIFIER"),
        ("C02.05_not_supported", client, json!({ "phoneNumber": "+990123456797" }), 422, "SERVICE_NOT_APPLICABLE"),
    ] {
        for endpoint in [Endpoint::CheckSimSwap, Endpoint::RetrieveSimSwapDate] {
            let response = fixture.call(endpoint, bearer, &body.to_string()).await;
            response.assert_camara_conventions(scenario);
            assert_eq!(response.error(), (status, code.to_owned()), "{scenario} {endpoint:?}");
        }
    }
}

#[tokio::test]
async fn check_sim_swap_400_3_max_age_out_of_monitored_period() {
    let fixture = Fixture::with_config(OperatorConfig { monitored_days: Some(30), ..OperatorConfig::default() }).await;
    let request = |hours: i64| json!({ "phoneNumber": ODD, "maxAge": hours });
    let response = fixture.check(Client(SIM_SWAP), &request(30 * 24 + 1)).await;
    response.assert_camara_conventions("check_sim_swap_400.3_max_age_out_of_monitored_period");
    assert_eq!(response.error(), (400, "OUT_OF_RANGE".into()));
    assert_eq!(fixture.check(Client(SIM_SWAP), &request(30 * 24)).await.json(), json!({ "swapped": true }));
}

#[tokio::test]
async fn max_age_is_validated() {
    let fixture = Fixture::start().await;
    for (age, expected) in [
        (json!(1), None),
        (json!(2400), None),
        // The next two are the scenarios check_sim_swap_400.1_invalid_max_age and 400.2_invalid_max_age_value.
        (json!("240"), Some("INVALID_ARGUMENT")),
        (json!(100_000), Some("OUT_OF_RANGE")),
        (json!(0), Some("OUT_OF_RANGE")),
        (json!(-1), Some("OUT_OF_RANGE")),
        (json!(2401), Some("OUT_OF_RANGE")),
        (json!(1.5), Some("INVALID_ARGUMENT")),
        (json!(null), Some("INVALID_ARGUMENT")),
        (json!([]), Some("INVALID_ARGUMENT")),
        (json!({}), Some("INVALID_ARGUMENT")),
    ] {
        let response = fixture.check(Client(SIM_SWAP), &json!({ "phoneNumber": EVEN, "maxAge": age })).await;
        match expected {
            None => assert_eq!(response.status, 200, "{age}"),
            Some(code) => assert_eq!(response.error(), (400, code.to_owned()), "{age}"),
        }
    }
}

#[tokio::test]
async fn scopes_are_checked_for_each_operation() {
    let fixture = Fixture::start().await;
    let body = json!({ "phoneNumber": EVEN }).to_string();
    for (endpoint, scope, status) in [
        (Endpoint::CheckSimSwap, "dpv:A sim-swap:check", 200),
        (Endpoint::CheckSimSwap, "dpv:A sim-swap", 200),
        (Endpoint::CheckSimSwap, "dpv:A sim-swap:retrieve-date", 403),
        (Endpoint::CheckSimSwap, "dpv:A number-verification:verify", 403),
        (Endpoint::RetrieveSimSwapDate, "dpv:A sim-swap:retrieve-date", 200),
        (Endpoint::RetrieveSimSwapDate, "dpv:A sim-swap", 200),
        (Endpoint::RetrieveSimSwapDate, "dpv:A sim-swap:check", 403),
    ] {
        let response = fixture.call(endpoint, Client(scope), &body).await;
        assert_eq!(response.status, status, "{endpoint:?} {scope}");
        if status == 403 {
            assert_eq!(response.error().1, "PERMISSION_DENIED");
        }
    }
    assert_eq!(fixture.check(Network(EVEN, VERIFY), &json!({})).await.error(), (403, "PERMISSION_DENIED".into()));
}
