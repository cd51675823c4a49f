//! Devices that are known by a header of their operator, from the configuration to the verdict.

use std::net::SocketAddr;

use ringtrue_server::config::Config;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    client::{Answer, Request, parse, to_the_end},
    networks::configured,
    proxy_protocol::connect,
    seeker::{DISCOVERY, Path, SECURE_SNA, Seeker},
    world::World,
};

/// An operator whose devices come from one range, and write their number in the clear.
const SETTINGS: &str = r#"
    header_enrichment.listen = "127.0.0.1:0"

    [networks.23410]
    name = "O2"
    country = "GB"
    prefixes = ["+447700"]
    address_ranges = ["127.0.0.0/8"]

    [connectors.legacy]
    kind = "header_enrichment"
    networks = ["23410"]
    egress = ["127.0.0.0/24"]
    header = "X-MSISDN"
"#;
const NUMBER: &str = "+447700900123";
const DEVICE: &str = "127.0.0.7";

pub async fn world() -> World {
    let Config { networks, ip_routing, connectors, header_enrichment, .. } = configured(SETTINGS);
    World::configured(|config| {
        (config.networks, config.ip_routing) = (networks, ip_routing);
        (config.connectors, config.header_enrichment) = (connectors, header_enrichment);
    })
    .await
}

pub async fn seeker(world: &World, path: Path) -> Seeker<'_> {
    let seeker = Seeker::with(world, path, json!({"mode": "live"})).await;
    let allowed = json!({"networks": [{"network_id": "23410", "products": [path.scope]}]});
    let request = Request::put(&format!("{}/allowed-networks", seeker.project.path));
    world.manage(request.json(&allowed)).await.assert(200);
    seeker
}

/// What a device at an address is answered.
async fn asked(from: &str, to: SocketAddr, request: &Request) -> Answer {
    let mut stream = connect(from, to).await;
    stream.write_all(&request.bytes(to)).await.unwrap();
    parse(&to_the_end(&mut stream).await, false)
}

/// A check whose device has been sent to the other listener: its id, and where the device is to go.
async fn departed(seeker: &Seeker<'_>, body: &Value) -> (String, String) {
    let created = seeker.post(body).await.assert(201).json();
    let node = &seeker.world.node;
    let target = created["url"].as_str().unwrap().strip_prefix(&node.base_url).unwrap();
    let answer = asked(DEVICE, node.address, &Request::get(target)).await.assert(302);
    let origin = format!("http://{}", node.enrichment_address.unwrap());
    let target = answer.header("location").unwrap().strip_prefix(&origin).unwrap().to_owned();
    assert!(target.starts_with("/he/legacy/"), "{target}");
    (created["check_id"].as_str().unwrap().to_owned(), target)
}

/// What the device is told at the end of its way.
pub async fn arrived(world: &World, from: &str, target: &str, headers: &[(&str, &str)]) -> Value {
    let request = headers.iter().fold(Request::get(target), |request, (name, value)| request.header(name, value));
    asked(from, world.node.enrichment_address.unwrap(), &request).await.json()
}

#[tokio::test]
async fn a_number_is_verified_and_discovered() {
    let world = world().await;
    let secure_sna = seeker(&world, SECURE_SNA).await;
    for (inserted, is_match) in [("447700900123", true), ("447700900124", false)] {
        let (id, target) = departed(&secure_sna, &json!({"phone_number": NUMBER})).await;
        let end = arrived(&world, DEVICE, &target, &[("X-MSISDN", inserted)]).await;
        let redeemed = secure_sna.redeem(&id, end["code"].as_str().unwrap()).await.assert(200).json();
        assert_eq!((&redeemed["status"], &redeemed["match"]), (&json!("COMPLETED"), &json!(is_match)));
        assert_eq!(redeemed["network_id"], "23410");
    }
    let discovery = seeker(&world, DISCOVERY).await;
    let (id, target) = departed(&discovery, &json!({})).await;
    let end = arrived(&world, DEVICE, &target, &[("x-msisdn", "+447700900123")]).await;
    let redeemed = discovery.redeem(&id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!(redeemed["phone_number"], NUMBER);
}

#[tokio::test]
async fn a_header_that_is_not_the_operators_ends_the_check() {
    let world = world().await;
    let discovery = seeker(&world, DISCOVERY).await;
    let number = ("X-MSISDN", "447700900123");
    for (from, headers, error) in [
        ("127.0.1.7", vec![number], "not_mobile_ip"),
        ("127.0.1.7", vec![number, ("X-Forwarded-For", DEVICE)], "not_mobile_ip"),
        ("127.0.0.8", vec![number], "ip_mismatch"),
        (DEVICE, vec![], "mno_no_data_available"),
        (DEVICE, vec![("X-UP-CALLING-LINE-ID", "447700900123")], "mno_no_data_available"),
        (DEVICE, vec![number, number], "mno_response_error"),
        (DEVICE, vec![("X-MSISDN", "99999999999")], "mno_response_error"),
    ] {
        let (id, target) = departed(&discovery, &json!({})).await;
        let end = arrived(&world, from, &target, &headers).await;
        assert_eq!(end["error"], error, "{from} {headers:?}");
        let ended = discovery.get(&id).await.assert(200).json();
        assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!(error)));
        let again = arrived(&world, DEVICE, &target, &[number]).await;
        assert_eq!(again.get("code"), None, "a ticket is good for one arrival");
    }
}
