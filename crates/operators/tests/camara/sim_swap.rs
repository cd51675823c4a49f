use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    sim_swap::{Period, SimHistory},
};
use ringtrue_engine::ports::{Clock, SimSwapQuestion, SimSwapRoute};
use ringtrue_operators::camara::{
    Algorithm, Audience, BreakerSettings, BreakerState, CamaraConfig, LoginHint, ScopeStyle, SimSwapConfig,
    SimSwapFlow, SimSwapOperation,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    keys::Key,
    operator::{BACKCHANNEL, CHECK, DATE, Operator, Saying, TOKEN, granted},
    world::{World, check, number, project},
};

fn payload(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

pub fn flows() -> [SimSwapFlow; 3] {
    let key = Key::new(Algorithm::Es256, "ours").signing();
    [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba, SimSwapFlow::JwtBearer { key, audience: Audience::Endpoint }]
}

/// An operator that is asked about SIM cards alone.
pub fn only_sim_swap(flow: SimSwapFlow) -> impl FnOnce(&mut CamaraConfig, &Operator) {
    |config, _| {
        (config.scopes.verify, config.scopes.device_phone_number) = (None, None);
        config.sim_swap = Some(SimSwapConfig::new(flow));
    }
}

pub async fn world_with(operations: &[SimSwapOperation], assumed_days: Option<i64>) -> World {
    World::with(|config, _| {
        config.sim_swap = Some(SimSwapConfig {
            operations: operations.to_vec(),
            assumed_window: assumed_days.map(days),
            ..SimSwapConfig::new(SimSwapFlow::ClientCredentials)
        });
    })
    .await
}

impl World {
    pub async fn sim_history(&self, minutes: i64) -> Result<SimHistory, ErrorCode> {
        let number = number();
        let period = Period::try_from(minutes).unwrap();
        let (now, until) = (self.clock.now(), Instant::now() + Duration::from_secs(10));
        let question = SimSwapQuestion { check: check(), project: project(), number: &number, period, now, until };
        // As whoever asks does.
        timeout_at(until, self.camara.sim_history(question)).await.unwrap_or(Err(ErrorCode::MnoTimeout))
    }
}

pub fn days(days: i64) -> SignedDuration {
    hours(24 * days)
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const DATE_ONLY: &[SimSwapOperation] = &[SimSwapOperation::RetrieveDate];
const CHECK_ONLY: &[SimSwapOperation] = &[SimSwapOperation::Check];

#[tokio::test]
async fn a_date_is_read_as_operators_write_it() {
    let changed = |text| Ok(SimHistory::ChangedAt(at(text)));
    let nonsense = Err(ErrorCode::MnoResponseError);
    // It is nine o'clock on the 15th of November 2026.
    for (body, expected) in [
        (json!({ "latestSimChange": "2026-11-14T13:00:00Z" }), changed("2026-11-14T13:00:00Z")),
        (json!({ "latestSimChange": "2024-09-18T07:37:53.471829447Z" }), changed("2024-09-18T07:37:53.471829447Z")),
        (json!({ "latestSimChange": "2023-07-03T14:27:08.312+02:00" }), changed("2023-07-03T12:27:08.312Z")),
        (json!({ "latestSimChange": "2026-11-14T13:00:00-09:30" }), changed("2026-11-14T22:30:00Z")),
        (json!({ "latestSimChange": "2026-11-14t13:00:00z" }), changed("2026-11-14T13:00:00Z")),
        (json!({ "latestSimChange": "2026-11-14T13:00:00Z", "monitoredPeriod": 120 }), changed("2026-11-14T13:00:00Z")),
        (json!({ "latestSimChange": "1992-07-01T00:00:00Z", "more": {} }), changed("1992-07-01T00:00:00Z")),
        // Their clock is ahead of ours, a little or too much.
        (json!({ "latestSimChange": "2026-11-15T09:10:00Z" }), changed("2026-11-15T09:10:00Z")),
        (json!({ "latestSimChange": "2026-11-15T09:10:01Z" }), nonsense),
        (json!({ "latestSimChange": "2062-11-14T13:00:00Z" }), nonsense),
        (json!({ "latestSimChange": "1990-12-31T23:59:59Z" }), nonsense),
        (json!({ "latestSimChange": "1970-01-01T00:00:00Z" }), nonsense),
        (json!({ "latestSimChange": "0001-01-01T00:00:00Z" }), nonsense),
        (json!({ "latestSimChange": "2026-11-14T13:00:00" }), nonsense),
        (json!({ "latestSimChange": "2026-11-14" }), nonsense),
        (json!({ "latestSimChange": "2026-02-30T13:00:00Z" }), nonsense),
        (json!({ "latestSimChange": "yesterday" }), nonsense),
        (json!({ "latestSimChange": "" }), nonsense),
        (json!({ "latestSimChange": 1_700_000_000 }), nonsense),
        (json!({ "latestSimChange": true }), nonsense),
        (json!({ "latestSimChange": null, "monitoredPeriod": 120 }), Ok(SimHistory::NoChangeFor(days(120)))),
        (json!({ "latestSimChange": null, "monitoredPeriod": 1 }), Ok(SimHistory::NoChangeFor(days(1)))),
        (json!({ "latestSimChange": null, "monitoredPeriod": 0 }), nonsense),
        (json!({ "latestSimChange": null, "monitoredPeriod": -3 }), nonsense),
        (json!({ "latestSimChange": null, "monitoredPeriod": 9_000_000_000_000_000_000_i64 }), nonsense),
        (json!({ "latestSimChange": null, "monitoredPeriod": "120" }), nonsense),
        (json!({ "latestSimChange": null, "monitoredPeriod": 1.5 }), nonsense),
        (json!({ "latestSimChange": null }), Err(ErrorCode::MnoNoDataAvailable)),
        (json!({ "latestSimChange": null, "monitoredPeriod": null }), Err(ErrorCode::MnoNoDataAvailable)),
        (json!({ "monitoredPeriod": 120 }), nonsense),
        (json!({}), nonsense),
        (json!([]), nonsense),
        (json!(null), nonsense),
    ] {
        let world = world_with(DATE_ONLY, None).await;
        world.operator.says(DATE, Saying::Json(200, body.clone()));
        assert_eq!(world.sim_history(10_080).await, expected, "{body}");
        assert_eq!(world.operator.asked(DATE).len(), 1, "{body}");
    }
}

#[tokio::test]
async fn what_null_means_can_be_known_from_elsewhere() {
    let world = world_with(DATE_ONLY, Some(90)).await;
    world.operator.says(DATE, Saying::Json(200, json!({ "latestSimChange": null })));
    assert_eq!(world.sim_history(60).await, Ok(SimHistory::NoChangeFor(days(90))));
    world.operator.says(DATE, Saying::Json(200, json!({ "latestSimChange": null, "monitoredPeriod": 7 })));
    assert_eq!(world.sim_history(60).await, Ok(SimHistory::NoChangeFor(days(7))), "who says it knows better");
}

#[tokio::test]
async fn a_check_is_of_whole_hours() {
    for (minutes, max_age) in [(60, 1), (61, 2), (10_080, 168), (144_000, 2_400), (540_000, 2_400)] {
        for (swapped, expected) in
            [(true, SimHistory::ChangedWithin(hours(max_age))), (false, SimHistory::NoChangeFor(hours(max_age)))]
        {
            let world = world_with(CHECK_ONLY, None).await;
            world.operator.says(CHECK, Saying::Json(200, json!({ "swapped": swapped })));
            assert_eq!(world.sim_history(minutes).await, Ok(expected));
            let asked: Value = serde_json::from_str(&world.operator.asked(CHECK)[0].body).unwrap();
            assert_eq!(asked, json!({ "maxAge": max_age, "phoneNumber": "+447700900123" }));
            assert_eq!(
                world.operator.asked(TOKEN)[0].form()["scope"],
                "dpv:FraudPreventionAndDetection sim-swap:check"
            );
        }
    }
    for body in
        [json!({}), json!({ "swapped": null }), json!({ "swapped": "false" }), json!({ "swapped": 0 }), json!([])]
    {
        let world = world_with(CHECK_ONLY, None).await;
        world.operator.says(CHECK, Saying::Json(200, body.clone()));
        assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoResponseError), "{body}");
    }
}

#[tokio::test]
async fn an_operator_that_may_not_look_so_far_back_is_asked_for_the_date() {
    let too_far = Saying::Json(400, json!({ "status": 400, "code": "OUT_OF_RANGE", "message": "30 days" }));
    let both = [SimSwapOperation::Check, SimSwapOperation::RetrieveDate];
    let other_way_round = [SimSwapOperation::RetrieveDate, SimSwapOperation::Check];
    let changed = Ok(SimHistory::ChangedAt(at("2026-11-14T13:00:00Z")));
    for (operations, expected, asked) in [
        (&both[..], changed, (1, 1)),
        (&other_way_round, changed, (0, 1)),
        (CHECK_ONLY, Err(ErrorCode::MnoNoDataAvailable), (1, 0)),
    ] {
        let world = world_with(operations, None).await;
        world.operator.says(CHECK, too_far.clone());
        assert_eq!(world.sim_history(60).await, expected, "{operations:?}");
        assert_eq!((world.operator.asked(CHECK).len(), world.operator.asked(DATE).len()), asked, "{operations:?}");
        assert_eq!(world.operator.asked(TOKEN).len(), asked.0 + asked.1, "a token for each");
    }
}

const BOTH: [SimSwapOperation; 2] = [SimSwapOperation::RetrieveDate, SimSwapOperation::Check];

#[tokio::test]
async fn what_one_operation_does_not_say_the_other_may() {
    let denied = || Saying::Json(403, json!({ "status": 403, "code": "PERMISSION_DENIED" }));
    let null = || Saying::Json(200, json!({ "latestSimChange": null }));
    let too_far = || Saying::Json(400, json!({ "status": 400, "code": "OUT_OF_RANGE" }));
    let swapped = || Saying::Json(200, json!({ "swapped": true }));
    let down = || Saying::Json(500, json!({}));
    let told = Ok(SimHistory::ChangedWithin(hours(1)));
    let too_little = Err(ErrorCode::MnoNoDataAvailable);
    let failed = Err(ErrorCode::MnoServerError);
    for (date, check, expected, is_left_alone) in [
        (denied(), swapped(), told, false),
        (null(), swapped(), told, false),
        (too_far(), swapped(), told, false),
        (null(), too_far(), too_little, false),
        // Who answers one of them is in order.
        (null(), denied(), too_little, false),
        (denied(), too_far(), too_little, false),
        (denied(), denied(), failed, true),
        (null(), down(), failed, true),
    ] {
        let world = World::with(|config, _| {
            let usual = SimSwapConfig::new(SimSwapFlow::ClientCredentials);
            config.sim_swap = Some(SimSwapConfig { operations: BOTH.to_vec(), ..usual });
            config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
        });
        let world = world.await;
        world.operator.says(DATE, date);
        world.operator.says(CHECK, check);
        assert_eq!(world.sim_history(60).await, expected);
        assert_eq!((world.operator.asked(DATE).len(), world.operator.asked(CHECK).len()), (1, 1));
        let is_open = matches!(world.camara.sim_swap_state(), BreakerState::Open { .. });
        assert_eq!(is_open, is_left_alone, "{expected:?}");
    }
}

#[tokio::test]
async fn a_scope_that_is_refused_does_not_fail_the_other() {
    let refused = Saying::Json(400, json!({ "error": "invalid_scope" }));
    for flow in flows() {
        let place = if matches!(flow, SimSwapFlow::Ciba) { BACKCHANNEL } else { TOKEN };
        let begun = if place == TOKEN { granted() } else { json!({ "auth_req_id": "request-of-ours" }) };
        let world = World::with(|config, operator| {
            only_sim_swap(flow)(config, operator);
            if let Some(sim_swap) = &mut config.sim_swap {
                sim_swap.operations = BOTH.to_vec();
            }
        });
        let world = world.await;
        world.operator.says_all(place, vec![refused.clone(), Saying::Json(200, begun)]);
        assert_eq!(world.sim_history(60).await, Ok(SimHistory::ChangedWithin(hours(1))));
        assert!(world.operator.asked(DATE).is_empty());
        assert_eq!(world.camara.sim_swap_state(), BreakerState::Closed);
    }
}

#[tokio::test]
async fn the_number_is_named_where_the_token_does_not() {
    for flow in flows() {
        let is_of_ours = matches!(flow, SimSwapFlow::ClientCredentials);
        let world = World::with(only_sim_swap(flow)).await;
        assert_eq!(world.sim_history(60).await, Ok(SimHistory::ChangedAt(at("2026-11-14T13:00:00Z"))));
        let asked = &world.operator.asked(DATE)[0];
        let expected = if is_of_ours { json!({ "phoneNumber": "+447700900123" }) } else { json!({}) };
        assert_eq!(serde_json::from_str::<Value>(&asked.body).unwrap(), expected);
        assert_eq!(asked.headers["x-correlator"], check().to_string());
        assert_eq!(asked.headers["authorization"], "Bearer token-of-the-device");
        assert_eq!(asked.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn tokens_are_asked_for_as_the_profile_has_it() {
    let [client_credentials, ciba, jwt_bearer] = flows();
    let world = World::with(only_sim_swap(client_credentials)).await;
    world.sim_history(60).await.unwrap();
    let form = world.operator.asked(TOKEN)[0].form();
    assert_eq!(form["grant_type"], "client_credentials");
    // Nobody is told of by such a token.
    assert_eq!(form["scope"], "dpv:FraudPreventionAndDetection sim-swap:retrieve-date");
    assert_eq!((&*form["client_id"], &*form["client_secret"]), ("client id:1", "secret of ours"));

    for (hint, expected) in [(LoginHint::None, "tel:+447700900123"), (LoginHint::E164, "+447700900123")] {
        let world = World::with(|config, operator| {
            only_sim_swap(ciba.clone())(config, operator);
            config.login_hint = hint;
        });
        let world = world.await;
        world.sim_history(60).await.unwrap();
        let form = world.operator.asked(BACKCHANNEL)[0].form();
        assert_eq!(form["scope"], "openid dpv:FraudPreventionAndDetection sim-swap:retrieve-date");
        assert_eq!((&*form["login_hint"], &*form["client_secret"]), (expected, "secret of ours"));
        let form = world.operator.asked(TOKEN)[0].form();
        assert_eq!(form["grant_type"], "urn:openid:params:grant-type:ciba");
        assert_eq!((&*form["auth_req_id"], &*form["client_secret"]), ("request-of-ours", "secret of ours"));
    }

    let world = World::with(|config, operator| {
        only_sim_swap(jwt_bearer)(config, operator);
        config.scopes.style = ScopeStyle::Hash;
        config.scopes.openid = false;
        if let Some(sim_swap) = &mut config.sim_swap {
            sim_swap.operations = vec![SimSwapOperation::Check, SimSwapOperation::RetrieveDate];
        }
    });
    let world = world.await;
    world.operator.says(CHECK, Saying::Json(200, json!({ "swapped": false })));
    world.sim_history(60).await.unwrap();
    let form = world.operator.asked(TOKEN)[0].form();
    assert_eq!(form.len(), 2, "the signature says who we are, and the assertion what for: {form:?}");
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let mut claims = payload(&form["assertion"]);
    assert!(claims["jti"].as_str().is_some_and(|jti| jti.len() == 22));
    claims.as_object_mut().unwrap().remove("jti");
    let now = world.clock.now().as_second();
    let scope = "dpv:FraudPreventionAndDetection#sim-swap:check";
    let expected = json!({
        "iss": "client id:1", "sub": "tel:+447700900123", "aud": world.operator.url(TOKEN).as_str(),
        "iat": now, "exp": now + 300, "scope": scope,
    });
    assert_eq!(claims, expected);
}

#[tokio::test]
async fn a_token_of_ours_is_kept_and_renewed_in_time() {
    let world = World::with(only_sim_swap(SimSwapFlow::ClientCredentials)).await;
    let all = tokio::join!(world.sim_history(60), world.sim_history(60), world.sim_history(60));
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok());
    assert_eq!(world.operator.asked(TOKEN).len(), 1, "nobody asks while somebody else does");
    world.pass(47);
    world.sim_history(60).await.unwrap();
    assert_eq!(world.operator.asked(TOKEN).len(), 1);
    world.pass(1);
    world.sim_history(60).await.unwrap();
    assert_eq!(world.operator.asked(TOKEN).len(), 2, "a fifth of its minute is left");
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_replaced_once() {
    let world = World::with(only_sim_swap(SimSwapFlow::ClientCredentials)).await;
    let refused = Saying::Json(401, json!({ "status": 401, "code": "UNAUTHENTICATED" }));
    let date = Saying::Json(200, json!({ "latestSimChange": "2026-11-14T13:00:00Z" }));
    let mut other = granted();
    other["access_token"] = json!("another-token");
    world.operator.says_all(TOKEN, vec![Saying::Json(200, granted()), Saying::Json(200, other)]);
    world.operator.says_all(DATE, vec![date.clone(), refused.clone(), date]);
    assert!(world.sim_history(60).await.is_ok());
    assert!(world.sim_history(60).await.is_ok(), "it was revoked, and nobody notices");
    let shown: Vec<_> = world.operator.asked(DATE).iter().map(|asked| asked.headers["authorization"].clone()).collect();
    assert_eq!(shown, ["Bearer token-of-the-device", "Bearer token-of-the-device", "Bearer another-token"]);

    world.operator.says(DATE, refused.clone());
    assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoResponseError));
    assert_eq!(world.operator.asked(DATE).len(), 5, "once, and not again");

    for flow in flows().into_iter().skip(1) {
        let world = World::with(only_sim_swap(flow)).await;
        world.operator.says(DATE, refused.clone());
        assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoResponseError));
        assert_eq!(world.operator.asked(DATE).len(), 1, "a new token is not the matter");
    }
}
