use std::sync::Arc;

use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{
    silent::{SilentOperation, SilentResult},
    transport::TlsError,
};
use ringtrue_operators::{
    camara::{BreakerState, ERROR_TABLE, ErrorCause, InvalidResponse, Provider},
    client::{Client, ClientError},
};
use serde_json::{Value, json};
use strum::VariantArray as _;
use url::Url;

use super::{
    fake_operator::{
        NUMBER,
        ScriptedResponse::{self, Json, Plain},
        TOKEN, VERIFY, token_response,
    },
    fixture::{Fixture, STATE, number, short_timeout_client},
};

/// OAuth and OpenID Connect errors, with the resulting error code.
pub const OAUTH: &[(&str, &str)] = &[
    ("login_required", "mno_user_not_found"),
    ("interaction_required", "mno_user_not_found"),
    ("account_selection_required", "mno_user_not_found"),
    ("access_denied", "mno_user_not_found"),
    ("unknown_user_id", "mno_user_not_found"),
    ("consent_required", "mno_no_data_available"),
    ("authorization_pending", "mno_timeout"),
    ("slow_down", "mno_timeout"),
    ("expired_token", "mno_timeout"),
    ("transaction_failed", "mno_server_error"),
    ("invalid_binding_message", "mno_server_error"),
    ("missing_user_code", "mno_server_error"),
    ("invalid_user_code", "mno_server_error"),
    ("expired_login_hint_token", "mno_response_error"),
    ("server_error", "mno_server_error"),
    ("temporarily_unavailable", "mno_timeout"),
    ("invalid_client", "mno_server_error"),
    ("unauthorized_client", "mno_server_error"),
    ("invalid_scope", "mno_server_error"),
    ("invalid_request", "mno_server_error"),
    ("invalid_request_object", "mno_server_error"),
    ("invalid_request_uri", "mno_server_error"),
    ("request_not_supported", "mno_server_error"),
    ("request_uri_not_supported", "mno_server_error"),
    ("registration_not_supported", "mno_server_error"),
    ("unsupported_response_type", "mno_server_error"),
    ("unsupported_grant_type", "mno_server_error"),
    ("invalid_dpop_proof", "mno_server_error"),
    ("insufficient_scope", "mno_server_error"),
    ("invalid_grant", "mno_response_error"),
    ("invalid_token", "mno_response_error"),
];

/// CAMARA codes with their status, and the resulting error code.
pub const CAMARA: &[(u16, &str, &str)] = &[
    (400, "INVALID_ARGUMENT", "mno_response_error"),
    (400, "OUT_OF_RANGE", "mno_response_error"),
    (401, "UNAUTHENTICATED", "mno_response_error"),
    (401, "AUTHENTICATION_REQUIRED", "mno_response_error"),
    (403, "PERMISSION_DENIED", "mno_server_error"),
    (403, "INVALID_TOKEN_CONTEXT", "mno_response_error"),
    (403, "USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK", "not_mobile_ip"),
    (404, "NOT_FOUND", "mno_user_not_found"),
    (404, "IDENTIFIER_NOT_FOUND", "mno_user_not_found"),
    (405, "METHOD_NOT_ALLOWED", "mno_server_error"),
    (406, "NOT_ACCEPTABLE", "mno_server_error"),
    (409, "ABORTED", "mno_response_error"),
    (409, "ALREADY_EXISTS", "mno_response_error"),
    (409, "CONFLICT", "mno_response_error"),
    (409, "INCOMPATIBLE_STATE", "mno_response_error"),
    (410, "GONE", "mno_response_error"),
    (412, "FAILED_PRECONDITION", "mno_response_error"),
    (415, "UNSUPPORTED_MEDIA_TYPE", "mno_server_error"),
    (422, "SERVICE_NOT_APPLICABLE", "mno_not_supported"),
    (422, "MISSING_IDENTIFIER", "mno_response_error"),
    (422, "UNSUPPORTED_IDENTIFIER", "mno_response_error"),
    (422, "UNNECESSARY_IDENTIFIER", "mno_response_error"),
    (429, "QUOTA_EXCEEDED", "mno_server_error"),
    (429, "TOO_MANY_REQUESTS", "mno_server_error"),
    (500, "INTERNAL", "mno_server_error"),
    (501, "NOT_IMPLEMENTED", "mno_server_error"),
    (502, "BAD_GATEWAY", "mno_server_error"),
    (503, "UNAVAILABLE", "mno_timeout"),
    (504, "TIMEOUT", "mno_timeout"),
];

/// HTTP statuses of responses without a known error name, with the resulting error code.
pub const STATUSES: &[(u16, &str)] = &[
    (201, "mno_response_error"),
    (204, "mno_response_error"),
    (302, "mno_response_error"),
    (400, "mno_response_error"),
    (401, "mno_response_error"),
    (403, "mno_server_error"),
    (404, "mno_server_error"),
    (405, "mno_server_error"),
    (406, "mno_server_error"),
    (408, "mno_timeout"),
    (415, "mno_server_error"),
    (418, "mno_response_error"),
    (429, "mno_server_error"),
    (500, "mno_server_error"),
    (502, "mno_server_error"),
    (503, "mno_timeout"),
    (504, "mno_timeout"),
    (599, "mno_server_error"),
    (600, "internal_error"),
];

/// Returns responses that fail in transport, with the client's error and the resulting error code.
pub fn broken_responses() -> Vec<(ClientError, ScriptedResponse, &'static str)> {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec();
    vec![
        (ClientError::Timeout, ScriptedResponse::Silence, "mno_timeout"),
        (
            ClientError::Timeout,
            ScriptedResponse::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()),
            "mno_timeout",
        ),
        (ClientError::Lost, ScriptedResponse::HangUp, "mno_server_error"),
        (ClientError::Protocol, ScriptedResponse::Raw(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()), "mno_response_error"),
        (ClientError::Lost, ScriptedResponse::Raw(chunked), "mno_server_error"),
        (ClientError::TooLarge, Plain(200, "", vec![b' '; 64 * 1_024 + 1]), "mno_response_error"),
        (
            ClientError::TooLarge,
            ScriptedResponse::Raw([&b"HTTP/1.1 200 OK\r\nx: "[..], &[b'x'; 40_000]].concat()),
            "mno_response_error",
        ),
    ]
}

pub fn code(text: &str) -> ErrorCode {
    text.parse().unwrap()
}

/// Checks the error code of both operations if the operator sends this response at this path.
async fn assert_error(
    client: &Arc<Client>,
    path: &'static str,
    response: ScriptedResponse,
    expected: &str,
    case: &str,
) {
    let paths = if path == TOKEN { vec![TOKEN] } else { vec![VERIFY, NUMBER] };
    for path in paths {
        let fixture = Fixture::with_client(client, |_, _| {}).await;
        fixture.operator.respond(path, response.clone());
        let claimed = number();
        let operation =
            if path == NUMBER { SilentOperation::DiscoverNumber } else { SilentOperation::VerifyNumber(&claimed) };
        assert_eq!(fixture.run_check(operation).await, Err(code(expected)), "{case} at {path}");
        let tries = if path == NUMBER { 1..=2 } else { 1..=1 };
        assert!(tries.contains(&fixture.operator.requests_to(path).len()), "{case} at {path}: only a read is repeated");
    }
}

#[test]
fn every_table_row_is_tested() {
    let is_tested = |cause: ErrorCause<'_>| match cause {
        ErrorCause::OAuth(error) => OAUTH.iter().any(|(name, _)| *name == error),
        ErrorCause::Camara(code) => CAMARA.iter().any(|(_, name, _)| *name == code),
        ErrorCause::Status(status) => STATUSES.iter().any(|(case, _)| *case == status),
        ErrorCause::StatusClass(class) => class == 1 || STATUSES.iter().any(|(case, _)| case / 100 == class),
        // Covered by separate tests below.
        ErrorCause::NoResponse(_) | ErrorCause::InvalidResponse(_) | ErrorCause::NoHistory | ErrorCause::Internal => {
            true
        }
    };
    for (position, row) in ERROR_TABLE.iter().enumerate() {
        assert!(is_tested(row.cause), "{:?}", row.cause);
        let is_new = ERROR_TABLE[..position].iter().all(|before| before.cause != row.cause);
        assert!(is_new, "{:?} is listed twice", row.cause);
    }
    let others = [
        ClientError::InvalidUrl,
        ClientError::Unresolved,
        ClientError::Refused,
        ClientError::ConnectTimeout,
        ClientError::Timeout,
        ClientError::Lost,
        ClientError::TooLarge,
        ClientError::Protocol,
    ];
    for error in TlsError::VARIANTS.iter().map(|error| ClientError::Tls(*error)).chain(others) {
        assert!(ERROR_TABLE.iter().any(|row| row.cause == ErrorCause::NoResponse(error)), "{error:?}");
    }
    assert!(ERROR_TABLE.iter().any(|row| row.cause == ErrorCause::InvalidResponse(InvalidResponse::Number)));
}

#[tokio::test]
async fn authorization_response_errors() {
    let client = Arc::new(short_timeout_client());
    for (error, expected) in OAUTH.iter().chain(&[("", "mno_response_error"), ("of_our_own", "mno_response_error")]) {
        let fixture = Fixture::with_client(&client, |_, _| {}).await;
        let operation = SilentOperation::VerifyNumber(&number());
        let redirect = fixture.begin(operation).await.unwrap();
        // A code in an error response is ignored.
        let query = [("state", STATE), ("error", *error), ("error_description", "x"), ("code", "c")];
        assert_eq!(fixture.complete(operation, &redirect, &query).await, Err(code(expected)), "{error}");
        assert!(fixture.operator.requests_to(TOKEN).is_empty());
        assert_eq!(
            fixture.camara.breaker_state(),
            BreakerState::Closed,
            "{error}: device errors do not affect the breaker"
        );
    }
}

#[tokio::test]
async fn token_endpoint_errors() {
    let client = Arc::new(short_timeout_client());
    for (error, expected) in OAUTH {
        let status = if *error == "invalid_client" { 401 } else { 400 };
        assert_error(
            &client,
            TOKEN,
            Json(status, json!({ "error": error, "error_description": "x" })),
            expected,
            error,
        )
        .await;
    }
    // A gateway in front of the token endpoint may send errors in CAMARA's format.
    assert_error(
        &client,
        TOKEN,
        Json(403, json!({ "status": 403, "code": "PERMISSION_DENIED" })),
        "mno_server_error",
        "gateway",
    )
    .await;
}

#[tokio::test]
async fn api_errors() {
    let client = Arc::new(short_timeout_client());
    for (status, name, expected) in CAMARA {
        let body = |code: &str| json!({ "status": status, "code": code, "message": "x" });
        assert_error(&client, VERIFY, Json(*status, body(name)), expected, name).await;
    }
    for (name, expected) in [
        ("NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK", "not_mobile_ip"),
        ("NUMBER_VERIFICATION.SOMETHING_NEW", "mno_server_error"),
    ] {
        assert_error(&client, VERIFY, Json(403, json!({ "status": 403, "code": name })), expected, name).await;
    }
}

#[tokio::test]
async fn statuses_without_a_known_code() {
    let client = Arc::new(short_timeout_client());
    for (status, expected) in STATUSES {
        for path in [TOKEN, VERIFY] {
            let case = status.to_string();
            let headers = "location: http://127.0.0.1:9/\r\n";
            let body = if *status == 204 { vec![] } else { b"<html>no</html>".to_vec() };
            assert_error(&client, path, Plain(*status, headers, body), expected, &case).await;
            if *status != 204 {
                let body = json!({ "error": { "no": "text" }, "code": 17 });
                assert_error(&client, path, Json(*status, body), expected, &case).await;
                assert_error(&client, path, Json(*status, json!({ "error": "?", "code": "?" })), expected, &case).await;
            }
        }
    }
}

#[tokio::test]
async fn unreadable_responses() {
    let client = Arc::new(short_timeout_client());
    for (error, response, expected) in broken_responses() {
        for path in [TOKEN, VERIFY] {
            assert_error(&client, path, response.clone(), expected, &error.to_string()).await;
        }
    }
}

#[tokio::test]
async fn unreachable_operators() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (error, root, expected) in [
        (ClientError::Refused, format!("http://127.0.0.1:{free}"), "mno_server_error"),
        (ClientError::Unresolved, "http://missing.example".to_owned(), "mno_server_error"),
        (ClientError::Unresolved, "http://empty.example".to_owned(), "mno_server_error"),
        (ClientError::ConnectTimeout, "http://silent.example".to_owned(), "mno_timeout"),
        (ClientError::Tls(TlsError::NotTls), "https".to_owned(), "mno_server_error"),
    ] {
        let claimed = number();
        for operation in [SilentOperation::VerifyNumber(&claimed), SilentOperation::DiscoverNumber] {
            let fixture = Fixture::with(|config, operator| {
                let root = if root == "https" { format!("https://127.0.0.1:{}", operator.port) } else { root.clone() };
                config.api_root = Url::parse(&root).unwrap();
            });
            assert_eq!(fixture.await.run_check(operation).await, Err(code(expected)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn invalid_responses() {
    let client = Arc::new(short_timeout_client());
    let token = |change: Value| {
        let mut body = token_response();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Json(200, body)
    };
    for response in [
        Plain(200, "", b"{".to_vec()),
        Plain(200, "", vec![]),
        Plain(200, "", b"\xff".to_vec()),
        Json(200, json!([token_response()])),
        Json(200, json!("text")),
        token(json!({ "access_token": null })),
        token(json!({ "access_token": 1 })),
        token(json!({ "access_token": "" })),
        token(json!({ "access_token": "a b" })),
        token(json!({ "access_token": "a\r\nx: y" })),
        token(json!({ "access_token": "ü" })),
        token(json!({ "token_type": null })),
        token(json!({ "token_type": "DPoP" })),
        token(json!({ "id_token": 1 })),
        token(json!({ "id_token": "not.a.token" })),
        token(json!({ "id_token": "" })),
    ] {
        assert_error(&client, TOKEN, response, "mno_response_error", "token").await;
    }
    let bodies = ["", "{", "[]", "true", "null", "{}", "\u{feff}{}", r#"{"devicePhoneNumber":null}"#];
    for body in bodies {
        assert_error(&client, VERIFY, Plain(200, "", body.into()), "mno_response_error", body).await;
    }
    for value in [json!("true"), json!(1), json!(null), json!([true])] {
        let fixture = Fixture::with_client(&client, |_, _| {}).await;
        fixture.operator.respond(VERIFY, Json(200, json!({ "devicePhoneNumberVerified": value })));
        assert_eq!(fixture.verify().await, Err(ErrorCode::MnoResponseError), "{value}");
    }
    for value in
        ["447700900123", "+44 7700 900123", "+0123456789", "+990123456", "", "+4477009001234567", "tel:+447700900123"]
    {
        let fixture = Fixture::with_client(&client, |_, _| {}).await;
        fixture.operator.respond(NUMBER, Json(200, json!({ "devicePhoneNumber": value })));
        assert_eq!(
            fixture.run_check(SilentOperation::DiscoverNumber).await,
            Err(ErrorCode::MnoResponseError),
            "{value}"
        );
    }
}

#[tokio::test]
async fn token_type_is_case_insensitive() {
    for name in ["bearer", "BEARER"] {
        let fixture = Fixture::start().await;
        fixture.operator.respond(TOKEN, Json(200, json!({ "access_token": "t", "token_type": name })));
        assert_eq!(fixture.verify().await, Ok(SilentResult::Match(true)));
    }
}

#[tokio::test]
async fn malformed_authorization_responses_are_rejected() {
    let client = Arc::new(short_timeout_client());
    let long = "c".repeat(4_097);
    let operation = SilentOperation::VerifyNumber(&number());
    let bad: &[&[(&str, &str)]] = &[
        &[],
        &[("state", STATE)],
        &[("code", "")],
        &[("code", &long)],
        &[("code", "c\r\n")],
        &[("code", "ü")],
        &[("code", "c"), ("code", "c")],
        &[("error", "login_required"), ("error", "login_required")],
        &[("code", "c"), ("iss", "https://other.example")],
        &[("error", "login_required"), ("iss", "https://other.example")],
        &[("code", "c"), ("iss", "")],
    ];
    for query in bad {
        let fixture = Fixture::with_client(&client, |_, _| {}).await;
        let redirect = fixture.begin(operation).await.unwrap();
        assert_eq!(fixture.complete(operation, &redirect, query).await, Err(ErrorCode::MnoResponseError), "{query:?}");
        assert!(fixture.operator.requests_to(TOKEN).is_empty());
        assert_eq!(fixture.camara.breaker_state(), BreakerState::Closed);
    }
    let fixture = Fixture::with_client(&client, |_, _| {}).await;
    let mut redirect = fixture.begin(operation).await.unwrap();
    redirect.connector_data.pop();
    assert_eq!(fixture.complete(operation, &redirect, &[("code", "c")]).await, Err(ErrorCode::InternalError));
}

#[tokio::test]
async fn iss_parameter_is_required_if_supported() {
    for (is_announced, supports_iss_parameter, is_accepted) in
        [(true, true, true), (true, false, false), (false, true, true), (false, false, true)]
    {
        let fixture = Fixture::with(|config, operator| {
            let endpoints = ringtrue_operators::camara::Endpoints {
                issuer: operator.issuer(),
                authorization: Some(operator.url("/authorize")),
                token: operator.url(TOKEN),
                backchannel: None,
                jwks: None,
                supports_iss_parameter: is_announced,
            };
            config.provider = Provider::Endpoints(Box::new(endpoints));
            config.scopes.openid = false;
        });
        let fixture = fixture.await;
        let operation = SilentOperation::VerifyNumber(&number());
        let redirect = fixture.begin(operation).await.unwrap();
        let issuer = fixture.operator.issuer();
        let query = if supports_iss_parameter { vec![("code", "c"), ("iss", &*issuer)] } else { vec![("code", "c")] };
        let reply = fixture.complete(operation, &redirect, &query).await;
        assert_eq!(reply.is_ok(), is_accepted, "{is_announced} {supports_iss_parameter}");
    }
}
