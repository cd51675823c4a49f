//! What holds for every vendor.

use std::collections::BTreeMap;

use http::StatusCode;
use ringtrue_domain::reverse_sms::Sender;
use ringtrue_operators::sms_http::{
    Bird, Driver, FieldMap, Generic, Infobip, Jasmin, Kannel, MessageBird, Outcome, Plivo, Reply, Sinch, Telnyx,
    Twilio, Vonage,
};
use serde_json::{Value, json};

use crate::{
    vendors::{Covers, OTHER, SECRET, VENDORS, Vendor},
    world::{Call, Door, Letter, PHONE, RECEIVER, fenced, number},
};

fn door(vendor: &Vendor) -> Door {
    Door::new((vendor.config)(SECRET))
}

fn acknowledgement(vendor: &Vendor) -> Reply {
    let (status, content_type, body) = vendor.acknowledgement;
    Reply { status, content_type, body }
}

fn is_signed(vendor: &Vendor) -> bool {
    vendor.covers != Covers::Nothing
}

#[tokio::test]
async fn a_message_arrives_as_it_was_written() {
    for vendor in VENDORS {
        for text in ["VERIFY 4F7K2Q9X0Z", "Ověř 4F7K ✓ 😀", "a&b=c+d %41 _\"\\\r\n", " spaced  out "] {
            let door = door(vendor);
            let reply = door.call(&(vendor.write)(&Letter { text, ..Letter::PLAIN })).await;
            assert_eq!(reply, acknowledgement(vendor), "{}", vendor.name);
            let received = door.inbox.received.lock().unwrap().clone();
            assert_eq!(received.len(), 1, "{}", vendor.name);
            assert_eq!(received[0].text, text, "{}", vendor.name);
            assert_eq!(received[0].from, Sender::Number(number(PHONE)), "{}", vendor.name);
            assert_eq!(received[0].to, number(RECEIVER), "{}", vendor.name);
            assert_eq!(&*received[0].connector, "door", "{}", vendor.name);
            assert_eq!(received[0].received_at.as_second(), door.now(), "{}", vendor.name);
            assert_eq!(door.count(Outcome::Accepted), 1, "{}", vendor.name);
        }
    }
}

#[tokio::test]
async fn a_sender_that_is_no_number_is_unattributed() {
    for vendor in VENDORS {
        for from in ["VODAFONE", "60999", "07700900001", "anonymous", ""] {
            let door = door(vendor);
            let reply = door.call(&(vendor.write)(&Letter { from, ..Letter::PLAIN })).await;
            assert_eq!(reply, acknowledgement(vendor), "{}", vendor.name);
            assert_eq!(door.senders(), [Sender::Unattributed], "{} {from}", vendor.name);
        }
    }
}

#[tokio::test]
async fn a_sender_that_is_left_out_is_unattributed() {
    let generic = |from: &str| {
        let [from, to, text] = [from, "to", "text"].map(str::to_owned);
        Driver::Generic(Generic { fields: FieldMap { from, to, text, id: None }, signature: None })
    };
    let twilio = || Driver::Twilio(Twilio { auth_token: None });
    let vonage = || Driver::Vonage(Vonage { signature: None });
    let telnyx = |from: Option<Value>| {
        let mut payload = json!({"id": "1", "text": "VERIFY", "to": [{"phone_number": RECEIVER}]});
        if let Some(from) = from {
            payload["from"] = from;
        }
        Call::json(&json!({"data": {"event_type": "message.received", "payload": payload}}))
    };
    let bird = || Driver::Bird(Bird { secret: None, channels: BTreeMap::new() });
    let unsigned_telnyx = || Driver::Telnyx(Telnyx { public_key: None });
    let infobip = json!({"results": [{"messageId": "1", "from": null, "to": RECEIVER, "text": "VERIFY"}]});
    let calls = [
        (twilio(), Call::form(&[("MessageSid", "1"), ("To", RECEIVER), ("Body", "VERIFY")])),
        (twilio(), Call::json(&json!({"MessageSid": "1", "From": null, "To": RECEIVER, "Body": "VERIFY"}))),
        (vonage(), Call::form(&[("messageId", "1"), ("to", RECEIVER), ("type", "text"), ("text", "VERIFY")])),
        (vonage(), Call::json(&json!({"message_uuid": "1", "channel": "sms", "to": RECEIVER, "text": "VERIFY"}))),
        (unsigned_telnyx(), telnyx(None)),
        (unsigned_telnyx(), telnyx(Some(json!(null)))),
        (unsigned_telnyx(), telnyx(Some(json!({"phone_number": null})))),
        (
            Driver::Sinch(Sinch { secret: None }),
            Call::json(&json!({"type": "mo_text", "id": "1", "to": RECEIVER, "body": "VERIFY"})),
        ),
        (Driver::Infobip(Infobip), Call::json(&infobip)),
        (
            Driver::Plivo(Plivo { signature: None }),
            Call::form(&[("MessageUUID", "1"), ("To", RECEIVER), ("Text", "VERIFY")]),
        ),
        (
            bird(),
            Call::json(&json!({"event": "sms.inbound", "payload": {"id": "1", "sender": {},
            "receiver": {"connector": {"identifierValue": RECEIVER}}, "body": {"text": {"text": "VERIFY"}}}})),
        ),
        (
            Driver::MessageBird(MessageBird { secret: None }),
            Call::form(&[("id", "1"), ("recipient", RECEIVER), ("body", "VERIFY")]),
        ),
        (Driver::Kannel(Kannel), Call::get(&[("to", RECEIVER), ("text", "VERIFY"), ("id", "1")])),
        (Driver::Kannel(Kannel), Call::post("text/plain", "VERIFY").with("X-Kannel-To", RECEIVER)),
        (Driver::Jasmin(Jasmin), Call::form(&[("id", "1"), ("to", RECEIVER), ("content", "VERIFY")])),
        (generic("from"), Call::form(&[("to", RECEIVER), ("text", "VERIFY")])),
        (generic("/from/number"), Call::json(&json!({"from": {}, "to": RECEIVER, "text": "VERIFY"}))),
    ];
    for (driver, call) in calls {
        let name = driver.as_str();
        let door = Door::new(fenced(driver));
        assert_eq!(door.call(&call.with_path_secret()).await.status, StatusCode::OK, "{name}");
        assert_eq!((door.senders(), door.texts()), (vec![Sender::Unattributed], vec!["VERIFY".to_owned()]), "{name}");
    }
}

#[tokio::test]
async fn a_message_for_somebody_else_is_acknowledged_and_counted() {
    for vendor in VENDORS {
        for to in ["447700900998", "SHOP", "60999"] {
            let door = door(vendor);
            let reply = door.call(&(vendor.write)(&Letter { to, ..Letter::PLAIN })).await;
            assert_eq!(reply, acknowledgement(vendor), "{}", vendor.name);
            assert!(door.texts().is_empty(), "{}", vendor.name);
            assert_eq!(door.count(Outcome::UnknownReceiver), 1, "{}", vendor.name);
        }
    }
}

#[tokio::test]
async fn what_was_not_stored_is_welcome_again_and_what_was_has_no_second_effect() {
    for vendor in VENDORS {
        let door = door(vendor);
        let call = (vendor.write)(&Letter::PLAIN);
        door.break_store(true);
        for _ in 0..2 {
            assert_eq!(door.call(&call).await.status, StatusCode::SERVICE_UNAVAILABLE, "{}", vendor.name);
        }
        door.break_store(false);
        for _ in 0..3 {
            assert_eq!(door.call(&call).await, acknowledgement(vendor), "{}", vendor.name);
        }
        assert_eq!(door.texts().len(), 1, "{}", vendor.name);
        let counts = [Outcome::StoreDown, Outcome::Accepted, Outcome::Duplicate].map(|outcome| door.count(outcome));
        assert_eq!(counts, [2, 1, 2], "{}", vendor.name);
    }
}

#[tokio::test]
async fn a_message_that_is_signed_anew_is_still_the_same_message() {
    for vendor in VENDORS.iter().filter(|vendor| vendor.has_timestamp) {
        let door = door(vendor);
        door.call(&(vendor.write)(&Letter::PLAIN)).await;
        door.pass(120);
        let again = door.call(&(vendor.write)(&Letter { at: door.now(), ..Letter::PLAIN })).await;
        assert_eq!(again, acknowledgement(vendor), "{}", vendor.name);
        assert_eq!((door.texts().len(), door.count(Outcome::Duplicate)), (1, 1), "{}", vendor.name);
    }
}

#[tokio::test]
async fn another_secret_signs_nothing() {
    for vendor in VENDORS.iter().filter(|vendor| is_signed(vendor)) {
        let door = Door::new((vendor.config)(OTHER));
        let reply = door.call(&(vendor.write)(&Letter::PLAIN)).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", vendor.name);
        assert_eq!(door.count(Outcome::Forged), 1, "{}", vendor.name);
        assert!(door.texts().is_empty(), "{}", vendor.name);
    }
}

/// The call with one bit of one octet turned, in every place that the signature covers.
fn bent(vendor: &Vendor, call: &Call) -> Vec<Call> {
    let mut bent = vec![];
    for place in 0..call.headers.len() {
        for at in 0..call.headers[place].1.len() {
            let mut call = call.clone();
            let (name, value) = &mut call.headers[place];
            let mut octets = std::mem::take(value).into_bytes();
            octets[at] ^= 1;
            *value = String::from_utf8(octets).unwrap();
            if *name != "content-type" {
                bent.push(call);
            }
        }
    }
    if vendor.covers == Covers::Body {
        for at in 0..call.body.len() {
            let mut call = call.clone();
            call.body[at] ^= 1;
            bent.push(call);
        }
    }
    if vendor.covers == Covers::Query {
        let query = call.path_and_query.find('?').unwrap() + 1;
        for at in query..call.path_and_query.len() {
            let mut call = call.clone();
            let mut octets = call.path_and_query.into_bytes();
            octets[at] ^= 1;
            call.path_and_query = String::from_utf8(octets).unwrap();
            bent.push(call);
        }
    }
    bent
}

#[tokio::test]
async fn one_turned_bit_in_what_is_signed_spoils_the_signature() {
    for vendor in VENDORS.iter().filter(|vendor| is_signed(vendor)) {
        let call = (vendor.write)(&Letter::PLAIN);
        let door = door(vendor);
        for bent in bent(vendor, &call) {
            assert_eq!(door.call(&bent).await.status, StatusCode::FORBIDDEN, "{} {bent:?}", vendor.name);
        }
        assert!(door.texts().is_empty(), "{}", vendor.name);
        assert_eq!(door.call(&call).await, acknowledgement(vendor), "{}", vendor.name);
    }
}

#[tokio::test]
async fn a_missing_or_doubled_header_spoils_the_signature() {
    for vendor in VENDORS.iter().filter(|vendor| is_signed(vendor)) {
        let call = (vendor.write)(&Letter::PLAIN);
        let signing = call.headers.iter().filter(|(name, _)| *name != "content-type");
        for (name, value) in signing {
            let mut without = call.clone();
            without.headers.retain(|(known, _)| known != name);
            let doubled = call.clone().with(name, value);
            for call in [without, doubled] {
                let door = door(vendor);
                assert_eq!(door.call(&call).await.status, StatusCode::FORBIDDEN, "{} {name}", vendor.name);
                assert!(door.texts().is_empty(), "{} {name}", vendor.name);
            }
        }
    }
}

#[tokio::test]
async fn clocks_may_differ_by_five_minutes() {
    for vendor in VENDORS.iter().filter(|vendor| vendor.has_timestamp) {
        for (late, is_fresh) in [(299, true), (300, true), (301, false), (-300, true), (-301, false)] {
            let door = door(vendor);
            door.pass(late);
            let reply = door.call(&(vendor.write)(&Letter::PLAIN)).await;
            let expected = if is_fresh { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(reply.status, expected, "{} {late}", vendor.name);
            assert_eq!(door.texts().len(), usize::from(is_fresh), "{} {late}", vendor.name);
            assert_eq!(door.count(Outcome::Stale), u64::from(!is_fresh), "{} {late}", vendor.name);
        }
    }
}

#[tokio::test]
async fn too_much_and_nonsense_are_turned_away() {
    let huge = "x".repeat(64 * 1024 + 1);
    for vendor in VENDORS {
        let good = (vendor.write)(&Letter::PLAIN);
        let long = (vendor.write)(&Letter { text: &huge, ..Letter::PLAIN });
        let garbage = Call { body: b"\xFF\x00{]&=%".to_vec(), ..good.clone() };
        let patched = Call { method: http::Method::PATCH, ..good.clone() };
        for (what, call) in [("long", long), ("garbage", garbage), ("patched", patched)] {
            if what == "garbage" && (good.body.is_empty() || vendor.name == "kannel by POST") {
                continue;
            }
            let door = door(vendor);
            let reply = door.call(&call).await;
            assert!(door.texts().is_empty(), "{} {what}", vendor.name);
            if vendor.forgives {
                assert_eq!(reply, acknowledgement(vendor), "{} {what}", vendor.name);
                assert_eq!(door.count(Outcome::Unreadable), 1, "{} {what}", vendor.name);
            } else {
                let refusals = [StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN];
                assert!(refusals.contains(&reply.status), "{} {what}", vendor.name);
            }
        }
    }
}

#[tokio::test]
async fn who_calls_from_elsewhere_is_a_stranger() {
    for vendor in VENDORS {
        let mut config = (vendor.config)(SECRET);
        config.allowed = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        for (peer, is_known) in [
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("2001:db8::1", true),
            ("192.0.3.7", false),
            ("2001:db9::1", false),
        ] {
            let door = Door::new(config.clone());
            let call = Call { peer: peer.parse().unwrap(), ..(vendor.write)(&Letter::PLAIN) };
            let expected = if is_known { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(door.call(&call).await.status, expected, "{} {peer}", vendor.name);
            assert_eq!(door.count(Outcome::Stranger), u64::from(!is_known), "{} {peer}", vendor.name);
            assert_eq!(door.texts().len(), usize::from(is_known), "{} {peer}", vendor.name);
        }
    }
}

#[tokio::test]
async fn a_wrong_path_secret_is_a_stranger() {
    for vendor in VENDORS.iter().filter(|vendor| (vendor.config)(SECRET).path_secret.is_some()) {
        let good = (vendor.write)(&Letter::PLAIN);
        for path in [good.path_and_query.replace("Zm9v", "Zm9w"), good.path_and_query.replace("/Zm9v", "?Zm9v")] {
            let door = door(vendor);
            let reply = door.call(&Call { path_and_query: path, ..good.clone() }).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", vendor.name);
            assert_eq!((door.count(Outcome::Stranger), door.texts().len()), (1, 0), "{}", vendor.name);
        }
    }
}
