use futures_util::future::join_all;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::silent::{SilentOperation, SilentResult};
use ringtrue_operators::camara::{BreakerState, Provider};
use serde_json::json;

use super::{
    fake_operator::{
        DISCOVERY, NUMBER,
        ScriptedResponse::{self, Json, Plain},
        TOKEN, VERIFY, token_response,
    },
    fixture::{Fixture, number},
};

fn metadata_response(fixture: &Fixture, headers: &'static str) -> ScriptedResponse {
    Plain(200, headers, fixture.operator.metadata().to_string().into_bytes())
}

#[tokio::test]
async fn metadata_is_cached_by_its_headers() {
    for (headers, seconds) in
        [("", 3_600), ("cache-control: max-age=120\r\n", 120), ("cache-control: no-store\r\n", 10)]
    {
        let fixture = Fixture::start().await;
        fixture.operator.respond(DISCOVERY, metadata_response(&fixture, headers));
        fixture.verify().await.unwrap();
        fixture.advance(seconds - 1);
        fixture.verify().await.unwrap();
        assert_eq!(fixture.operator.requests_to(DISCOVERY).len(), 1, "{headers}");
        fixture.advance(1);
        fixture.verify().await.unwrap();
        assert_eq!(fixture.operator.requests_to(DISCOVERY).len(), 2, "{headers}");
    }
}

#[tokio::test]
async fn stale_metadata_is_used_if_the_refresh_fails() {
    let fixture = Fixture::start().await;
    fixture.verify().await.unwrap();
    for (count, response) in [
        Json(500, json!({})),
        Plain(200, "", b"<html>".to_vec()),
        Json(200, json!({ "issuer": "https://other.example" })),
    ]
    .into_iter()
    .enumerate()
    {
        fixture.advance(3_600);
        fixture.operator.respond(DISCOVERY, response);
        assert_eq!(fixture.verify().await, Ok(SilentResult::Match(true)));
        assert_eq!(
            fixture.operator.requests_to(DISCOVERY).len(),
            2 + count,
            "a failed refresh is not repeated immediately"
        );
    }
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
}

#[tokio::test]
async fn concurrent_requests_share_one_fetch() {
    let fixture = Fixture::start().await;
    let operation = SilentOperation::DiscoverNumber;
    let redirects = join_all((0..20).map(|_| fixture.begin(operation))).await;
    assert!(redirects.iter().all(Result::is_ok));
    assert_eq!(fixture.operator.requests_to(DISCOVERY).len(), 1);

    let fixture = Fixture::start().await;
    fixture.operator.respond(DISCOVERY, ScriptedResponse::HangUp);
    let redirects = join_all((0..20).map(|_| fixture.begin(operation))).await;
    assert!(redirects.iter().all(|redirect| *redirect == Err(ErrorCode::MnoServerError)));
    assert_eq!(fixture.operator.requests_to(DISCOVERY).len(), 2, "the failed fetch is retried once");
    assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed, "a shared failure counts once");
}

#[tokio::test]
async fn metadata_is_validated() {
    let changes = [
        json!({ "issuer": "https://other.example" }),
        json!({ "issuer": null }),
        json!({ "authorization_endpoint": null }),
        json!({ "token_endpoint": "javascript:alert(1)" }),
        json!({ "jwks_uri": null }),
    ];
    for change in changes {
        let fixture = Fixture::start().await;
        let mut metadata = fixture.operator.metadata();
        metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        fixture.operator.respond(DISCOVERY, Json(200, metadata));
        assert_eq!(fixture.begin(SilentOperation::DiscoverNumber).await, Err(ErrorCode::MnoResponseError), "{change}");
    }
}

#[tokio::test]
async fn discovery_url_is_configurable() {
    for (issuer, is_right) in [(None, true), (Some("right"), true), (Some("http://other.example"), false)] {
        let fixture = Fixture::with(|config, operator| {
            let issuer = issuer.map(|issuer| if issuer == "right" { operator.issuer() } else { issuer.to_owned() });
            config.provider = Provider::Discovery { url: operator.url("/elsewhere"), issuer };
        });
        let fixture = fixture.await;
        fixture.operator.respond("/elsewhere", Json(200, fixture.operator.metadata()));
        assert_eq!(fixture.verify().await.is_ok(), is_right, "{issuer:?}");
        assert!(fixture.operator.requests_to(DISCOVERY).is_empty());
    }
}

#[tokio::test]
async fn only_idempotent_requests_are_retried() {
    let (bad, lost) = (|status| Json(status, json!({})), ScriptedResponse::HangUp);
    for response in [bad(502), bad(503), bad(504), lost] {
        let fixture = Fixture::start().await;
        fixture.operator.respond_in_order(DISCOVERY, vec![response.clone(), metadata_response(&fixture, "")]);
        assert!(fixture.run_check(SilentOperation::DiscoverNumber).await.is_ok());
        assert_eq!(fixture.operator.requests_to(DISCOVERY).len(), 2);

        // Codes and tokens are single-use, and may have been used before the connection was lost.
        for (path, operation, answer) in [
            (TOKEN, SilentOperation::DiscoverNumber, token_response()),
            (VERIFY, SilentOperation::VerifyNumber(&number()), json!({ "devicePhoneNumberVerified": true })),
            (NUMBER, SilentOperation::DiscoverNumber, json!({ "devicePhoneNumber": "+447700900123" })),
        ] {
            let fixture = Fixture::start().await;
            fixture.operator.respond_in_order(path, vec![response.clone(), Json(200, answer)]);
            assert!(fixture.run_check(operation).await.is_err());
            assert_eq!(fixture.operator.requests_to(path).len(), 1, "{path}");
        }
    }
    for status in [400, 429, 500] {
        let fixture = Fixture::start().await;
        fixture.operator.respond(DISCOVERY, bad(status));
        assert!(fixture.run_check(SilentOperation::DiscoverNumber).await.is_err());
        assert_eq!(fixture.operator.requests_to(DISCOVERY).len(), 1, "{status}");
    }
}
