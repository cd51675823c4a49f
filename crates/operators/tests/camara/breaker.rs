use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{BreakerPosition, Condition, Question, Reply, Reporting as _};
use ringtrue_operators::camara::{Algorithm, Audience, BreakerSettings, BreakerState, RequestObject};
use serde_json::json;

use super::{
    keys::Key,
    operator::{NUMBER, Saying, TOKEN, VERIFY, granted},
    world::{World, number},
};

async fn with_three_failures() -> World {
    World::with(|config, _| config.breaker = BreakerSettings { failures: 3, ..BreakerSettings::default() }).await
}

fn is_open(world: &World) -> bool {
    matches!(world.camara.state(), BreakerState::Open { .. })
}

#[tokio::test]
async fn failures_in_a_row_close_the_way_and_one_success_opens_it() {
    let world = with_three_failures().await;
    assert_eq!(world.camara.report().condition, Condition::Waiting);
    world.operator.says(VERIFY, Saying::Json(500, json!({})));
    for _ in 0..3 {
        assert!(!is_open(&world));
        assert_eq!(world.verify().await, Err(ErrorCode::MnoServerError));
    }
    assert!(is_open(&world));
    assert_eq!(world.verify().await, Err(ErrorCode::MnoServerError));
    assert_eq!(world.operator.asked(TOKEN).len(), 3, "no device is sent");
    let report = world.camara.report();
    let mishap = report.signs.mishap.map(|mishap| mishap.what);
    assert_eq!(mishap.as_deref(), Some("an unexpected status at the API (status 500)"));
    assert!(matches!(report.breakers[0].position, BreakerPosition::Open { .. }));

    world.pass(30);
    assert_eq!(world.camara.state(), BreakerState::HalfOpen);
    assert_eq!(world.verify().await, Err(ErrorCode::MnoServerError));
    assert!(is_open(&world));

    world.pass(30);
    world.operator.says(VERIFY, Saying::Json(200, json!({ "devicePhoneNumberVerified": true })));
    let question = Question::IsNumber(&number());
    let journey = world.depart(question).await.unwrap();
    assert_eq!(world.depart(question).await, Err(ErrorCode::MnoServerError), "one is sent to see how it goes");
    assert_eq!(world.arrive(question, &journey, &[("code", "c")]).await, Ok(Reply::Match(true)));
    assert_eq!(world.camara.state(), BreakerState::Closed);
    assert_eq!(world.verify().await, Ok(Reply::Match(true)));
    let report = world.camara.report();
    assert!(report.condition == Condition::Up && report.signs.heard_at.is_some());
}

#[tokio::test]
async fn subscribers_that_are_not_known_are_no_failures() {
    let world = with_three_failures().await;
    for round in 0..4 {
        for saying in [Saying::Json(500, json!({})), Saying::Json(404, json!({ "code": "IDENTIFIER_NOT_FOUND" }))] {
            world.operator.says(VERIFY, saying);
            assert!(world.verify().await.is_err());
        }
        assert_eq!(world.camara.state(), BreakerState::Closed, "round {round}");
    }
    // A device may bring any code it likes.
    world.operator.says(TOKEN, Saying::Json(400, json!({ "error": "invalid_grant" })));
    for _ in 0..4 {
        assert_eq!(world.verify().await, Err(ErrorCode::MnoResponseError));
    }
    assert_eq!(world.camara.state(), BreakerState::Closed);
}

#[tokio::test]
async fn silence_is_answered_by_its_name() {
    let world = with_three_failures().await;
    world.operator.says(VERIFY, Saying::Json(504, json!({})));
    for _ in 0..4 {
        assert_eq!(world.verify().await, Err(ErrorCode::MnoTimeout));
    }
    assert_eq!(world.operator.asked(VERIFY).len(), 3);
}

#[tokio::test]
async fn an_operator_that_does_not_know_us_is_left_alone_at_once() {
    for (place, status, body) in
        [(TOKEN, 401, json!({ "error": "invalid_client" })), (TOKEN, 400, json!({ "error": "unauthorized_client" }))]
    {
        let world = World::start().await;
        world.operator.says(place, Saying::Json(status, body));
        assert_eq!(world.verify().await, Err(ErrorCode::MnoServerError));
        assert!(is_open(&world), "{place}");
    }
}

/// A device can ask for less than it was sent to ask for, and bring what it likes. Were the operator left alone for
/// that, one device would do for all.
#[tokio::test]
async fn what_a_device_may_have_caused_is_not_held_against_the_operator() {
    let mut forged = granted();
    forged["id_token"] = json!("not.a.token");
    let error = |error: &str| json!({ "error": error });
    for (place, status, body, signed_counts) in [
        (VERIFY, 403, json!({ "code": "PERMISSION_DENIED" }), true),
        (VERIFY, 403, error("insufficient_scope"), true),
        (TOKEN, 400, error("invalid_scope"), true),
        (TOKEN, 200, forged, true),
        (TOKEN, 400, error("invalid_grant"), false),
        (TOKEN, 400, error("invalid_request"), false),
    ] {
        for is_signed in [false, true] {
            let world = World::with(|config, _| {
                config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
                if is_signed {
                    let key = Key::new(Algorithm::Es256, "of-requests").signing();
                    config.request_object = RequestObject::Signed { key, audience: Audience::Endpoint };
                }
            });
            let world = world.await;
            world.operator.says(place, Saying::Json(status, body.clone()));
            assert!(world.verify().await.is_err());
            assert_eq!(is_open(&world), is_signed && signed_counts, "{body}, signed: {is_signed}");
        }
    }
}

#[tokio::test]
async fn an_operator_says_when_to_come_back() {
    for (headers, seconds) in [
        ("retry-after: 100\r\n", 100),
        ("retry-after: Sun, 15 Nov 2026 09:01:40 GMT\r\n", 100),
        ("retry-after: 1000000\r\n", 600),
        ("", 30),
    ] {
        let world = World::start().await;
        world.operator.says(NUMBER, Saying::Plain(429, headers, b"{}".to_vec()));
        assert_eq!(world.ask(Question::WhichNumber).await, Err(ErrorCode::MnoServerError));
        assert_eq!(world.operator.asked(NUMBER).len(), 1);
        world.pass(seconds - 1);
        assert!(is_open(&world), "{headers}");
        world.pass(1);
        assert_eq!(world.camara.state(), BreakerState::HalfOpen, "{headers}");
    }
}
