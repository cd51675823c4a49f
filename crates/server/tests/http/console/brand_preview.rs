use ringtrue_domain::account::Role;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::{browser::Browser, pages::assert_well_formed};
use crate::{
    client::{HttpResponse, Request},
    world::{TestProject, World},
};

fn settings_path(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}/settings", world.acme.workspace_id, project.project_id)
}

/// A project with a saved brand, and a viewer's browser.
async fn branded_project() -> (World, TestProject, Browser) {
    let world = World::sqlite().await;
    let brand = json!({
        "name": "Saved brand",
        "logo_url": "https://saved.example/logo.svg?v=1",
        "support_url": "https://saved.example/help",
        "colour": "#0b6e4f",
    });
    let project = world.project("Shop", json!({"configuration": {"verification": {"brand": brand}}})).await;
    let viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    (world, project, viewer)
}

async fn open(browser: &mut Browser, settings: &str, parameters: &[(&str, &str)]) -> HttpResponse {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let response = browser.get(&format!("{settings}/preview?{query}")).await.assert(200);
    assert_inert(&response);
    response
}

/// Checks that the page can be framed by the console only, and does nothing.
fn assert_inert(response: &HttpResponse) {
    let (policy, html) = (response.header("content-security-policy").unwrap(), response.text());
    for part in ["default-src 'none'; ", "; script-src 'none'; ", "; base-uri 'none'; "] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(policy.ends_with("; frame-ancestors 'self'; sandbox"), "{policy}");
    assert_eq!(response.header("x-frame-options"), Some("SAMEORIGIN"));
    assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
    for part in ["<script", "http-equiv", "data-return-to", "data-events", "href=\"http", "href=\"sms:", "action=\"/"] {
        assert!(!html.contains(part), "{part} in {html}");
    }
}

fn image_sources(response: &HttpResponse) -> String {
    let policy = response.header("content-security-policy").unwrap();
    policy.split("; ").find_map(|directive| directive.strip_prefix("img-src ")).unwrap().to_owned()
}

#[tokio::test]
async fn preview_shows_the_brand_of_the_query() {
    let (world, project, mut viewer) = branded_project().await;
    let settings = settings_path(&world, &project);
    let parameters = [
        ("name", "Nordwind & Söhne"),
        ("logo_url", "https://cdn.example:8443/logo.svg"),
        ("support_url", "https://nordwind.example/help"),
        ("colour", "#D64A1F"),
    ];
    for (state, language, title) in [
        ("start", "en", "Confirm your phone number"),
        ("send_sms", "en", "Send us a text message"),
        ("sms_received", "en", "We received a message"),
        ("done", "en", "Number confirmed"),
        ("not_matched_phone", "en", "Number not confirmed"),
        ("expired", "en", "This link has expired"),
        ("send_sms", "de", "Senden Sie uns eine SMS"),
    ] {
        let parameters = [&[("state", state), ("lang", language)], &parameters[..]].concat();
        let response = open(&mut viewer, &settings, &parameters).await;
        let html = response.text();
        for part in [
            &format!("<html lang=\"{language}\""),
            &format!("<h1>{title}</h1>"),
            "<span>Nordwind &#38; Söhne</span>",
            "<img src=\"https://cdn.example:8443/logo.svg\"",
            "--accent:#d64a1f",
            "rel=\"noopener noreferrer\"",
        ] {
            assert!(html.contains(part), "{part} not in {html}");
        }
        assert!(!html.contains("aved") && !html.contains("class=\"qr\""), "{html}");
        assert_eq!(image_sources(&response), "'self' https://cdn.example:8443");
    }
}

/// A parameter that is missing has the saved value. An empty or invalid one is not set.
#[tokio::test]
async fn preview_leaves_out_invalid_values() {
    let (world, project, mut viewer) = branded_project().await;
    let settings = settings_path(&world, &project);
    let saved = viewer.get(&format!("{settings}/preview")).await.assert(200);
    assert_inert(&saved);
    let html = saved.text();
    for part in ["<html lang=\"en\"", "<h1>Confirm your phone number</h1>", "<span>Saved brand</span>", "#0b6e4f"] {
        assert!(html.contains(part), "{html}");
    }
    assert_eq!(image_sources(&saved), "'self' https://saved.example");

    let long_name = "x".repeat(61);
    let url_with_quotes = "https://a.example/\"><script>alert(1)</script>";
    for [name, logo_url, support_url, colour, state, language] in [
        ["", "", "", "", "", ""],
        [" ", " ", " ", " ", "nothing", "xx"],
        [&long_name, "http://a.example/logo.svg", "http://a.example/help", "red", "START", "../de"],
        ["a\nb", "javascript:alert(1)", "javascript:alert(1)", "#fff;}a{", "<script>", "\"><script>"],
        ["\u{0}", "data:image/png;base64,AA==", "//a.example", "url(https://a.example)", "done ", "*"],
    ] {
        let response = open(
            &mut viewer,
            &settings,
            &[
                ("name", name),
                ("logo_url", logo_url),
                ("support_url", support_url),
                ("colour", colour),
                ("state", state),
                ("lang", language),
            ],
        )
        .await;
        let html = response.text();
        assert!(html.contains("<span>Shop</span>") && html.contains("--accent:#0f6b63"), "{html}");
        assert!(html.contains("<html lang=\"en\"") && html.contains("<h1>Confirm your phone number</h1>"), "{html}");
        for part in ["<img", "noopener", "a.example", "alert", "aved"] {
            assert!(!html.contains(part), "{part} in {html}");
        }
        assert_eq!(image_sources(&response), "'self'");
    }

    let hostile = "</style><img src=x onerror=\"a\">";
    let parameters = [("name", hostile), ("logo_url", url_with_quotes), ("support_url", url_with_quotes)];
    let html = open(&mut viewer, &settings, &parameters).await.text();
    assert!(html.contains("<span>&#60;/style&#62;&#60;img src=x onerror=&#34;a&#34;&#62;</span>"), "{html}");
    assert!(!html.contains("<img src=x") && !html.contains("\"><script"), "{html}");
    assert_eq!(html.matches("</style>").count(), 2, "{html}");

    for query in ["preview?name=a&name=b", "preview?path=x", "preview?name=%ff"] {
        let refused = viewer.get(&format!("{settings}/{query}")).await.assert(400);
        assert_well_formed(query, &refused);
    }
}

#[tokio::test]
async fn preview_changes_nothing() {
    let (world, project, _) = branded_project().await;
    let settings = settings_path(&world, &project);
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let read = async || -> [Value; 2] {
        let events = format!("{}/audit-events", world.acme.path());
        let [project, events] = [Request::get(&project.path), Request::get(&events)];
        [world.manage(project).await.assert(200).json(), world.manage(events).await.assert(200).json()]
    };
    let before = read().await;
    open(&mut developer, &settings, &[("name", "Other"), ("colour", "#112233")]).await;
    assert_eq!(read().await, before);
    let page = developer.get(&settings).await.assert(200).text();
    assert!(page.contains("value=\"Saved brand\"") && page.contains("value=\"#0b6e4f\""), "{page}");
}

#[tokio::test]
async fn preview_is_for_members_of_the_workspace() {
    let (world, project, mut viewer) = branded_project().await;
    let preview = format!("{}/preview", settings_path(&world, &project));
    let other = world.another_tenant().await;
    let mut outsider = Browser::member(&world, &other, Role::Owner).await;
    let own_path = preview.replace(&world.acme.workspace_id, &other.workspace_id);
    for (path, status) in [(&preview, 403), (&own_path, 404)] {
        let response = outsider.get(path).await.assert(status);
        assert_well_formed(path, &response);
        assert!(!response.text().contains("Saved brand"), "{}", response.text());
    }
    Browser::new(&world).get(&preview).await.assert(303);
    viewer.get(&preview).await.assert(200);
}

#[tokio::test]
async fn settings_show_the_preview_in_a_sandbox() {
    let (world, project, mut viewer) = branded_project().await;
    let settings = settings_path(&world, &project);
    let page = viewer.get(&settings).await.assert(200);
    assert_well_formed(&settings, &page);
    let html = page.text();
    let frame =
        format!("<iframe src=\"{settings}/preview\" title=\"Preview of the hosted page\" sandbox=\"\"></iframe>");
    assert_eq!(html.matches("<iframe").count(), 1, "{html}");
    assert!(html.contains(&frame) && html.contains("<script src=\"/console/assets/preview.js\" defer>"), "{html}");
    // The script shows the selects, which do nothing without it.
    assert!(html.contains("data-preview-choices hidden>"), "{html}");
    let select =
        |id: &str| html.split(&format!("<select id=\"{id}\"")).nth(1).unwrap().split("</select>").next().unwrap();
    assert_eq!(select("preview-state").matches("<option").count(), 6);
    assert_eq!(select("preview-language").matches("<option").count(), 20);
    assert!(!viewer.get(&settings.replace("/settings", "/overview")).await.text().contains("preview.js"));
}
