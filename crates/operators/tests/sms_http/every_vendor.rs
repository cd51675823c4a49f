//! Behaviour common to all vendors.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use proptest::prelude::*;
use ringtrue_domain::reverse_sms::SmsSender;
use ringtrue_operators::sms_http::{
    Bird, FieldMap, Generic, Infobip, Jasmin, Kannel, MessageBird, Plivo, Sinch, Telnyx, Twilio, Vonage, WebhookDriver,
    WebhookOutcome, WebhookResponse,
};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::{
    fixture::{PHONE, RECEIVER, TestRequest, TestSms, WebhookFixture, number, restricted},
    vendors::{SECRET, SignedPart, VENDORS, Vendor, WRONG_SECRET},
};

fn fixture(vendor: &Vendor) -> WebhookFixture {
    WebhookFixture::new((vendor.config)(SECRET))
}

fn acknowledgement(vendor: &Vendor) -> WebhookResponse {
    let (status, content_type, body) = vendor.acknowledgement;
    WebhookResponse { status, content_type, body }
}

fn is_signed(vendor: &Vendor) -> bool {
    vendor.signed_part != SignedPart::Nothing
}

#[tokio::test]
async fn message_text_is_preserved() {
    for vendor in VENDORS {
        for text in ["VERIFY 4F7K2Q9X0Z", "Ověř 4F7K ✓ 😀", "a&b=c+d %41 _\"\\\r\n", " spaced  out "] {
            let fixture = fixture(vendor);
            let reply = fixture.send(&(vendor.build)(&TestSms { text, ..TestSms::DEFAULT })).await;
            assert_eq!(reply, acknowledgement(vendor), "{}", vendor.name);
            let received = fixture.inbox.received.lock().clone();
            assert_eq!(received.len(), 1, "{}", vendor.name);
            assert_eq!(received[0].text, text, "{}", vendor.name);
            assert_eq!(received[0].from, SmsSender::Number(number(PHONE)), "{}", vendor.name);
            assert_eq!(received[0].to, number(RECEIVER), "{}", vendor.name);
            assert_eq!(&*received[0].connector, "door", "{}", vendor.name);
            assert_eq!(received[0].received_at.as_second(), fixture.now(), "{}", vendor.name);
            assert_eq!(fixture.count(WebhookOutcome::Accepted), 1, "{}", vendor.name);
        }
    }
}

#[tokio::test]
async fn sender_without_a_number_is_unattributed() {
    for vendor in VENDORS {
        for from in ["VODAFONE", "60999", "07700900001", "anonymous", ""] {
            let fixture = fixture(vendor);
            let reply = fixture.send(&(vendor.build)(&TestSms { from, ..TestSms::DEFAULT })).await;
            assert_eq!(reply, acknowledgement(vendor), "{}", vendor.name);
            assert_eq!(fixture.senders(), [SmsSender::Unattributed], "{} {from}", vendor.name);
        }
    }
}

#[tokio::test]
async fn missing_sender_is_unattributed() {
    let generic = |from: &str| {
        let [from, to, text] = [from, "to", "text"].map(str::to_owned);
        WebhookDriver::Generic(Generic { fields: FieldMap { from, to, text, id: None }, signature: None })
    };
    let twilio = || WebhookDriver::Twilio(Twilio { auth_token: None });
    let vonage = || WebhookDriver::Vonage(Vonage { signature: None });
    let telnyx = |from: Option<Value>| {
        let mut payload = json!({"id": "1", "text": "VERIFY", "to": [{"phone_number": RECEIVER}]});
        if let Some(from) = from {
            payload["from"] = from;
        }
        TestRequest::json(&json!({"data": {"event_type": "message.received", "payload": payload}}))
    };
    let bird = || WebhookDriver::Bird(Bird { secret: None, channels: BTreeMap::new() });
    let unsigned_telnyx = || WebhookDriver::Telnyx(Telnyx { public_key: None });
    let infobip = json!({"results": [{"messageId": "1", "from": null, "to": RECEIVER, "text": "VERIFY"}]});
    let requests = [
        (twilio(), TestRequest::form(&[("MessageSid", "1"), ("To", RECEIVER), ("Body", "VERIFY")])),
        (twilio(), TestRequest::json(&json!({"MessageSid": "1", "From": null, "To": RECEIVER, "Body": "VERIFY"}))),
        (vonage(), TestRequest::form(&[("messageId", "1"), ("to", RECEIVER), ("type", "text"), ("text", "VERIFY")])),
        (
            vonage(),
            TestRequest::json(&json!({"message_uuid": "1", "channel": "sms", "to": RECEIVER, "text": "VERIFY"})),
        ),
        (unsigned_telnyx(), telnyx(None)),
        (unsigned_telnyx(), telnyx(Some(json!(null)))),
        (unsigned_telnyx(), telnyx(Some(json!({"phone_number": null})))),
        (
            WebhookDriver::Sinch(Sinch { secret: None }),
            TestRequest::json(&json!({"type": "mo_text", "id": "1", "to": RECEIVER, "body": "VERIFY"})),
        ),
        (WebhookDriver::Infobip(Infobip), TestRequest::json(&infobip)),
        (
            WebhookDriver::Plivo(Plivo { signature: None }),
            TestRequest::form(&[("MessageUUID", "1"), ("To", RECEIVER), ("Text", "VERIFY")]),
        ),
        (
            bird(),
            TestRequest::json(&json!({"event": "sms.inbound", "payload": {"id": "1", "sender": {},
            "receiver": {"connector": {"identifierValue": RECEIVER}}, "body": {"text": {"text": "VERIFY"}}}})),
        ),
        (
            WebhookDriver::MessageBird(MessageBird { secret: None }),
            TestRequest::form(&[("id", "1"), ("recipient", RECEIVER), ("body", "VERIFY")]),
        ),
        (WebhookDriver::Kannel(Kannel), TestRequest::get(&[("to", RECEIVER), ("text", "VERIFY"), ("id", "1")])),
        (WebhookDriver::Kannel(Kannel), TestRequest::post("text/plain", "VERIFY").with("X-Kannel-To", RECEIVER)),
        (WebhookDriver::Jasmin(Jasmin), TestRequest::form(&[("id", "1"), ("to", RECEIVER), ("content", "VERIFY")])),
        (generic("from"), TestRequest::form(&[("to", RECEIVER), ("text", "VERIFY")])),
        (generic("/from/number"), TestRequest::json(&json!({"from": {}, "to": RECEIVER, "text": "VERIFY"}))),
    ];
    for (driver, request) in requests {
        let name = driver.into_str();
        let fixture = WebhookFixture::new(restricted(driver));
        assert_eq!(fixture.send(&request.with_path_secret()).await.status, StatusCode::OK, "{name}");
        assert_eq!(
            (fixture.senders(), fixture.texts()),
            (vec![SmsSender::Unattributed], vec!["VERIFY".to_owned()]),
            "{name}"
        );
    }
}

#[tokio::test]
async fn message_to_another_number_is_acknowledged_and_counted() {
    for vendor in VENDORS {
        for to in ["447700900998", "SHOP", "60999"] {
            let fixture = fixture(vendor);
            let reply = fixture.send(&(vendor.build)(&TestSms { to, ..TestSms::DEFAULT })).await;
            assert_eq!(reply, acknowledgement(vendor), "{}", vendor.name);
            assert!(fixture.texts().is_empty(), "{}", vendor.name);
            assert_eq!(fixture.count(WebhookOutcome::UnknownReceiver), 1, "{}", vendor.name);
        }
    }
}

#[tokio::test]
async fn failed_message_is_accepted_again_and_stored_message_is_deduplicated() {
    for vendor in VENDORS {
        let fixture = fixture(vendor);
        let request = (vendor.build)(&TestSms::DEFAULT);
        fixture.set_store_down(true);
        for _ in 0..2 {
            assert_eq!(fixture.send(&request).await.status, StatusCode::SERVICE_UNAVAILABLE, "{}", vendor.name);
        }
        fixture.set_store_down(false);
        for _ in 0..3 {
            assert_eq!(fixture.send(&request).await, acknowledgement(vendor), "{}", vendor.name);
        }
        assert_eq!(fixture.texts().len(), 1, "{}", vendor.name);
        let counts = [WebhookOutcome::StoreUnavailable, WebhookOutcome::Accepted, WebhookOutcome::Duplicate]
            .map(|outcome| fixture.count(outcome));
        assert_eq!(counts, [2, 1, 2], "{}", vendor.name);
    }
}

#[tokio::test]
async fn resigned_message_is_deduplicated() {
    for vendor in VENDORS.iter().filter(|vendor| vendor.has_timestamp) {
        let fixture = fixture(vendor);
        fixture.send(&(vendor.build)(&TestSms::DEFAULT)).await;
        fixture.advance(120);
        let again = fixture.send(&(vendor.build)(&TestSms { at: fixture.now(), ..TestSms::DEFAULT })).await;
        assert_eq!(again, acknowledgement(vendor), "{}", vendor.name);
        assert_eq!((fixture.texts().len(), fixture.count(WebhookOutcome::Duplicate)), (1, 1), "{}", vendor.name);
    }
}

#[tokio::test]
async fn wrong_secret_is_rejected() {
    for vendor in VENDORS.iter().filter(|vendor| is_signed(vendor)) {
        let fixture = WebhookFixture::new((vendor.config)(WRONG_SECRET));
        let reply = fixture.send(&(vendor.build)(&TestSms::DEFAULT)).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", vendor.name);
        assert_eq!(fixture.count(WebhookOutcome::InvalidSignature), 1, "{}", vendor.name);
        assert!(fixture.texts().is_empty(), "{}", vendor.name);
    }
}

/// Returns variants of a request with one flipped bit, at every position that the signature covers.
fn modified(vendor: &Vendor, request: &TestRequest) -> Vec<TestRequest> {
    let mut modified = vec![];
    for index in 0..request.headers.len() {
        for at in 0..request.headers[index].1.len() {
            let mut request = request.clone();
            let (name, value) = &mut request.headers[index];
            let mut octets = std::mem::take(value).into_bytes();
            octets[at] ^= 1;
            *value = String::from_utf8(octets).unwrap();
            if *name != "content-type" {
                modified.push(request);
            }
        }
    }
    if vendor.signed_part == SignedPart::Body {
        for at in 0..request.body.len() {
            let mut request = request.clone();
            request.body[at] ^= 1;
            modified.push(request);
        }
    }
    if vendor.signed_part == SignedPart::Query {
        let query = request.path_and_query.find('?').unwrap() + 1;
        for at in query..request.path_and_query.len() {
            let mut request = request.clone();
            let mut octets = request.path_and_query.into_bytes();
            octets[at] ^= 1;
            request.path_and_query = String::from_utf8(octets).unwrap();
            modified.push(request);
        }
    }
    modified
}

#[tokio::test]
async fn flipped_bit_in_signed_data_is_rejected() {
    for vendor in VENDORS.iter().filter(|vendor| is_signed(vendor)) {
        let request = (vendor.build)(&TestSms::DEFAULT);
        let fixture = fixture(vendor);
        for modified in modified(vendor, &request) {
            assert_eq!(fixture.send(&modified).await.status, StatusCode::FORBIDDEN, "{} {modified:?}", vendor.name);
        }
        assert!(fixture.texts().is_empty(), "{}", vendor.name);
        assert_eq!(fixture.send(&request).await, acknowledgement(vendor), "{}", vendor.name);
    }
}

#[tokio::test]
async fn missing_or_repeated_signature_header_is_rejected() {
    for vendor in VENDORS.iter().filter(|vendor| is_signed(vendor)) {
        let request = (vendor.build)(&TestSms::DEFAULT);
        let signing = request.headers.iter().filter(|(name, _)| *name != "content-type");
        for (name, value) in signing {
            let mut without = request.clone();
            without.headers.retain(|(known, _)| known != name);
            let doubled = request.clone().with(name, value);
            for request in [without, doubled] {
                let fixture = fixture(vendor);
                assert_eq!(fixture.send(&request).await.status, StatusCode::FORBIDDEN, "{} {name}", vendor.name);
                assert!(fixture.texts().is_empty(), "{} {name}", vendor.name);
            }
        }
    }
}

#[tokio::test]
async fn clock_skew_up_to_five_minutes_is_accepted() {
    for vendor in VENDORS.iter().filter(|vendor| vendor.has_timestamp) {
        for (late, is_fresh) in [(299, true), (300, true), (301, false), (-300, true), (-301, false)] {
            let fixture = fixture(vendor);
            fixture.advance(late);
            let reply = fixture.send(&(vendor.build)(&TestSms::DEFAULT)).await;
            let expected = if is_fresh { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(reply.status, expected, "{} {late}", vendor.name);
            assert_eq!(fixture.texts().len(), usize::from(is_fresh), "{} {late}", vendor.name);
            assert_eq!(fixture.count(WebhookOutcome::Stale), u64::from(!is_fresh), "{} {late}", vendor.name);
        }
    }
}

#[tokio::test]
async fn oversized_and_malformed_requests_are_rejected() {
    let huge = "x".repeat(64 * 1024 + 1);
    for vendor in VENDORS {
        let good = (vendor.build)(&TestSms::DEFAULT);
        let long = (vendor.build)(&TestSms { text: &huge, ..TestSms::DEFAULT });
        let garbage = TestRequest { body: b"\xFF\x00{]&=%".to_vec(), ..good.clone() };
        let patched = TestRequest { method: http::Method::PATCH, ..good.clone() };
        for (case, request) in [("long", long), ("garbage", garbage), ("patched", patched)] {
            if case == "garbage" && (good.body.is_empty() || vendor.name == "kannel by POST") {
                continue;
            }
            let fixture = fixture(vendor);
            let reply = fixture.send(&request).await;
            assert!(fixture.texts().is_empty(), "{} {case}", vendor.name);
            if vendor.acknowledges_malformed {
                assert_eq!(reply, acknowledgement(vendor), "{} {case}", vendor.name);
                assert_eq!(fixture.count(WebhookOutcome::Malformed), 1, "{} {case}", vendor.name);
            } else {
                let refusals = [StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN];
                assert!(refusals.contains(&reply.status), "{} {case}", vendor.name);
            }
        }
    }
}

#[tokio::test]
async fn unknown_source_address_is_rejected() {
    for vendor in VENDORS {
        let mut config = (vendor.config)(SECRET);
        config.allowed_addresses = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        for (peer, is_known) in [
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("2001:db8::1", true),
            ("192.0.3.7", false),
            ("2001:db9::1", false),
        ] {
            let fixture = WebhookFixture::new(config.clone());
            let request = TestRequest { peer: peer.parse().unwrap(), ..(vendor.build)(&TestSms::DEFAULT) };
            let expected = if is_known { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(fixture.send(&request).await.status, expected, "{} {peer}", vendor.name);
            assert_eq!(fixture.count(WebhookOutcome::UntrustedSource), u64::from(!is_known), "{} {peer}", vendor.name);
            assert_eq!(fixture.texts().len(), usize::from(is_known), "{} {peer}", vendor.name);
        }
    }
}

#[tokio::test]
async fn wrong_path_secret_is_rejected() {
    for vendor in VENDORS.iter().filter(|vendor| (vendor.config)(SECRET).path_secret.is_some()) {
        let good = (vendor.build)(&TestSms::DEFAULT);
        for path in [good.path_and_query.replace("Zm9v", "Zm9w"), good.path_and_query.replace("/Zm9v", "?Zm9v")] {
            let fixture = fixture(vendor);
            let reply = fixture.send(&TestRequest { path_and_query: path, ..good.clone() }).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", vendor.name);
            assert_eq!(
                (fixture.count(WebhookOutcome::UntrustedSource), fixture.texts().len()),
                (1, 0),
                "{}",
                vendor.name
            );
        }
    }
}

fn arbitrary_request() -> impl Strategy<Value = (Vec<u8>, String, String, usize)> {
    let json = r#"\{("[a-zA-Z_/]{1,12}":("[^"\\]{0,20}"|[0-9]{1,9}|null|\[\]|\{\}),?){0,6}\}?"#;
    let form = "([A-Za-z-]{1,12}=[ -~]{0,20}&?){0,8}";
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        json.prop_map(String::into_bytes),
        form.prop_map(String::into_bytes),
    ];
    (body, "[ -~]{0,80}", "[!-~]{0,60}", 0..4_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_requests_do_not_panic_and_are_rejected((body, query, value, kind) in arbitrary_request()) {
        let runtime = Builder::new_current_thread().build().unwrap();
        for vendor in VENDORS {
            let fixture = WebhookFixture::new((vendor.config)(SECRET));
            let mut request = (vendor.build)(&TestSms::DEFAULT);
            request.body.clone_from(&body);
            let path = request.path_and_query.split('?').next().unwrap().to_owned();
            request.path_and_query = format!("{path}?{query}");
            request.method = if kind % 2 == 0 { Method::POST } else { Method::GET };
            if kind / 2 == 0 {
                for (_, header) in request.headers.iter_mut().skip(1) {
                    header.clone_from(&value);
                }
            }
            let reply = runtime.block_on(fixture.send(&request));
            prop_assert!(reply.status.as_u16() < 500);
            let is_signed = !matches!(vendor.signed_part, SignedPart::Nothing | SignedPart::UrlOnly);
            prop_assert!(!is_signed || fixture.texts().is_empty(), "{}", vendor.name);
        }
    }
}
