//! Tokens that become invalid before they expire: immediately on the same node, soon on all others.

use jiff::SignedDuration;
use ringtrue_engine::{
    keys::{self, KeyRotation},
    ports::keys::KeyPurpose,
};
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::{
    client::{Request, token_request},
    node::keys::master,
    on_both_stores,
    world::{World, is_token_accepted, poll_with_timeout, send_to},
};

/// Reason why a token becomes invalid.
#[derive(Clone, Copy, Debug)]
enum InvalidationCause {
    Revoked,
    CredentialDeleted,
    CredentialExpired,
    ProjectDisabled,
}

const INVALIDATION_CAUSES: [InvalidationCause; 4] = [
    InvalidationCause::Revoked,
    InvalidationCause::CredentialDeleted,
    InvalidationCause::CredentialExpired,
    InvalidationCause::ProjectDisabled,
];

async fn tokens_are_invalid_immediately_on_the_same_node(world: World) {
    for end in INVALIDATION_CAUSES {
        let token = token_under_test(&world, end).await;
        assert!(world.accepts_token(&token.token).await, "{end:?}");
        invalidate(&world, end, &token).await;
        assert!(!world.accepts_token(&token.token).await, "{end:?}");
    }
}

async fn tokens_become_invalid_on_all_nodes(world: World) {
    let second = world.second_node().await;
    for end in INVALIDATION_CAUSES {
        let token = token_under_test(&world, end).await;
        second.engine.node.refresh().await.unwrap();
        invalidate(&world, end, &token).await;
        let is_rejected = async || !is_token_accepted(second.address, &token.token).await;
        poll_with_timeout("the other node rejects the token", is_rejected).await;
    }
}

async fn clients_are_rejected_on_all_nodes(world: World) {
    let second = world.second_node().await;
    for end in [InvalidationCause::CredentialDeleted, InvalidationCause::ProjectDisabled] {
        let token = token_under_test(&world, end).await;
        let token_status = async || {
            send_to(second.address, token_request(&token.client_id, &token.client_secret, "sim_swap")).await.status
        };
        second.engine.node.refresh().await.unwrap();
        assert_eq!(token_status().await, 200);
        invalidate(&world, end, &token).await;
        poll_with_timeout("the other node rejects the client", async || token_status().await == 401).await;
    }
}

async fn enabled_project_works_again_on_all_nodes(world: World) {
    let second = world.second_node().await;
    let token = token_under_test(&world, InvalidationCause::ProjectDisabled).await;
    invalidate(&world, InvalidationCause::ProjectDisabled, &token).await;
    poll_with_timeout("the other node rejects the token", async || {
        !is_token_accepted(second.address, &token.token).await
    })
    .await;
    world.manage(Request::patch(&token.project).json(&json!({"disabled": false}))).await.assert(200);
    assert!(world.accepts_token(&token.token).await, "an unexpired token is valid again");
    poll_with_timeout("the other node accepts the token", async || {
        is_token_accepted(second.address, &token.token).await
    })
    .await;
}

/// An emergency rotation after a key was stolen.
async fn emergency_rotation_invalidates_all_tokens(world: World) {
    let second = world.second_node().await;
    let old = world.management_token().await;
    assert!(is_token_accepted(second.address, &old).await);

    rotate(&world, true).await;
    for address in [world.node.address, second.address] {
        poll_with_timeout("the old key is withdrawn", async || !is_token_accepted(address, &old).await).await;
    }
    let new = world.management_token().await;
    for address in [world.node.address, second.address] {
        assert!(is_token_accepted(address, &new).await, "tokens of the new key are valid");
    }
}

async fn regular_rotation_keeps_tokens_valid(world: World) {
    let second = world.second_node().await;
    let old = world.management_token().await;
    rotate(&world, false).await;
    assert_eq!(world.node.engine.store().list_keys().await.unwrap().len(), KeyPurpose::VARIANTS.len() + 1);
    world.node.engine.node.refresh().await.unwrap();
    second.engine.node.refresh().await.unwrap();
    for seconds in [0, 5, 5, 5, 600, 1800] {
        world.advance(SignedDuration::from_secs(seconds));
        let fresh = world.management_token().await;
        for address in [world.node.address, second.address] {
            assert!(is_token_accepted(address, &old).await, "after {seconds} s more");
            assert!(is_token_accepted(address, &fresh).await, "after {seconds} s more");
        }
    }
}

on_both_stores!(
    tokens_are_invalid_immediately_on_the_same_node,
    tokens_become_invalid_on_all_nodes,
    clients_are_rejected_on_all_nodes,
    enabled_project_works_again_on_all_nodes,
    emergency_rotation_invalidates_all_tokens,
    regular_rotation_keeps_tokens_valid,
);

/// A product token and its owner. A management request with it returns 403 while the token is valid, and 401
/// afterwards.
struct TokenUnderTest {
    token: String,
    client_id: String,
    client_secret: String,
    project: String,
}

async fn token_under_test(world: &World, end: InvalidationCause) -> TokenUnderTest {
    let project = world.project(&format!("{end:?}"), json!({})).await;
    let expires_at = world.node.engine.clock().now() + SignedDuration::from_secs(60);
    let body = match end {
        InvalidationCause::CredentialExpired => json!({"expires_at": expires_at.to_string()}),
        InvalidationCause::Revoked | InvalidationCause::CredentialDeleted | InvalidationCause::ProjectDisabled => {
            json!({})
        }
    };
    let path = format!("{}/credentials", project.path);
    let credential: Value = world.manage(Request::post(&path).json(&body)).await.assert(201).json();
    let text = |member: &str| credential[member].as_str().unwrap().to_owned();
    let (client_id, client_secret) = (text("client_id"), text("client_secret"));
    let token = world.token(&client_id, &client_secret, "sim_swap").await;
    TokenUnderTest { token, client_id, client_secret, project: project.path }
}

async fn invalidate(world: &World, end: InvalidationCause, token_under_test: &TokenUnderTest) {
    match end {
        InvalidationCause::Revoked => {
            let request = Request::post("/oauth2/revoke")
                .basic(&token_under_test.client_id, &token_under_test.client_secret)
                .form(&[("token", &token_under_test.token)]);
            world.send(request).await.assert(200);
        }
        InvalidationCause::CredentialDeleted => {
            let path = format!("{}/credentials/{}", token_under_test.project, token_under_test.client_id);
            world.manage(Request::delete(&path)).await.assert(204);
        }
        InvalidationCause::CredentialExpired => world.advance(SignedDuration::from_secs(60)),
        InvalidationCause::ProjectDisabled => {
            world.manage(Request::patch(&token_under_test.project).json(&json!({"disabled": true}))).await.assert(200);
        }
    }
}

/// Rotates the key as a separate process would, such as the command line.
async fn rotate(world: &World, emergency: bool) {
    let engine = &world.node.engine;
    let rotation = KeyRotation::by_command_line(KeyPurpose::Token, emergency);
    keys::rotate_key(rotation, engine.store(), &master(), engine.clock(), engine.entropy()).await.expect("a rotation");
}
