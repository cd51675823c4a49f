//! Networks that a project may use.

use ringtrue_domain::network::{Network, NetworkDirectory};
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    world::World,
};

/// Replaces the node's networks with British networks that have these ids.
pub fn configure(world: &World, ids: impl IntoIterator<Item = impl AsRef<str>>) {
    let networks = ids.into_iter().map(|id| Network {
        id: id.as_ref().parse().unwrap(),
        name: format!("Network {}", id.as_ref()),
        aliases: vec![],
        country: "GB".parse().unwrap(),
        prefixes: vec![],
        receivers: vec![],
    });
    world.node.engine.networks().replace(NetworkDirectory::new(networks.collect(), vec![], vec![]).unwrap());
}

async fn put_replaces_the_whole_list(world: World) {
    configure(&world, ["23410", "23415", "310004"]);
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), json!({"networks": []}));
    for networks in [
        json!([{"network_id": "23410", "products": ["sim_swap"]}]),
        json!([
            {"network_id": "310004", "products": ["reverse_sms", "secure_sna", "discovery", "sim_swap"]},
            {"network_id": "23415", "products": ["reverse_sms"]},
        ]),
        json!([
            {"network_id": "*", "products": ["reverse_sms"]},
            {"network_id": "23415", "products": ["sim_swap"]},
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

async fn invalid_lists_are_rejected(world: World) {
    configure(&world, ["23410"]);
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let good = json!({"network_id": "23410", "products": ["sim_swap"]});
    let all = json!({"network_id": "*", "products": ["sim_swap"]});
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
        (one(json!({"network_id": "23410", "products": ["verification"]})), "/networks/0/products"),
        (one(json!({"network_id": "23410", "products": ["sim_swap"], "name": "x"})), "/networks/0/name"),
        (json!({"networks": [], "mode": "all"}), "/mode"),
        (one(json!({"network_id": "23411", "products": ["sim_swap"]})), "/networks/0/network_id"),
        (one(json!({"network_id": "**", "products": ["sim_swap"]})), "/networks/0/network_id"),
        (json!({"networks": [all, all]}), "/networks/1"),
    ] {
        let response = put(&world, &path, &body).await.assert_problem(400, "bad_request");
        assert!(response.detail().starts_with(&format!("`{pointer}`: ")), "{body}: {}", response.detail());
    }
    assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), before, "rejected requests have no effect");
}

async fn long_list_keeps_its_order(world: World) {
    let ids: Vec<String> = (0..2_001_u32).map(|number| format!("{}", 999_999 - number * 7)).collect();
    configure(&world, &ids);
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let mut networks: Vec<Value> =
        ids.iter().map(|id| json!({"network_id": id, "products": ["sim_swap", "reverse_sms"]})).collect();
    let too_many = put(&world, &path, &json!({"networks": networks})).await.assert_problem(400, "bad_request");
    assert!(too_many.detail().starts_with("`/networks`: at most 2000"), "{}", too_many.detail());
    networks.truncate(2_000);
    let body = json!({"networks": networks});
    put(&world, &path, &body).await.assert(200);
    let stored = world.manage(Request::get(&path)).await.assert(200).json();
    let stored = stored["networks"].as_array().unwrap();
    assert!(stored.iter().map(|network| &network["network_id"]).eq(&ids[..2_000]));
}

async fn removed_network_may_stay_in_the_list(world: World) {
    configure(&world, ["23410", "23415"]);
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let one = |id: &str| json!({"network_id": id, "products": ["sim_swap"]});
    put(&world, &path, &json!({"networks": [one("23410")]})).await.assert(200);
    configure(&world, ["23420"]);
    let both = json!({"networks": [one("23410"), one("23420")]});
    assert_eq!(put(&world, &path, &both).await.assert(200).json(), both);
    let other = world.project("Other", json!({})).await;
    let refused = put(&world, &format!("{}/allowed-networks", other.path), &both).await;
    let refused = refused.assert_problem(400, "bad_request").detail();
    assert!(refused.starts_with("`/networks/0/network_id`: ") && refused.contains("23410"), "{refused}");
}

on_both_stores!(
    put_replaces_the_whole_list,
    invalid_lists_are_rejected,
    long_list_keeps_its_order,
    removed_network_may_stay_in_the_list,
);

#[tokio::test]
async fn network_aliases_are_resolved() {
    let world = crate::operators::networks::world_with(
        "networks.23410 = { name = \"O2\", country = \"GB\", aliases = [\"23411\", \"Telefonica\"] }",
    )
    .await;
    let project = world.project("Shop", json!({})).await;
    let path = format!("{}/allowed-networks", project.path);
    let one = |id: &str| json!({"network_id": id, "products": ["sim_swap"]});
    let response = put(&world, &path, &json!({"networks": [one("*"), one("23411")]})).await.assert(200);
    assert_eq!(response.json(), json!({"networks": [one("*"), one("23410")]}));
    let both = put(&world, &path, &json!({"networks": [one("23410"), one("23411")]})).await;
    let refused = both.assert_problem(400, "bad_request").detail();
    assert_eq!(refused, "`/networks/1`: 23411 is another id of 23410, which is already in the list");
}

#[tokio::test]
async fn deployment_networks_are_listed_with_their_products() {
    let world = crate::operators::networks::world_with(crate::operators::networks::THREE).await;
    let list = async |query: &str| world.manage(Request::get(&format!("/v1/management/networks{query}"))).await;
    let all = list("").await.assert(200).json();
    let ids: Vec<&str> =
        all["content"].as_array().unwrap().iter().map(|it| it["network_id"].as_str().unwrap()).collect();
    assert!(ids.len() == 3 && ids.is_sorted(), "{all}");
    assert_eq!(all["page"]["total_elements"], 3);
    assert!(all["content"].as_array().unwrap().iter().any(|it| it["products"] == json!(["reverse_sms"])), "{all}");
    let second = list("?size=1&page=2").await.assert(200).json();
    assert_eq!((&second["content"][0], &second["page"]["total_pages"]), (&all["content"][1], &json!(3)));
    assert_eq!(list("?page=4").await.assert(200).json()["content"], json!([]));

    let of = async |country: &str| list(&format!("?country_code={country}")).await.assert(200).json();
    let british = all["content"].as_array().unwrap().iter().filter(|it| it["country_code"] == "GB").count();
    assert_eq!(of("GB").await["page"]["total_elements"], british);
    assert_eq!(of("FR").await["page"]["total_elements"], 0);
    for bad in ["?country_code=gb", "?country_code=XX", "?country_code=", "?size=0", "?country=GB"] {
        list(bad).await.assert_problem(400, "bad_request");
    }
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "eligibility").await;
    world.send(Request::get("/v1/management/networks").bearer(&token)).await.assert_problem(403, "forbidden");
}

async fn put(world: &World, path: &str, body: &Value) -> HttpResponse {
    world.manage(Request::put(path).json(body)).await
}
