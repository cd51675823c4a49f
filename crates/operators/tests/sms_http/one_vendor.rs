//! What one vendor does and the others do not.

use http::{Method, StatusCode};
use ringtrue_domain::reverse_sms::Sender;
use ringtrue_engine::ports::{Condition, Counts};
use ringtrue_operators::sms_http::{Driver, Jasmin, Kannel, Outcome, SigMethod, Telnyx, WebhookConfig};
use serde_json::json;

use crate::{
    vendors::{SECRET, by_name, sinch_signed},
    vonage::{borrowed, vonage, vonage_bearer, vonage_messages, vonage_signed},
    world::{Call, Door, Letter, NOON, PHONE, RECEIVER, fenced, number},
};

#[tokio::test]
async fn a_nonce_is_good_for_one_request() {
    let vendor = by_name("plivo 2");
    let door = Door::new((vendor.config)(SECRET));
    let seen = (vendor.write)(&Letter::PLAIN);
    assert_eq!(door.report().condition, Condition::Waiting);
    assert_eq!(door.call(&seen).await.status, StatusCode::OK);
    let report = door.report();
    assert_eq!((report.condition, report.counts), (Condition::Up, Some(Counts { taken: 1, refused: 0 })));
    let forged = Call { body: (vendor.write)(&Letter { id: "2", from: "447700900002", ..Letter::PLAIN }).body, ..seen };
    assert_eq!(door.call(&forged).await.status, StatusCode::FORBIDDEN);
    assert_eq!((door.count(Outcome::Replayed), door.texts().len()), (1, 1));
    let report = door.report();
    assert_eq!(report.counts, Some(Counts { taken: 1, refused: 1 }));
    assert_eq!(report.signs.mishap.unwrap().what, "a call repeated the nonce of another one");
}

#[tokio::test]
async fn a_nonce_whose_request_failed_is_still_good() {
    let vendor = by_name("plivo 2");
    let door = Door::new((vendor.config)(SECRET));
    door.break_store(true);
    let call = (vendor.write)(&Letter::PLAIN);
    assert_eq!(door.call(&call).await.status, StatusCode::SERVICE_UNAVAILABLE);
    door.break_store(false);
    assert_eq!(door.call(&call).await.status, StatusCode::OK);
    assert_eq!(door.texts().len(), 1);
}

#[tokio::test]
async fn infobip_batches_are_stored_whole_or_come_again() {
    let door = Door::new((by_name("infobip").config)(SECRET));
    let message = |id: &str, to: &str| json!({"messageId": id, "from": PHONE, "to": to, "text": id});
    let batch = |messages: &[serde_json::Value]| Call::json(&json!({"results": messages})).with_path_secret();
    let [a, b, c] = [message("a", RECEIVER), message("b", "447700900998"), message("c", RECEIVER)];

    assert_eq!(door.call(&batch(std::slice::from_ref(&a))).await.status, StatusCode::OK);
    door.break_store(true);
    let whole = batch(&[a, b, c]);
    assert_eq!(door.call(&whole).await.status, StatusCode::SERVICE_UNAVAILABLE);
    door.break_store(false);
    assert_eq!(door.call(&whole).await.status, StatusCode::OK);
    assert_eq!(door.texts(), ["a", "c"]);
    assert_eq!(door.call(&batch(&[])).await.status, StatusCode::OK);
    let half_broken = batch(&[message("d", RECEIVER), json!({"messageId": "e"})]);
    assert_eq!(door.call(&half_broken).await.status, StatusCode::OK, "one that is broken keeps nobody out");
    assert_eq!(door.texts().len(), 3);
    let broken = batch(&[json!({"messageId": "e"})]);
    assert_eq!(door.call(&broken).await.status, StatusCode::BAD_REQUEST);
}

/// The token covers the body: a message beside it is anybody's.
#[tokio::test]
async fn a_vonage_token_vouches_for_nothing_in_the_query() {
    let door = Door::new(vonage_messages(SECRET));
    let good = vonage_bearer(&Letter::PLAIN);
    let query = format!("{}?type=text&msisdn={PHONE}&to={RECEIVER}&messageId=x&text=forged", good.path_and_query);
    let forged = Call { method: Method::GET, path_and_query: query, ..good };
    assert_eq!(door.call(&forged).await.status, StatusCode::FORBIDDEN);
    assert_eq!(door.texts().len(), 0);
}

#[tokio::test]
async fn what_is_no_sms_is_acknowledged_and_ignored() {
    let at = NOON.to_string();
    let receipt = [("msisdn", PHONE), ("to", "Acme"), ("messageId", "1"), ("status", "delivered"), ("timestamp", &at)];
    let receipt = vonage_signed(SigMethod::HmacSha256, &receipt);
    let report = json!({"type": "delivery_report_sms", "batch_id": "1", "statuses": []});
    for (config, call) in [
        (vonage(SigMethod::HmacSha256, SECRET), Call::form(&borrowed(&receipt))),
        ((by_name("sinch").config)(SECRET), sinch_signed(&report, "n", NOON)),
    ] {
        let door = Door::new(config);
        assert_eq!(door.call(&call).await.status, StatusCode::OK);
        assert_eq!((door.count(Outcome::Ignored), door.texts().len()), (1, 0));
    }
}

/// A group chat: our number may be any of those that it went to.
#[tokio::test]
async fn telnyx_names_our_number_anywhere() {
    let parties: Vec<_> =
        ["+12015550123", "60999", "+447700900999", "+12015550124"].map(|number| json!({"phone_number": number})).into();
    let payload = json!({"id": "1", "text": "VERIFY", "from": {"phone_number": format!("+{PHONE}")}, "to": parties});
    let call = Call::json(&json!({"data": {"event_type": "message.received", "payload": payload}}));
    let door = Door::new(fenced(Driver::Telnyx(Telnyx { public_key: None })));
    for _ in 0..2 {
        assert_eq!(door.call(&call.clone().with_path_secret()).await.status, StatusCode::OK);
    }
    assert_eq!((door.texts().len(), door.count(Outcome::UnknownReceiver), door.count(Outcome::Duplicate)), (1, 6, 1));
}

#[tokio::test]
async fn gateways_write_national_numbers_too() {
    for driver in [Driver::Kannel(Kannel), Driver::Jasmin(Jasmin)] {
        let vendor = by_name(driver.as_str());
        let door = Door::new(WebhookConfig { country: "GB".parse().ok(), ..fenced(driver) });
        for (at, from) in ["07700900001", "+447700900001", "00447700900001", "07700 900001"].into_iter().enumerate() {
            let id = at.to_string();
            door.call(&(vendor.write)(&Letter { id: &id, from, ..Letter::PLAIN })).await;
        }
        assert_eq!(door.senders(), vec![Sender::Number(number(PHONE)); 4], "{}", vendor.name);
    }
}

#[tokio::test]
async fn jasmin_says_how_its_octets_are_to_be_read() {
    for (coding, binary, text) in [
        ("0", "564552494659201B65", "VERIFY €"),
        ("8", "00560045005220ac", "VER€"),
        ("3", "56e9", "Vé"),
        ("", "56c3a9", "Vé"),
    ] {
        for method in [Method::GET, Method::POST] {
            let door = Door::new(fenced(Driver::Jasmin(Jasmin)));
            let fields = [
                ("id", "1"),
                ("from", PHONE),
                ("to", RECEIVER),
                ("coding", coding),
                ("content", "?"),
                ("binary", binary),
            ];
            let call = if method == Method::GET { Call::get(&fields) } else { Call::form(&fields) };
            assert_eq!(door.call(&call.with_path_secret()).await.body, "ACK/Jasmin", "{coding}");
            assert_eq!(door.texts(), [text], "{coding}");
        }
    }
}

#[tokio::test]
async fn a_message_without_an_id_is_left_to_the_inbox() {
    let door = Door::new(fenced(Driver::Kannel(Kannel)));
    let call = Call::get(&[("from", PHONE), ("to", RECEIVER), ("text", "hello")]).with_path_secret();
    for _ in 0..2 {
        assert_eq!(door.call(&call).await.status, StatusCode::OK);
    }
    assert_eq!(door.texts(), ["hello", "hello"]);
}
