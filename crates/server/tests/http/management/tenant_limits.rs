//! Limits of a tenant's resources, and how long expired credentials are recognised.

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use ringtrue_engine::tenants::TenantLimits;
use serde_json::{Value, json};

use crate::{
    client::{Request, token_request},
    console::browser::Browser,
    database::Database,
    on_both_stores,
    world::{World, send_to},
};

async fn small(database: Database) -> World {
    World::with(database, |config| {
        config.tenant_limits = TenantLimits { projects_per_workspace: 3, credentials_per_owner: 3 };
    })
    .await
}

/// Projects are created concurrently through the API and the console.
async fn projects_of_a_workspace_are_limited(world: World) {
    let (token, other) = (world.management_token().await, world.another_tenant().await);
    let path = format!("{}/projects", world.acme.path());
    let create = async |number: usize| {
        let body = json!({"name": format!("Shop {number}")});
        world.send(Request::post(&path).bearer(&token).json(&body).header("Idempotency-Key", format!("{number}"))).await
    };
    let responses = join_all((0..8).map(create)).await;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 3);
    for response in responses.into_iter().filter(|response| response.status != 201) {
        assert!(response.assert_problem(409, "limit_reached").detail().contains("3 projects"));
    }
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = format!("/console/workspaces/{}/new-project", world.acme.workspace_id);
    let refused = browser.submit(&page, &page, &[("name", "Shop 9")]).await.assert(400).text();
    assert!(refused.contains("3 projects"), "{refused}");
    assert_eq!(world.manage(Request::get(&path)).await.json()["page"]["total_elements"], 3);
    world.project_of(&other, "Shop", json!({})).await;
}

async fn active_credentials_of_an_owner_are_limited(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.management_token().await;
    let page = format!("/console/workspaces/{}/projects/{}/credentials", world.acme.workspace_id, project.project_id);
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    for owner in [&project.path, &world.acme.path()] {
        let path = format!("{owner}/credentials");
        let create = async |body: &Value| world.send(Request::post(&path).bearer(&token).json(body)).await;
        let hour = json!({"expires_at": "2026-01-01T01:00:00Z"});
        let responses = join_all((0..6).map(|_| create(&hour))).await;
        assert_eq!(
            responses.iter().filter(|response| response.status == 201).count(),
            2,
            "in addition to the first credential"
        );
        let refused = create(&json!({})).await.assert_problem(409, "limit_reached");
        assert!(refused.detail().contains("3 live credentials"), "{}", refused.detail());
        let made = responses.iter().find(|response| response.status == 201).unwrap().json();
        let made = made["client_id"].as_str().unwrap();
        world.send(Request::delete(&format!("{path}/{made}")).bearer(&token)).await.assert(204);
        create(&hour).await.assert(201);
        create(&hour).await.assert_problem(409, "limit_reached");
    }
    let refused = browser.submit(&page, &page, &[]).await.assert(400).text();
    assert!(refused.contains("3 live credentials"), "{refused}");
    // Expired credentials do not count against the limit.
    world.advance(SignedDuration::from_hours(1));
    world.manage(Request::post(&format!("{}/credentials", project.path)).json(&json!({}))).await.assert(201);
}

/// A formerly valid secret returns `unauthorized` on every node, however long ago its credential expired.
async fn expired_credential_does_not_count_but_stays_unauthorized(world: World) {
    let deleted = world.project("Deleted", json!({})).await;
    let owner = world.project("Expired", json!({})).await;
    let body = json!({"expires_at": "2026-01-01T01:00:00Z"});
    let expired = world.manage(Request::post(&format!("{}/credentials", owner.path)).json(&body)).await.json();
    let credential = format!("{}/credentials/{}", deleted.path, deleted.client_id);
    world.manage(Request::delete(&credential)).await.assert(204);

    world.advance(SignedDuration::from_hours(24 * 90));
    world.node.engine.node.delete_expired().await.unwrap();
    let second = world.second_node().await;
    let text = |name: &str| expired[name].as_str().unwrap();
    for (id, secret) in [(&*deleted.client_id, &*deleted.client_secret), (text("client_id"), text("client_secret"))] {
        for node in [world.node.address, second.address] {
            send_to(node, token_request(id, secret, "sim_swap")).await.assert_problem(401, "unauthorized");
            send_to(node, token_request(id, "wrong", "sim_swap")).await.assert_problem(401, "invalid_client");
        }
    }
}

on_both_stores!(expired_credential_does_not_count_but_stays_unauthorized);

mod small_sqlite {
    use super::*;

    #[tokio::test]
    async fn projects() {
        projects_of_a_workspace_are_limited(small(Database::sqlite().await).await).await;
    }

    #[tokio::test]
    async fn credentials() {
        active_credentials_of_an_owner_are_limited(small(Database::sqlite().await).await).await;
    }
}

mod small_postgres {
    use super::*;

    #[tokio::test]
    async fn projects() {
        projects_of_a_workspace_are_limited(small(Database::postgres().await).await).await;
    }

    #[tokio::test]
    async fn credentials() {
        active_credentials_of_an_owner_are_limited(small(Database::postgres().await).await).await;
    }
}
