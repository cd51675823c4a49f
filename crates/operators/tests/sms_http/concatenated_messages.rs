//! Concatenated messages delivered part by part.

use http::StatusCode;
use ringtrue_operators::sms_http::{SigMethod, WebhookOutcome};
use serde_json::json;

use crate::{
    fixture::{NOON, PHONE, RECEIVER, TestRequest, WebhookFixture},
    vendors::{SECRET, by_name, sinch_signed},
    vendors::{as_str_pairs, vonage, vonage_signed},
};

const METHOD: SigMethod = SigMethod::HmacSha256;

fn part(number: u8, text: &str, at: i64) -> TestRequest {
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
    TestRequest::form(&as_str_pairs(&fields))
}

async fn statuses(fixture: &WebhookFixture, requests: &[TestRequest]) -> Vec<u16> {
    let mut statuses = vec![];
    for request in requests {
        statuses.push(fixture.send(request).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn parts_are_acknowledged_when_they_are_stored() {
    let fixture = WebhookFixture::new(vonage(METHOD, SECRET));
    let parts = [part(2, "4F7K2", NOON), part(1, "VERIFY ", NOON), part(3, "Q9X0Z", NOON)];
    assert_eq!(statuses(&fixture, &parts[..2]).await, [200, 200]);
    assert!(fixture.texts().is_empty());
    assert_eq!(statuses(&fixture, &parts[2..]).await, [200]);
    assert_eq!(fixture.texts(), ["VERIFY 4F7K2Q9X0Z"]);
    let names: Vec<_> = fixture.inbox.partials.lock().iter().map(|seen| seen.connector.to_string()).collect();
    assert_eq!(names, ["door"]);
    // Resent parts have no effect.
    assert_eq!(statuses(&fixture, &parts).await, [200, 200, 200]);
    assert_eq!(fixture.texts().len(), 1);
    assert_eq!((fixture.count(WebhookOutcome::PartHeld), fixture.count(WebhookOutcome::Duplicate)), (2, 3));
}

#[tokio::test]
async fn parts_are_joined_across_nodes_and_restarts() {
    let parts = [part(1, "VERIFY ", NOON), part(2, "4F7K2", NOON), part(3, "Q9X0Z", NOON)];
    let nodes = WebhookFixture::new(vonage(METHOD, SECRET));
    let other = nodes.another_node(vonage(METHOD, SECRET));
    assert_eq!(statuses(&nodes, &parts[..1]).await, [200]);
    assert_eq!(statuses(&other, &parts[1..2]).await, [200]);
    drop(nodes);
    let after_restart = other.another_node(vonage(METHOD, SECRET));
    assert_eq!(statuses(&after_restart, &parts[2..]).await, [200]);
    assert_eq!((after_restart.texts(), other.texts()), (vec!["VERIFY 4F7K2Q9X0Z".to_owned()], vec![]));
    assert_eq!(other.inbox.partials.lock().len(), 0, "the first part was reported by its own node");
    // A restarted node recognises the parts, although its own cache is empty.
    assert_eq!(statuses(&after_restart, &parts[..1]).await, [200]);
    assert_eq!((after_restart.texts().len(), after_restart.count(WebhookOutcome::Duplicate)), (1, 1));
}

#[tokio::test]
async fn part_that_is_not_stored_is_resent() {
    let fixture = WebhookFixture::new(vonage(METHOD, SECRET));
    let parts = [part(1, "VERIFY ", NOON), part(2, "4F7K2", NOON), part(3, "Q9X0Z", NOON)];
    fixture.reassembly.set_down(true);
    assert_eq!(statuses(&fixture, &parts[..1]).await, [503]);
    fixture.reassembly.set_down(false);
    assert_eq!(statuses(&fixture, &parts[..2]).await, [200, 200]);
    // The last part is acknowledged after the inbox has processed the message.
    fixture.set_store_down(true);
    assert_eq!(statuses(&fixture, &parts[2..]).await, [503]);
    fixture.set_store_down(false);
    assert_eq!(statuses(&fixture, &parts[2..]).await, [200]);
    assert_eq!(fixture.texts(), ["VERIFY 4F7K2Q9X0Z"]);
}

#[tokio::test]
async fn incomplete_message_expires() {
    let fixture = WebhookFixture::new(vonage(METHOD, SECRET));
    assert_eq!(statuses(&fixture, &[part(1, "VERIFY ", fixture.now())]).await, [200]);
    fixture.advance(900);
    let parts = [part(2, "4F7K2", fixture.now()), part(3, "Q9X0Z", fixture.now())];
    assert_eq!(statuses(&fixture, &parts).await, [200, 200]);
    assert!(fixture.texts().is_empty());
}

#[tokio::test]
async fn kannel_parts_are_joined_by_udh() {
    let fixture = WebhookFixture::new((by_name("kannel").config)(SECRET));
    let part = |header: &str, text: &str, charset: &str| {
        let mut request =
            TestRequest::get(&[("from", PHONE), ("to", RECEIVER), ("charset", charset)]).with_path_secret();
        request.path_and_query = format!("{}&udh={header}&text={text}", request.path_and_query);
        request
    };
    // The UDH contains a port element before the concatenation element.
    let first = part("%0B%05%04%0B%84%23%F0%00%03%CC%02%01", "%00V%00%E9%00R%00I", "UTF-16BE");
    let second = part("%05%00%03%CC%02%02", "%00F%00Y%00+%001", "UTF-16BE");
    assert_eq!(statuses(&fixture, &[first.clone(), second, first]).await, [200, 200, 200]);
    assert_eq!(fixture.texts(), ["VéRIFY 1"]);
}

#[tokio::test]
async fn references_of_different_widths_are_different() {
    let fixture = WebhookFixture::new((by_name("kannel").config)(SECRET));
    let part = |header: &str, text: &str| {
        let mut request = TestRequest::get(&[("from", PHONE), ("to", RECEIVER), ("charset", "UTF-8")]);
        request.path_and_query = format!("{}&udh={header}&text={text}", request.path_and_query);
        request.with_path_secret()
    };
    let eight = |number: u8, text: &str| part(&format!("%05%00%03%07%02%0{number}"), text);
    let sixteen = |number: u8, text: &str| part(&format!("%06%08%04%00%07%02%0{number}"), text);
    assert_eq!(statuses(&fixture, &[eight(1, "a"), sixteen(2, "d")]).await, [200, 200]);
    assert_eq!(fixture.texts(), [""; 0]);
    assert_eq!(statuses(&fixture, &[sixteen(1, "c"), eight(2, "b")]).await, [200, 200]);
    assert_eq!(fixture.texts(), ["cd", "ab"]);
}

#[tokio::test]
async fn binary_messages_are_decoded_as_text() {
    let fixture = WebhookFixture::new((by_name("sinch").config)(SECRET));
    let body = json!({
        "type": "mo_binary", "id": "b1", "from": PHONE, "to": RECEIVER, "body": "VkVSSUZZIDE=", "udh": "050003cc0101",
    });
    assert_eq!(fixture.send(&sinch_signed(&body, "n1", NOON)).await.status, StatusCode::OK);

    let vonage_webhook = WebhookFixture::new(vonage(METHOD, SECRET));
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
    let request = TestRequest::form(&as_str_pairs(&fields));
    assert_eq!(vonage_webhook.send(&request).await.status, StatusCode::OK);
    assert_eq!((fixture.texts(), vonage_webhook.texts()), (vec!["VERIFY 1".to_owned()], vec!["VERIFY".to_owned()]));
}
