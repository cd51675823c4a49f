use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{browser::Browser, pages::assert_well_formed};
use ringtrue_test_support::http_server::ReceivedRequest;

use crate::{
    products::reverse_sms::{EVEN, ReverseSmsClient},
    receiver::Receiver,
    world::{TestProject, World},
};

/// Renders a callback as raw HTTP.
fn raw_request(callback: &ReceivedRequest) -> String {
    let line = |text: String, (name, value): &(String, String)| format!("{text}{name}: {value}\r\n");
    let headers = callback.headers.iter().fold(String::new(), line);
    format!("POST {} HTTP/1.1\r\n{headers}\r\n{}", callback.target, String::from_utf8_lossy(&callback.body))
}

fn path_of(world: &World, project: &TestProject, page: &str) -> String {
    format!("/console/workspaces/{}/projects/{}/{page}", world.acme.workspace_id, project.project_id)
}

/// Waits until a callback is delivered and the page of its check shows it.
async fn deliver_callback(world: &World, backend: &ReverseSmsClient<'_>, browser: &mut Browser) -> ReceivedRequest {
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/hooks/cb?key=1")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    let callback = receiver.next().await;
    let page = path_of(world, &backend.project, &format!("checks/reverse_sms/{}", check.id));
    world.wait_for_callback_results().await;
    assert!(browser.get(&page).await.text().contains("delivered"));
    callback
}

#[tokio::test]
async fn pasted_callback_is_compared_with_the_sent_one() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let valid = raw_request(&deliver_callback(&world, &backend, &mut developer).await);
    let page = path_of(&world, &backend.project, "signatures");
    assert_well_formed(&page, &developer.get(&page).await);
    let host = valid.split("host: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned();
    let body = valid.split("\r\n\r\n").nth(1).unwrap().to_owned();
    let with = |from: &str, to: &str| {
        assert!(valid.contains(from), "{from}: {valid}");
        valid.replacen(from, to, 1)
    };
    for (paste, word, differs_at) in [
        (valid.clone(), "valid", None),
        (with(&host, "receiver.example"), "host_replaced", Some("host")),
        (with(&host, "127.0.0.77"), "host_port_dropped", Some("host")),
        (with("/hooks/cb?key=1", "/hooks/cb"), "query_dropped", Some("(request-target)")),
        (with("/hooks/cb", "/cb"), "path_prefix_removed", Some("(request-target)")),
        (with("00:00:00 GMT", "00:00:01 GMT"), "date_replaced", Some("date")),
        (with(&body, &body.replace("\":", "\": ")), "body_blanks", Some("digest of the body")),
        (with(&body, &body.replace("true", "false")), "body_changed", Some("digest of the body")),
        (with("rsa-sha256", "hs2019"), "algorithm", None),
        (with("digest: SHA", "x-digest: SHA"), "header_missing", Some("digest")),
    ] {
        let response = developer.submit(&page, &page, &[("request", &paste)]).await.assert(200);
        assert_well_formed(&page, &response);
        let text = response.text();
        assert!(text.contains(&format!(">{word}</span>")), "{word}: {text}");
        assert!(text.contains("Compared with attempt 1"), "{word}: {text}");
        match differs_at {
            None => assert!(!text.contains("first difference"), "{word}"),
            Some(line) => {
                assert!(text.contains(&format!("{line} <span class=\"role off\">first difference")), "{text}");
            }
        }
    }
    let valid_text = developer.submit(&page, &page, &[("request", &valid)]).await.assert(200).text();
    assert!(valid_text.contains("a sandbox callback key"), "{valid_text}");
    let live = world.project("Live", json!({"mode": "live"})).await;
    let elsewhere = path_of(&world, &live, "signatures");
    let refused = developer.submit(&elsewhere, &elsewhere, &[("request", &valid)]).await.assert(200).text();
    assert!(refused.contains(">key_sandbox</span>") && refused.contains("did not create"), "{refused}");

    world.advance(SignedDuration::from_mins(10));
    let late = developer.submit(&page, &page, &[("request", &valid)]).await.assert(200).text();
    assert!(late.contains(">date_skew</span>") && late.contains("10 min 0 s in the past"), "{late}");
}

#[tokio::test]
async fn invalid_pastes_are_rejected() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let page = path_of(&world, &backend.project, "signatures");
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    for (request, url, part) in [
        ("", "", "The request is empty."),
        ("hello", "", "The first line must be a request line"),
        ("POST /a HTTP/1.1\r\nwhat\r\n\r\n", "", "Line 2 is not a header"),
        ("POST /a HTTP/1.1\r\nhost: x\r\n\r\n", "nowhere", "Invalid callback URL"),
    ] {
        let response = developer.submit(&page, &page, &[("request", request), ("url", url)]).await.assert(400);
        assert!(response.text().contains(part), "{part}: {}", response.text());
        assert_well_formed(&page, &response);
    }
    let tricky = "POST /a HTTP/1.1\r\nhost: <script>alert(1)</script>\r\n\r\n</textarea><b>";
    let response = developer.submit(&page, &page, &[("request", tricky), ("url", "https://x.example/\"><i>")]).await;
    assert!(
        !response.text().contains("<script>") && !response.text().contains("<b>") && !response.text().contains("<i>")
    );
}

#[tokio::test]
async fn callbacks_of_other_projects_are_not_revealed() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let valid = raw_request(&deliver_callback(&world, &backend, &mut developer).await);
    let other = world.project("Other project", json!({})).await;
    let page = path_of(&world, &other, "signatures");
    let modified = valid.replacen("/hooks/cb?key=1", "/hooks/elsewhere", 1);
    let text = developer.submit(&page, &page, &[("request", &modified)]).await.assert(200).text();
    assert!(text.contains("matches no callback of this project") && text.contains(">unexplained</span>"), "{text}");
    assert!(!text.contains("key=1"), "{text}");

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&page).await.assert(200).text();
    assert!(text.contains("Your role has read-only access") && !text.contains("name=\"request\""));
}
