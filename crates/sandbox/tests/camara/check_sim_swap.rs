//! The scenarios of CAMARA's `sim-swap-checkSimSwap.feature`, under their names.

use ringtrue_sandbox::camara::{Endpoint, OperatorConfig};
use serde_json::{Value, json};

use crate::{
    Bearer::{self, Client, Expired, Network, Nonsense, Nothing},
    EVEN, ODD, SIM_SWAP, VERIFY, World,
    wire::Reply,
};

const HOUR: i64 = 3600;

impl World {
    async fn check(&self, bearer: Bearer, body: &Value) -> Reply {
        self.call(Endpoint::CheckSimSwap, bearer, &body.to_string()).await
    }

    /// A world where the SIM of this number was changed so many hours ago.
    async fn swapped(number: &str, hours: i64) -> Self {
        let world = Self::start().await;
        world.operator.swap(&number.parse().unwrap());
        world.advance(hours * HOUR);
        world
    }
}

#[tokio::test]
async fn every_success_scenario() {
    // The number's SIM was changed so many hours ago, or never.
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
        let world = match hours {
            Some(hours) => World::swapped(EVEN, hours).await,
            None => World::start().await,
        };
        let three_legged = world.check(Network(EVEN, SIM_SWAP), &body).await;
        body["phoneNumber"] = EVEN.into();
        let two_legged = world.check(Client(SIM_SWAP), &body).await;
        for reply in [three_legged, two_legged] {
            reply.assert_is_camara(scenario);
            assert_eq!(reply.json(), json!({ "swapped": swapped }), "{scenario} {body}");
        }
    }
}

#[tokio::test]
async fn every_error_scenario() {
    let good = || json!({ "phoneNumber": EVEN });
    let scenarios: [(&str, Bearer, Value, u16, &str); 10] = [
        ("check_sim_swap_401.1_no_authorization_header", Nothing, good(), 401, "UNAUTHENTICATED"),
        ("check_sim_swap_401.2_expired_access_token", Expired(SIM_SWAP), good(), 401, "UNAUTHENTICATED"),
        ("check_sim_swap_401.3_invalid_access_token", Nonsense, good(), 401, "UNAUTHENTICATED"),
        (
            "check_sim_swap_400.1_invalid_max_age",
            Client(SIM_SWAP),
            json!({ "phoneNumber": EVEN, "maxAge": "240" }),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "check_sim_swap_400.2_invalid_max_age_value",
            Client(SIM_SWAP),
            json!({ "phoneNumber": EVEN, "maxAge": 100_000 }),
            400,
            "OUT_OF_RANGE",
        ),
        (
            "check_sim_swap_C02.01_phone_number_not_schema_compliant",
            Client(SIM_SWAP),
            json!({ "phoneNumber": "foo_bar" }),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "check_sim_swap_C02.02_phone_number_not_found",
            Client(SIM_SWAP),
            json!({ "phoneNumber": "+990123456794" }),
            404,
            "IDENTIFIER_NOT_FOUND",
        ),
        (
            "check_sim_swap_C02.03_unnecessary_phone_number",
            Network(EVEN, SIM_SWAP),
            good(),
            422,
            "UNNECESSARY_IDENTIFIER",
        ),
        ("check_sim_swap_C02.04_missing_phone_number", Client(SIM_SWAP), json!({}), 422, "MISSING_IDENTIFIER"),
        (
            "check_sim_swap_C02.05_phone_number_not_supported",
            Client(SIM_SWAP),
            json!({ "phoneNumber": "+990123456797" }),
            422,
            "SERVICE_NOT_APPLICABLE",
        ),
    ];
    let world = World::start().await;
    for (scenario, bearer, body, status, code) in scenarios {
        let reply = world.check(bearer, &body).await;
        reply.assert_is_camara(scenario);
        assert_eq!(reply.error(), (status, code.to_owned()), "{scenario}");
    }
}

#[tokio::test]
async fn check_sim_swap_400_3_max_age_out_of_monitored_period() {
    let world = World::with(OperatorConfig { monitored_days: Some(30), ..OperatorConfig::default() }).await;
    let ask = |hours: i64| json!({ "phoneNumber": ODD, "maxAge": hours });
    let reply = world.check(Client(SIM_SWAP), &ask(30 * 24 + 1)).await;
    reply.assert_is_camara("check_sim_swap_400.3_max_age_out_of_monitored_period");
    assert_eq!(reply.error(), (400, "OUT_OF_RANGE".into()));
    assert_eq!(world.check(Client(SIM_SWAP), &ask(30 * 24)).await.json(), json!({ "swapped": true }));
}

#[tokio::test]
async fn the_age_is_a_whole_number_of_hours_up_to_a_hundred_days() {
    let world = World::start().await;
    for (age, expected) in [
        (json!(1), None),
        (json!(2400), None),
        (json!(0), Some("OUT_OF_RANGE")),
        (json!(-1), Some("OUT_OF_RANGE")),
        (json!(2401), Some("OUT_OF_RANGE")),
        (json!(1.5), Some("INVALID_ARGUMENT")),
        (json!(null), Some("INVALID_ARGUMENT")),
        (json!([]), Some("INVALID_ARGUMENT")),
        (json!({}), Some("INVALID_ARGUMENT")),
    ] {
        let reply = world.check(Client(SIM_SWAP), &json!({ "phoneNumber": EVEN, "maxAge": age })).await;
        match expected {
            None => assert_eq!(reply.status, 200, "{age}"),
            Some(code) => assert_eq!(reply.error(), (400, code.to_owned()), "{age}"),
        }
    }
}

#[tokio::test]
async fn each_operation_has_a_scope_of_its_own_and_one_with_the_other() {
    let world = World::start().await;
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
        let reply = world.call(endpoint, Client(scope), &body).await;
        assert_eq!(reply.status, status, "{endpoint:?} {scope}");
        if status == 403 {
            assert_eq!(reply.error().1, "PERMISSION_DENIED");
        }
    }
    assert_eq!(world.check(Network(EVEN, VERIFY), &json!({})).await.error(), (403, "PERMISSION_DENIED".into()));
}
