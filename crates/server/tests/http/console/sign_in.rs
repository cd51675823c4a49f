use jiff::SignedDuration;
use ringtrue_domain::audit::Action;
use ringtrue_engine::actor::Administrator;
use ringtrue_server::config::BaseUrl;
use serde_json::json;

use super::browser::{Browser, PASSWORD, location};
use crate::{client::Request, database::Database, on_both_databases, on_both_stores, world::World};

on_both_stores!(
    users_sign_in_by_link_and_by_password,
    idle_session_expires,
    background_requests_do_not_extend_a_session,
    failed_sign_ins_are_counted_across_nodes,
    failed_sign_ins_are_audited,
);

async fn sign_in(browser: &mut Browser, email: &str, password: &str) -> crate::client::HttpResponse {
    browser.submit("/console/sign-in", "/console/sign-in", &[("email", email), ("password", password)]).await
}

async fn users_sign_in_by_link_and_by_password(world: World) {
    let mut browser = Browser::admin(&world).await;
    assert!(browser.get("/console").await.assert(200).text().contains("Acme"));
    let out = browser.submit("/console", "/console/sign-out", &[]).await;
    assert_eq!(location(&out), "/console/sign-in");
    assert_eq!(location(&browser.get("/console").await), "/console/sign-in");

    let wrong = sign_in(&mut browser, "root@example.com", "wrong horse").await.assert(401).text();
    assert!(wrong.contains("Wrong email address or password."), "{wrong}");
    assert_eq!(location(&sign_in(&mut browser, " Root@Example.com", PASSWORD).await), "/console");
    assert!(browser.get("/console").await.assert(200).text().contains("root@example.com"));
}

async fn idle_session_expires(world: World) {
    let mut browser = Browser::admin(&world).await;
    // A session that is used regularly ends after a week.
    for _ in 0..15 {
        world.advance(SignedDuration::from_hours(11));
        browser.get("/console").await.assert(200);
    }
    world.advance(SignedDuration::from_hours(4));
    assert_eq!(location(&browser.get("/console").await), "/console/sign-in");

    assert_eq!(location(&sign_in(&mut browser, "root@example.com", PASSWORD).await), "/console");
    world.advance(SignedDuration::from_hours(12));
    assert_eq!(location(&browser.get("/console").await), "/console/sign-in");
}

async fn background_requests_do_not_extend_a_session(world: World) {
    let mut browser = Browser::admin(&world).await;
    for (header, value, extends) in [
        ("Sec-Fetch-Dest", "empty", false),
        ("X-Background-Request", "1", false),
        ("Accept", "text/event-stream", false),
        ("Sec-Purpose", "prefetch", false),
        ("Sec-Fetch-Dest", "document", true),
        ("Accept", "text/html", true),
    ] {
        for _ in 0..11 {
            world.advance(SignedDuration::from_hours(1));
            browser.send(Request::get("/console").header(header, value)).await.assert(200);
        }
        world.advance(SignedDuration::from_hours(1));
        let response = browser.get("/console").await;
        assert_eq!(response.status, if extends { 200 } else { 303 }, "{header}: {value}");
        browser = Browser::new(&world);
        sign_in(&mut browser, "root@example.com", PASSWORD).await.assert(303);
    }
}

async fn failed_sign_ins_are_audited(world: World) {
    let mut admin = Browser::admin(&world).await;
    let page = "/console/deployment/audit?action=account.sign_in_failed";
    let events = async |admin: &mut Browser| -> Vec<String> {
        world.node.engine.accounts.wait_until_idle().await;
        let text = admin.get(page).await.assert(200).text();
        let rows = text.split("<tbody>").nth(1).map(|body| body.split("<tr>").skip(1).map(str::to_owned).collect());
        rows.unwrap_or_default()
    };
    assert_eq!(events(&mut admin).await, Vec::<String>::new());
    sign_in(&mut Browser::new(&world), "root@example.com", "wrong").await.assert(401);
    let failed = events(&mut admin).await;
    assert!(
        failed.len() == 1 && failed[0].contains("root@example.com") && failed[0].contains("password"),
        "{failed:?}"
    );

    // A failed sign-in is audited even if the entered text is longer than passwords may be.
    sign_in(&mut Browser::new(&world), "root@example.com", &"x".repeat(2_000)).await.assert(401);
    assert_eq!(events(&mut admin).await.len(), 2);
    world.advance(SignedDuration::from_secs(61));

    // Strangers cannot fill the audit log, and the text that they enter does not appear in it.
    for number in 0..8 {
        sign_in(&mut Browser::new(&world), &format!("ghost-{number}@example.com"), "wrong").await.assert(401);
    }
    let failed = events(&mut admin).await;
    assert_eq!(failed.len(), 2 + 5, "{failed:?}");
    assert!(!failed.concat().contains("ghost"), "{failed:?}");
    world.advance(SignedDuration::from_secs(61));
    sign_in(&mut Browser::new(&world), "ghost@example.com", "wrong").await.assert(401);
    assert_eq!(events(&mut admin).await.len(), 2 + 5 + 1);
}

/// Lookups of unknown sessions and links are limited by address; requests with valid sessions are not.
async fn unknown_sessions_and_links_are_limited_by_address(database: Database) {
    let world = World::with(database, |config| {
        config.rate_limits.console = 4;
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    let mut admin = Browser::admin(&world).await;
    admin.get("/console").await.assert(200);
    world.advance(SignedDuration::from_secs(1));
    let send = async |path: &str, cookie: Option<&str>, address: &str| {
        let request = Request::get(path).header("X-Forwarded-For", address);
        let cookie = cookie.map(|cookie| format!("ringtrue-session={cookie}"));
        let request = cookie.into_iter().fold(request, |request, cookie| request.header("Cookie", cookie));
        crate::client::send(world.node.address, &request).await
    };
    let unknown = "A".repeat(43);
    // Malformed tokens are neither looked up nor counted.
    for cookie in ["x", "", &"A".repeat(42), &"A".repeat(44), &"=".repeat(43), &format!("{}B", "A".repeat(42))] {
        for _ in 0..3 {
            assert_eq!(location(&send("/console", Some(cookie), "203.0.113.7").await), "/console/sign-in");
        }
    }
    for path in ["/console", "/console/sign-in", "/console/workspaces/x", "/console"] {
        assert_ne!(send(path, Some(&unknown), "203.0.113.7").await.status, 429, "{path}");
    }
    for path in ["/console", "/console/sign-in", "/console/link?token=x", &format!("/console/link?token={unknown}")] {
        let response = send(path, Some(&unknown), "203.0.113.7").await.assert(429);
        assert_eq!(response.header("retry-after"), Some("1"), "{path}");
    }
    let session = admin.cookies["ringtrue-session"].clone();
    for _ in 0..10 {
        send("/console", Some(&session), "203.0.113.7").await.assert(200);
    }
    for _ in 0..4 {
        send(&format!("/console/link?token={unknown}"), None, "2001:db8:1:2::1").await.assert(410);
    }
    send(&format!("/console/link?token={unknown}"), None, "2001:db8:1:2::2").await.assert(429);
    assert_eq!(location(&send("/console", Some(&unknown), "203.0.113.8").await), "/console/sign-in");
    assert_eq!(
        location(&send("/console", None, "203.0.113.7").await),
        "/console/sign-in",
        "requests without a session are not limited"
    );
    world.advance(SignedDuration::from_secs(1));
    assert_eq!(location(&send("/console", Some(&unknown), "203.0.113.7").await), "/console/sign-in");
}

on_both_databases!(unknown_sessions_and_links_are_limited_by_address);

#[tokio::test]
async fn link_is_valid_once_and_for_a_day() {
    let world = World::sqlite().await;
    let email = "root@example.com".parse().unwrap();
    let link = world.node.engine.accounts.invite_admin(&Administrator::of_command_line(), &email).await.unwrap().path;
    let token = link.split_once("token=").unwrap().1.to_owned();
    let set = [("token", &*token), ("password", PASSWORD), ("again", PASSWORD)];

    let mut browser = Browser::new(&world);
    for (password, again, why) in [("short", "short", "at least 12"), (PASSWORD, "other", "do not match")] {
        let fields = [("token", &*token), ("password", password), ("again", again)];
        let text = browser.submit(&link, "/console/link", &fields).await.assert(400).text();
        assert!(text.contains(why) && !text.contains(password), "{text}");
    }
    let form_token = browser.form_token(&link).await;
    assert_eq!(location(&browser.post("/console/link", &form_token, &set).await), "/console");
    assert_eq!(location(&browser.get(&link).await), "/console", "a signed-in user is redirected to the console");

    let mut other = Browser::new(&world);
    other.get(&link).await.assert(410);
    let late = world.node.engine.accounts.invite_admin(&Administrator::of_command_line(), &email).await.unwrap().path;
    world.advance(SignedDuration::from_hours(24));
    other.get(&late).await.assert(410);
}

#[tokio::test]
async fn dev_link_signs_in_without_a_password() {
    let world = World::sqlite().await;
    let link =
        world.node.engine.accounts.create_admin_sign_in_link(&"dev@localhost".parse().unwrap()).await.unwrap().path;
    let mut browser = Browser::new(&world);
    let response = browser.get(&link).await;
    assert_eq!(location(&response), "/console");
    // The session survives a restart of the browser.
    assert!(response.header("set-cookie").unwrap().ends_with("; HttpOnly; SameSite=Lax; Max-Age=604800"));
    browser.get("/console").await.assert(200);
    let used = Browser::new(&world).get(&link).await.assert(410).text();
    assert!(used.contains(">ringtrue console link --account EMAIL</code>"), "{used}");
    // The account has no password.
    assert_eq!(sign_in(&mut Browser::new(&world), "dev@localhost", "").await.status, 401);
}

#[tokio::test]
async fn cookies_are_host_only_and_http_only() {
    for (base_url, session, secure) in [
        ("http://127.0.0.1:1", "ringtrue-session=", false),
        ("https://eu.api.example.com", "__Host-ringtrue-session=", true),
    ] {
        let world = World::configured(|config| config.base_url = Some(BaseUrl::parse(base_url).unwrap())).await;
        let mut browser = Browser::admin(&world).await;
        browser.submit("/console", "/console/sign-out", &[]).await;
        let visit = browser.get("/console/sign-in").await;
        let response = sign_in(&mut browser, "root@example.com", PASSWORD).await;
        let set = |response: &crate::client::HttpResponse| {
            let cookies = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
            cookies.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        let cookies = [set(&visit), set(&response)].concat();
        assert!(cookies.iter().any(|cookie| cookie.starts_with(session)), "{cookies:?}");
        for cookie in cookies {
            assert!(!cookie.contains("Max-Age") || cookie.contains("Max-Age=0"), "{cookie}");
            assert!(cookie.contains("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
            assert_eq!((cookie.contains("; Secure"), cookie.contains("Domain")), (secure, false), "{cookie}");
        }
    }
}

#[tokio::test]
async fn failed_sign_ins_are_throttled_with_and_without_an_account() {
    let world = World::sqlite().await;
    Browser::admin(&world).await;
    for email in ["nobody@example.com", "not an address", "root@example.com"] {
        let mut browser = Browser::new(&world);
        let mut responses = vec![];
        for (wait, expected) in
            [(0, 401), (0, 401), (0, 401), (0, 429), (1, 401), (1, 429), (1, 401), (3, 429), (1, 401)]
        {
            world.advance(SignedDuration::from_secs(wait));
            let response = sign_in(&mut browser, email, "wrong").await.assert(expected);
            assert_eq!(response.header("retry-after").is_some(), expected == 429);
            responses.push((response.status, response.text().contains("Wrong email address or password.")));
        }
        assert_eq!(
            responses.iter().filter(|(status, is_wrong)| (*status == 401) == *is_wrong).count(),
            responses.len()
        );
    }
    // The correct password is throttled as well, and accepted after the delay.
    let mut browser = Browser::new(&world);
    assert_eq!(sign_in(&mut browser, "root@example.com", PASSWORD).await.status, 429);
    world.advance(SignedDuration::from_mins(16));
    assert_eq!(location(&sign_in(&mut browser, "root@example.com", PASSWORD).await), "/console");
}

async fn failed_sign_ins_are_counted_across_nodes(world: World) {
    Browser::admin(&world).await;
    let second = world.second_node().await;
    let at = |address| {
        let mut browser = Browser::new(&world);
        browser.address = address;
        browser
    };
    let (mut here, mut there) = (at(world.node.address), at(second.address));
    for email in ["root@example.com", "nobody@example.com"] {
        for (wait, is_here, expected) in [
            (0, true, 401),
            (0, false, 401),
            (0, true, 401),
            (0, false, 429),
            (0, true, 429),
            (1, false, 401),
            (1, true, 429),
            (0, false, 429),
            (1, true, 401),
        ] {
            world.advance(SignedDuration::from_secs(wait));
            let browser = if is_here { &mut here } else { &mut there };
            let response = sign_in(browser, email, "wrong").await.assert(expected);
            assert_eq!(response.header("retry-after").is_some(), expected == 429);
        }
    }
    // Even the correct password is throttled. After the delay, it is accepted and resets the count of failures on both
    // nodes.
    sign_in(&mut there, "root@example.com", PASSWORD).await.assert(429);
    world.advance(SignedDuration::from_mins(16));
    assert_eq!(location(&sign_in(&mut there, "root@example.com", PASSWORD).await), "/console");
    for expected in [401, 401, 401, 429] {
        sign_in(&mut here, "root@example.com", "wrong").await.assert(expected);
    }
}

#[tokio::test]
async fn form_without_a_valid_csrf_token_is_rejected() {
    let world = World::sqlite().await;
    let mut browser = Browser::admin(&world).await;
    let mut other = Browser::new(&world);
    let of_another = other.form_token("/console/sign-in").await;
    for token in ["", "wrong", &of_another] {
        browser.post("/console/sign-out", token, &[]).await.assert(403);
    }
    let right = browser.form_token("/console").await;
    let elsewhere =
        Request::post("/console/sign-out").form(&[("form_token", &right)]).header("Sec-Fetch-Site", "cross-site");
    browser.send(elsewhere).await.assert(403);
    browser
        .send(Request::post("/console/sign-out").body("text/plain", format!("form_token={right}")))
        .await
        .assert(400);
    browser.get("/console").await.assert(200);

    // The CSRF token of a visitor without a session is valid only in the visitor's browser.
    let fields = [("email", "root@example.com"), ("password", PASSWORD)];
    Browser::new(&world).post("/console/sign-in", &of_another, &fields).await.assert(403);
    assert_eq!(location(&other.post("/console/sign-in", &of_another, &fields).await), "/console");
}

#[tokio::test]
async fn sign_in_redirects_to_the_requested_page() {
    let world = World::sqlite().await;
    Browser::admin(&world).await;
    let mut browser = Browser::new(&world);
    let requested = format!("/console/workspaces/{}?page=1", world.acme.workspace_id);
    let sign_in = location(&browser.get(&requested).await).to_owned();
    let page = browser.get(&sign_in).await.assert(200).text();
    assert!(page.contains(&format!("name=\"next\" value=\"{requested}\"")), "{page}");
    let fields = [("email", "root@example.com"), ("password", PASSWORD), ("next", &*requested)];
    assert_eq!(location(&browser.submit(&sign_in, "/console/sign-in", &fields).await), requested);
    browser.get(&requested).await.assert(200);
}

#[tokio::test]
async fn invitations_are_audited() {
    let world = World::sqlite().await;
    let mut owner = Browser::member(&world, &world.acme, ringtrue_domain::account::Role::Owner).await;
    let members = format!("/console/workspaces/{}/members", world.acme.workspace_id);
    world.advance(SignedDuration::from_secs(1));
    owner.submit(&members, &members, &[("email", "new@example.com"), ("role", "viewer")]).await.assert(303);
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.assert(200).json();
    let newest = &events["content"][0];
    assert_eq!(newest["action"], Action::InvitationCreated.into_str());
    assert_eq!((&newest["actor"]["type"], &newest["target"]["type"]), (&json!("account"), &json!("invitation")));
    assert!(newest["request_id"].is_string());
}
