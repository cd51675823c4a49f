//! Managing a workspace.

use serde_json::json;

use crate::{client::Request, on_both_stores, world::World};

async fn a_project_is_made_with_a_credential_that_works(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    assert!(!token.is_empty());
    let manager = world.manager().await;
    let read = world.send(Request::new("GET", &project.path).bearer(&manager)).await;
    assert_eq!(read.status, 200);
    assert_eq!(read.json()["name"], "Shop");
}

on_both_stores!(a_project_is_made_with_a_credential_that_works);
