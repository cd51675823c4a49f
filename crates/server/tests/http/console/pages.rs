use ringtrue_domain::account::Role;
use ringtrue_engine::accounts::Administrator;
use ringtrue_server::{console, http};

use super::browser::Browser;
use crate::{client::Answer, world::World};

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What holds for every page, whatever is on it.
pub fn assert_sound(path: &str, answer: &Answer) {
    assert_eq!(answer.header("content-security-policy"), Some(POLICY), "{path}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
    let text = answer.text();
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
        assert!(ids(label), "{path}: the label for {label} is for nothing");
    }
}

/// The API's document tells of the API: the console is beside it, under a path of its own.
#[test]
fn the_console_is_no_part_of_the_api() {
    let api: Vec<_> = http::public_routes().table().to_vec();
    assert!(api.iter().all(|(_, path)| !path.starts_with("/console")));
    for (method, path) in console::routes().table() {
        assert!(*path == "/console" || path.starts_with("/console/"), "{path}");
        assert!(["GET", "POST"].contains(method), "browsers send no {method}");
    }
}

/// Whatever comes later: no page without a session, but those by which one begins.
#[tokio::test]
async fn strangers_are_asked_to_sign_in_everywhere() {
    let world = World::sqlite().await;
    for (method, path) in console::routes().table() {
        let is_open = ["/console/sign-in", "/console/link", "/console/invitation"].contains(path)
            || path.starts_with("/console/assets/");
        if is_open {
            continue;
        }
        let path = filled(path, &world.acme.workspace_id);
        let request = crate::client::Request::new(method, &path);
        let request = if *method == "POST" { request.form(&[("form_token", "x")]) } else { request };
        let answer = crate::client::send(world.node.address, &request).await;
        assert_eq!(answer.status, 303, "{method} {path}: {}", answer.text());
        assert!(answer.header("location").unwrap().starts_with("/console/sign-in"), "{method} {path}");
    }
}

/// Whatever comes later: nobody gets into a workspace that they are no member of.
#[tokio::test]
async fn another_tenants_pages_are_closed_to_everybody_else() {
    let world = World::sqlite().await;
    let other = world.another_tenant().await;
    let mut stranger = Browser::member(&world, &other, Role::Owner).await;
    let token = stranger.form_token(&format!("/console/workspaces/{}/members", other.workspace_id)).await;
    for (method, path) in console::routes().table().iter().filter(|(_, path)| path.contains("{workspace_id}")) {
        let path = filled(path, &world.acme.workspace_id);
        let answer =
            if *method == "POST" { stranger.post(&path, &token, &[]).await } else { stranger.get(&path).await };
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        assert!(!answer.text().contains("Acme"), "{path}");
    }
}

/// Whatever comes later: a viewer changes nothing.
#[tokio::test]
async fn viewers_change_nothing() {
    let world = World::sqlite().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let token = viewer.form_token(&format!("/console/workspaces/{}", world.acme.workspace_id)).await;
    let changes = console::routes();
    for (_, path) in
        changes.table().iter().filter(|(method, path)| *method == "POST" && path.contains("{workspace_id}"))
    {
        let answer = viewer.post(&filled(path, &world.acme.workspace_id), &token, &[]).await.assert(403);
        assert!(answer.text().contains("which may not do this"), "{path}");
        assert_sound(path, &answer);
    }
}

pub fn filled(template: &str, workspace: &str) -> String {
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
    assert!(!path.contains('{'), "say what {template} is filled with");
    path
}

#[tokio::test]
async fn every_page_is_sound() {
    let world = World::sqlite().await;
    let mut stranger = Browser::at(&world);
    let (engine, operator) = (&world.node.engine, Administrator::operator());
    let link = engine.invite_admin(&operator, &"new@example.com".parse().unwrap()).await.unwrap().path;
    let email = "joe@example.com".parse().unwrap();
    let workspace = world.acme.workspace_id.parse().unwrap();
    let invitation = engine.invite_member_as_operator(workspace, &email, Role::Viewer).await.unwrap().path;
    for path in ["/console/sign-in", &link, "/console/link?token=x", &invitation, "/console/invitation?token=x"] {
        assert_sound(path, &stranger.get(path).await);
    }
    let mut admin = Browser::admin(&world).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let (members, invitations) = (format!("{workspace}/members"), format!("{workspace}/invitations"));
    for path in ["/console", "/console/nothing", "/console/account", &workspace, &members, &invitations, &invitation] {
        assert_sound(path, &admin.get(path).await);
    }
    let css = stranger.get("/console/assets/console.css").await.assert(200);
    assert_eq!(css.header("content-type"), Some("text/css; charset=utf-8"));
    assert!(!css.text().contains("http") && !css.text().contains("@import"));
}
