use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    world::World,
};

on_both_stores!(
    developers_create_and_change_projects,
    credentials_are_created_shown_once_and_deleted,
    credentials_are_rotated_with_an_overlap,
);

/// Returns the id and secret of a new credential from the page that follows its form. A reload does not show them
/// again.
async fn revealed(browser: &mut Browser, created: &HttpResponse) -> (String, String) {
    let page = location(created).to_owned();
    let shown = browser.get(&page).await.assert(200);
    assert_well_formed(&page, &shown);
    let after = |id: &str| {
        let text = shown.text();
        let rest = text.split(&format!("<code id=\"{id}\">")).nth(1).unwrap_or_else(|| panic!("{text}")).to_owned();
        rest.split('<').next().unwrap().to_owned()
    };
    let (id, secret) = (after("new-client-id"), after("new-client-secret"));
    let again = browser.get(&page).await.assert(200).text();
    assert!(again.contains(&id) && !again.contains(&secret), "a secret is shown once");
    (id, secret)
}

async fn developers_create_and_change_projects(world: World) {
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let new = format!("{workspace}/new-project");
    assert_well_formed(&new, &browser.get(&new).await.assert(200));
    let blank = browser.submit(&new, &new, &[("name", " ")]).await.assert(400);
    assert!(blank.text().contains("must not be empty"), "{}", blank.text());
    let created = browser.submit(&new, &new, &[("name", "Shop <1>")]).await;
    revealed(&mut browser, &created).await;
    assert!(browser.get(location(&created)).await.text().contains("Shop &#60;1&#62;"));
    browser.submit(&new, &new, &[("name", "Shop <1>")]).await.assert(400);

    let listed = world.manage(Request::get(&format!("{}/projects", world.acme.path()))).await.json();
    let id = listed["content"][0]["project_id"].as_str().unwrap().to_owned();
    let settings = format!("{workspace}/projects/{id}/settings");
    assert_well_formed(&settings, &browser.get(&settings).await.assert(200));
    for (part, fields) in [
        ("general", &[("name", "Store"), ("reverse_sms", "on")][..]),
        (
            "products",
            &[
                ("reverse_sms.ttl", "120"),
                ("reverse_sms.auto_reply", "on"),
                ("discovery.redirect_url", "https://example.com/done"),
            ],
        ),
        (
            "hosted-page",
            &[
                ("verification.methods", "reverse_sms secure_sna"),
                ("verification.fall_back_on_mismatch", "on"),
                ("verification.ttl", "900"),
                ("verification.brand.name", "Shop"),
                ("verification.brand.colour", "#0B6E4F"),
            ],
        ),
        (
            "callbacks",
            &[("callbacks.url", "https://example.com/all"), ("reverse_sms.callback_url", "https://example.com/cb")],
        ),
    ] {
        world.advance(SignedDuration::from_secs(1));
        let response = save_part(&mut browser, &settings, part, fields).await.assert(303);
        assert_eq!(location(&response), format!("{settings}?saved={part}#{part}"));
        let saved = browser.get(&format!("{settings}?saved={part}")).await.assert(200);
        assert_well_formed(&settings, &saved);
        let text = saved.text();
        assert!(text.split("<section").any(|html| html.contains(&format!("id=\"{part}\"")) && html.contains("Saved.")));
        assert_eq!(text.matches("Saved.").count(), 1, "{text}");
    }
    let saved = browser.get(&settings).await.assert(200);
    assert!(saved.text().contains("<details open>"), "a product has its own URL: {}", saved.text());
    let project = world.manage(Request::get(&format!("{}/projects/{id}", world.acme.path()))).await.assert(200).json();
    assert_eq!((&project["name"], &project["products"]), (&json!("Store"), &json!(["reverse_sms"])));
    assert_eq!(project["configuration"]["reverse_sms"]["ttl"], 120);
    assert_eq!(project["configuration"]["reverse_sms"]["callback_url"], "https://example.com/cb");
    assert_eq!(project["configuration"]["callbacks"], json!({"url": "https://example.com/all"}));
    assert_eq!(project["configuration"]["discovery"]["redirect_url"], "https://example.com/done");
    let verification = json!({
        "methods": ["reverse_sms", "secure_sna"],
        "fall_back_on_mismatch": true,
        "ttl": 900,
        "brand": {"name": "Shop", "colour": "#0b6e4f"},
    });
    assert_eq!(project["configuration"]["verification"], verification);
    assert!(saved.text().contains("value=\"reverse_sms secure_sna\" selected"), "{}", saved.text());

    rejected_fields_keep_what_was_typed(&mut browser, &settings).await;
    let go_live = format!("{settings}/mode");
    assert!(!browser.get(&settings).await.text().contains(&go_live), "developers see no form for going live");
    browser.submit(&settings, &go_live, &[("mode", "live"), ("confirm", "on")]).await.assert(403);
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    take_live_and_toggle(&world, &mut owner, &settings, &id).await;
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.json();
    assert_eq!(events["content"][0]["action"], "project.updated");
    assert_eq!(events["content"][0]["actor"]["type"], "account");
}

async fn save_part(browser: &mut Browser, settings: &str, part: &str, fields: &[(&str, &str)]) -> HttpResponse {
    browser.submit(settings, settings, &[&[("part", part)], fields].concat()).await
}

/// The page shows an error at its field, with the submitted values of its part and the stored values of the others.
async fn rejected_fields_keep_what_was_typed(browser: &mut Browser, settings: &str) {
    for (part, name, value, why) in [
        ("general", "name", " ", "must not be empty"),
        ("products", "reverse_sms.ttl", "5", "60 to 900"),
        ("products", "reverse_sms.ttl", "x", "60 to 900"),
        ("products", "discovery.redirect_url", "/back", "not absolute"),
        ("callbacks", "reverse_sms.callback_url", "ftp://example.com", "scheme"),
        ("callbacks", "callbacks.url", "https://user@example.com/", "user name"),
        ("callbacks", "callbacks.retry_for", "999999", "259200"),
        ("hosted-page", "verification.methods", "sim_swap", "Unknown method"),
        ("hosted-page", "verification.ttl", "5", "60 to 3600"),
        ("hosted-page", "verification.redirect_origins", "https://a.example https://b.example/x", "origin"),
        ("hosted-page", "verification.brand.logo_url", "http://example.com/logo.svg", "https"),
        ("hosted-page", "verification.brand.support_url", "http://example.com/help", "https"),
        ("hosted-page", "verification.brand.colour", "red\"<", "six hexadecimal digits"),
    ] {
        let response = save_part(browser, settings, part, &[(name, value)]).await.assert(400);
        assert_well_formed(settings, &response);
        let text = response.text();
        let section = text.split("<section class=\"part\" ").find(|html| html.starts_with(&format!("id=\"{part}\"")));
        let section = section.unwrap_or_else(|| panic!("{text}"));
        assert!(section.contains("role=\"alert\">No changes were saved."), "{section}");
        let field = section.split('<').find(|tag| tag.contains(&format!(" name=\"{name}\""))).unwrap();
        assert!(field.contains(&format!("aria-invalid=\"true\" aria-describedby=\"{name}-error\"")), "{field}");
        // The offered methods are a list, so another one cannot be shown.
        let typed = value.replace('"', "&#34;").replace('<', "&#60;");
        assert!(name == "verification.methods" || field.contains(&format!("value=\"{typed}\"")), "{field}");
        let error = section.split(&format!("id=\"{name}-error\">")).nth(1).unwrap().split("</p>").next().unwrap();
        assert!(error.contains(why), "{error}");
        assert_eq!(text.matches("aria-invalid").count(), 1, "{text}");
        let ttl_is_stored = text.contains("name=\"reverse_sms.ttl\" inputmode=\"numeric\" value=\"120\"");
        assert_eq!(ttl_is_stored, part != "products", "other parts show what is stored: {text}");
    }
    for part in ["", "unknown", "danger-zone"] {
        save_part(browser, settings, part, &[("name", "Store")]).await.assert(404);
    }
}

/// Takes a project live, then disables and enables it. Each step requires confirmation. The project cannot return to
/// the sandbox.
async fn take_live_and_toggle(world: &World, browser: &mut Browser, settings: &str, id: &str) {
    let (mode, disabled) = (format!("{settings}/mode"), format!("{settings}/disabled"));
    for (action, fields, status, now) in [
        (&mode, &[("mode", "live")][..], 400, ("sandbox", false)),
        (&mode, &[("mode", "alive"), ("confirm", "Store")], 400, ("sandbox", false)),
        (&mode, &[("mode", "live"), ("confirm", "store"), ("force", "on")], 400, ("sandbox", false)),
        (&mode, &[("mode", "live"), ("confirm", "Store")], 400, ("sandbox", false)),
        (&mode, &[("mode", "live"), ("confirm", "Store"), ("force", "on")], 303, ("live", false)),
        (&disabled, &[("disabled", "yes")], 400, ("live", false)),
        (&disabled, &[("disabled", "yes"), ("confirm", "store")], 400, ("live", false)),
        (&disabled, &[("disabled", "yes"), ("confirm", "Store")], 303, ("live", true)),
        (&disabled, &[("disabled", "no")], 303, ("live", false)),
        (&mode, &[("mode", "sandbox"), ("confirm", "Store")], 400, ("live", false)),
    ] {
        world.advance(SignedDuration::from_secs(1));
        let response = browser.submit(settings, action, fields).await.assert(status);
        match status {
            303 if fields[0] == ("mode", "live") => drop(revealed(browser, &response).await),
            303 => assert_eq!(location(&response), format!("{settings}?saved=danger-zone#danger-zone")),
            _ => assert_well_formed(settings, &response),
        }
        let project = world.manage(Request::get(&format!("{}/projects/{id}", world.acme.path()))).await.json();
        assert_eq!((project["mode"].as_str(), project["disabled"].as_bool()), (Some(now.0), Some(now.1)), "{fields:?}");
        assert_eq!(project["configuration"]["reverse_sms"]["ttl"], 120, "other settings are unchanged");
    }
}

async fn credentials_are_created_shown_once_and_deleted(world: World) {
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = format!("/console/workspaces/{}/projects/{}/credentials", world.acme.workspace_id, project.project_id);
    let listed = browser.get(&page).await.assert(200);
    assert_well_formed(&page, &listed);
    assert!(listed.text().contains(&project.client_id) && !listed.text().contains(&project.client_secret));

    let created = browser.submit(&page, &page, &[("label", "Web <shop>")]).await;
    assert_eq!(location(&created), page);
    // The cookie with the secret is bound to the session: another session with the same cookie does not show the
    // secret.
    let mut other = Browser::member_with_email(&world, &world.acme, "other@example.com", Role::Owner).await;
    let flash = browser.cookies["ringtrue-flash"].clone();
    other.cookies.insert("ringtrue-flash".to_owned(), flash);
    assert!(!other.get(&page).await.assert(200).text().contains("rts_"));
    let (id, secret) = revealed(&mut browser, &created).await;
    world.token(&id, &secret, "reverse_sms").await;
    let listed = browser.get(&page).await.text();
    let creator = format!("developer.{}@example.com", world.acme.workspace_id);
    assert!(listed.contains("Web &#60;shop&#62;") && listed.contains(&creator), "{listed}");

    let some = [("for", "some"), ("sim_swap", "on"), ("expires", "30")];
    let narrow = browser.submit(&page, &page, &some).await;
    let narrow = browser.get(location(&narrow)).await.assert(200).text();
    assert!(narrow.contains("scope=sim_swap ") && narrow.contains(">SIM Swap</td>"), "{narrow}");
    assert!(narrow.contains("2026-01-31"), "{narrow}");
    for wrong in [&[("for", "some")][..], &[("expires", "7")], &[("label", &*"x".repeat(101))]] {
        assert_well_formed(&page, &browser.submit(&page, &page, wrong).await.assert(400));
    }

    // A secret that is not viewed within a minute is not shown any more.
    let late = browser.submit(&page, &page, &[]).await;
    world.advance(SignedDuration::from_secs(61));
    assert!(!browser.get(location(&late)).await.text().contains("rts_"));

    let confirm = format!("{page}/{id}/delete");
    let asked = browser.get(&confirm).await.assert(200);
    assert_well_formed(&confirm, &asked);
    assert!(asked.text().contains(&id) && asked.text().contains("class=\"danger\""), "{}", asked.text());
    let gone = browser.submit(&confirm, &confirm, &[]).await;
    assert_eq!(location(&gone), page);
    assert_eq!(world.token_request(&id, &secret, "reverse_sms").await.status, 401);
    browser.submit(&page, &format!("{page}/{id}/delete"), &[]).await.assert(404);
    browser.submit(&page, &format!("{page}/{}/delete", world.acme.client_id), &[]).await.assert(403);
}

async fn credentials_are_rotated_with_an_overlap(world: World) {
    let project = world.project("Shop", json!({})).await;
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = format!("/console/workspaces/{}/projects/{}/credentials", world.acme.workspace_id, project.project_id);
    let fields = [("label", "Backend"), ("for", "some"), ("sim_swap", "on"), ("expires", "90")];
    let created = browser.submit(&page, &page, &fields).await;
    let (old, old_secret) = revealed(&mut browser, &created).await;

    world.advance(SignedDuration::from_hours(1));
    let rotate = format!("{page}/{old}/rotate");
    assert_well_formed(&rotate, &browser.get(&rotate).await.assert(200));
    browser.submit(&rotate, &rotate, &[("overlap", "5")]).await.assert(400);
    let rotated = browser.submit(&rotate, &rotate, &[("overlap", "1")]).await;
    let (new, new_secret) = revealed(&mut browser, &rotated).await;
    assert_ne!(new, old);
    let credential = async |id: &str| {
        let path = format!("{}/projects/{}/credentials/{id}", world.acme.path(), project.project_id);
        world.manage(Request::get(&path)).await.assert(200).json()
    };
    let body = credential(&new).await;
    assert_eq!((&body["scopes"], &body["expires_at"]), (&json!(["sim_swap"]), &json!("2026-04-01T01:00:00.000Z")));
    assert_eq!(credential(&old).await["expires_at"], "2026-01-01T02:00:00.000Z");
    let listed = browser.get(&page).await.text();
    assert_eq!(listed.matches(">Backend</td>").count(), 2, "{listed}");
    assert!(listed.contains("replaced") && !listed.contains(&rotate), "{listed}");
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.json();
    let event = &events["content"][0];
    assert_eq!((&event["action"], &event["target"]["id"]), (&json!("credential.created"), &json!(new)));
    assert_eq!(event["changes"][0], format!("replaces={old}"));

    // Both credentials are valid for an hour, then only the new one.
    world.token(&old, &old_secret, "sim_swap").await;
    world.token(&new, &new_secret, "sim_swap").await;
    world.advance(SignedDuration::from_hours(1));
    assert_eq!(world.token_request(&old, &old_secret, "sim_swap").await.status, 401);
    world.token(&new, &new_secret, "sim_swap").await;
    let listed = browser.get(&page).await.text();
    assert!(listed.contains("expired"), "{listed}");
    browser.submit(&page, &rotate, &[]).await.assert(404);

    // Without an overlap, the old credential and its tokens become invalid at once.
    let rotate = format!("{page}/{new}/rotate");
    let token = world.token(&new, &new_secret, "sim_swap").await;
    let request = || Request::get("/v1/sim-swap-checks").bearer(&token);
    world.send(request()).await.assert(200);
    browser.submit(&rotate, &rotate, &[("overlap", "0")]).await.assert(303);
    world.send(request()).await.assert_problem(401, "unauthorized");
}

#[tokio::test]
async fn only_owners_manage_workspace_credentials() {
    let world = World::sqlite().await;
    let page = format!("/console/workspaces/{}/credentials", world.acme.workspace_id);
    for role in [Role::Viewer, Role::Developer] {
        let mut browser = Browser::member(&world, &world.acme, role).await;
        let home = format!("/console/workspaces/{}", world.acme.workspace_id);
        let token = browser.form_token(&home).await;
        browser.get(&page).await.assert(403);
        browser.post(&page, &token, &[]).await.assert(403);
        browser.post(&format!("{page}/{}/delete", world.acme.client_id), &token, &[]).await.assert(403);
        assert!(!browser.get(&home).await.text().contains(&page), "the menu has no entry for it");
    }
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let listed = owner.get(&page).await.assert(200);
    assert_well_formed(&page, &listed);
    assert!(listed.text().contains(&world.acme.client_id) && !listed.text().contains(&world.acme.client_secret));
    let created = owner.submit(&page, &page, &[("expires", "90")]).await;
    let (id, secret) = revealed(&mut owner, &created).await;
    world.token(&id, &secret, "management").await;
    let gone = owner.submit(&page, &format!("{page}/{id}/delete"), &[]).await;
    assert_eq!(location(&gone), page);
    assert_eq!(world.token_request(&id, &secret, "management").await.status, 401);
    let last = owner.submit(&page, &format!("{page}/{}/delete", world.acme.client_id), &[]).await.assert(400).text();
    assert!(last.contains("A workspace needs a live credential"), "{last}");
    world.token(&world.acme.client_id, &world.acme.client_secret, "management").await;
    // The page of workspace credentials cannot delete a project's credential.
    let project = world.project("Shop", json!({})).await;
    owner.submit(&page, &format!("{page}/{}/delete", project.client_id), &[]).await.assert(403);
}

#[tokio::test]
async fn usage_is_counted_by_day_and_by_month() {
    let world = World::sqlite().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let page = format!("/console/workspaces/{}/usage", world.acme.workspace_id);
    let empty = viewer.get(&page).await.assert(200);
    assert_well_formed(&page, &empty);
    assert!(empty.text().contains("No checks in this period."), "{}", empty.text());

    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    backend.create(json!({"phone_number": "+990123456702"})).await;
    world.advance(SignedDuration::from_hours(1));
    for (by, period) in [("day", "2026-01-01"), ("month", "2026-01")] {
        let text = viewer.get(&format!("{page}?by={by}")).await.assert(200).text();
        assert!(text.contains("2 in total") && text.contains("<svg class=\"chart-svg\""), "{text}");
        let row = format!("class=\"period\">{period}<");
        let line = text.split("<tr>").find(|line| line.contains(&row)).unwrap_or_else(|| panic!("{text}"));
        for (column, count) in [("Created", 2), ("Match", 1), ("No match", 0)] {
            assert!(line.contains(&format!("data-label=\"{column}\">{count}<")), "{column}: {line}");
        }
        assert!(line.contains("Reverse SMS"), "{line}");
    }
    let file = viewer.get(&format!("{page}.csv?by=month")).await.assert(200);
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"usage.csv\""));
    let text = file.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "period,project_id,project,product,created,match,no_match,expired,error,open");
    assert!(lines[1].starts_with("2026-01,") && lines[1].contains(",reverse_sms,2,1,0,"), "{text}");
}
