//! Vendor-specific behaviour.

use http::{Method, StatusCode};
use ringtrue_domain::reverse_sms::SmsSender;
use ringtrue_engine::ports::connectors::{ConnectorState, MessageCounts};
use ringtrue_operators::sms_http::{
    Jasmin, Kannel, Plivo, SigMethod, Telnyx, WebhookConfig, WebhookDriver, WebhookOutcome,
};
use serde_json::json;

use crate::{
    fixture::{NOON, PHONE, RECEIVER, TestRequest, TestSms, WebhookFixture, number, restricted},
    vendors::{
        SECRET, as_str_pairs, bird_payload, bird_signed, by_name, sinch_signed, vonage, vonage_bearer, vonage_messages,
        vonage_signed,
    },
};

#[tokio::test]
async fn nonce_is_accepted_once() {
    let vendor = by_name("plivo 2");
    let fixture = WebhookFixture::new((vendor.config)(SECRET));
    let seen = (vendor.build)(&TestSms::DEFAULT);
    assert_eq!(fixture.report().state, ConnectorState::Idle);
    assert_eq!(fixture.send(&seen).await.status, StatusCode::OK);
    let report = fixture.report();
    assert_eq!((report.state, report.counts), (ConnectorState::Up, Some(MessageCounts { accepted: 1, rejected: 0 })));
    let forged = TestRequest {
        body: (vendor.build)(&TestSms { id: "2", from: "447700900002", ..TestSms::DEFAULT }).body,
        ..seen
    };
    assert_eq!(fixture.send(&forged).await.status, StatusCode::FORBIDDEN);
    assert_eq!((fixture.count(WebhookOutcome::Replayed), fixture.texts().len()), (1, 1));
    let report = fixture.report();
    assert_eq!(report.counts, Some(MessageCounts { accepted: 1, rejected: 1 }));
    assert_eq!(report.health.last_error.unwrap().message, "nonce reused by a different request");
}

#[tokio::test]
async fn nonce_of_a_failed_request_is_accepted_again() {
    let vendor = by_name("plivo 2");
    let fixture = WebhookFixture::new((vendor.config)(SECRET));
    fixture.set_store_down(true);
    let request = (vendor.build)(&TestSms::DEFAULT);
    assert_eq!(fixture.send(&request).await.status, StatusCode::SERVICE_UNAVAILABLE);
    fixture.set_store_down(false);
    assert_eq!(fixture.send(&request).await.status, StatusCode::OK);
    assert_eq!(fixture.texts().len(), 1);
}

#[tokio::test]
async fn infobip_batch_is_stored_completely_or_resent() {
    let fixture = WebhookFixture::new((by_name("infobip").config)(SECRET));
    let message = |id: &str, to: &str| json!({"messageId": id, "from": PHONE, "to": to, "text": id});
    let batch = |messages: &[serde_json::Value]| TestRequest::json(&json!({"results": messages})).with_path_secret();
    let [a, b, c] = [message("a", RECEIVER), message("b", "447700900998"), message("c", RECEIVER)];

    assert_eq!(fixture.send(&batch(std::slice::from_ref(&a))).await.status, StatusCode::OK);
    fixture.set_store_down(true);
    let whole = batch(&[a, b, c]);
    assert_eq!(fixture.send(&whole).await.status, StatusCode::SERVICE_UNAVAILABLE);
    fixture.set_store_down(false);
    assert_eq!(fixture.send(&whole).await.status, StatusCode::OK);
    assert_eq!(fixture.texts(), ["a", "c"]);
    assert_eq!(fixture.send(&batch(&[])).await.status, StatusCode::OK);
    let half_broken = batch(&[message("d", RECEIVER), json!({"messageId": "e"})]);
    assert_eq!(
        fixture.send(&half_broken).await.status,
        StatusCode::OK,
        "a malformed message does not block the others"
    );
    assert_eq!(fixture.texts().len(), 3);
    let broken = batch(&[json!({"messageId": "e"})]);
    assert_eq!(fixture.send(&broken).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn vonage_token_does_not_cover_the_query() {
    let fixture = WebhookFixture::new(vonage_messages(SECRET));
    let good = vonage_bearer(&TestSms::DEFAULT);
    let query = format!("{}?type=text&msisdn={PHONE}&to={RECEIVER}&messageId=x&text=forged", good.path_and_query);
    let forged = TestRequest { method: Method::GET, path_and_query: query, ..good };
    assert_eq!(fixture.send(&forged).await.status, StatusCode::FORBIDDEN);
    assert_eq!(fixture.texts().len(), 0);
}

#[tokio::test]
async fn status_reports_are_acknowledged_and_ignored() {
    let at = NOON.to_string();
    let receipt = [("msisdn", PHONE), ("to", "Acme"), ("messageId", "1"), ("status", "delivered"), ("timestamp", &at)];
    let receipt = vonage_signed(SigMethod::HmacSha256, &receipt);
    let report = json!({"type": "delivery_report_sms", "batch_id": "1", "statuses": []});
    let telnyx = |event: &str, direction: &str| {
        let payload = json!({
            "id": "1", "direction": direction, "text": "VERIFY", "from": {"phone_number": format!("+{PHONE}")},
            "to": [{"phone_number": format!("+{RECEIVER}")}],
        });
        let request = TestRequest::json(&json!({"data": {"event_type": event, "payload": payload}}));
        (restricted(WebhookDriver::Telnyx(Telnyx { public_key: None })), request.with_path_secret())
    };
    let mut bird = bird_payload(&TestSms::DEFAULT, &json!({"identifierValue": format!("+{RECEIVER}")}));
    bird["payload"]["direction"] = json!("outgoing");
    let plivo = [("From", PHONE), ("To", RECEIVER), ("Status", "delivered"), ("MessageUUID", "1"), ("Units", "1")];
    let plivo = TestRequest::form(&plivo).with_path_secret();
    for (config, request) in [
        telnyx("message.sent", "outbound"),
        telnyx("message.finalized", "outbound"),
        telnyx("message.received", "outbound"),
        ((by_name("bird").config)(SECRET), bird_signed(&bird, NOON)),
        (restricted(WebhookDriver::Plivo(Plivo { signature: None })), plivo),
        (vonage(SigMethod::HmacSha256, SECRET), TestRequest::form(&as_str_pairs(&receipt))),
        ((by_name("sinch").config)(SECRET), sinch_signed(&report, "n", NOON)),
    ] {
        let fixture = WebhookFixture::new(config);
        assert_eq!(fixture.send(&request).await.status, StatusCode::OK);
        assert_eq!((fixture.count(WebhookOutcome::Ignored), fixture.texts().len()), (1, 0));
    }
}

/// In a group chat, our number may be any of the recipients.
#[tokio::test]
async fn telnyx_group_message_matches_any_recipient() {
    let parties: Vec<_> =
        ["+12015550123", "60999", "+447700900999", "+12015550124"].map(|number| json!({"phone_number": number})).into();
    let payload = json!({"id": "1", "text": "VERIFY", "from": {"phone_number": format!("+{PHONE}")}, "to": parties});
    let request = TestRequest::json(&json!({"data": {"event_type": "message.received", "payload": payload}}));
    let fixture = WebhookFixture::new(restricted(WebhookDriver::Telnyx(Telnyx { public_key: None })));
    for _ in 0..2 {
        assert_eq!(fixture.send(&request.clone().with_path_secret()).await.status, StatusCode::OK);
    }
    assert_eq!(
        (
            fixture.texts().len(),
            fixture.count(WebhookOutcome::UnknownReceiver),
            fixture.count(WebhookOutcome::Duplicate)
        ),
        (1, 6, 1)
    );
}

#[tokio::test]
async fn malformed_telnyx_recipient_does_not_block_the_others() {
    let good = json!({"phone_number": format!("+{RECEIVER}"), "status": "webhook_delivered"});
    let malformed = [
        json!(null),
        json!("+447700900999"),
        json!({}),
        json!({"phone_number": null}),
        json!({"phone_number": 7}),
        json!([]),
    ];
    let send = async |to: serde_json::Value| {
        let payload = json!({"id": "1", "direction": "inbound", "text": "VERIFY", "from": "unreadable", "to": to});
        let request = TestRequest::json(&json!({"data": {"event_type": "message.received", "payload": payload}}));
        let fixture = WebhookFixture::new(restricted(WebhookDriver::Telnyx(Telnyx { public_key: None })));
        let response = fixture.send(&request.with_path_secret()).await;
        (response.status, fixture.texts().len(), fixture.senders())
    };
    let stored = (StatusCode::OK, 1, vec![SmsSender::Unattributed]);
    for entry in &malformed {
        assert_eq!(send(json!([entry, good])).await, stored, "{entry}");
        assert_eq!(send(json!([good, entry])).await, stored, "{entry}");
    }
    for nobody in [json!([]), json!(malformed), json!(null), json!({})] {
        assert_eq!(send(nobody.clone()).await, (StatusCode::BAD_REQUEST, 0, vec![]), "{nobody}");
    }
}

#[tokio::test]
async fn national_numbers_are_accepted_from_gateways() {
    for driver in [WebhookDriver::Kannel(Kannel), WebhookDriver::Jasmin(Jasmin)] {
        let vendor = by_name(driver.into_str());
        let fixture = WebhookFixture::new(WebhookConfig { country: "GB".parse().ok(), ..restricted(driver) });
        for (at, from) in ["07700900001", "+447700900001", "00447700900001", "07700 900001"].into_iter().enumerate() {
            let id = at.to_string();
            fixture.send(&(vendor.build)(&TestSms { id: &id, from, ..TestSms::DEFAULT })).await;
        }
        assert_eq!(fixture.senders(), vec![SmsSender::Number(number(PHONE)); 4], "{}", vendor.name);
    }
}

#[tokio::test]
async fn jasmin_coding_is_respected() {
    for (coding, binary, text) in [
        ("0", "564552494659201B65", "VERIFY €"),
        ("8", "00560045005220ac", "VER€"),
        ("3", "56e9", "Vé"),
        ("", "56c3a9", "Vé"),
    ] {
        for method in [Method::GET, Method::POST] {
            let fixture = WebhookFixture::new(restricted(WebhookDriver::Jasmin(Jasmin)));
            let fields = [
                ("id", "1"),
                ("from", PHONE),
                ("to", RECEIVER),
                ("coding", coding),
                ("content", "?"),
                ("binary", binary),
            ];
            let request = if method == Method::GET { TestRequest::get(&fields) } else { TestRequest::form(&fields) };
            assert_eq!(fixture.send(&request.with_path_secret()).await.body, "ACK/Jasmin", "{coding}");
            assert_eq!(fixture.texts(), [text], "{coding}");
        }
    }
}

#[tokio::test]
async fn message_without_id_is_not_deduplicated() {
    let fixture = WebhookFixture::new(restricted(WebhookDriver::Kannel(Kannel)));
    let request = TestRequest::get(&[("from", PHONE), ("to", RECEIVER), ("text", "hello")]).with_path_secret();
    for _ in 0..2 {
        assert_eq!(fixture.send(&request).await.status, StatusCode::OK);
    }
    assert_eq!(fixture.texts(), ["hello", "hello"]);
}
