use serde_json::json;

use crate::{SECRET, directory, wire::http};

#[tokio::test]
async fn a_number_has_a_network_and_a_phone_that_is_on_or_off() {
    let directory = directory(|_| {}).await;
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
    for (written, told) in [
        ("%2B447700900123", known("+447700900123", "present", ("234", "30"), None)),
        ("+447700900123", known("+447700900123", "present", ("234", "30"), None)),
        ("447700900123", known("+447700900123", "present", ("234", "30"), None)),
        ("%2B447700900124", known("+447700900124", "present", ("234", "10"), Some("23430"))),
        ("%2B447700900125", known("+447700900125", "absent", ("310", "012"), None)),
        ("%2B447700900126", unknown("+447700900126")),
        ("%2B447700900127", unknown("+447700900127")),
    ] {
        let answer = http(&directory, &format!("GET /hlr?number={written}"), Some(&format!("Bearer {SECRET}"))).await;
        assert_eq!((answer.status, answer.json()), (200, told), "{written}");
        assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
    }
    assert_eq!(directory.counts().lookups, 7);
}

#[tokio::test]
async fn who_does_not_bring_the_secret_is_told_nothing() {
    let directory = directory(|_| {}).await;
    let number = "GET /hlr?number=447700900123";
    for given in [None, Some("Bearer another"), Some("Bearer"), Some(SECRET), Some("Basic a secret & more")] {
        let answer = http(&directory, number, given).await;
        assert_eq!(answer.status, 401, "{given:?}");
        assert!(answer.head.contains("www-authenticate: bearer") && !answer.body.contains("234"), "{answer:?}");
    }
    let counts = directory.counts();
    assert_eq!((counts.lookups, counts.without_secret), (5, 5));
}

#[tokio::test]
async fn a_directory_may_have_no_secret() {
    let directory = directory(|config| config.secret = None).await;
    assert_eq!(http(&directory, "GET /hlr?number=447700900123", None).await.status, 200);
}

#[tokio::test]
async fn what_is_not_asked_as_it_should_be_is_refused() {
    let directory = directory(|config| config.secret = None).await;
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
        assert_eq!(http(&directory, line, None).await.status, status, "{line}");
    }
}
