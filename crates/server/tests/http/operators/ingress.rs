//! SMS webhooks on the ingress listener.

use std::net::SocketAddr;

use aws_lc_rs::hmac;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;
use url::form_urlencoded::Serializer;

use crate::{
    client::{self, HttpResponse, Request},
    database::Database,
    on_both_databases,
    operators::networks::{AUTH_TOKEN, SECRET, live, world_on, world_with},
    products::reverse_sms::{CHECKS, InvitedCheck, ReverseSmsClient},
    receiver::Receiver,
    world::World,
};

const NUMBER: &str = "+447700900123";
const KANNEL: &str = "/southbound/sms/kannel";
const TWILIO: &str = "/southbound/sms/twilio";

const SETTINGS: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    prefixes = ["+447700"]
    receivers = ["+447700900001"]

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    country = "GB"
    receivers = ["+447700900001"]

    [connectors.far]
    kind = "sms_http"
    driver = "jasmin"
    public_url = "http://127.0.0.1/southbound/sms/far"
    allowed_addresses = ["192.0.2.0/24"]
    country = "GB"
    receivers = ["+447700900001"]

    [connectors.twilio]
    kind = "sms_http"
    driver = "twilio"
    public_url = "https://sms.example.com/southbound/sms/twilio"
    auth_token_env = "AUTH_TOKEN"
    country = "GB"
    receivers = ["+447700900001"]
"#;

/// Sends a vendor's request. The response is not validated, because it is not part of the OpenAPI document.
async fn call(world: &World, request: Request) -> HttpResponse {
    client::send(world.node.ingress_address.expect("an ingress"), &request).await
}

fn kannel(path: &str, from: &str, check: &InvitedCheck) -> Request {
    let fields = [("from", from), ("to", &check.receiver), ("text", &check.body), ("charset", "UTF-8"), ("id", "1")];
    Request::get(&format!("{path}?{}", Serializer::new(String::new()).extend_pairs(fields).finish()))
}

async fn status(backend: &ReverseSmsClient<'_>, check: &InvitedCheck) -> String {
    backend.get(&check.id).await.assert(200).json()["status"].as_str().unwrap().to_owned()
}

/// Returns the number of a connector's inbound SMS with this outcome, from the metrics.
async fn count(address: Option<SocketAddr>, connector: &str, outcome: &str) -> u64 {
    let metrics = client::send(address.expect("metrics"), &Request::get("/metrics")).await.assert(200).text();
    let series = format!("inbound_sms_total{{connector=\"{connector}\",outcome=\"{outcome}\"}} ");
    let line = metrics.lines().find(|line| line.contains(&series)).unwrap_or_else(|| panic!("no {series}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn webhook_with_the_secret_concludes_a_check() {
    let world = world_with(SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let check = backend.create(json!({"phone_number": NUMBER})).await;
    let good = format!("{KANNEL}/{SECRET}");

    for path in ["/southbound/sms/nobody", "/southbound/sms", &format!("{good}/more"), "/southbound/sms/nobody/x"] {
        call(&world, kannel(path, "447700900123", &check)).await.assert(404);
    }
    let wrong = SECRET.replace('9', "8");
    for path in [KANNEL, &format!("{KANNEL}/{wrong}"), &format!("{KANNEL}/kannel"), &format!("{TWILIO}/{SECRET}")] {
        let refused = call(&world, kannel(path, "447700900123", &check)).await.assert(403);
        assert!(refused.body.is_empty(), "the response has no body");
    }
    let put = Request { method: "PUT".to_owned(), ..kannel(&good, "447700900123", &check) };
    call(&world, put).await.assert(405);
    call(&world, Request::post(&good).body("text/plain", vec![b'x'; 64 * 1024 + 1])).await.assert(413);
    // A request without an SMS gets a success as well, because Kannel would retry a rejected request forever.
    call(&world, Request::get(&good)).await.assert(200);
    assert_eq!(status(&backend, &check).await, "ACCEPTED");

    call(&world, kannel(&good, "447700900123", &check)).await.assert(200);
    let ended = backend.get(&check.id).await.assert(200).json();
    assert_eq!((&ended["status"], &ended["match"]), (&json!("COMPLETED"), &json!(true)), "{ended}");
    let metrics = world.node.metrics_address;
    for (outcome, times) in [("accepted", 1), ("stranger", 3), ("unreadable", 1), ("duplicate", 0)] {
        assert_eq!(count(metrics, "kannel", outcome).await, times, "{outcome}");
    }
    assert_eq!(count(metrics, "twilio", "forged").await, 1);
}

#[tokio::test]
async fn sms_concludes_only_the_check_of_its_number_and_only_once() {
    let world = world_with(SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let mut receiver = Receiver::start().await;
    let good = format!("{KANNEL}/{SECRET}");
    let check = backend.create(json!({"phone_number": NUMBER})).await;

    let elsewhere = InvitedCheck { receiver: "+447700900009".to_owned(), ..check.clone() };
    call(&world, kannel(&good, "447700900123", &elsewhere)).await.assert(200);
    call(&world, kannel(&good, "O2", &check)).await.assert(200);
    assert!(backend.get(&check.id).await.json().get("match").is_none());
    assert_eq!(count(world.node.metrics_address, "kannel", "unknown_receiver").await, 1);

    let check = backend.create(json!({"phone_number": NUMBER, "callback_url": receiver.url("/done")})).await;
    let another = kannel(&good, "447700900124", &check);
    let another = Request { target: another.target.replace("id=1", "id=2"), ..another };
    for _ in 0..3 {
        call(&world, another.clone()).await.assert(200);
    }
    assert_eq!(backend.get(&check.id).await.json()["match"], false);
    assert_eq!(count(world.node.metrics_address, "kannel", "duplicate").await, 2);
    assert_eq!(receiver.next().await.json()["match"], false);
    assert!(receiver.is_quiet());
}

on_both_databases!(parts_with_references_of_different_widths_are_not_joined);

/// An 8-bit and a 16-bit concatenation reference with the same value belong to different SMS, whose parts must not be
/// joined.
async fn parts_with_references_of_different_widths_are_not_joined(database: Database) {
    let world = world_on(database, SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let check = backend.create(json!({"phone_number": NUMBER})).await;
    let (start, end) = check.body.split_at(check.body.len() - 5);
    let part = |udh: &str, text: &str| {
        let part = InvitedCheck { body: text.to_owned(), ..check.clone() };
        let request = kannel(&format!("{KANNEL}/{SECRET}"), "447700900123", &part);
        Request { target: format!("{}&udh={udh}", request.target.replace("&id=1", "")), ..request }
    };
    call(&world, part("%05%00%03%07%02%01", start)).await.assert(200);
    call(&world, part("%06%08%04%00%07%02%02", end)).await.assert(200);
    assert_eq!(count(world.node.metrics_address, "kannel", "part_held").await, 2);
    assert_eq!(status(&backend, &check).await, "PENDING");
    call(&world, part("%05%00%03%07%02%02", end)).await.assert(200);
    assert_eq!(backend.get(&check.id).await.json()["match"], true);
}

#[tokio::test]
async fn full_width_code_is_recognised() {
    let world = world_with(SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let check = backend.create(json!({"phone_number": NUMBER})).await;
    let full_width = |letter: char| match letter {
        ' ' => '\u{3000}',
        letter => char::from_u32(u32::from(letter) + 0xFEE0).unwrap(),
    };
    let typed = InvitedCheck { body: check.body.chars().map(full_width).collect(), ..check.clone() };
    call(&world, kannel(&format!("{KANNEL}/{SECRET}"), "447700900123", &typed)).await.assert(200);
    assert_eq!(backend.get(&check.id).await.json()["match"], true);
}

/// If an SMS with the code has no usable sender, the check fails at once, so that the backend need not wait for its
/// expiry.
#[tokio::test]
async fn code_from_an_unattributed_sender_fails_the_check() {
    let world = world_with(SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let mut receiver = Receiver::start().await;
    let good = format!("{KANNEL}/{SECRET}");
    for (id, from) in [("1", ""), ("2", "O2"), ("3", "60999")] {
        let number = format!("+44770090012{id}");
        let check = backend.create(json!({"phone_number": number, "callback_url": receiver.url("/done")})).await;
        let without_code = InvitedCheck { body: "VERIFY 0000000000".to_owned(), ..check.clone() };
        let sms = |check: &InvitedCheck, id: &str| {
            let sms = kannel(&good, from, check);
            Request { target: sms.target.replace("id=1", &format!("id={id}")), ..sms }
        };
        call(&world, sms(&without_code, &format!("{id}0"))).await.assert(200);
        assert_eq!(status(&backend, &check).await, "ACCEPTED", "an SMS without the code has no effect");
        call(&world, sms(&check, &format!("{id}1"))).await.assert(200);
        let ended = backend.get(&check.id).await.assert(200).json();
        assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!("internal_error")), "{from}");
        assert!(ended.get("match").is_none(), "{ended}");
        let callback = receiver.next().await.json();
        assert_eq!((&callback["status"], &callback["check_id"]), (&json!("ERROR"), &json!(check.id)));
    }
    // A sender in national format with spaces is accepted.
    let check = backend.create(json!({"phone_number": NUMBER})).await;
    let sms = kannel(&good, "07700 900123", &check);
    call(&world, Request { target: sms.target.replace("id=1", "id=9"), ..sms }).await.assert(200);
    assert_eq!(backend.get(&check.id).await.json()["match"], true);
}

#[tokio::test]
async fn ingress_and_public_listener_serve_different_routes() {
    let world = world_with(SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let check = backend.create(json!({"phone_number": NUMBER})).await;
    let good = format!("{KANNEL}/{SECRET}");
    for address in [Some(world.node.address), world.node.metrics_address] {
        client::send(address.unwrap(), &kannel(&good, "447700900123", &check)).await.assert(404);
    }
    assert_eq!(status(&backend, &check).await, "ACCEPTED");
    for target in ["/oauth2/token", CHECKS, "/metrics", "/openapi.json", "/v1/management/workspaces"] {
        call(&world, Request::get(target).bearer(&backend.token)).await.assert(404);
    }
}

#[tokio::test]
async fn vendor_is_authenticated_by_signature_or_address() {
    let world = world_with(SETTINGS).await;
    let backend = live(&world, &["23410"]).await;
    let check = backend.create(json!({"phone_number": NUMBER})).await;

    let fields = [("id", "1"), ("from", NUMBER), ("to", &check.receiver), ("content", &check.body)];
    let far = Request::post("/southbound/sms/far").form(&fields);
    call(&world, far.clone()).await.assert(403);
    call(&world, far.header("X-Forwarded-For", "192.0.2.1")).await.assert(403);

    let fields = [("Body", check.body.as_str()), ("From", NUMBER), ("MessageSid", "SM1"), ("To", &check.receiver)];
    let mut signed = "https://sms.example.com/southbound/sms/twilio".to_owned();
    signed.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    let signature = |token: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, token.as_bytes());
        BASE64_STANDARD.encode(hmac::sign(&key, signed.as_bytes()))
    };
    let twilio = |signature: String| Request::post(TWILIO).form(&fields).header("X-Twilio-Signature", signature);
    call(&world, twilio(signature("another"))).await.assert(403);
    call(&world, Request::post(TWILIO).form(&fields)).await.assert(403);
    assert_eq!(status(&backend, &check).await, "ACCEPTED");

    let response = call(&world, twilio(signature(AUTH_TOKEN))).await.assert(200);
    assert_eq!(
        (response.text().as_str(), response.header("content-type")),
        ("<Response></Response>", Some("text/xml"))
    );
    assert_eq!(backend.get(&check.id).await.json()["match"], true);
}
