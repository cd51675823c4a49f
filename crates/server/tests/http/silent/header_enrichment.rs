//! Header enrichment, from the configuration to the verdict.

use std::net::SocketAddr;

use ringtrue_server::config::Config;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    client::{HttpResponse, Request, parse, read_until_closed},
    database::Database,
    on_both_databases,
    operators::networks::configured,
    protocol::proxy_protocol::connect,
    silent::silent_client::{DISCOVERY, Path, SECURE_SNA, SilentClient},
    verifications::{
        api::{VerificationClient, assert_completed, id, is_open, text},
        page::{cookie_of, navigation},
    },
    world::World,
};

/// An operator with one address range that sends numbers in plain text.
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
    world_on(Database::sqlite().await).await
}

async fn world_on(database: Database) -> World {
    let Config { networks, ip_routing, connectors, header_enrichment, .. } = configured(SETTINGS);
    World::with(database, |config| {
        (config.networks, config.ip_routing) = (networks, ip_routing);
        (config.connectors, config.header_enrichment) = (connectors, header_enrichment);
    })
    .await
}

pub async fn silent(world: &World, path: Path) -> SilentClient<'_> {
    let silent = SilentClient::with(world, path, json!({"mode": "live"})).await;
    let allowed = json!({"networks": [{"network_id": "23410", "products": [path.scope]}]});
    let request = Request::put(&format!("{}/allowed-networks", silent.project.path));
    world.manage(request.json(&allowed)).await.assert(200);
    silent
}

/// Sends a request from this address, as a device would.
async fn send_from(from: &str, to: SocketAddr, request: &Request) -> HttpResponse {
    let mut stream = connect(from, to).await;
    stream.write_all(&request.bytes(to)).await.unwrap();
    parse(&read_until_closed(&mut stream).await, false)
}

/// Creates a check and opens its URL on the device. Returns its id, and the target on the enrichment listener to which
/// the device is redirected.
async fn redirected_check(silent: &SilentClient<'_>, body: &Value) -> (String, String) {
    let created = silent.post(body).await.assert(201).json();
    let node = &silent.world.node;
    let target = created["url"].as_str().unwrap().strip_prefix(&node.base_url).unwrap();
    let response = send_from(DEVICE, node.address, &Request::get(target)).await.assert(302);
    let origin = format!("http://{}", node.enrichment_address.unwrap());
    let target = response.header("location").unwrap().strip_prefix(&origin).unwrap().to_owned();
    assert!(target.starts_with("/he/legacy/"), "{target}");
    (created["check_id"].as_str().unwrap().to_owned(), target)
}

/// Opens the target on the enrichment listener and follows its redirect. Returns the last response to the device.
pub async fn finish_redirect(world: &World, from: &str, target: &str, headers: &[(&str, &str)]) -> Value {
    let request = headers.iter().fold(Request::get(target), |request, (name, value)| request.header(name, value));
    let response = send_from(from, world.node.enrichment_address.unwrap(), &request).await;
    if response.status != 302 {
        return response.json();
    }
    finish_with_handle(world, from, &handle_target(world, &response)).await.json()
}

/// Returns the redirect target on the public listener, which contains the one-time handle. Asserts that plain HTTP
/// carries nothing else.
pub fn handle_target(world: &World, response: &HttpResponse) -> String {
    assert_eq!((response.status, response.text().as_str()), (302, ""));
    let location = response.header("location").unwrap();
    let target = location.strip_prefix(&world.node.base_url).expect("our own address, with TLS").to_owned();
    assert!(target.starts_with("/southbound/header-enrichment/return?state="), "{target}");
    assert!(!target.contains("code") && !target.contains("/v/"), "{target}");
    target
}

async fn finish_with_handle(world: &World, from: &str, target: &str) -> HttpResponse {
    send_from(from, world.node.address, &Request::get(target)).await
}

#[tokio::test]
async fn enriched_number_is_verified_and_discovered() {
    let world = world().await;
    let secure_sna = silent(&world, SECURE_SNA).await;
    for (inserted, is_match) in [("447700900123", true), ("447700900124", false)] {
        let (id, target) = redirected_check(&secure_sna, &json!({"phone_number": NUMBER})).await;
        let end = finish_redirect(&world, DEVICE, &target, &[("X-MSISDN", inserted)]).await;
        let redeemed = secure_sna.redeem(&id, end["code"].as_str().unwrap()).await.assert(200).json();
        assert_eq!((&redeemed["status"], &redeemed["match"]), (&json!("COMPLETED"), &json!(is_match)));
        assert_eq!(redeemed["network_id"], "23410");
    }
    let discovery = silent(&world, DISCOVERY).await;
    let (id, target) = redirected_check(&discovery, &json!({})).await;
    let end = finish_redirect(&world, DEVICE, &target, &[("x-msisdn", "+447700900123")]).await;
    let redeemed = discovery.redeem(&id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!(redeemed["phone_number"], NUMBER);
}

#[tokio::test]
async fn enrichment_header_from_an_untrusted_peer_fails_the_check() {
    let world = world().await;
    let discovery = silent(&world, DISCOVERY).await;
    let number = ("X-MSISDN", "447700900123");
    // If `device_ip` announces an address, the device must return from exactly this address.
    let (any_device, one_device) = (json!({}), json!({"device_ip": DEVICE}));
    for (body, from, headers, error) in [
        (&any_device, "127.0.1.7", vec![number], "not_mobile_ip"),
        (&any_device, "127.0.1.7", vec![number, ("X-Forwarded-For", DEVICE)], "not_mobile_ip"),
        (&one_device, "127.0.1.7", vec![number], "not_mobile_ip"),
        (&any_device, "127.0.0.8", vec![number], "ip_mismatch"),
        (&one_device, "127.0.0.8", vec![number], "ip_mismatch"),
        (&any_device, DEVICE, vec![], "mno_no_data_available"),
        (&any_device, DEVICE, vec![("X-UP-CALLING-LINE-ID", "447700900123")], "mno_no_data_available"),
        (&any_device, DEVICE, vec![number, number], "mno_response_error"),
        (&any_device, DEVICE, vec![("X-MSISDN", "99999999999")], "mno_response_error"),
    ] {
        let (id, target) = redirected_check(&discovery, body).await;
        let end = finish_redirect(&world, from, &target, &headers).await;
        assert_eq!(end["error"], error, "{body} {from} {headers:?}");
        let ended = discovery.get(&id).await.assert(200).json();
        assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!(error)));
        let again = finish_redirect(&world, DEVICE, &target, &[number]).await;
        assert_eq!(again.get("code"), None, "a state can be used once");
    }
}

/// An observer of plain HTTP learns only the handle, which is valid once, and only for the device.
#[tokio::test]
async fn handle_is_used_once_and_by_the_device() {
    let world = world().await;
    let secure_sna = silent(&world, SECURE_SNA).await;
    let enriched = async |target: &str| {
        let request = Request::get(target).header("X-MSISDN", "447700900123");
        send_from(DEVICE, world.node.enrichment_address.unwrap(), &request).await
    };
    let (id, target) = redirected_check(&secure_sna, &json!({"phone_number": NUMBER})).await;
    let handle = handle_target(&world, &enriched(&target).await);
    // A handle is not accepted as `state`, nor a `state` as handle.
    let state = handle.split_once("?state=").unwrap().1;
    enriched(&format!("/he/legacy/{state}")).await.assert_problem(400, "bad_request");
    let state = target.rsplit('/').next().unwrap();
    let wrong = format!("/southbound/header-enrichment/return?state={state}");
    finish_with_handle(&world, DEVICE, &wrong).await.assert_problem(400, "bad_request");
    let head = send_from(DEVICE, world.node.address, &Request::new("HEAD", &handle)).await;
    assert_eq!(head.status, 200);
    let end = finish_with_handle(&world, DEVICE, &handle).await.assert(200).json();
    finish_with_handle(&world, DEVICE, &handle).await.assert_problem(409, "check_already_completed");
    secure_sna.redeem(&id, end["code"].as_str().unwrap()).await.assert(200);

    let announced = json!({"phone_number": NUMBER, "device_ip": DEVICE});
    let (id, target) = redirected_check(&secure_sna, &announced).await;
    let handle = handle_target(&world, &enriched(&target).await);
    let end = finish_with_handle(&world, "127.0.0.8", &handle).await.assert(200).json();
    assert_eq!(end["error"], "ip_mismatch", "{end}");
    assert_eq!(secure_sna.get(&id).await.json()["status"], "ERROR");
}

/// The redirect to the client's URL, with its parameters, is sent over TLS only.
#[tokio::test]
async fn redirect_url_is_reached_from_the_public_listener() {
    let world = world().await;
    let discovery = silent(&world, DISCOVERY).await;
    for (headers, parameter) in [(&[("X-MSISDN", "447700900123")][..], "code"), (&[], "error")] {
        let body = json!({"redirect_url": "https://app.example/back"});
        let (_, target) = redirected_check(&discovery, &body).await;
        let request = headers.iter().fold(Request::get(&target), |request, (name, value)| request.header(name, value));
        let response = send_from(DEVICE, world.node.enrichment_address.unwrap(), &request).await;
        let end = finish_with_handle(&world, DEVICE, &handle_target(&world, &response)).await.assert(302);
        let location = end.header("location").unwrap();
        assert!(location.starts_with("https://app.example/back?") && location.contains(&format!("{parameter}=")));
    }
}

on_both_databases!(hosted_page_is_finished_by_its_browser_only);

/// Plain HTTP requests carry no cookie. The result is therefore returned only when the browser that started the check
/// comes back over TLS with its cookie.
async fn hosted_page_is_finished_by_its_browser_only(database: Database) {
    let world = world_on(database).await;
    let SilentClient { project, .. } = silent(&world, SECURE_SNA).await;
    let client = VerificationClient::of(&world, project).await;
    let (number, shop) = (("X-MSISDN", "447700900123"), "https://shop.example/back");
    for (inserted, redirect_url, end) in
        [(Some(number), None, "completed"), (None, None, "methods_exhausted"), (Some(number), Some(shop), "code")]
    {
        let body = json!({"phone_number": NUMBER, "methods": ["secure_sna"], "redirect_url": redirect_url});
        let created = client.create(&without_null(body)).await;
        let page = text(&created, "url").strip_prefix(&world.node.base_url).unwrap();
        let browser = HostedPage { world: &world, page };
        let (superseded, cookie) = browser.begin("").await;
        let (target, _) = browser.begin(&cookie).await;
        // The second start has replaced the first, so the first redirect has no result.
        let back = browser.send_enriched(&superseded, inserted).await;
        browser.finish(&back, "").await.assert_problem(403, "forbidden");
        let back = browser.finish(&back, &cookie).await.assert(302);
        assert_eq!(back.header("location"), Some(text(&created, "url")));

        let handle = browser.send_enriched(&target, inserted).await;
        for other in ["", "ringtrue-device-x=", &cookie.replace('=', "=A")] {
            browser.finish(&handle, other).await.assert_problem(403, "forbidden");
            let waiting = client.get(id(&created)).await;
            assert!(is_open(&waiting) && waiting["steps"][0]["status"] == "PENDING", "{waiting}");
        }
        let back = browser.finish(&handle, &cookie).await.assert(302);
        let location = back.header("location").unwrap();
        let ended = client.get(id(&created)).await;
        match end {
            "code" => {
                let code = location.split("&code=").nth(1).unwrap().split('&').next().unwrap();
                assert!(location.starts_with(shop) && is_open(&ended), "{location} {ended}");
                assert_completed(&client.redeem(id(&created), code).await.assert(200).json(), true, "secure_sna");
            }
            "completed" => assert_completed(&ended, true, "secure_sna"),
            error => assert_eq!(text(&ended, "error_code"), error),
        }
        // The handle is valid once. Later it only redirects to the page.
        let again = browser.finish(&handle, &cookie).await.assert(302);
        assert_eq!(again.header("location"), Some(text(&created, "url")));
    }
}

fn without_null(mut body: Value) -> Value {
    body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    body
}

/// The hosted page of a verification in the browser of a device.
struct HostedPage<'a> {
    world: &'a World,
    /// Path of the page.
    page: &'a str,
}

impl HostedPage<'_> {
    /// Presses the button of the page. Returns the target on the enrichment listener, and the cookie.
    async fn begin(&self, cookie: &str) -> (String, String) {
        let node = &self.world.node;
        let form = Request::post(&format!("{}/silent", self.page)).header("Sec-Fetch-Site", "same-origin");
        let permitted = send_from(DEVICE, node.address, &form.header("Cookie", cookie).form(&[])).await.assert(303);
        let cookie = cookie_of(&permitted);
        let leave = navigation(permitted.header("location").unwrap()).header("Cookie", &cookie);
        let leaving = send_from(DEVICE, node.address, &leave).await.assert(200).text();
        let location = leaving.split("data-operator=\"").nth(1).unwrap().split('"').next().unwrap();
        let origin = format!("http://{}", node.enrichment_address.unwrap());
        (location.strip_prefix(&origin).unwrap().to_owned(), cookie)
    }

    /// Opens the target on the enrichment listener over plain HTTP. Returns the target of the handle.
    async fn send_enriched(&self, target: &str, header: Option<(&str, &str)>) -> String {
        let request =
            header.into_iter().fold(Request::get(target), |request, (name, value)| request.header(name, value));
        let response = send_from(DEVICE, self.world.node.enrichment_address.unwrap(), &request).await;
        handle_target(self.world, &response)
    }

    async fn finish(&self, handle: &str, cookie: &str) -> HttpResponse {
        send_from(DEVICE, self.world.node.address, &Request::get(handle).header("Cookie", cookie)).await
    }
}
