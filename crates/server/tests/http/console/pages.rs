use ringtrue_domain::account::Role;
use ringtrue_engine::actor::Administrator;
use ringtrue_web::routes::Route;

use super::{browser::Browser, console_routes};
use crate::{
    client::{HttpResponse, Request},
    world::World,
};

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; connect-src 'self'; \
                      frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Checks headers and markup that every page must have.
pub fn assert_well_formed(path: &str, response: &HttpResponse) {
    assert_eq!(response.header("content-security-policy"), Some(POLICY), "{path}");
    assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
    let text = response.text();
    for odd in [
        " style=",
        "<style",
        "<script>",
        " onclick=",
        " onload=",
        "javascript:",
        "src=\"http",
        "href=\"http",
        "href=\"//",
        "action=\"http",
    ] {
        assert!(!text.contains(odd), "{path} has {odd}: {text}");
    }
    for part in ["<html lang=\"en\">", "href=\"#content\"", "id=\"content\"", "<h1", "name=\"viewport\""] {
        assert!(text.contains(part), "{path} lacks {part}");
    }
    assert_eq!(text.matches("<h1").count(), 1, "{path}");
    let (labels, ids) = (text.split(" for=\"").skip(1), |id: &str| text.contains(&format!("id=\"{id}\"")));
    for label in labels.map(|rest| rest.split('"').next().unwrap()) {
        assert!(ids(label), "{path}: no field has the id {label}");
    }
}

/// Returns the menu entry that is highlighted on the page.
pub fn current_entry(text: &str) -> &str {
    let (_, rest) = text.split_once("aria-current=\"page\">").unwrap_or_else(|| panic!("no current entry: {text}"));
    let entry = rest.split("</a>").next().unwrap_or_default();
    entry.rsplit('>').next().unwrap_or_default()
}

#[test]
fn console_routes_are_not_part_of_the_api() {
    assert!(ringtrue_api::public_routes().iter().all(|route| !route.path.starts_with("/console")));
    for Route { method, path, .. } in console_routes().iter() {
        assert!(*path == "/console" || path.starts_with("/console/"), "{path}");
        assert!(["GET", "POST"].contains(method), "browsers send no {method}");
    }
}

/// Tests every route except those for sign-in, including routes that are added later.
#[tokio::test]
async fn all_pages_require_a_session() {
    let world = World::sqlite().await;
    for Route { method, path, .. } in console_routes().iter() {
        let is_public = ["/console/sign-in", "/console/second-factor", "/console/link", "/console/invitation"]
            .contains(path)
            || path.starts_with("/console/openid-connect")
            || path.starts_with("/console/assets/")
            // This list is public, but empty without a session: the public API reference requests it.
            || *path == "/console/sandbox-projects";
        if is_public {
            continue;
        }
        let path = fill_path(path, &world.acme.workspace_id);
        let request = Request::new(method, &path);
        let request = if *method == "POST" { request.form(&[("form_token", "x")]) } else { request };
        let response = crate::client::send(world.node.address, &request).await;
        assert_eq!(response.status, 303, "{method} {path}: {}", response.text());
        assert!(response.header("location").unwrap().starts_with("/console/sign-in"), "{method} {path}");
    }
}

/// Tests every route with a workspace, including those that are added later.
#[tokio::test]
async fn pages_of_other_workspaces_are_forbidden() {
    let world = World::sqlite().await;
    let other = world.another_tenant().await;
    let mut outsider = Browser::member(&world, &other, Role::Owner).await;
    let token = outsider.form_token(&format!("/console/workspaces/{}/members", other.workspace_id)).await;
    for Route { method, path, .. } in console_routes().iter().filter(|route| route.path.contains("{workspace_id}")) {
        let path = fill_path(path, &world.acme.workspace_id);
        let response =
            if *method == "POST" { outsider.post(&path, &token, &[]).await } else { outsider.get(&path).await };
        assert_eq!(response.status, 403, "{method} {path}: {}", response.text());
        assert!(!response.text().contains("Acme"), "{path}");
    }
}

/// Tests every route with a workspace, including those that are added later.
#[tokio::test]
async fn viewers_cannot_submit_changes() {
    let world = World::sqlite().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let token = viewer.form_token(&format!("/console/workspaces/{}", world.acme.workspace_id)).await;
    let changes = console_routes();
    // These change nothing: they are forms because phone numbers must not be in URLs, and files cannot be.
    let is_exempt = |path: &str| path.ends_with("/search") || path.ends_with("/settings/preview");
    let is_change =
        |route: &&Route| route.method == "POST" && route.path.contains("{workspace_id}") && !is_exempt(route.path);
    for Route { path, .. } in changes.iter().filter(is_change) {
        let response = viewer.post(&fill_path(path, &world.acme.workspace_id), &token, &[]).await.assert(403);
        assert!(response.text().contains("does not permit this action"), "{path}");
        assert_well_formed(path, &response);
    }
}

pub fn fill_path(template: &str, workspace: &str) -> String {
    let id = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b";
    let path = template
        .replace("{workspace_id}", workspace)
        .replace("{project_id}", id)
        .replace("{check_id}", id)
        .replace("{request_id}", id)
        .replace("{account_id}", id)
        .replace("{invitation_id}", id)
        .replace("{session_id}", "x")
        .replace("{client_id}", "prj_x")
        .replace("{product}", "reverse_sms")
        .replace("{*rest}", "nothing");
    assert!(!path.contains('{'), "no value for a parameter of {template}");
    path
}

#[tokio::test]
async fn pages_are_well_formed() {
    let world = World::sqlite().await;
    let mut visitor = Browser::new(&world);
    let (engine, operator) = (&world.node.engine, Administrator::of_command_line());
    let link = engine.accounts.invite_admin(&operator, &"new@example.com".parse().unwrap()).await.unwrap().path;
    let email = "joe@example.com".parse().unwrap();
    let workspace = world.acme.workspace_id.parse().unwrap();
    let invitation = engine.accounts.invite_member_as_operator(workspace, &email, Role::Viewer).await.unwrap().path;
    for path in ["/console/sign-in", &link, "/console/link?token=x", &invitation, "/console/invitation?token=x"] {
        assert_well_formed(path, &visitor.get(path).await);
    }
    let mut admin = Browser::admin(&world).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let (members, invitations) = (format!("{workspace}/members"), format!("{workspace}/invitations"));
    for path in ["/console", "/console/nothing", "/console/account", &workspace, &members, &invitations, &invitation] {
        assert_well_formed(path, &admin.get(path).await);
    }
    for script in ["console", "live", "preview", "refresh"] {
        let script = visitor.get(&format!("/console/assets/{script}.js")).await.assert(200);
        assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    }
    let css = visitor.get("/console/assets/console.css").await.assert(200);
    assert_eq!(css.header("content-type"), Some("text/css; charset=utf-8"));
    assert!(!css.text().contains("http") && !css.text().contains("@import"));
}

#[tokio::test]
async fn menu_is_grouped_by_purpose() {
    let world = World::sqlite().await;
    let project = |name, mode| world.project(name, serde_json::json!({"mode": mode}));
    let (sandbox, live) = (project("Trial", "sandbox").await, project("Shop", "live").await);
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let titles = |text: &str, group: &str| -> Vec<String> {
        let (_, rest) = text.split_once(&format!("<ul aria-label=\"{group}\">")).unwrap_or_default();
        let entries = rest.split("</ul>").next().unwrap_or_default().split("</a>");
        entries
            .filter_map(|entry| Some(entry.rsplit_once('>')?.1.trim().to_owned()))
            .filter(|it| !it.is_empty())
            .collect()
    };
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let settings = |id: &str| format!("{workspace}/projects/{id}/settings");
    let text = owner.get(&settings(&sandbox.project_id)).await.assert(200).text();
    let observe = ["Overview", "Live", "Checks", "Callbacks", "Requests"];
    assert_eq!(titles(&text, "Observe"), observe);
    assert_eq!(titles(&text, "Build"), ["Getting started", "Handset", "Eligibility", "Signatures"]);
    assert_eq!(titles(&text, "Configure"), ["Settings", "Allowed networks", "Credentials"]);
    assert_eq!(titles(&text, "Workspace"), ["Projects", "Members", "Credentials", "Audit log", "Usage"]);
    assert_eq!(titles(&text, "Deployment"), [""; 0], "for administrators");
    assert_eq!(current_entry(&text), "Settings");
    assert!(text.contains(&format!("action=\"{workspace}/projects/{}/search\"", sandbox.project_id)), "{text}");

    let text = viewer.get(&settings(&live.project_id)).await.assert(200).text();
    assert_eq!(titles(&text, "Build"), ["Eligibility", "Signatures"]);
    assert_eq!(titles(&text, "Workspace"), ["Projects", "Members", "Usage"]);

    let mut admin = Browser::admin(&world).await;
    let text = admin.get("/console/deployment/keys").await.assert(200).text();
    assert_eq!(titles(&text, "Deployment"), ["Networks", "Eligibility", "Accounts", "Keys", "Audit log"]);
    assert!(!text.contains("role=\"search\" aria-label=\"Project\""), "{text}");
}

#[tokio::test]
async fn pages_of_the_workspace_keep_the_menu_of_the_project() {
    let world = World::sqlite().await;
    let shop = world.project("Shop", serde_json::json!({})).await;
    let other = world.another_tenant().await;
    let theirs = world.project_of(&other, "Theirs", serde_json::json!({})).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let menu = "<ul aria-label=\"Observe\">";
    let text = owner.get(&format!("{workspace}/members")).await.assert(200).text();
    assert!(!text.contains(menu), "no project was opened: {text}");
    owner.get(&format!("{workspace}/projects/{}/overview", shop.project_id)).await.assert(200);
    for page in ["", "/members", "/credentials", "/audit", "/usage"] {
        let text = owner.get(&format!("{workspace}{page}")).await.assert(200).text();
        assert!(text.contains(menu), "{page}: {text}");
        assert!(
            text.contains(&format!("href=\"{workspace}/projects/{}/overview\"", shop.project_id)),
            "{page}: {text}"
        );
    }
    // A project of another workspace is not shown, whatever the cookie says.
    let cookie = owner.cookies.iter_mut().find(|(name, _)| name.ends_with("last-project")).unwrap();
    *cookie.1 = theirs.project_id.clone();
    let text = owner.get(&format!("{workspace}/members")).await.assert(200).text();
    assert!(!text.contains(menu) && !text.contains("Theirs"), "{text}");
}

#[tokio::test]
async fn error_pages_have_the_menu() {
    let world = World::sqlite().await;
    let shop = world.project("Shop", serde_json::json!({})).await;
    let other = world.another_tenant().await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let project = format!("{workspace}/projects/{}", shop.project_id);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let email = "Account: ";
    for (path, status, areas) in [
        (format!("{project}/checks/reverse_sms/unknown"), 400, &["Project", "Workspace"][..]),
        (format!("{project}/checks/unknown"), 404, &["Project", "Workspace"]),
        (format!("{project}/requests?page=x"), 400, &["Project", "Workspace"]),
        (format!("{workspace}/projects/01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b/overview"), 404, &["Project", "Workspace"]),
        (format!("{project}/nothing/here"), 404, &["Project", "Workspace"]),
        (format!("{workspace}/nothing"), 404, &["Project", "Workspace"]),
        (format!("/console/workspaces/{}/members", other.workspace_id), 403, &[]),
        (format!("/console/workspaces/{}/nothing", other.workspace_id), 403, &[]),
        ("/console/unknown".to_owned(), 404, &[]),
    ] {
        let page = viewer.get(&path).await;
        assert_eq!(page.status, status, "{path}");
        let text = page.text();
        assert_well_formed(&path, &page);
        assert!(text.contains(email), "{path}: the user is signed in: {text}");
        for area in ["Project", "Workspace"] {
            let is_shown = text.contains(&format!("<div role=\"group\" aria-label=\"{area}\">"));
            assert_eq!(is_shown, areas.contains(&area), "{path}: {area}: {text}");
        }
    }
    let text = Browser::new(&world).get("/console/link?token=x").await.text();
    assert!(!text.contains(email) && !text.contains("role=\"group\""), "{text}");
}

#[tokio::test]
async fn project_switcher_lists_the_projects_of_the_workspace() {
    let world = World::sqlite().await;
    let (shop, bank) =
        (world.project("Shop", serde_json::json!({})).await, world.project("Bank", serde_json::json!({})).await);
    let other = world.another_tenant().await;
    let theirs = world.project_of(&other, "Theirs", serde_json::json!({})).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let text = viewer.get(&format!("{workspace}/projects/{}/overview", shop.project_id)).await.assert(200).text();
    let switcher = text.split("<details class=\"switcher\">").nth(1).unwrap().split("</details>").next().unwrap();
    let position = |id: &str| switcher.find(&format!("href=\"{workspace}/projects/{id}\""));
    assert!(position(&bank.project_id).unwrap() < position(&shop.project_id).unwrap(), "by name: {switcher}");
    let current = switcher.split("aria-current=\"true\"").nth(1).unwrap();
    assert!(current.contains("Shop") && !current.contains("Bank"), "{switcher}");
    assert!(!switcher.contains(&theirs.project_id) && !switcher.contains("Deployment"), "{switcher}");
}
