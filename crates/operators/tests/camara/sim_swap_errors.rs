use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use ringtrue_domain::{lifecycle::ErrorCode, sim_swap::SimHistory};
use ringtrue_engine::ports::silent::SilentResult;
use ringtrue_operators::{
    camara::{BreakerSettings, BreakerState, SimSwapConfig, SimSwapFlow, SimSwapOperation},
    client::{Client, ClientError, ClientSettings},
};
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::{
    errors::{CAMARA, OAUTH, STATUSES, broken_responses, code},
    fake_operator::{
        BACKCHANNEL, CHECK, DATE, DISCOVERY,
        ScriptedResponse::{self, Json, Plain},
        TOKEN, VERIFY,
    },
    fixture::{Fixture, short_timeout_client},
    sim_swap::{only_sim_swap, token_flows},
};

const OPERATION_PATHS: [(&str, SimSwapOperation); 2] =
    [(DATE, SimSwapOperation::RetrieveDate), (CHECK, SimSwapOperation::Check)];

/// Checks the error code of SIM Swap, with every token flow, if the operator sends this response at this path.
async fn assert_error(
    client: &Arc<Client>,
    path: &'static str,
    response: ScriptedResponse,
    expected: &str,
    case: &str,
) {
    for flow in token_flows() {
        let is_ciba = matches!(flow, SimSwapFlow::Ciba);
        if path == BACKCHANNEL && !is_ciba {
            continue;
        }
        let fixture = Fixture::with_client(client, |config, operator| {
            only_sim_swap(flow)(config, operator);
            if let Some(sim_swap) = config.sim_swap.as_mut().filter(|_| path == CHECK) {
                sim_swap.operations = vec![SimSwapOperation::Check];
            }
        });
        let fixture = fixture.await;
        // With this interval, the connector does not wait for a pending CIBA decision: the deadline is earlier.
        let backchannel_response = json!({ "auth_req_id": "request-of-ours", "interval": 60 });
        fixture.operator.respond(BACKCHANNEL, Json(200, backchannel_response));
        fixture.operator.respond(path, response.clone());
        assert_eq!(fixture.sim_history(60).await, Err(code(expected)), "{case} at {path}");
        let tries = if [DATE, CHECK].contains(&path) { 1..=2 } else { 1..=1 };
        assert!(tries.contains(&fixture.operator.requests_to(path).len()), "{case} at {path}: only a read is repeated");
    }
}

#[tokio::test]
async fn token_and_backchannel_errors() {
    let client = Arc::new(short_timeout_client());
    for (error, expected) in OAUTH {
        let status = if *error == "invalid_client" { 401 } else { 400 };
        let response = Json(status, json!({ "error": error, "error_description": "x" }));
        assert_error(&client, TOKEN, response.clone(), expected, error).await;
        assert_error(&client, BACKCHANNEL, response, expected, error).await;
    }
    for body in [json!({}), json!({ "auth_req_id": "" }), json!({ "auth_req_id": 1 }), json!([]), json!(null)] {
        assert_error(&client, BACKCHANNEL, Json(200, body.clone()), "mno_response_error", &body.to_string()).await;
    }
}

#[tokio::test]
async fn api_errors() {
    let client = Arc::new(short_timeout_client());
    for (status, name, expected) in CAMARA {
        for (path, operation) in OPERATION_PATHS {
            let expected = match *name {
                // After this error the connector tries another operation, but none is configured.
                "OUT_OF_RANGE" => "mno_no_data_available",
                // `NotMobileIp` is replaced, because SIM Swap involves no device.
                "USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK" => "mno_response_error",
                // Not covered here: after these errors the connector replaces the client token and tries again.
                "UNAUTHENTICATED" | "AUTHENTICATION_REQUIRED" => continue,
                _ => expected,
            };
            let body = json!({ "status": status, "code": name, "message": "x" });
            assert_error(&client, path, Json(*status, body), expected, &format!("{name} {operation:?}")).await;
        }
    }
}

#[tokio::test]
async fn statuses_without_a_known_code_and_unreadable_responses() {
    let client = Arc::new(short_timeout_client());
    for (status, expected) in STATUSES.iter().filter(|(status, _)| *status != 401) {
        let body = if *status == 204 { vec![] } else { b"<html>no</html>".to_vec() };
        for path in [DATE, CHECK, BACKCHANNEL] {
            assert_error(&client, path, Plain(*status, "", body.clone()), expected, &status.to_string()).await;
        }
    }
    for (error, response, expected) in broken_responses() {
        for path in [DATE, BACKCHANNEL] {
            assert_error(&client, path, response.clone(), expected, &error.to_string()).await;
        }
    }
}

#[tokio::test]
async fn transient_errors_are_retried_once() {
    let date = Json(200, json!({ "latestSimChange": "2026-11-14T13:00:00Z" }));
    let status = |status| Json(status, json!({}));
    for (first, is_repeated) in [
        (ScriptedResponse::HangUp, true),
        (status(502), true),
        (status(503), true),
        (status(504), true),
        (status(500), false),
        (status(404), false),
        (ScriptedResponse::Silence, false),
    ] {
        for flow in token_flows() {
            let fixture = Fixture::with(only_sim_swap(flow)).await;
            fixture.operator.respond_in_order(DATE, vec![first.clone(), date.clone()]);
            assert_eq!(fixture.sim_history(60).await.is_ok(), is_repeated);
            assert_eq!(fixture.operator.requests_to(DATE).len(), if is_repeated { 2 } else { 1 });
            assert_eq!(fixture.operator.requests_to(TOKEN).len(), 1);
        }
    }
}

#[tokio::test]
async fn unreachable_operators() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (error, root, expected) in [
        (ClientError::Refused, format!("http://127.0.0.1:{free}"), "mno_server_error"),
        (ClientError::Unresolved, "http://missing.example".to_owned(), "mno_server_error"),
        (ClientError::ConnectTimeout, "http://silent.example".to_owned(), "mno_timeout"),
    ] {
        let fixture = Fixture::with(|config, operator| {
            only_sim_swap(SimSwapFlow::ClientCredentials)(config, operator);
            config.api_root = Url::parse(&root).unwrap();
        });
        assert_eq!(fixture.await.sim_history(60).await, Err(code(expected)), "{error:?}");
    }
}

#[tokio::test]
async fn ciba_requires_a_backchannel_endpoint() {
    let fixture = Fixture::with(only_sim_swap(SimSwapFlow::Ciba)).await;
    let mut metadata = fixture.operator.metadata();
    metadata.as_object_mut().unwrap().remove("backchannel_authentication_endpoint");
    fixture.operator.respond(DISCOVERY, Json(200, metadata));
    assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoServerError));
    assert!(matches!(fixture.camara.sim_swap_breaker_state(), BreakerState::Open { .. }));
}

/// Polling respects the operator's interval and ends before the deadline.
#[tokio::test]
async fn polling_ends_before_the_deadline() {
    let not_yet = |error: &str| Json(400, json!({ "error": error }));
    let token_response = Json(200, super::fake_operator::token_response());
    let pending = || not_yet("authorization_pending");
    let cases = [
        (json!(0), vec![pending(), pending(), token_response.clone()], true),
        (json!("1"), vec![pending(), token_response.clone()], true),
        (json!(1), vec![pending(), not_yet("slow_down"), token_response.clone()], true),
        // The interval is the default of five seconds, increased by five seconds.
        (json!(null), vec![not_yet("slow_down"), token_response.clone()], true),
        (json!(30), vec![pending(), token_response.clone()], false),
        (json!(10), vec![not_yet("slow_down"), token_response.clone()], false),
    ];
    let run = async |(interval, responses, is_decided): (Value, Vec<ScriptedResponse>, bool)| {
        let fixture = Fixture::with(only_sim_swap(SimSwapFlow::Ciba)).await;
        let backchannel_response = json!({ "auth_req_id": "request-of-ours", "expires_in": 120, "interval": interval });
        fixture.operator.respond(BACKCHANNEL, Json(200, backchannel_response));
        let count = if is_decided { responses.len() } else { 1 };
        fixture.operator.respond_in_order(TOKEN, responses);
        let result = fixture.sim_history(60).await;
        let expected = if is_decided { result.is_ok() } else { result == Err(ErrorCode::MnoTimeout) };
        assert!(expected, "{interval}: {result:?}");
        assert_eq!(fixture.operator.requests_to(TOKEN).len(), count, "{interval}");
        assert_eq!(fixture.camara.sim_swap_breaker_state(), BreakerState::Closed);
    };
    // The cases run concurrently, because each one waits.
    join_all(cases.map(run)).await;
}

/// The query ends at its deadline, although the HTTP client would wait longer.
#[tokio::test]
async fn late_response_is_a_timeout() {
    let timeout = Duration::from_secs(30);
    let long_timeout_client = Arc::new(Client::new(&ClientSettings { timeout, ..ClientSettings::default() }).unwrap());
    let fixture = Fixture::with_client(&long_timeout_client, |config, operator| {
        only_sim_swap(SimSwapFlow::ClientCredentials)(config, operator);
        config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    });
    let fixture = fixture.await;
    fixture.operator.respond(DATE, ScriptedResponse::Silence);
    assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoTimeout));
    assert!(matches!(fixture.camara.sim_swap_breaker_state(), BreakerState::Open { .. }), "the timeout is counted");
}

/// A query cancelled before its deadline is neither a success nor a failure.
#[tokio::test]
async fn cancelled_query_does_not_count() {
    let fixture = Fixture::with(|config, operator| {
        only_sim_swap(SimSwapFlow::ClientCredentials)(config, operator);
        config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    });
    let fixture = fixture.await;
    fixture.operator.respond(DATE, ScriptedResponse::Silence);
    assert!(timeout(Duration::from_millis(300), fixture.sim_history(60)).await.is_err());
    assert_eq!(fixture.camara.sim_swap_breaker_state(), BreakerState::Closed);
}

#[tokio::test]
async fn sim_swap_and_number_verification_have_separate_breakers() {
    let fixture = Fixture::with(|config, _| {
        config.breaker = BreakerSettings { failures: 3, ..BreakerSettings::default() };
        config.sim_swap = Some(SimSwapConfig::new(SimSwapFlow::ClientCredentials));
    });
    let fixture = fixture.await;
    fixture.operator.respond(DATE, Json(500, json!({})));
    for _ in 0..4 {
        assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoServerError));
    }
    assert_eq!(fixture.operator.requests_to(DATE).len(), 3, "the SIM Swap breaker is open");
    assert_eq!(fixture.verify().await, Ok(SilentResult::Match(true)), "Number Verification is not affected");
    assert!(
        matches!(fixture.camara.sim_swap_breaker_state(), BreakerState::Open { .. }),
        "its success does not close the SIM Swap breaker"
    );
    fixture.advance(30);
    fixture.operator.respond(DATE, Json(404, json!({ "code": "IDENTIFIER_NOT_FOUND" })));
    assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoUserNotFound));
    assert_eq!(fixture.camara.sim_swap_breaker_state(), BreakerState::Closed, "an unknown number counts as success");
    fixture.operator.respond(DATE, Json(200, json!({ "latestSimChange": null, "monitoredPeriod": 1 })));
    assert!(matches!(fixture.sim_history(60).await, Ok(SimHistory::NoChangeFor(_))));

    fixture.operator.respond(VERIFY, Json(500, json!({})));
    for _ in 0..3 {
        assert_eq!(fixture.verify().await, Err(ErrorCode::MnoServerError));
    }
    assert!(matches!(fixture.camara.breaker_state(), BreakerState::Open { .. }));
    assert!(fixture.sim_history(60).await.is_ok());
}

#[tokio::test]
async fn missing_sim_swap_is_not_supported() {
    let fixture = Fixture::start().await;
    assert!(!fixture.camara.supports_sim_swap() && fixture.camara.supports_number_verification());
    assert_eq!(fixture.sim_history(60).await, Err(ErrorCode::MnoNotSupported));
    let fixture = Fixture::with(only_sim_swap(SimSwapFlow::Ciba)).await;
    assert!(fixture.camara.supports_sim_swap() && !fixture.camara.supports_number_verification());
    assert_eq!(fixture.verify().await.err(), Some(ErrorCode::MnoNotSupported));
}
