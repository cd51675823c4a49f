use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::ErrorCode,
    sim_swap::{SimHistory, SimSwapPeriod},
};
use ringtrue_engine::ports::{
    clock::Clock,
    sim_swap::{SimSwapConnector, SimSwapRequest},
};
use ringtrue_operators::camara::{
    Algorithm, Audience, BreakerSettings, BreakerState, CamaraConfig, LoginHintFormat, ScopeStyle, SimSwapConfig,
    SimSwapFlow, SimSwapOperation,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    fake_operator::{BACKCHANNEL, CHECK, DATE, FakeOperator, ScriptedResponse::Json, TOKEN, token_response},
    fixture::{Fixture, check, number, project},
    keys::Key,
};

fn payload(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

pub fn token_flows() -> [SimSwapFlow; 3] {
    let key = Key::new(Algorithm::ES256, "ours").signing();
    [SimSwapFlow::ClientCredentials, SimSwapFlow::Ciba, SimSwapFlow::JwtBearer { key, audience: Audience::Endpoint }]
}

/// Changes a configuration to SIM Swap without Number Verification.
pub fn only_sim_swap(flow: SimSwapFlow) -> impl FnOnce(&mut CamaraConfig, &FakeOperator) {
    |config, _| {
        (config.scopes.verify, config.scopes.device_phone_number) = (None, None);
        config.sim_swap = Some(SimSwapConfig::new(flow));
    }
}

pub async fn fixture_with(operations: &[SimSwapOperation], assumed_days: Option<i64>) -> Fixture {
    Fixture::with(|config, _| {
        config.sim_swap = Some(SimSwapConfig {
            operations: operations.to_vec(),
            assumed_window: assumed_days.map(days),
            ..SimSwapConfig::new(SimSwapFlow::ClientCredentials)
        });
    })
    .await
}

impl Fixture {
    pub async fn sim_history(&self, minutes: i64) -> Result<SimHistory, ErrorCode> {
        let number = number();
        let period = SimSwapPeriod::try_from(minutes).unwrap();
        let (now, until) = (self.clock.now(), Instant::now() + Duration::from_secs(15));
        let operation =
            SimSwapRequest { check: check(), project: project(), number: &number, period, now, deadline: until };
        // Drops the query at its deadline, as the engine does.
        timeout_at(until, self.camara.sim_history(operation)).await.unwrap_or(Err(ErrorCode::MnoTimeout))
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
async fn date_formats_are_parsed() {
    let changed = |text| Ok(SimHistory::ChangedAt(at(text)));
    let invalid = Err(ErrorCode::MnoResponseError);
    // The clock is at 2026-11-15T09:00Z.
    for (body, expected) in [
        (json!({ "latestSimChange": "2026-11-14T13:00:00Z" }), changed("2026-11-14T13:00:00Z")),
        (json!({ "latestSimChange": "2024-09-18T07:37:53.471829447Z" }), changed("2024-09-18T07:37:53.471829447Z")),
        (json!({ "latestSimChange": "2023-07-03T14:27:08.312+02:00" }), changed("2023-07-03T12:27:08.312Z")),
        (json!({ "latestSimChange": "2026-11-14T13:00:00-09:30" }), changed("2026-11-14T22:30:00Z")),
        (json!({ "latestSimChange": "2026-11-14t13:00:00z" }), changed("2026-11-14T13:00:00Z")),
        (json!({ "latestSimChange": "2026-11-14T13:00:00Z", "monitoredPeriod": 120 }), changed("2026-11-14T13:00:00Z")),
        (json!({ "latestSimChange": "1992-07-01T00:00:00Z", "more": {} }), changed("1992-07-01T00:00:00Z")),
        // The operator's clock is ahead, within and beyond the tolerance.
        (json!({ "latestSimChange": "2026-11-15T09:10:00Z" }), changed("2026-11-15T09:10:00Z")),
        (json!({ "latestSimChange": "2026-11-15T09:10:01Z" }), invalid),
        (json!({ "latestSimChange": "2062-11-14T13:00:00Z" }), invalid),
        (json!({ "latestSimChange": "1990-12-31T23:59:59Z" }), invalid),
        (json!({ "latestSimChange": "1970-01-01T00:00:00Z" }), invalid),
        (json!({ "latestSimChange": "0001-01-01T00:00:00Z" }), invalid),
        (json!({ "latestSimChange": "2026-11-14T13:00:00" }), invalid),
        (json!({ "latestSimChange": "2026-11-14" }), invalid),
        (json!({ "latestSimChange": "2026-02-30T13:00:00Z" }), invalid),
        (json!({ "latestSimChange": "yesterday" }), invalid),
        (json!({ "latestSimChange": "" }), invalid),
        (json!({ "latestSimChange": 1_700_000_000 }), invalid),
        (json!({ "latestSimChange": true }), invalid),
        (json!({ "latestSimChange": null, "monitoredPeriod": 120 }), Ok(SimHistory::NoChangeFor(days(120)))),
        (json!({ "latestSimChange": null, "monitoredPeriod": 1 }), Ok(SimHistory::NoChangeFor(days(1)))),
        (json!({ "latestSimChange": null, "monitoredPeriod": 0 }), invalid),
        (json!({ "latestSimChange": null, "monitoredPeriod": -3 }), invalid),
        (json!({ "latestSimChange": null, "monitoredPeriod": 9_000_000_000_000_000_000_i64 }), invalid),
        (json!({ "latestSimChange": null, "monitoredPeriod": "120" }), invalid),
        (json!({ "latestSimChange": null, "monitoredPeriod": 1.5 }), invalid),
        (json!({ "latestSimChange": null }), Err(ErrorCode::MnoNoDataAvailable)),
        (json!({ "latestSimChange": null, "monitoredPeriod": null }), Err(ErrorCode::MnoNoDataAvailable)),
        (json!({ "monitoredPeriod": 120 }), invalid),
        (json!({}), invalid),
        (json!([]), invalid),
        (json!(null), invalid),
    ] {
        let fixture = fixture_with(DATE_ONLY, None).await;
        fixture.operator.respond(DATE, Json(200, body.clone()));
        assert_eq!(fixture.sim_history(10_080).await, expected, "{body}");
        assert_eq!(fixture.operator.requests_to(DATE).len(), 1, "{body}");
    }
}

#[tokio::test]
async fn assumed_window_applies_to_null_date() {
    let fixture = fixture_with(DATE_ONLY, Some(90)).await;
    fixture.operator.respond(DATE, Json(200, json!({ "latestSimChange": null })));
    assert_eq!(fixture.sim_history(60).await, Ok(SimHistory::NoChangeFor(days(90))));
    fixture.operator.respond(DATE, Json(200, json!({ "latestSimChange": null, "monitoredPeriod": 7 })));
    assert_eq!(
        fixture.sim_history(60).await,
        Ok(SimHistory::NoChangeFor(days(7))),
        "the monitored period takes precedence"
    );
}

#[tokio::test]
async fn check_uses_full_hours() {
    for (minutes, max_age) in [(60, 1), (61, 2), (10_080, 168), (144_000, 2_400), (540_000, 2_400)] {
        for (swapped, expected) in
            [(true, SimHistory::ChangedWithin(hours(max_age))), (false, SimHistory::NoChangeFor(hours(max_age)))]
        {
            let fixture = fixture_with(CHECK_ONLY, None).await;
            fixture.operator.respond(CHECK, Json(200, json!({ "swapped": swapped })));
            assert_eq!(fixture.sim_history(minutes).await, Ok(expected));
            let body: Value = fixture.operator.requests_to(CHECK)[0].json();
            assert_eq!(body, json!({ "maxAge": max_age, "phoneNumber": "+447700900123" }));
            assert_eq!(
                fixture.operator.requests_to(TOKEN)[0].form()["scope"],
                "dpv:FraudPreventionAndDetection sim-swap:check"
            );
        }
    }
    for body in
        [json!({}), json!({ "swapped": null }), json!({ "swapped": "false" }), json!({ "swapped": 0 }), json!([])]
    {
        let fixture = fixture_with(CHECK_ONLY, None).await;
        fixture.operator.respond(CHECK, Json(200, body.clone()));
        assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoResponseError), "{body}");
    }
}

#[tokio::test]
async fn out_of_range_check_falls_back_to_retrieve_date() {
    let out_of_range = Json(400, json!({ "status": 400, "code": "OUT_OF_RANGE", "message": "30 days" }));
    let both = [SimSwapOperation::Check, SimSwapOperation::RetrieveDate];
    let date_first = [SimSwapOperation::RetrieveDate, SimSwapOperation::Check];
    let changed = Ok(SimHistory::ChangedAt(at("2026-11-14T13:00:00Z")));
    for (operations, expected, request_counts) in [
        (&both[..], changed, (1, 1)),
        (&date_first, changed, (0, 1)),
        (CHECK_ONLY, Err(ErrorCode::MnoNoDataAvailable), (1, 0)),
    ] {
        let fixture = fixture_with(operations, None).await;
        fixture.operator.respond(CHECK, out_of_range.clone());
        assert_eq!(fixture.sim_history(60).await, expected, "{operations:?}");
        assert_eq!(
            (fixture.operator.requests_to(CHECK).len(), fixture.operator.requests_to(DATE).len()),
            request_counts,
            "{operations:?}"
        );
        assert_eq!(
            fixture.operator.requests_to(TOKEN).len(),
            request_counts.0 + request_counts.1,
            "each operation requests a token"
        );
    }
}

const BOTH: [SimSwapOperation; 2] = [SimSwapOperation::RetrieveDate, SimSwapOperation::Check];

#[tokio::test]
async fn second_operation_is_tried_without_data() {
    let denied = || Json(403, json!({ "status": 403, "code": "PERMISSION_DENIED" }));
    let null = || Json(200, json!({ "latestSimChange": null }));
    let out_of_range = || Json(400, json!({ "status": 400, "code": "OUT_OF_RANGE" }));
    let swapped = || Json(200, json!({ "swapped": true }));
    let down = || Json(500, json!({}));
    let changed = Ok(SimHistory::ChangedWithin(hours(1)));
    let no_data = Err(ErrorCode::MnoNoDataAvailable);
    let failed = Err(ErrorCode::MnoServerError);
    for (date, check, expected, opens_breaker) in [
        (denied(), swapped(), changed, false),
        (null(), swapped(), changed, false),
        (out_of_range(), swapped(), changed, false),
        (null(), out_of_range(), no_data, false),
        // An operator that permits one of the operations works, so its breaker stays closed.
        (null(), denied(), no_data, false),
        (denied(), out_of_range(), no_data, false),
        (denied(), denied(), failed, true),
        (null(), down(), failed, true),
    ] {
        let fixture = Fixture::with(|config, _| {
            let usual = SimSwapConfig::new(SimSwapFlow::ClientCredentials);
            config.sim_swap = Some(SimSwapConfig { operations: BOTH.to_vec(), ..usual });
            config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
        });
        let fixture = fixture.await;
        fixture.operator.respond(DATE, date);
        fixture.operator.respond(CHECK, check);
        assert_eq!(fixture.sim_history(60).await, expected);
        assert_eq!((fixture.operator.requests_to(DATE).len(), fixture.operator.requests_to(CHECK).len()), (1, 1));
        let is_open = matches!(fixture.camara.sim_swap_breaker_state(), BreakerState::Open { .. });
        assert_eq!(is_open, opens_breaker, "{expected:?}");
    }
}

#[tokio::test]
async fn rejected_scope_does_not_affect_the_other_operation() {
    let refused = Json(400, json!({ "error": "invalid_scope" }));
    for flow in token_flows() {
        let path = if matches!(flow, SimSwapFlow::Ciba) { BACKCHANNEL } else { TOKEN };
        let accepted = if path == TOKEN { token_response() } else { json!({ "auth_req_id": "request-of-ours" }) };
        let fixture = Fixture::with(|config, operator| {
            only_sim_swap(flow)(config, operator);
            if let Some(sim_swap) = &mut config.sim_swap {
                sim_swap.operations = BOTH.to_vec();
            }
        });
        let fixture = fixture.await;
        fixture.operator.respond_in_order(path, vec![refused.clone(), Json(200, accepted)]);
        assert_eq!(fixture.sim_history(60).await, Ok(SimHistory::ChangedWithin(hours(1))));
        assert!(fixture.operator.requests_to(DATE).is_empty());
        assert_eq!(fixture.camara.sim_swap_breaker_state(), BreakerState::Closed);
    }
}

#[tokio::test]
async fn number_is_sent_unless_the_token_identifies_it() {
    for flow in token_flows() {
        let is_of_ours = matches!(flow, SimSwapFlow::ClientCredentials);
        let fixture = Fixture::with(only_sim_swap(flow)).await;
        assert_eq!(fixture.sim_history(60).await, Ok(SimHistory::ChangedAt(at("2026-11-14T13:00:00Z"))));
        let request = &fixture.operator.requests_to(DATE)[0];
        let expected = if is_of_ours { json!({ "phoneNumber": "+447700900123" }) } else { json!({}) };
        assert_eq!(request.json(), expected);
        assert_eq!(request.header("x-correlator"), check().to_string());
        assert_eq!(request.header("authorization"), "Bearer token-of-the-device");
        assert_eq!(request.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn token_requests_follow_the_profile() {
    let [client_credentials, ciba, jwt_bearer] = token_flows();
    let fixture = Fixture::with(only_sim_swap(client_credentials)).await;
    fixture.sim_history(60).await.unwrap();
    let form = fixture.operator.requests_to(TOKEN)[0].form();
    assert_eq!(form["grant_type"], "client_credentials");
    // Client tokens have no user, hence no `openid`.
    assert_eq!(form["scope"], "dpv:FraudPreventionAndDetection sim-swap:retrieve-date");
    assert_eq!((&*form["client_id"], &*form["client_secret"]), ("client id:1", "secret of ours"));

    for (hint, expected) in [(LoginHintFormat::None, "tel:+447700900123"), (LoginHintFormat::E164, "+447700900123")] {
        let fixture = Fixture::with(|config, operator| {
            only_sim_swap(ciba.clone())(config, operator);
            config.login_hint = hint;
        });
        let fixture = fixture.await;
        fixture.sim_history(60).await.unwrap();
        let form = fixture.operator.requests_to(BACKCHANNEL)[0].form();
        assert_eq!(form["scope"], "openid dpv:FraudPreventionAndDetection sim-swap:retrieve-date");
        assert_eq!((&*form["login_hint"], &*form["client_secret"]), (expected, "secret of ours"));
        let form = fixture.operator.requests_to(TOKEN)[0].form();
        assert_eq!(form["grant_type"], "urn:openid:params:grant-type:ciba");
        assert_eq!((&*form["auth_req_id"], &*form["client_secret"]), ("request-of-ours", "secret of ours"));
    }

    let fixture = Fixture::with(|config, operator| {
        only_sim_swap(jwt_bearer)(config, operator);
        config.scopes.style = ScopeStyle::Hash;
        config.scopes.openid = false;
        if let Some(sim_swap) = &mut config.sim_swap {
            sim_swap.operations = vec![SimSwapOperation::Check, SimSwapOperation::RetrieveDate];
        }
    });
    let fixture = fixture.await;
    fixture.operator.respond(CHECK, Json(200, json!({ "swapped": false })));
    fixture.sim_history(60).await.unwrap();
    let form = fixture.operator.requests_to(TOKEN)[0].form();
    assert_eq!(form.len(), 2, "the assertion contains client and scope: {form:?}");
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let mut claims = payload(&form["assertion"]);
    assert!(claims["jti"].as_str().is_some_and(|jti| jti.len() == 22));
    claims.as_object_mut().unwrap().remove("jti");
    let now = fixture.clock.now().as_second();
    let scope = "dpv:FraudPreventionAndDetection#sim-swap:check";
    let expected = json!({
        "iss": "client id:1", "sub": "tel:+447700900123", "aud": fixture.operator.url(TOKEN).as_str(),
        "iat": now, "exp": now + 300, "scope": scope,
    });
    assert_eq!(claims, expected);
}

#[tokio::test]
async fn client_token_is_cached_and_renewed() {
    let fixture = Fixture::with(only_sim_swap(SimSwapFlow::ClientCredentials)).await;
    let all = tokio::join!(fixture.sim_history(60), fixture.sim_history(60), fixture.sim_history(60));
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok());
    assert_eq!(fixture.operator.requests_to(TOKEN).len(), 1, "concurrent queries share one token request");
    fixture.advance(47);
    fixture.sim_history(60).await.unwrap();
    assert_eq!(fixture.operator.requests_to(TOKEN).len(), 1);
    fixture.advance(1);
    fixture.sim_history(60).await.unwrap();
    assert_eq!(fixture.operator.requests_to(TOKEN).len(), 2, "renewed after four fifths of its lifetime");
}

#[tokio::test]
async fn rejected_token_is_replaced_once() {
    let fixture = Fixture::with(only_sim_swap(SimSwapFlow::ClientCredentials)).await;
    let refused = Json(401, json!({ "status": 401, "code": "UNAUTHENTICATED" }));
    let date = Json(200, json!({ "latestSimChange": "2026-11-14T13:00:00Z" }));
    let mut other = token_response();
    other["access_token"] = json!("another-token");
    fixture.operator.respond_in_order(TOKEN, vec![Json(200, token_response()), Json(200, other)]);
    fixture.operator.respond_in_order(DATE, vec![date.clone(), refused.clone(), date]);
    assert!(fixture.sim_history(60).await.is_ok());
    assert!(fixture.sim_history(60).await.is_ok(), "the revoked token is replaced");
    let shown: Vec<_> =
        fixture.operator.requests_to(DATE).iter().map(|request| request.header("authorization").to_owned()).collect();
    assert_eq!(shown, ["Bearer token-of-the-device", "Bearer token-of-the-device", "Bearer another-token"]);

    fixture.operator.respond(DATE, refused.clone());
    assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoResponseError));
    assert_eq!(fixture.operator.requests_to(DATE).len(), 5, "the token is replaced only once");

    for flow in token_flows().into_iter().skip(1) {
        let fixture = Fixture::with(only_sim_swap(flow)).await;
        fixture.operator.respond(DATE, refused.clone());
        assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoResponseError));
        assert_eq!(fixture.operator.requests_to(DATE).len(), 1, "a fresh token is not replaced");
    }
}
