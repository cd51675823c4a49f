//! The networks that a project may use: the authorisation gate.

use serde_json::{Value, json};

use crate::{
    client::{Answer, Request},
    on_both_stores,
    world::World,
};

async fn a_list_is_replaced_as_a_whole(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), json!({"networks": []}));
    for networks in [
        json!([{"network_id": "23410", "products": ["sim_swap"]}]),
        json!([
            {"network_id": "310004", "products": ["reverse_sms", "secure_sna", "discovery", "sim_swap"]},
            {"network_id": "23415", "products": ["reverse_sms"]},
        ]),
        json!([]),
    ] {
        let body = json!({"networks": networks});
        assert_eq!(put(&world, &path, &body).await.assert(200).json(), body);
        assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), body);
    }
    let other = world.project("Other", json!({})).await;
    let others = world.manage(Request::get(&format!("{}/allowed-networks", other.path))).await.assert(200);
    assert_eq!(others.json(), json!({"networks": []}));
}

async fn lists_that_are_refused(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let good = json!({"network_id": "23410", "products": ["sim_swap"]});
    let before = json!({"networks": [good]});
    put(&world, &path, &before).await.assert(200);
    let one = |network: Value| json!({"networks": [network]});
    for (body, pointer) in [
        (json!({}), "/networks"),
        (json!({"networks": null}), "/networks"),
        (json!({"networks": {}}), "/networks"),
        (json!({"networks": [good, "23410"]}), "/networks/1"),
        (json!({"networks": [good, good]}), "/networks/1"),
        (json!({"networks": [good, {"network_id": "23410", "products": ["reverse_sms"]}]}), "/networks/1"),
        (one(json!({"products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": 23410, "products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": "2341", "products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": "2341000", "products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": "234-10", "products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": "２３４１０", "products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": "23410"})), "/networks/0/products"),
        (one(json!({"network_id": "23410", "products": []})), "/networks/0/products"),
        (one(json!({"network_id": "23410", "products": ["x"]})), "/networks/0/products/0"),
        (one(json!({"network_id": "23410", "products": ["sim_swap", "sim_swap"]})), "/networks/0/products/1"),
        (one(json!({"network_id": "23410", "products": ["eligibility"]})), "/networks/0/products"),
        (one(json!({"network_id": "23410", "products": ["sim_swap"], "name": "x"})), "/networks/0/name"),
        (json!({"networks": [], "mode": "all"}), "/mode"),
    ] {
        let answer = put(&world, &path, &body).await.assert_problem(400, "bad_request");
        assert!(answer.detail().starts_with(&format!("`{pointer}`: ")), "{body}: {}", answer.detail());
    }
    assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), before, "what was refused changed nothing");
}

/// As many as fit into a body.
async fn a_long_list_is_kept_in_its_order(world: World) {
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let networks: Vec<Value> = (0..300_u32)
        .map(|number| json!({"network_id": format!("{}", 999_999 - number * 7), "products": ["sim_swap"]}))
        .collect();
    let body = json!({"networks": networks});
    assert_eq!(put(&world, &path, &body).await.assert(200).json(), body);
    assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), body);
}

on_both_stores!(a_list_is_replaced_as_a_whole, lists_that_are_refused, a_long_list_is_kept_in_its_order);

#[tokio::test]
async fn another_id_of_a_network_is_taken_for_its_own() {
    let world = crate::networks::world_with(
        "networks.23410 = { name = \"O2\", country = \"GB\", aliases = [\"23411\", \"Telefonica\"] }",
    )
    .await;
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let one = |id: &str| json!({"network_id": id, "products": ["sim_swap"]});
    let answer = put(&world, &path, &json!({"networks": [one("310004"), one("23411")]})).await.assert(200);
    assert_eq!(answer.json(), json!({"networks": [one("310004"), one("23410")]}), "nobody knows the first");
    let both = put(&world, &path, &json!({"networks": [one("23410"), one("23411")]})).await;
    let refused = both.assert_problem(400, "bad_request").detail();
    assert_eq!(refused, "`/networks/1`: 23411 is another id of 23410, which the list has already");
}

async fn put(world: &World, path: &str, body: &Value) -> Answer {
    world.manage(Request::put(path).json(body)).await
}
