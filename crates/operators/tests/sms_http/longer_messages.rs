//! Messages whose parts come one by one.

use http::StatusCode;
use ringtrue_operators::sms_http::{Outcome, SigMethod};
use serde_json::json;

use crate::{
    vendors::{SECRET, by_name, sinch_signed},
    vonage::{borrowed, vonage, vonage_signed},
    world::{Call, Door, NOON, PHONE, RECEIVER},
};

const METHOD: SigMethod = SigMethod::HmacSha256;

fn part(number: u8, text: &str, at: i64) -> Call {
    let (number, at) = (number.to_string(), at.to_string());
    let id = format!("id-{number}");
    let fields = vonage_signed(
        METHOD,
        &[
            ("msisdn", PHONE),
            ("to", RECEIVER),
            ("messageId", &id),
            ("text", text),
            ("type", "text"),
            ("concat", "true"),
            ("concat-ref", "77"),
            ("concat-total", "3"),
            ("concat-part", &number),
            ("timestamp", &at),
            ("nonce", &format!("{id}-{at}")),
        ],
    );
    Call::form(&borrowed(&fields))
}

async fn statuses(door: &Door, calls: &[Call]) -> Vec<u16> {
    let mut statuses = vec![];
    for call in calls {
        statuses.push(door.call(call).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn parts_are_acknowledged_when_their_message_is_safe() {
    let door = Door::new(vonage(METHOD, SECRET));
    let parts = [part(2, "4F7K2", NOON), part(1, "VERIFY ", NOON), part(3, "Q9X0Z", NOON)];
    assert_eq!(statuses(&door, &parts).await, [503, 503, 200]);
    assert_eq!(door.texts(), ["VERIFY 4F7K2Q9X0Z"]);
    let names: Vec<_> = door.inbox.glimpsed.lock().unwrap().iter().map(|seen| seen.connector.to_string()).collect();
    assert_eq!(names, ["door"]);
    // Vonage brings the first ones again.
    assert_eq!(statuses(&door, &parts).await, [200, 200, 200]);
    assert_eq!(door.texts().len(), 1);
    assert_eq!(door.count(Outcome::PartHeld), 2);
}

#[tokio::test]
async fn a_crash_loses_no_part() {
    let parts = [part(1, "VERIFY ", NOON), part(2, "4F7K2", NOON), part(3, "Q9X0Z", NOON)];
    let before = Door::new(vonage(METHOD, SECRET));
    assert_eq!(statuses(&before, &parts[..2]).await, [503, 503]);
    let after = Door::new(vonage(METHOD, SECRET));
    assert_eq!(statuses(&after, &[parts[2].clone(), parts[0].clone(), parts[1].clone()]).await, [503, 503, 200]);
    assert_eq!(after.texts(), ["VERIFY 4F7K2Q9X0Z"]);
}

#[tokio::test]
async fn a_message_that_could_not_be_stored_is_put_together_again() {
    let door = Door::new(vonage(METHOD, SECRET));
    let parts = [part(1, "VERIFY ", NOON), part(2, "4F7K2", NOON), part(3, "Q9X0Z", NOON)];
    door.break_store(true);
    assert_eq!(statuses(&door, &parts).await, [503, 503, 503]);
    door.break_store(false);
    assert_eq!(statuses(&door, &parts).await, [503, 503, 200]);
    assert_eq!(door.texts().len(), 1);
}

#[tokio::test]
async fn a_part_whose_others_never_come_is_given_up() {
    let door = Door::new(vonage(METHOD, SECRET));
    for (pause, status) in [(0, 503), (300, 503), (599, 503), (1, 200), (3600, 200)] {
        door.pass(pause);
        assert_eq!(statuses(&door, &[part(1, "VERIFY ", door.now())]).await, [status], "{pause}");
    }
    assert_eq!(door.count(Outcome::PartAbandoned), 2);
    assert!(door.texts().is_empty());
}

#[tokio::test]
async fn kannel_tells_parts_by_their_header() {
    let door = Door::new((by_name("kannel").config)(SECRET));
    let part = |header: &str, text: &str, charset: &str| {
        let mut call = Call::get(&[("from", PHONE), ("to", RECEIVER), ("charset", charset)]).with_path_secret();
        call.path_and_query = format!("{}&udh={header}&text={text}", call.path_and_query);
        call
    };
    // A port number stands before the number of the part.
    let first = part("%0B%05%04%0B%84%23%F0%00%03%CC%02%01", "%00V%00%E9%00R%00I", "UTF-16BE");
    let second = part("%05%00%03%CC%02%02", "%00F%00Y%00+%001", "UTF-16BE");
    assert_eq!(statuses(&door, &[first.clone(), second, first]).await, [503, 200, 200]);
    assert_eq!(door.texts(), ["VéRIFY 1"]);
}

#[tokio::test]
async fn binary_messages_are_read_as_far_as_they_are_text() {
    let door = Door::new((by_name("sinch").config)(SECRET));
    let body = json!({
        "type": "mo_binary", "id": "b1", "from": PHONE, "to": RECEIVER, "body": "VkVSSUZZIDE=", "udh": "050003cc0101",
    });
    assert_eq!(door.call(&sinch_signed(&body, "n1", NOON)).await.status, StatusCode::OK);

    let door_of_vonage = Door::new(vonage(METHOD, SECRET));
    let fields = vonage_signed(
        METHOD,
        &[
            ("msisdn", PHONE),
            ("to", RECEIVER),
            ("messageId", "b2"),
            ("type", "binary"),
            ("data", "564552494659"),
            ("udh", ""),
            ("timestamp", &NOON.to_string()),
        ],
    );
    let call = Call::form(&borrowed(&fields));
    assert_eq!(door_of_vonage.call(&call).await.status, StatusCode::OK);
    assert_eq!((door.texts(), door_of_vonage.texts()), (vec!["VERIFY 1".to_owned()], vec!["VERIFY".to_owned()]));
}
