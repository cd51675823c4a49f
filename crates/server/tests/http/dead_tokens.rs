//! Tokens die before their time: at once on the node that did it, and soon on every other.

use jiff::SignedDuration;
use ringtrue_engine::{
    keys::{self, Rotation},
    ports::KeyPurpose,
};
use serde_json::{Value, json};

use crate::{
    client::Request,
    keys::master,
    on_both_stores,
    world::{World, accepted_at, basic, send_to, soon, token_request},
};

/// How a token comes to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    Revoked,
    CredentialDeleted,
    CredentialExpired,
    ProjectDisabled,
}

const ENDS: [End; 4] = [End::Revoked, End::CredentialDeleted, End::CredentialExpired, End::ProjectDisabled];

async fn they_die_at_once_where_it_happened(world: World) {
    for end in ENDS {
        let token = doomed(&world, end).await;
        assert!(world.accepts(&token.token).await, "{end:?}");
        bring_about(&world, end, &token).await;
        assert!(!world.accepts(&token.token).await, "{end:?}");
    }
}

async fn they_die_on_every_other_node(world: World) {
    let second = world.second_node().await;
    for end in ENDS {
        let token = doomed(&world, end).await;
        soon("the other node knows the credential", async || accepted_at(second.address, &token.token).await).await;
        bring_about(&world, end, &token).await;
        let is_dead = async || !accepted_at(second.address, &token.token).await;
        soon("the token is dead on the other node", is_dead).await;
    }
}

/// Clients that are no longer welcome get no new tokens from the other node either.
async fn clients_are_refused_on_every_other_node(world: World) {
    let second = world.second_node().await;
    for end in [End::CredentialDeleted, End::ProjectDisabled] {
        let token = doomed(&world, end).await;
        let ask = async || {
            send_to(second.address, token_request(&token.client_id, &token.client_secret, "sim_swap")).await.status
        };
        // Asking with the secret would count as guessing.
        soon("the other node knows the client", async || accepted_at(second.address, &token.token).await).await;
        assert_eq!(ask().await, 200);
        bring_about(&world, end, &token).await;
        soon("the other node refuses the client", async || ask().await == 401).await;
    }
}

async fn an_enabled_project_is_back_on_every_node(world: World) {
    let second = world.second_node().await;
    let token = doomed(&world, End::ProjectDisabled).await;
    bring_about(&world, End::ProjectDisabled, &token).await;
    soon("dead there too", async || !accepted_at(second.address, &token.token).await).await;
    world.manage(Request::patch(&token.project).json(&json!({"disabled": false}))).await.assert(200);
    assert!(world.accepts(&token.token).await, "a token that has not expired is good again");
    soon("good there too", async || accepted_at(second.address, &token.token).await).await;
}

/// A new key for tokens, now, and the old ones gone: what a stolen key has signed is worth nothing.
async fn an_emergency_rotation_ends_every_token(world: World) {
    let second = world.second_node().await;
    let old = world.manager().await;
    assert!(accepted_at(second.address, &old).await);

    rotate(&world, true).await;
    for address in [world.node.address, second.address] {
        soon("the old key is gone", async || !accepted_at(address, &old).await).await;
    }
    let new = world.manager().await;
    for address in [world.node.address, second.address] {
        assert!(accepted_at(address, &new).await, "with the new key all goes on");
    }
}

/// An ordinary rotation disturbs nobody.
async fn an_ordinary_rotation_ends_no_token(world: World) {
    let second = world.second_node().await;
    let old = world.manager().await;
    rotate(&world, false).await;
    let seen = async || {
        let keys = world.node.engine.store().all_keys().await.unwrap().len();
        world.node.engine.refresh().await.unwrap();
        second.engine.refresh().await.unwrap();
        keys == KeyPurpose::ALL.len() + 1
    };
    soon("both nodes have the new key", seen).await;
    for seconds in [0, 5, 5, 5, 600, 1800] {
        world.advance(SignedDuration::from_secs(seconds));
        let fresh = world.manager().await;
        for address in [world.node.address, second.address] {
            assert!(accepted_at(address, &old).await, "after {seconds} s more");
            assert!(accepted_at(address, &fresh).await, "after {seconds} s more");
        }
    }
}

on_both_stores!(
    they_die_at_once_where_it_happened,
    they_die_on_every_other_node,
    clients_are_refused_on_every_other_node,
    an_enabled_project_is_back_on_every_node,
    an_emergency_rotation_ends_every_token,
    an_ordinary_rotation_ends_no_token,
);

/// A product token, and all that belongs to it. A management call answers it with 403 while it lives, and 401 after.
struct Doomed {
    token: String,
    client_id: String,
    client_secret: String,
    project: String,
}

async fn doomed(world: &World, end: End) -> Doomed {
    let project = world.project(&format!("{end:?}"), json!({})).await;
    let expires_at = world.node.engine.clock().now() + SignedDuration::from_secs(60);
    let body = match end {
        End::CredentialExpired => json!({"expires_at": expires_at.to_string()}),
        End::Revoked | End::CredentialDeleted | End::ProjectDisabled => json!({}),
    };
    let path = format!("{}/credentials", project.path);
    let credential: Value = world.manage(Request::post(&path).json(&body)).await.assert(201).json();
    let text = |member: &str| credential[member].as_str().unwrap().to_owned();
    let (client_id, client_secret) = (text("client_id"), text("client_secret"));
    let token = world.token(&client_id, &client_secret, "sim_swap").await;
    Doomed { token, client_id, client_secret, project: project.path }
}

async fn bring_about(world: &World, end: End, doomed: &Doomed) {
    match end {
        End::Revoked => {
            let request = Request::post("/oauth2/revoke")
                .header("Authorization", basic(&doomed.client_id, &doomed.client_secret))
                .form(&[("token", &doomed.token)]);
            world.send(request).await.assert(200);
        }
        End::CredentialDeleted => {
            let path = format!("{}/credentials/{}", doomed.project, doomed.client_id);
            world.manage(Request::delete(&path)).await.assert(204);
        }
        End::CredentialExpired => world.advance(SignedDuration::from_secs(60)),
        End::ProjectDisabled => {
            world.manage(Request::patch(&doomed.project).json(&json!({"disabled": true}))).await.assert(200);
        }
    }
}

/// As the command line does it, beside the running nodes.
async fn rotate(world: &World, emergency: bool) {
    let engine = &world.node.engine;
    let rotation = Rotation::by_operator(KeyPurpose::Token, emergency);
    keys::rotate(rotation, engine.store(), &master(), engine.clock(), engine.entropy()).await.expect("a rotation");
}
