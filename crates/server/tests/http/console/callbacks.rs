use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use jiff::SignedDuration;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use ringtrue_domain::account::Role;
use ringtrue_test_support::http_server::TestServer;
use rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::Request,
    on_both_stores,
    products::reverse_sms::ReverseSmsClient,
    receiver::{self, Receiver},
    world::{TestProject, World},
};

on_both_stores!(
    undeliverable_callbacks_are_grouped_and_resent,
    deliveries_are_filtered_and_charted,
    receiver_that_fails_for_an_hour_is_an_issue,
    test_callback_is_signed_and_sent_once,
    failed_tls_handshake_is_named,
);

const BROKEN: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
const ATTEMPTS: usize = 7;

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}/callbacks", world.acme.workspace_id, project.project_id)
}

/// Completes checks whose callbacks fail at every attempt.
async fn fail_callbacks(world: &World, backend: &ReverseSmsClient<'_>, receiver: &mut Receiver) -> Vec<String> {
    receiver.respond_with([BROKEN; 2 * ATTEMPTS]);
    let mut ids = vec![];
    for number in ["+990123456702", "+990123456704"] {
        let check =
            backend.create(json!({"phone_number": number, "callback_url": receiver.url("/cb?key=secret")})).await;
        backend.text(number, &check.receiver, &check.body).await;
        ids.push(check.id);
    }
    for _ in 0..ATTEMPTS {
        for _ in &ids {
            receiver.next().await;
        }
        world.wait_for_callback_results().await;
        world.advance(SignedDuration::from_secs(61));
        world.node.engine.courier().wake();
    }
    ids
}

async fn undeliverable_callbacks_are_grouped_and_resent(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let page = path_of(&world, &backend.project);
    let undeliverable = format!("{page}?state=undeliverable");
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let empty = viewer.get(&undeliverable).await.assert(200);
    assert_well_formed(&undeliverable, &empty);
    assert!(empty.text().contains("No undeliverable callbacks."), "{}", empty.text());

    let ids = fail_callbacks(&world, &backend, &mut receiver).await;
    let host = receiver.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let listed = viewer.get(&undeliverable).await.assert(200);
    assert_well_formed(&undeliverable, &listed);
    let text = listed.text();
    assert!(ids.iter().all(|id| text.contains(id)) && text.contains(&host) && text.contains("503"), "{text}");
    assert!(text.contains("data-label=\"Callbacks\">2<") && text.contains("data-label=\"Attempts\">7<"), "{text}");
    assert!(!text.contains("secret") && !text.contains("/resend\""), "viewers see hosts only, and no forms: {text}");

    for (query, found) in [
        ("state=undeliverable&product=reverse_sms", true),
        ("state=undeliverable&product=discovery", false),
        ("state=undeliverable&reason=503", true),
        ("state=undeliverable&reason=timeout", false),
        ("state=undeliverable&receiver=example.com", false),
        ("state=undeliverable&from=2026-01-01T00:00&to=2026-01-01T00:01", true),
        ("state=undeliverable&from=2026-01-01T00:01", false),
        ("state=undeliverable&to=2026-01-01T00:00", false),
        ("state=retrying", false),
        ("state=delivered", false),
    ] {
        let filtered = viewer.get(&format!("{page}?{query}")).await.assert(200);
        assert_well_formed(query, &filtered);
        assert_eq!(filtered.text().contains(&ids[0]), found, "{query}");
    }

    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    for filter in [("reason", "timeout"), ("from", "2026-01-01T00:01")] {
        let none = developer.submit(&page, &format!("{page}/resend"), &[filter]).await;
        assert!(location(&none).contains("queued=0"), "{}", location(&none));
    }
    developer.submit(&page, &format!("{page}/resend"), &[("from", "yesterday")]).await.assert(400);
    let one = [("product", "reverse_sms"), ("filter_reason", "503")];
    let resent = developer.submit(&page, &format!("{page}/{}/resend", ids[0]), &one).await;
    let progress = location(&resent);
    assert!(progress.contains("state=undeliverable") && progress.contains("reason=503"), "{progress}");
    assert!(progress.contains("queued=1"), "{progress}");
    assert_eq!(receiver.next().await.json()["check_id"], ids[0].as_str());
    world.wait_for_callback_results().await;

    world.advance(SignedDuration::from_secs(1));
    let all = [("receiver", &*host), ("reason", "503")];
    let resent = developer.submit(&page, &format!("{page}/resend"), &all).await;
    let progress = location(&resent).to_owned();
    assert!(progress.contains("queued=1&refused=0&remaining=0"), "{progress}");
    assert_eq!(receiver.next().await.json()["check_id"], ids[1].as_str());
    world.wait_for_callback_results().await;
    let shown = developer.get(&progress).await.assert(200);
    assert_well_formed(&progress, &shown);
    assert!(shown.text().contains("1 queued to be resent: 1 delivered since, 0 waiting"), "{}", shown.text());
    let delivered = developer.get(&format!("{page}?state=delivered")).await.assert(200).text();
    assert!(ids.iter().all(|id| delivered.contains(id)), "{delivered}");
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.assert(200).json();
    assert_eq!(events["content"][0]["action"], "callback.resent");
    assert_eq!(events["content"][0]["target"]["id"], ids[1].as_str());

    // Another project neither lists nor resends these callbacks.
    let other = path_of(&world, &world.project("Other", json!({})).await);
    assert!(!developer.get(&format!("{other}?state=delivered")).await.assert(200).text().contains(&ids[0]));
    let token = developer.form_token(&page).await;
    developer.post(&format!("{other}/{}/resend", ids[0]), &token, &one).await.assert(403);
    developer.post(&format!("{page}/{}/resend", ids[0]), &token, &[("product", "sim_swap")]).await.assert(404);
}

async fn deliveries_are_filtered_and_charted(world: World) {
    let mut backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let page = path_of(&world, &backend.project);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let empty = viewer.get(&page).await.assert(200);
    assert_well_formed(&page, &empty);
    assert!(empty.text().contains("No callbacks yet.") && !empty.text().contains("Response times"), "{}", empty.text());

    // One callback on the first day, at whose first attempt the receiver fails, and one on the second day.
    receiver.respond_with([BROKEN]);
    let mut ids = vec![];
    for number in ["+990123456702", "+990123456704"] {
        let check = backend.create(json!({"phone_number": number, "callback_url": receiver.url("/cb")})).await;
        backend.text(number, &check.receiver, &check.body).await;
        receiver.next().await;
        world.wait_for_callback_results().await;
        world.advance(SignedDuration::from_hours(24));
        world.node.engine.courier().wake();
        backend.renew_token().await;
        if ids.is_empty() {
            receiver.next().await;
            world.wait_for_callback_results().await;
        }
        ids.push(check.id);
    }
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let listed = viewer.get(&page).await.assert(200);
    assert_well_formed(&page, &listed);
    let text = listed.text();
    let link = page.replace("/callbacks", &format!("/checks/reverse_sms/{}#callback", ids[0]));
    assert!(ids.iter().all(|id| text.contains(id)) && text.contains(&link), "{text}");
    assert!(text.contains("Response times per hour: maximum"), "{text}");
    assert!(text.contains("Attempts per hour: 3 in total."), "{text}");
    assert!(text.contains("<th scope=\"col\">Other status</th>"), "{text}");
    assert!(!text.contains("Show older callbacks"), "{text}");

    let host = receiver.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    for (query, found) in [
        ("", [true, true]),
        ("from=2026-01-02T00:00", [false, true]),
        ("to=2026-01-02T00:00", [true, false]),
        ("from=2026-01-01T00:00&to=2026-01-02T00:00", [true, false]),
        ("from=2026-01-03T00:00&to=", [false, false]),
        (&format!("receiver={host}"), [true, true]),
        ("receiver=example.com", [false, false]),
        ("reason=200&to=2026-01-02T00:00", [true, false]),
        ("state=delivered", [true, false]),
        ("state=delivered&from=2026-01-02T00:00", [false, false]),
    ] {
        let filtered = viewer.get(&format!("{page}?{query}")).await.assert(200);
        assert_well_formed(query, &filtered);
        let text = filtered.text();
        assert_eq!([0, 1].map(|index| text.contains(&ids[index])), found, "{query}");
    }
    let yesterday = viewer.get(&format!("{page}?from=2026-01-02T00:00&to=2026-01-03T00:00")).await.assert(200).text();
    let chip = format!("href=\"{page}?state=all\" aria-current=\"true\">Yesterday<");
    assert!(yesterday.contains(&chip), "{yesterday}");
    for invalid in ["from=yesterday", "from=2026-01-02T00:00&to=2026-01-01T00:00"] {
        viewer.get(&format!("{page}?{invalid}")).await.assert(400);
    }
}

async fn receiver_that_fails_for_an_hour_is_an_issue(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let page = path_of(&world, &backend.project);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let has_issue = async |browser: &mut Browser| {
        let shown = browser.get(&page).await.assert(200);
        assert_well_formed(&page, &shown);
        shown.text().contains("Receiver fails")
    };
    let ids = fail_callbacks(&world, &backend, &mut receiver).await;
    assert!(!has_issue(&mut viewer).await, "the receiver has failed for a few minutes");
    world.advance(SignedDuration::from_mins(60));
    assert!(has_issue(&mut viewer).await);
    let overview = viewer.get(&page.replace("/callbacks", "/overview")).await.assert(200);
    assert_well_formed("overview", &overview);
    assert!(overview.text().contains("Receiver fails"), "{}", overview.text());

    let host = receiver.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let text = viewer.get(&page).await.text();
    assert!(text.contains(&format!("Every attempt to deliver to <code>{host}</code> has failed")), "{text}");
    assert!(text.contains("Last result: 503. Not delivered: 2 given up, 0 waiting."), "{text}");
    assert!(text.contains(&format!("{page}?state=all&#38;receiver=")), "{text}");
    let test_link = format!("href=\"{page}#test\"");
    assert!(!text.contains(&test_link) && !text.contains("secret"), "{text}");
    assert!(developer.get(&page).await.text().contains(&test_link));
    let other = path_of(&world, &world.project("Other", json!({})).await);
    assert!(!viewer.get(&other).await.assert(200).text().contains("Receiver fails"));

    developer.submit(&page, &format!("{page}/{}/resend", ids[0]), &[("product", "reverse_sms")]).await.assert(303);
    receiver.next().await;
    world.wait_for_callback_results().await;
    assert!(!has_issue(&mut viewer).await, "the receiver has accepted a callback");
}

async fn test_callback_is_signed_and_sent_once(world: World) {
    let mut receiver = Receiver::start().await;
    let configuration = json!({
        "reverse_sms": {"callback_url": receiver.url("/sms?key=secret")},
        "verification": {"callback_url": receiver.url("/verified")},
    });
    let project = world.project("Shop", json!({"configuration": configuration})).await;
    let page = path_of(&world, &project);
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.json();
    let test = format!("{page}/test");
    for (product, id, title) in
        [("reverse_sms", "check_id", "Reverse SMS"), ("verification", "verification_id", "Verification")]
    {
        let sent = developer.submit(&page, &test, &[("product", product)]).await;
        assert_eq!(location(&sent), page);
        let callback = receiver.next().await;
        callback.assert_signed_by(&jwks);
        assert_eq!(callback.header("x-service-callback"), product);
        let body = callback.json();
        assert_eq!((&body["status"], &body["reference_id"]), (&json!("EXPIRED"), &json!("test-callback")), "{body}");
        assert!(body[id].is_string() && body["match"].is_null(), "{body}");
        let shown = developer.get(&page).await.assert(200);
        assert_well_formed(&page, &shown);
        let result = format!("Test callback for {title}: <strong>200</strong>");
        assert!(shown.text().contains(&result), "{}", shown.text());
        assert!(!developer.get(&page).await.text().contains("Test callback for"), "shown once");
    }
    receiver.respond_with([BROKEN]);
    developer.submit(&page, &test, &[("product", "reverse_sms")]).await.assert(303);
    receiver.next().await;
    assert!(developer.get(&page).await.text().contains("<strong>503</strong>"));
    assert!(receiver.is_quiet(), "a test is not retried");

    developer.submit(&page, &test, &[("product", "discovery")]).await.assert(400);
    developer.submit(&page, &test, &[("product", "sim_swap")]).await.assert(404);
    let empty = developer.get(&page).await.assert(200).text();
    assert!(empty.contains("No callbacks yet."), "a test is not stored: {empty}");
    let none = path_of(&world, &world.project("None", json!({})).await);
    assert!(developer.get(&none).await.text().contains("Save a callback URL"));
}

/// Returns the only address to which the test node may send callbacks, with any free port.
fn receiver_address() -> String {
    SocketAddr::from((receiver::ADDRESS, 0)).to_string()
}

/// Starts a receiver with a self-signed certificate.
async fn tls_receiver(change: impl FnOnce(&mut CertificateParams)) -> TestServer {
    let mut params = CertificateParams::new([IpAddr::from(receiver::ADDRESS).to_string()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    TestServer::start(&receiver_address(), move |stream, _| {
        let acceptor = acceptor.clone();
        async move { drop(acceptor.accept(stream).await) }
    })
    .await
}

async fn failed_tls_handshake_is_named(world: World) {
    let plain = TestServer::start(&receiver_address(), |mut stream, _| async move {
        let mut hello = [0; 4_096];
        let _ = stream.read(&mut hello).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        let _ = stream.shutdown().await;
        while matches!(stream.read(&mut hello).await, Ok(1..)) {}
    })
    .await;
    let self_signed = tls_receiver(|_| {}).await;
    let expired = tls_receiver(|params| params.not_after = date_time_ymd(2020, 1, 1)).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let page = path_of(&world, &backend.project);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    for (number, receiver, reason, label) in [
        ("+990123456702", &plain, "not_tls", "receiver does not use TLS"),
        ("+990123456704", &self_signed, "certificate_untrusted", "certificate self-signed or from an unknown issuer"),
        ("+990123456706", &expired, "certificate_expired", "certificate expired"),
    ] {
        let url = format!("https://{}:{}/cb", IpAddr::from(receiver::ADDRESS), receiver.port);
        let check = backend.create(json!({"phone_number": number, "callback_url": url})).await;
        backend.text(number, &check.receiver, &check.body).await;
        receiver.wait_for_connections(1).await;
        world.wait_for_callback_results().await;
        let listed = viewer.get(&format!("{page}?state=retrying&reason={reason}")).await.assert(200).text();
        assert!(listed.contains(&check.id) && listed.contains(label), "{reason}: {listed}");
        let path = page.replace("/callbacks", &format!("/checks/reverse_sms/{}", check.id));
        let shown = viewer.get(&path).await.assert(200).text();
        assert!(shown.contains(label), "{reason}: {shown}");
    }
}
