use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;
use strum::VariantArray as _;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::Request,
    on_both_stores,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    receiver::Receiver,
    silent::{
        scripted_operator::ScriptedOperator,
        silent_client::{DISCOVERY, SilentClient},
    },
    world::{TestProject, World},
};

on_both_stores!(
    check_page_shows_the_timeline_and_resends_the_callback,
    timeline_shows_the_connector_and_the_pending_time,
    the_handset_runs_a_check_from_end_to_end,
    viewers_see_no_numbers_or_receiver_secrets,
);

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

async fn check_page_shows_the_timeline_and_resends_the_callback(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    let first = receiver.next().await;

    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = format!("{}/checks/reverse_sms/{}", path_of(&world, &backend.project), check.id);
    world.wait_for_callback_results().await;
    let text = browser.get(&page).await.assert(200).text();
    for part in [
        "delivered",
        "Created",
        "Completed",
        "match",
        "Callback, attempt 1",
        "POST http",
        "signature=&#34;…&#34;",
        &check.id,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(EVEN) && !text.contains(&check.body), "numbers and codes are not stored");

    world.advance(SignedDuration::from_secs(1));
    let sent = browser.submit(&page, &format!("{page}/resend"), &[]).await;
    let next = location(&sent).to_owned();
    assert!(browser.get(&next).await.text().contains("being resent"));
    let resent = receiver.next().await;
    assert_eq!((resent.body.clone(), resent.header("x-service-callback-attempt")), (first.body.clone(), "1"));
    world.wait_for_callback_results().await;
    assert!(browser.get(&page).await.assert(200).text().contains("Callback, attempt 2"));

    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.assert(200).json();
    assert_eq!(events["content"][0]["action"], "callback.resent");
    assert_eq!(events["content"][0]["target"], json!({"type": "check", "id": check.id}));
}

async fn viewers_see_no_numbers_or_receiver_secrets(world: World) {
    const RESPONSE: &str = "HTTP/1.1 200 OK\r\nSet-Cookie: sid=cookie-secret\r\nX-Trace: header-secret\r\n\
                          Content-Length: 42\r\n\r\nfor 990123456710 and +447700900123: secret";
    const NUMBER: &str = "+990123456710";
    ScriptedOperator::of(&world);
    let mut receiver = Receiver::start().await;
    receiver.respond_with([RESPONSE]);
    let configured = json!({"discovery": {"callback_url": "https://hooks.example/cb?key=query-secret"}});
    let silent = SilentClient::with(&world, DISCOVERY, json!({"configuration": configured})).await;
    let url = receiver.url("/cb?key=query-secret&for=%2B447700900123");
    let check = silent.create(json!({"callback_url": url})).await;
    let code = silent.complete_redirect(&format!("{}&sim={NUMBER}", check.target)).await;
    silent.redeem(&check.id, &code).await.assert(200);
    assert_eq!(receiver.next().await.json()["phone_number"], NUMBER);
    world.wait_for_callback_results().await;

    let project = path_of(&world, &silent.project);
    let pages = [format!("{project}/checks/discovery/{}", check.id), format!("{project}/settings")];
    for &role in Role::VARIANTS {
        let mut browser = Browser::member(&world, &world.acme, role).await;
        let texts = [browser.get(&pages[0]).await.assert(200), browser.get(&pages[1]).await.assert(200)];
        let text = texts.map(|page| page.text()).concat();
        for number in ["990123456710", "447700900123"] {
            assert!(!text.contains(number), "{role}: {text}");
        }
        assert!(!text.contains("cookie-secret"), "{role}");
        assert!(text.contains("Callback, attempt 1") && text.contains("/cb?"), "{role}: {text}");
        for part in ["query-secret", "header-secret", "&#34;phone_number&#34;:&#34;+…10", "signature=", ": secret"] {
            assert_eq!(text.contains(part), role >= Role::Developer, "{role} {part}: {text}");
        }
    }
}

/// Returns the timeline entries without their times and without the time since creation.
fn timeline(page: &str) -> Vec<String> {
    let list = page.split("<ol class=\"timeline\">").nth(1).unwrap().split("</ol>").next().unwrap();
    let line = |item: &str| {
        let (_, words) = item.split_once("</time>").unwrap_or_else(|| panic!("{item}"));
        let words = words.split("<span class=\"elapsed\"").next().unwrap_or_default();
        let words = words.split('<').map(|part| part.rsplit('>').next().unwrap_or_default().trim());
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ")
    };
    list.split("<li>").skip(1).map(line).collect()
}

async fn timeline_shows_the_connector_and_the_pending_time(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Viewer).await;
    let checks = format!("{}/checks/reverse_sms", path_of(&world, &backend.project));
    let text = "Sent from the number, incomplete or without the code.";
    let pending = format!("Pending: {text}");

    let check = backend.create(json!({"phone_number": EVEN})).await;
    backend.text(EVEN, &check.receiver, "hello").await;
    backend.expect_status(&check.id, "PENDING").await;
    let page = format!("{checks}/{}", check.id);
    let now = timeline(&browser.get(&page).await.assert(200).text());
    let [received, open] = ["SMS received: via connector sandbox", "Expires: Unless it completes earlier."];
    assert_eq!(now, ["Created", received, &pending, open]);
    world.advance(SignedDuration::from_secs(7));
    backend.text(EVEN, &check.receiver, &check.body).await;
    backend.expect_status(&check.id, "COMPLETED").await;
    let then = timeline(&browser.get(&page).await.assert(200).text());
    assert_eq!(then, ["Created", "SMS received", &pending, received, "Completed: match"]);

    let late = backend.create(json!({"phone_number": EVEN})).await;
    backend.text(EVEN, &late.receiver, "hello").await;
    backend.expect_status(&late.id, "PENDING").await;
    world.advance(SignedDuration::from_secs(300));
    let page = browser.get(&format!("{checks}/{}", late.id)).await.assert(200).text();
    let expired = "Expired: Not completed in time.";
    assert_eq!(timeline(&page), ["Created", received, &pending, expired]);
}

async fn the_handset_runs_a_check_from_end_to_end(world: World) {
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let handset = format!("{}/handset", path_of(&world, &project));
    assert_well_formed(&handset, &browser.get(&handset).await);
    let new = [("product", "reverse_sms"), ("number", EVEN), ("reference", "order 7")];
    let response = browser.submit_and_follow(&handset, &handset, &new).await.assert(200);
    assert_well_formed(&handset, &response);
    let text = response.text();
    let value = |name: &str| {
        let mark = format!("name=\"{name}\"");
        let tag = text.split('<').find(|tag| tag.contains(&mark)).unwrap_or_else(|| panic!("no {name}: {text}"));
        tag.split("value=\"").nth(1).unwrap_or_default().split('"').next().unwrap_or_default().to_owned()
    };
    let body = text.split("<textarea").nth(1).unwrap().split('>').nth(1).unwrap().split('<').next().unwrap();
    assert!(text.contains(&format!("sms:{}?body=", value("receiver"))), "{text}");
    let (check, receiver) = (value("check"), value("receiver"));
    let sms = [("check", &*check), ("sim", EVEN), ("receiver", &receiver), ("body", body)];
    let sent = browser.submit(&handset, &format!("{handset}/sms"), &sms).await;
    let page = location(&sent).to_owned();
    world.wait_for_sms().await;
    let ended = browser.get(&page).await.assert(200).text();
    assert!(ended.contains("COMPLETED"), "{ended}");
    assert!(ended.contains("order 7") && ended.contains("No callback was requested."), "{ended}");

    let wrong = browser.submit(&handset, &handset, &[("number", "no number")]).await.assert(400).text();
    assert!(wrong.contains("role=\"alert\"") && wrong.contains("value=\"no number\""), "{wrong}");
}

#[tokio::test]
async fn the_handset_opens_a_silent_check() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let handset = format!("{}/handset", path_of(&world, &project));
    for (product, number, result) in [("secure_sna", EVEN, "match"), ("discovery", "", "number …")] {
        let text =
            browser.submit_and_follow(&handset, &handset, &[("product", product), ("number", number)]).await.text();
        let after = |mark: &str| text.split(mark).nth(1).unwrap().split('"').next().unwrap().to_owned();
        let (path, token, check) =
            (after("method=\"get\" action=\""), after("name=\"t\" value=\""), after("name=\"check\" value=\""));
        // The device is a separate client that follows redirects.
        let mut target = format!("{path}?t={token}&sim={}", EVEN.replace('+', "%2B"));
        let code = loop {
            let response =
                crate::client::send(world.node.address, &Request::get(&target).header("Sec-Fetch-Dest", "document"))
                    .await;
            if response.status == 200 {
                let text = response.text();
                let code = text.split("<code ").nth(1).and_then(|code| code.split_once('>')).unwrap().1;
                break code.split('<').next().unwrap().to_owned();
            }
            let next = response.header("location").unwrap_or_else(|| panic!("{}", response.text()));
            target = next.strip_prefix(&world.node.base_url).unwrap_or(next).to_owned();
        };
        let fields = [("check", &*check), ("product", product), ("code", &code)];
        let redeemed = browser.submit(&handset, &format!("{handset}/code"), &fields).await;
        let page = browser.get(location(&redeemed)).await.assert(200).text();
        assert!(page.contains("COMPLETED") && page.contains(result), "{page}");
        let lines = timeline(&page);
        let before = ["Created", "URL opened", "Pending: The device was redirected to its operator."];
        assert_eq!(lines[..3], before, "{lines:?}");
        assert!(lines[3].starts_with("Completed"), "{lines:?}");
    }
}

#[tokio::test]
async fn live_projects_have_no_handset() {
    let world = World::sqlite().await;
    let project = world.project("Live", json!({"mode": "live"})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Owner).await;
    let path = path_of(&world, &project);
    browser.get(&format!("{path}/handset")).await.assert(409);
    let list = browser.get(&format!("{path}/checks/reverse_sms")).await.assert(200).text();
    assert!(!list.contains("/handset\""), "{list}");
}

#[tokio::test]
async fn search_filters_or_marks_the_syntax_error() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    for number in 0..30 {
        let phone = format!("+9901234567{number:02}");
        backend.create(json!({"phone_number": phone, "reference_id": format!("order-{number}")})).await;
    }
    let mut browser = Browser::member(&world, &world.acme, Role::Viewer).await;
    let checks = format!("{}/checks/reverse_sms", path_of(&world, &backend.project));
    let first = browser.get(&checks).await.assert(200);
    assert_well_formed(&checks, &first);
    assert!(first.text().contains("30 total") && first.text().contains("Page 1 of 2"), "{}", first.text());
    assert!(browser.get(&format!("{checks}?page=2")).await.text().contains("rel=\"prev\""));
    let one = browser.get(&format!("{checks}?search=reference_id%3D%3Dorder-7")).await.assert(200).text();
    assert!(one.contains("1 total") && one.contains("order-7<"), "{one}");

    let wrong = browser.get(&format!("{checks}?search=status%3D%3DDONE%3Bx")).await.assert(400);
    assert_well_formed(&checks, &wrong);
    assert!(
        wrong.text().contains("at column 9") && wrong.text().contains("status==<mark>D</mark>ONE"),
        "{}",
        wrong.text()
    );
    browser.get(&checks.replace("reverse_sms", "eligibility")).await.assert(404);
}

#[tokio::test]
async fn filters_write_the_search_expression() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let matched = backend.create(json!({"phone_number": EVEN, "reference_id": "=1+1"})).await;
    backend.text(EVEN, &matched.receiver, &matched.body).await;
    backend.expect_status(&matched.id, "COMPLETED").await;
    world.advance(SignedDuration::from_secs(1));
    let open = backend.create(json!({"phone_number": "+990123456702", "reference_id": "a,\"b\""})).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let checks = format!("{}/checks/reverse_sms", path_of(&world, &backend.project));
    let page = viewer.get(&checks).await.assert(200);
    assert_well_formed(&checks, &page);
    let chip = |page: &str, title: &str| {
        let links = page.split("<a class=\"chip\" href=\"").skip(1);
        let link =
            links.filter_map(|link| link.split_once('"')).find(|(_, rest)| rest.contains(&format!(">{title}</a>")));
        let (path, rest) = link.unwrap_or_else(|| panic!("no {title}: {page}"));
        (path.replace("&#38;", "&"), rest.starts_with(" aria-current"))
    };
    let (completed, is_on) = chip(&page.text(), "Completed");
    assert!(!is_on);
    let page = viewer.get(&completed).await.assert(200).text();
    assert!(page.contains("value=\"status==COMPLETED\"") && page.contains("1 total"), "{page}");
    let (all, is_on) = chip(&page, "Completed");
    assert_eq!((all, is_on), (checks.clone(), true));
    let (both, _) = chip(&page, "Accepted");
    let page = viewer.get(&both).await.assert(200).text();
    assert!(page.contains("status=in=(COMPLETED,ACCEPTED)") && page.contains("2 total"), "{page}");
    let (no_match, _) = chip(&page, "No match");
    assert!(viewer.get(&no_match).await.assert(200).text().contains("No matching checks."));
    let (today, _) = chip(&page, "Today");
    assert!(viewer.get(&today).await.assert(200).text().contains("2 total"));

    let range = |from: &str, to: &str| format!("{checks}?search=status%3D%3DCOMPLETED&from={from}&to={to}");
    for (from, to, found) in [("2026-01-01", "2026-01-01", true), ("2025-12-01", "2025-12-31", false), ("", "", true)] {
        let redirect = viewer.get(&range(from, to)).await;
        let page = viewer.get(location(&redirect)).await.assert(200);
        assert_well_formed(&checks, &page);
        assert_eq!(page.text().contains(&matched.id), found, "{from} {to}");
        assert!(page.text().contains(&format!("type=\"date\" value=\"{to}\"")), "{}", page.text());
    }

    let file = viewer.get(&format!("{checks}/export.csv")).await.assert(200);
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"reverse_sms-checks.csv\""));
    let text = file.text();
    let lines: Vec<_> = text.split("\r\n").collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[1].starts_with(&open.id) && lines[1].contains(",\"a,\"\"b\"\"\","), "{text}");
    assert!(lines[2].starts_with(&format!("{},reverse_sms,COMPLETED,match,…00,'=1+1,", matched.id)), "{text}");
    let file = viewer.get(&format!("{checks}/export.csv?search=status%3D%3DERROR")).await.assert(200).text();
    assert_eq!(file.lines().count(), 1, "{file}");
    viewer.get(&format!("{checks}/export.csv?search=x")).await.assert(400);

    // Spreadsheets may also split fields at separators other than commas.
    for (reference, field) in [("x;=1+1", "\"x;'=1+1\""), ("x\t=1+1", "\"x\t'=1+1\""), ("x,=1+1", "\"x,'=1+1\"")] {
        world.advance(SignedDuration::from_secs(1));
        backend.create(json!({"phone_number": "+990123456704", "reference_id": reference})).await;
        let file = viewer.get(&format!("{checks}/export.csv")).await.assert(200).text();
        assert!(file.contains(&format!(",…04,{field},")), "{file}");
    }
}

#[tokio::test]
async fn hostile_text_is_escaped() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Owner).await;
    let path = path_of(&world, &backend.project);
    let (checks, handset) = (format!("{path}/checks/reverse_sms"), format!("{path}/handset"));
    for (hostile, shown) in [
        (
            "\"><script>alert(1)</script><img src=x onerror=y>'",
            "&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#60;img src=x onerror=y&#62;&#39;",
        ),
        ("=HYPERLINK(\"x\")", "=HYPERLINK(&#34;x&#34;)"),
        ("a\r\nx-evil: 1\r\n\r\n<script>", "a\r\nx-evil: 1\r\n\r\n&#60;script&#62;"),
        ("\u{202e}gpj.exe", "\u{202e}gpj.exe"),
    ] {
        let check = backend.create(json!({"phone_number": EVEN, "reference_id": hostile})).await;
        let search = url::form_urlencoded::byte_serialize(hostile.as_bytes()).collect::<String>();
        let (one, wrong) = (format!("{checks}/{}", check.id), format!("{checks}?search={search}"));
        let fields = [("number", hostile), ("reference", hostile), ("callback_url", hostile)];
        let refused = browser.submit(&handset, &handset, &fields).await.assert(400);
        for page in [&checks, &one, &wrong] {
            let response = browser.get(page).await;
            assert!(response.text().contains(shown), "{page}: {}", response.text());
            assert_well_formed(page, &response);
        }
        for response in [browser.get(&checks).await, browser.get(&one).await, browser.get(&wrong).await, refused] {
            assert!(!response.text().contains("<script>") && !response.text().contains("<img"), "{}", response.text());
            assert_eq!(response.header("x-evil"), None);
        }
        // The value is alone in its table cell, so that bidirectional control characters cannot reorder other text.
        let list = browser.get(&checks).await.text();
        assert!(list.contains(&format!(" title=\"{shown}\">{shown}</td>")), "{list}");
    }
}

#[tokio::test]
async fn check_of_another_project_is_forbidden() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    let other = world.project("Other", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Owner).await;
    let token = browser.form_token(&format!("/console/workspaces/{}", world.acme.workspace_id)).await;
    let page = format!("{}/checks/reverse_sms/{}", path_of(&world, &other), check.id);
    browser.get(&page).await.assert(403);
    browser.post(&format!("{page}/resend"), &token, &[]).await.assert(403);
}
