use std::sync::Arc;

use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{Question, Reply};
use ringtrue_operators::{
    camara::{BreakerState, Nonsense, Provider, Symptom, TABLE},
    client::{Client, ClientError},
};
use serde_json::{Value, json};
use url::Url;

use super::{
    operator::{NUMBER, Saying, TOKEN, VERIFY, granted},
    world::{TICKET, World, impatient, number},
};

/// Every error of OAuth and OpenID Connect, and what a check ends with.
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

/// Every code of CAMARA that an interface may have, with its status.
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

/// Statuses that come alone, or with a word that nobody knows.
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

/// Answers that have no status, and what a check ends with.
pub fn broken() -> Vec<(ClientError, Saying, &'static str)> {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec();
    vec![
        (ClientError::Timeout, Saying::Silence, "mno_timeout"),
        (
            ClientError::Timeout,
            Saying::Octets(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()),
            "mno_timeout",
        ),
        (ClientError::Lost, Saying::HangUp, "mno_server_error"),
        (ClientError::Protocol, Saying::Octets(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()), "mno_response_error"),
        (ClientError::Lost, Saying::Octets(chunked), "mno_server_error"),
        (ClientError::TooLarge, Saying::Plain(200, "", vec![b' '; 64 * 1_024 + 1]), "mno_response_error"),
        (
            ClientError::TooLarge,
            Saying::Octets([&b"HTTP/1.1 200 OK\r\nx: "[..], &[b'x'; 40_000]].concat()),
            "mno_response_error",
        ),
    ]
}

pub fn code(text: &str) -> ErrorCode {
    text.parse().unwrap()
}

/// Asks both questions of an operator that says this at this place.
async fn ends(client: &Arc<Client>, place: &'static str, saying: Saying, expected: &str, case: &str) {
    let places = if place == TOKEN { vec![TOKEN] } else { vec![VERIFY, NUMBER] };
    for place in places {
        let world = World::of(client, |_, _| {}).await;
        world.operator.says(place, saying.clone());
        let claimed = number();
        let question = if place == NUMBER { Question::WhichNumber } else { Question::IsNumber(&claimed) };
        assert_eq!(world.ask(question).await, Err(code(expected)), "{case} at {place}");
        let tries = if place == NUMBER { 1..=2 } else { 1..=1 };
        assert!(tries.contains(&world.operator.asked(place).len()), "{case} at {place}: only a read is repeated");
    }
}

#[test]
fn every_row_of_the_table_has_its_case() {
    let is_tested = |symptom: Symptom<'_>| match symptom {
        Symptom::OAuth(error) => OAUTH.iter().any(|(name, _)| *name == error),
        Symptom::Camara(code) => CAMARA.iter().any(|(_, name, _)| *name == code),
        Symptom::Status(status) => STATUSES.iter().any(|(case, _)| *case == status),
        Symptom::StatusClass(class) => class == 1 || STATUSES.iter().any(|(case, _)| case / 100 == class),
        // Those of addresses and of sense are below, one by one.
        Symptom::NoAnswer(_) | Symptom::Nonsense(_) | Symptom::NoHistory | Symptom::Ours => true,
    };
    for (position, row) in TABLE.iter().enumerate() {
        assert!(is_tested(row.symptom), "{:?}", row.symptom);
        let is_new = TABLE[..position].iter().all(|before| before.symptom != row.symptom);
        assert!(is_new, "{:?} is there twice", row.symptom);
    }
    for error in ClientError::ALL {
        assert!(TABLE.iter().any(|row| row.symptom == Symptom::NoAnswer(error)), "{error:?}");
    }
    assert!(TABLE.iter().any(|row| row.symptom == Symptom::Nonsense(Nonsense::Number)));
}

#[tokio::test]
async fn errors_that_a_device_brings() {
    let client = Arc::new(impatient());
    for (error, expected) in OAUTH.iter().chain(&[("", "mno_response_error"), ("of_our_own", "mno_response_error")]) {
        let world = World::of(&client, |_, _| {}).await;
        let question = Question::IsNumber(&number());
        let journey = world.depart(question).await.unwrap();
        // A code beside an error is nothing to go by.
        let query = [("state", TICKET), ("error", *error), ("error_description", "x"), ("code", "c")];
        assert_eq!(world.arrive(question, &journey, &query).await, Err(code(expected)), "{error}");
        assert!(world.operator.asked(TOKEN).is_empty());
        assert_eq!(world.camara.state(), BreakerState::Closed, "{error}: what a device brings is hearsay");
    }
}

#[tokio::test]
async fn errors_of_the_token_endpoint() {
    let client = Arc::new(impatient());
    for (error, expected) in OAUTH {
        let status = if *error == "invalid_client" { 401 } else { 400 };
        ends(
            &client,
            TOKEN,
            Saying::Json(status, json!({ "error": error, "error_description": "x" })),
            expected,
            error,
        )
        .await;
    }
    // Gateways before it speak CAMARA.
    ends(
        &client,
        TOKEN,
        Saying::Json(403, json!({ "status": 403, "code": "PERMISSION_DENIED" })),
        "mno_server_error",
        "gateway",
    )
    .await;
}

#[tokio::test]
async fn errors_of_the_interface() {
    let client = Arc::new(impatient());
    for (status, name, expected) in CAMARA {
        let body = |code: &str| json!({ "status": status, "code": code, "message": "x" });
        ends(&client, VERIFY, Saying::Json(*status, body(name)), expected, name).await;
    }
    for (name, expected) in [
        ("NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK", "not_mobile_ip"),
        ("NUMBER_VERIFICATION.SOMETHING_NEW", "mno_server_error"),
    ] {
        ends(&client, VERIFY, Saying::Json(403, json!({ "status": 403, "code": name })), expected, name).await;
    }
}

#[tokio::test]
async fn statuses_without_a_known_word() {
    let client = Arc::new(impatient());
    for (status, expected) in STATUSES {
        for place in [TOKEN, VERIFY] {
            let case = status.to_string();
            let headers = "location: http://127.0.0.1:9/\r\n";
            let body = if *status == 204 { vec![] } else { b"<html>no</html>".to_vec() };
            ends(&client, place, Saying::Plain(*status, headers, body), expected, &case).await;
            if *status != 204 {
                let body = json!({ "error": { "no": "text" }, "code": 17 });
                ends(&client, place, Saying::Json(*status, body), expected, &case).await;
                ends(&client, place, Saying::Json(*status, json!({ "error": "?", "code": "?" })), expected, &case)
                    .await;
            }
        }
    }
}

#[tokio::test]
async fn answers_that_cannot_be_read() {
    let client = Arc::new(impatient());
    for (error, saying, expected) in broken() {
        for place in [TOKEN, VERIFY] {
            ends(&client, place, saying.clone(), expected, error.as_str()).await;
        }
    }
}

#[tokio::test]
async fn operators_that_cannot_be_reached() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (error, root, expected) in [
        (ClientError::Refused, format!("http://127.0.0.1:{free}"), "mno_server_error"),
        (ClientError::Unresolved, "http://nobody.example".to_owned(), "mno_server_error"),
        (ClientError::Unresolved, "http://nowhere.example".to_owned(), "mno_server_error"),
        (ClientError::ConnectTimeout, "http://silent.example".to_owned(), "mno_timeout"),
        (ClientError::Tls, "https".to_owned(), "mno_server_error"),
    ] {
        let claimed = number();
        for question in [Question::IsNumber(&claimed), Question::WhichNumber] {
            let world = World::with(|config, operator| {
                let root = if root == "https" { format!("https://127.0.0.1:{}", operator.port) } else { root.clone() };
                config.api_root = Url::parse(&root).unwrap();
            });
            assert_eq!(world.await.ask(question).await, Err(code(expected)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn answers_that_make_no_sense() {
    let client = Arc::new(impatient());
    let token = |change: Value| {
        let mut body = granted();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Saying::Json(200, body)
    };
    for saying in [
        Saying::Plain(200, "", b"{".to_vec()),
        Saying::Plain(200, "", vec![]),
        Saying::Plain(200, "", b"\xff".to_vec()),
        Saying::Json(200, json!([granted()])),
        Saying::Json(200, json!("text")),
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
        ends(&client, TOKEN, saying, "mno_response_error", "token").await;
    }
    let bodies = ["", "{", "[]", "true", "null", "{}", "\u{feff}{}", r#"{"devicePhoneNumber":null}"#];
    for body in bodies {
        ends(&client, VERIFY, Saying::Plain(200, "", body.into()), "mno_response_error", body).await;
    }
    for value in [json!("true"), json!(1), json!(null), json!([true])] {
        let world = World::of(&client, |_, _| {}).await;
        world.operator.says(VERIFY, Saying::Json(200, json!({ "devicePhoneNumberVerified": value })));
        assert_eq!(world.verify().await, Err(ErrorCode::MnoResponseError), "{value}");
    }
    for value in
        ["447700900123", "+44 7700 900123", "+0123456789", "+990123456", "", "+4477009001234567", "tel:+447700900123"]
    {
        let world = World::of(&client, |_, _| {}).await;
        world.operator.says(NUMBER, Saying::Json(200, json!({ "devicePhoneNumber": value })));
        assert_eq!(world.ask(Question::WhichNumber).await, Err(ErrorCode::MnoResponseError), "{value}");
    }
}

#[tokio::test]
async fn bearer_is_bearer_in_any_case() {
    for name in ["bearer", "BEARER"] {
        let world = World::start().await;
        world.operator.says(TOKEN, Saying::Json(200, json!({ "access_token": "t", "token_type": name })));
        assert_eq!(world.verify().await, Ok(Reply::Match(true)));
    }
}

#[tokio::test]
async fn a_device_that_brings_too_much_or_too_little() {
    let client = Arc::new(impatient());
    let long = "c".repeat(4_097);
    let question = Question::IsNumber(&number());
    let bad: &[&[(&str, &str)]] = &[
        &[],
        &[("state", TICKET)],
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
        let world = World::of(&client, |_, _| {}).await;
        let journey = world.depart(question).await.unwrap();
        assert_eq!(world.arrive(question, &journey, query).await, Err(ErrorCode::MnoResponseError), "{query:?}");
        assert!(world.operator.asked(TOKEN).is_empty());
        assert_eq!(world.camara.state(), BreakerState::Closed);
    }
    let world = World::of(&client, |_, _| {}).await;
    let mut journey = world.depart(question).await.unwrap();
    journey.memory.pop();
    assert_eq!(world.arrive(question, &journey, &[("code", "c")]).await, Err(ErrorCode::InternalError));
}

#[tokio::test]
async fn a_server_that_names_itself_does_so_always() {
    for (says_that_it_does, names_itself, is_believed) in
        [(true, true, true), (true, false, false), (false, true, true), (false, false, true)]
    {
        let world = World::with(|config, operator| {
            let endpoints = ringtrue_operators::camara::Endpoints {
                issuer: operator.issuer(),
                authorization: Some(operator.url("/authorize")),
                token: operator.url(TOKEN),
                backchannel: None,
                keys: None,
                names_itself: says_that_it_does,
            };
            config.provider = Provider::Endpoints(Box::new(endpoints));
            config.scopes.openid = false;
        });
        let world = world.await;
        let question = Question::IsNumber(&number());
        let journey = world.depart(question).await.unwrap();
        let issuer = world.operator.issuer();
        let query = if names_itself { vec![("code", "c"), ("iss", &*issuer)] } else { vec![("code", "c")] };
        let reply = world.arrive(question, &journey, &query).await;
        assert_eq!(reply.is_ok(), is_believed, "{says_that_it_does} {names_itself}");
    }
}
