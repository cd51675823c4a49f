use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{browser::Browser, pages::assert_sound};
use crate::{
    receiver::{Callback, Receiver},
    reverse_sms::{Asker, EVEN},
    world::{ProjectOf, World, eventually},
};

/// A callback as its receiver would copy it.
fn copied(callback: &Callback) -> String {
    let line = |text: String, (name, value): &(String, String)| format!("{text}{name}: {value}\r\n");
    let headers = callback.headers.iter().fold(String::new(), line);
    format!("POST {} HTTP/1.1\r\n{headers}\r\n{}", callback.target, String::from_utf8_lossy(&callback.body))
}

fn path_of(world: &World, project: &ProjectOf, page: &str) -> String {
    format!("/console/workspaces/{}/projects/{}/{page}", world.acme.workspace_id, project.project_id)
}

/// A callback that was delivered, with the page of its check to say so.
async fn delivered(world: &World, asker: &Asker<'_>, browser: &mut Browser) -> Callback {
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/hooks/cb?key=1")})).await;
    asker.text(EVEN, &check.receiver, &check.body).await;
    let callback = receiver.next().await;
    let page = path_of(world, &asker.project, &format!("checks/reverse_sms/{}", check.id));
    eventually("the attempt is in the log", async || browser.get(&page).await.text().contains("delivered")).await;
    callback
}

#[tokio::test]
async fn a_callback_is_compared_with_what_was_sent() {
    let world = World::sqlite().await;
    let asker = Asker::sandbox(&world).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let sound = copied(&delivered(&world, &asker, &mut developer).await);
    let page = path_of(&world, &asker.project, "signatures");
    assert_sound(&page, &developer.get(&page).await);
    let host = sound.split("host: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned();
    let body = sound.split("\r\n\r\n").nth(1).unwrap().to_owned();
    let with = |from: &str, to: &str| {
        assert!(sound.contains(from), "{from}: {sound}");
        sound.replacen(from, to, 1)
    };
    for (paste, word, differs_at) in [
        (sound.clone(), "good", None),
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
        let answer = developer.submit(&page, &page, &[("request", &paste)]).await.assert(200);
        assert_sound(&page, &answer);
        let text = answer.text();
        assert!(text.contains(&format!(">{word}</span>")), "{word}: {text}");
        assert!(text.contains("Compared with what was sent in attempt 1"), "{word}: {text}");
        match differs_at {
            None => assert!(!text.contains("differs first"), "{word}"),
            Some(line) => assert!(text.contains(&format!("{line} <span class=\"role off\">differs first")), "{text}"),
        }
    }
    let good = developer.submit(&page, &page, &[("request", &sound)]).await.assert(200).text();
    assert!(good.contains("the key of sandbox checks"), "{good}");
    let live = world.project("Live", json!({"mode": "live"})).await;
    let elsewhere = path_of(&world, &live, "signatures");
    let refused = developer.submit(&elsewhere, &elsewhere, &[("request", &sound)]).await.assert(200).text();
    assert!(refused.contains(">key_sandbox</span>") && refused.contains("did not create"), "{refused}");

    world.advance(SignedDuration::from_mins(10));
    let late = developer.submit(&page, &page, &[("request", &sound)]).await.assert(200).text();
    assert!(late.contains(">date_skew</span>") && late.contains("10 min 0 s in the past"), "{late}");
}

#[tokio::test]
async fn what_cannot_be_read_is_said_so() {
    let world = World::sqlite().await;
    let asker = Asker::sandbox(&world).await;
    let page = path_of(&world, &asker.project, "signatures");
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    for (request, url, part) in [
        ("", "", "There is nothing here yet."),
        ("hello", "", "The first line is a request line"),
        ("POST /a HTTP/1.1\r\nwhat\r\n\r\n", "", "Line 2 is no header"),
        ("POST /a HTTP/1.1\r\nhost: x\r\n\r\n", "nowhere", "The URL is not one that callbacks are sent to"),
    ] {
        let answer = developer.submit(&page, &page, &[("request", request), ("url", url)]).await.assert(400);
        assert!(answer.text().contains(part), "{part}: {}", answer.text());
        assert_sound(&page, &answer);
    }
    let tricky = "POST /a HTTP/1.1\r\nhost: <script>alert(1)</script>\r\n\r\n</textarea><b>";
    let answer = developer.submit(&page, &page, &[("request", tricky), ("url", "https://x.example/\"><i>")]).await;
    assert!(!answer.text().contains("<script>") && !answer.text().contains("<b>") && !answer.text().contains("<i>"));
}

/// A project learns nothing of what another one sent.
#[tokio::test]
async fn another_projects_callback_is_judged_by_the_paste_alone() {
    let world = World::sqlite().await;
    let asker = Asker::sandbox(&world).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let sound = copied(&delivered(&world, &asker, &mut developer).await);
    let other = world.project("Other project", json!({})).await;
    let page = path_of(&world, &other, "signatures");
    let spoilt = sound.replacen("/hooks/cb?key=1", "/hooks/elsewhere", 1);
    let text = developer.submit(&page, &page, &[("request", &spoilt)]).await.assert(200).text();
    assert!(text.contains("names no callback of this project") && text.contains(">unexplained</span>"), "{text}");
    assert!(!text.contains("key=1"), "{text}");

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&page).await.assert(200).text();
    assert!(text.contains("Your role may look") && !text.contains("name=\"request\""));
}
