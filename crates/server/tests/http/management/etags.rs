//! `ETag`, `If-Match` and `last_used_at` of management resources.

use futures_util::future::join_all;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    world::World,
};

fn etag(response: &HttpResponse) -> String {
    response.header("etag").expect("an ETag").to_owned()
}

async fn change_with_an_outdated_etag_is_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let networks = format!("{}/allowed-networks", project.path);
    for (path, method, changes) in [
        (project.path.clone(), "PATCH", [json!({"name": "One"}), json!({"name": "Two"})]),
        (world.acme.path(), "PATCH", [json!({"name": "One"}), json!({"name": "Two"})]),
        (
            networks,
            "PUT",
            [
                json!({"networks": [{"network_id": "*", "products": ["sim_swap"]}]}),
                json!({"networks": [{"network_id": "*", "products": ["discovery"]}]}),
            ],
        ),
    ] {
        let read = async || world.manage(Request::get(&path)).await.assert(200);
        let change = async |body: &Value, tag: &str| {
            world.manage(Request::new(method, &path).json(body).header("If-Match", tag)).await
        };
        let before = etag(&read().await);
        assert_eq!(etag(&read().await), before, "the tag of an unchanged resource is stable");
        for stale in ["\"x\"", "", "x", &format!("W/{before}")] {
            change(&changes[0], stale).await.assert_problem(412, "precondition_failed");
        }
        assert_eq!(etag(&read().await), before, "{path}: rejected requests have no effect");
        world.advance(SignedDuration::from_secs(1));
        let changed = etag(&change(&changes[0], &format!("\"x\", {before}")).await.assert(200));
        assert_ne!(changed, before);
        assert_eq!(etag(&read().await), changed, "{path}: the change returns the new tag");
        change(&changes[1], &before).await.assert_problem(412, "precondition_failed");
        change(&changes[0], &before).await.assert_problem(412, "precondition_failed");
        change(&changes[1], "*").await.assert(200);
        world.manage(Request::new(method, &path).json(&changes[0])).await.assert(200);
    }
}

async fn one_of_many_concurrent_conditional_changes_succeeds(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.management_token().await;
    for path in [&project.path, &world.acme.path()] {
        let tag = etag(&world.manage(Request::get(path)).await.assert(200));
        let change = async |number: usize| {
            let request = Request::patch(path).bearer(&token).json(&json!({"name": format!("Shop {number}")}));
            world.send(request.header("If-Match", &tag)).await
        };
        let responses = join_all((0..6).map(change)).await;
        assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1, "{path}");
        for response in responses.into_iter().filter(|response| response.status != 200) {
            response.assert_problem(412, "precondition_failed");
        }
    }
}

/// `last_used_at` does not affect the `ETag`.
async fn credentials_show_their_last_use(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/credentials/{}", project.path, project.client_id);
    let read = async || world.manage(Request::get(&path)).await.assert(200);
    let unused = read().await;
    assert_eq!(unused.json().get("last_used_at"), None);
    world.advance(SignedDuration::from_secs(90));
    let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
    world.token_request(&project.client_id, "wrong", "sim_swap").await.assert(401);
    world.node.engine.node.delete_expired().await.unwrap();
    assert_eq!(read().await.json()["last_used_at"], "2026-01-01T00:01:00.000Z");

    world.advance(SignedDuration::from_secs(100));
    world.send(Request::get("/v1/sim-swap-checks").bearer(&token)).await.assert(200);
    world.node.engine.node.delete_expired().await.unwrap();
    let used = read().await;
    assert_eq!(used.json()["last_used_at"], "2026-01-01T00:03:00.000Z");
    let listed = world.manage(Request::get(&format!("{}/credentials", project.path))).await.assert(200).json();
    assert_eq!(listed["content"][0], used.json());

    let delete = async |tag: &str| world.manage(Request::delete(&path).header("If-Match", tag)).await;
    assert_eq!(etag(&used), etag(&unused));
    delete("\"x\"").await.assert_problem(412, "precondition_failed");
    delete(&etag(&unused)).await.assert(204);
    delete(&etag(&used)).await.assert_problem(404, "credential_not_found");
}

on_both_stores!(
    change_with_an_outdated_etag_is_rejected,
    one_of_many_concurrent_conditional_changes_succeeds,
    credentials_show_their_last_use,
);
