use serde_json::json;

use crate::{SECRET, clients::hlr_request, start_directory};

#[tokio::test]
async fn lookup_returns_network_and_phone_state() {
    let directory = start_directory(|_| {}).await;
    let known = |number: &str, status: &str, (mcc, mnc): (&str, &str), from: Option<&str>| {
        json!({
            "number": number, "status": status, "mcc": mcc, "mnc": mnc, "ported": from.is_some(), "ported_from": from,
        })
    };
    let unknown = |number: &str| {
        json!({
            "number": number, "status": "unknown", "mcc": null, "mnc": null, "ported": false, "ported_from": null,
        })
    };
    for (parameter, expected) in [
        ("%2B447700900123", known("+447700900123", "present", ("234", "30"), None)),
        ("+447700900123", known("+447700900123", "present", ("234", "30"), None)),
        ("447700900123", known("+447700900123", "present", ("234", "30"), None)),
        ("%2B447700900124", known("+447700900124", "present", ("234", "10"), Some("23430"))),
        ("%2B447700900125", known("+447700900125", "absent", ("310", "012"), None)),
        ("%2B447700900126", unknown("+447700900126")),
        ("%2B447700900127", unknown("+447700900127")),
    ] {
        let response =
            hlr_request(&directory, &format!("GET /hlr?number={parameter}"), Some(&format!("Bearer {SECRET}"))).await;
        assert_eq!((response.status, response.json()), (200, expected), "{parameter}");
        assert!(response.head.contains("content-type: application/json"), "{response:?}");
    }
    assert_eq!(directory.counts().hlr_requests, 7);
}

#[tokio::test]
async fn missing_or_wrong_secret_is_rejected() {
    let directory = start_directory(|_| {}).await;
    let number = "GET /hlr?number=447700900123";
    for given in [None, Some("Bearer another"), Some("Bearer"), Some(SECRET), Some("Basic a secret & more")] {
        let response = hlr_request(&directory, number, given).await;
        assert_eq!(response.status, 401, "{given:?}");
        assert!(response.head.contains("www-authenticate: bearer") && !response.body.contains("234"), "{response:?}");
    }
    let counts = directory.counts();
    assert_eq!((counts.hlr_requests, counts.unauthorized), (5, 5));
}

#[tokio::test]
async fn secret_is_optional() {
    let directory = start_directory(|config| config.hlr_secret = None).await;
    assert_eq!(hlr_request(&directory, "GET /hlr?number=447700900123", None).await.status, 200);
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let directory = start_directory(|config| config.hlr_secret = None).await;
    for (line, status) in [
        ("GET /hlr", 400),
        ("GET /hlr?msisdn=447700900123", 400),
        ("GET /hlr?number=", 400),
        ("GET /hlr?number=0447700900123", 400),
        ("GET /hlr?number=447700900123&number=447700900124", 400),
        ("GET /hlr?number=%2B%2B447700900123", 400),
        ("GET /?number=447700900123", 404),
        ("POST /hlr?number=447700900123", 405),
    ] {
        assert_eq!(hlr_request(&directory, line, None).await.status, status, "{line}");
    }
}
