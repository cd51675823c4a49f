//! Access tokens for sandbox projects, which the page of the API reference requests.

use ringtrue_domain::account::Role;
use serde_json::{Value, json};

use super::browser::Browser;
use crate::{
    client::Request,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    world::World,
};

const PROJECTS: &str = "/console/sandbox-projects";

async fn sandbox_projects(browser: &mut Browser) -> Value {
    browser.get(PROJECTS).await.assert(200).json()
}

#[tokio::test]
async fn developer_gets_a_token_of_a_sandbox_project() {
    let world = World::sqlite().await;
    ReverseSmsClient::sandbox(&world).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let listed = sandbox_projects(&mut developer).await;
    let (form_token, project) = (listed["form_token"].as_str().unwrap(), &listed["projects"][0]);
    assert!(project["scopes"].as_array().unwrap().contains(&json!("reverse_sms")), "{listed}");
    let path = project["path"].as_str().unwrap();

    let issued: Value = developer.post(path, form_token, &[("scope", "reverse_sms")]).await.assert(200).json();
    assert_eq!((&issued["scope"], &issued["expires_in"]), (&json!("reverse_sms"), &json!(900)));
    let token = issued["access_token"].as_str().unwrap();
    let check = Request::post("/v1/number-verification/reverse-sms-checks").bearer(token);
    world.send(check.json(&json!({"phone_number": EVEN}))).await.assert(201);

    developer.post(path, "forged", &[("scope", "reverse_sms")]).await.assert(403);
    for scope in ["management", "everything", ""] {
        developer.post(path, form_token, &[("scope", scope)]).await.assert(409);
    }
}

#[tokio::test]
async fn others_get_no_token() {
    let world = World::sqlite().await;
    ReverseSmsClient::sandbox(&world).await;
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let listed = sandbox_projects(&mut developer).await;
    let path = listed["projects"][0]["path"].as_str().unwrap().to_owned();

    let mut stranger = Browser::new(&world);
    assert_eq!(sandbox_projects(&mut stranger).await, json!({"projects": []}));
    stranger.post(&path, "forged", &[("scope", "reverse_sms")]).await.assert(303);

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let seen = sandbox_projects(&mut viewer).await;
    assert_eq!(seen["projects"], json!([]));
    viewer.post(&path, seen["form_token"].as_str().unwrap(), &[("scope", "reverse_sms")]).await.assert(403);
}
