//! Getting tokens.

use crate::{on_both_stores, world::World};

async fn a_client_gets_a_token_for_its_scope(world: World) {
    let answer = world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["token_type"], "bearer");
    assert_eq!(body["expires_in"], 3600);
    assert_eq!(body["scope"], "management");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

on_both_stores!(a_client_gets_a_token_for_its_scope);
