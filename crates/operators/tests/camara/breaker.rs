use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{
    connectors::{BreakerPosition, ConnectorState, MonitoredConnector as _},
    silent::{SilentOperation, SilentResult},
};
use ringtrue_operators::camara::{Algorithm, Audience, BreakerSettings, BreakerState, RequestObjectMode};
use serde_json::json;

use super::{
    fake_operator::{
        NUMBER,
        ScriptedResponse::{Json, Plain},
        TOKEN, VERIFY, token_response,
    },
    fixture::{Fixture, number},
    keys::Key,
};

async fn with_threshold_of_three() -> Fixture {
    Fixture::with(|config, _| config.breaker = BreakerSettings { failures: 3, ..BreakerSettings::default() }).await
}

fn is_open(fixture: &Fixture) -> bool {
    matches!(fixture.camara.breaker_state(), BreakerState::Open { .. })
}

#[tokio::test]
async fn consecutive_failures_open_the_breaker_and_one_success_closes_it() {
    let fixture = with_threshold_of_three().await;
    assert_eq!(fixture.camara.connector_status().state, ConnectorState::Idle);
    fixture.operator.respond(VERIFY, Json(500, json!({})));
    for _ in 0..3 {
        assert!(!is_open(&fixture));
        assert_eq!(fixture.verify().await, Err(ErrorCode::MnoServerError));
    }
    assert!(is_open(&fixture));
    assert_eq!(fixture.verify().await, Err(ErrorCode::MnoServerError));
    assert_eq!(fixture.operator.requests_to(TOKEN).len(), 3, "an open breaker sends no request");
    let report = fixture.camara.connector_status();
    let last_error = report.health.last_error.map(|last_error| last_error.message);
    assert_eq!(last_error.as_deref(), Some("unexpected status from the API (status 500)"));
    assert!(matches!(report.breakers[0].position, BreakerPosition::Open { .. }));

    fixture.advance(30);
    assert_eq!(fixture.camara.breaker_state(), BreakerState::HalfOpen);
    assert_eq!(fixture.verify().await, Err(ErrorCode::MnoServerError));
    assert!(is_open(&fixture));

    fixture.advance(30);
    fixture.operator.respond(VERIFY, Json(200, json!({ "devicePhoneNumberVerified": true })));
    let operation = SilentOperation::VerifyNumber(&number());
    let redirect = fixture.begin(operation).await.unwrap();
    assert_eq!(fixture.begin(operation).await, Err(ErrorCode::MnoServerError), "a half-open breaker permits one check");
    assert_eq!(fixture.complete(operation, &redirect, &[("code", "c")]).await, Ok(SilentResult::Match(true)));
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
    assert_eq!(fixture.verify().await, Ok(SilentResult::Match(true)));
    let report = fixture.camara.connector_status();
    assert!(report.state == ConnectorState::Up && report.health.last_success_at.is_some());
}

#[tokio::test]
async fn subscriber_errors_do_not_open_the_breaker() {
    let fixture = with_threshold_of_three().await;
    for round in 0..4 {
        for response in [Json(500, json!({})), Json(404, json!({ "code": "IDENTIFIER_NOT_FOUND" }))] {
            fixture.operator.respond(VERIFY, response);
            assert!(fixture.verify().await.is_err());
        }
        assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed, "round {round}");
    }
    // A device can send a forged code, so rejected codes do not open the breaker.
    fixture.operator.respond(TOKEN, Json(400, json!({ "error": "invalid_grant" })));
    for _ in 0..4 {
        assert_eq!(fixture.verify().await, Err(ErrorCode::MnoResponseError));
    }
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
}

#[tokio::test]
async fn open_breaker_returns_the_timeout_code() {
    let fixture = with_threshold_of_three().await;
    fixture.operator.respond(VERIFY, Json(504, json!({})));
    for _ in 0..4 {
        assert_eq!(fixture.verify().await, Err(ErrorCode::MnoTimeout));
    }
    assert_eq!(fixture.operator.requests_to(VERIFY).len(), 3);
}

#[tokio::test]
async fn rejected_client_opens_the_breaker_immediately() {
    for (path, status, body) in
        [(TOKEN, 401, json!({ "error": "invalid_client" })), (TOKEN, 400, json!({ "error": "unauthorized_client" }))]
    {
        let fixture = Fixture::start().await;
        fixture.operator.respond(path, Json(status, body));
        assert_eq!(fixture.verify().await, Err(ErrorCode::MnoServerError));
        assert!(is_open(&fixture), "{path}");
    }
}

/// A device can change an unsigned request and forge a response. If such errors opened the breaker, one device could
/// block all others.
#[tokio::test]
async fn device_errors_do_not_open_the_breaker() {
    let mut forged = token_response();
    forged["id_token"] = json!("not.a.token");
    let error = |error: &str| json!({ "error": error });
    for (path, status, body, signed_counts) in [
        (VERIFY, 403, json!({ "code": "PERMISSION_DENIED" }), true),
        (VERIFY, 403, error("insufficient_scope"), true),
        (TOKEN, 400, error("invalid_scope"), true),
        (TOKEN, 200, forged, true),
        (TOKEN, 400, error("invalid_grant"), false),
        (TOKEN, 400, error("invalid_request"), false),
    ] {
        for is_signed in [false, true] {
            let fixture = Fixture::with(|config, _| {
                config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
                if is_signed {
                    let key = Key::new(Algorithm::ES256, "of-requests").signing();
                    config.request_object = RequestObjectMode::Signed { key, audience: Audience::Endpoint };
                }
            });
            let fixture = fixture.await;
            fixture.operator.respond(path, Json(status, body.clone()));
            assert!(fixture.verify().await.is_err());
            assert_eq!(is_open(&fixture), is_signed && signed_counts, "{body}, signed: {is_signed}");
        }
    }
}

#[tokio::test]
async fn retry_after_is_respected() {
    for (headers, seconds) in [
        ("retry-after: 100\r\n", 100),
        ("retry-after: Sun, 15 Nov 2026 09:01:40 GMT\r\n", 100),
        ("retry-after: 1000000\r\n", 600),
        ("", 30),
    ] {
        let fixture = Fixture::start().await;
        fixture.operator.respond(NUMBER, Plain(429, headers, b"{}".to_vec()));
        assert_eq!(fixture.run_check(SilentOperation::DiscoverNumber).await, Err(ErrorCode::MnoServerError));
        assert_eq!(fixture.operator.requests_to(NUMBER).len(), 1);
        fixture.advance(seconds - 1);
        assert!(is_open(&fixture), "{headers}");
        fixture.advance(1);
        assert_eq!(fixture.camara.breaker_state(), BreakerState::HalfOpen, "{headers}");
    }
}
