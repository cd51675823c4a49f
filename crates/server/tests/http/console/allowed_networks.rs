use ringtrue_domain::{account::Role, network::NetworkDirectory};
use serde_json::{Value, json};

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{client::Request, management::allowed_networks::configure, operators::networks::world_with, world::World};

const TWO: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    aliases = ["23411", "Telefonica"]
    receivers = ["+447700900001"]

    [networks.23415]
    name = "Vodafone <UK>"
    country = "GB"

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    receivers = ["+447700900001"]
"#;

async fn allowed(world: &World, path: &str) -> Value {
    world.manage(Request::get(&format!("{path}/allowed-networks"))).await.assert(200).json()["networks"].clone()
}

#[tokio::test]
async fn networks_are_allowed_by_product() {
    let world = world_with(TWO).await;
    let project = world.project("Shop", json!({"mode": "live"})).await;
    let page = format!("/console/workspaces/{}/projects/{}/networks", world.acme.workspace_id, project.project_id);
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let shown = browser.get(&page).await.assert(200);
    assert_well_formed(&page, &shown);
    let text = shown.text();
    assert!(text.contains("O2") && text.contains("Telefonica") && text.contains("Vodafone &#60;UK&#62;"), "{text}");
    assert!(!text.contains(" checked"), "no network is allowed by default: {text}");
    assert_eq!(text.matches("not connected").count(), 7, "only O2 is connected, for SMS only: {text}");

    let checked_boxes =
        [("23415.sim_swap", "on"), ("23410.reverse_sms", "on"), ("23415.discovery", "on"), ("x.y", "on")];
    let saved = browser.submit(&page, &page, &checked_boxes).await;
    let saved = browser.get(location(&saved)).await.assert(200).text();
    assert!(saved.contains("Saved.") && saved.matches(" checked").count() == 3, "{saved}");
    let expected = json!([
        {"network_id": "23415", "products": ["sim_swap", "discovery"]},
        {"network_id": "23410", "products": ["reverse_sms"]},
    ]);
    assert_eq!(allowed(&world, &project.path).await, expected);

    let every = json!(["reverse_sms", "secure_sna", "discovery", "sim_swap"]);
    browser.submit(&page, &page, &[("choice", "all")]).await.assert(303);
    let all = json!([{"network_id": "*", "products": every}]);
    assert_eq!(allowed(&world, &project.path).await, all);
    browser.submit(&page, &page, &[("choice", "none")]).await.assert(303);
    assert_eq!(allowed(&world, &project.path).await, json!([]));

    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.json();
    let replaced = |event: &&Value| event["action"] == "project.allowed_networks_replaced";
    let actors: Vec<&Value> = events["content"].as_array().unwrap().iter().filter(replaced).collect();
    assert_eq!(actors.len(), 3, "{events}");
    assert!(actors.iter().all(|event| event["actor"]["type"] == "account"), "{events}");
}

#[tokio::test]
async fn unknown_network_stays_until_removed() {
    let world = world_with(TWO).await;
    let project = world.project("Shop", json!({})).await;
    let known = world.node.engine.networks().directory().networks().cloned().collect();
    configure(&world, ["310004"]);
    let request = Request::put(&format!("{}/allowed-networks", project.path));
    let removed_network = json!({"networks": [{"network_id": "310004", "products": ["sim_swap"]}]});
    world.manage(request.json(&removed_network)).await.assert(200);
    world.node.engine.networks().replace(NetworkDirectory::new(known, vec![], vec![]).unwrap());
    let page = format!("/console/workspaces/{}/projects/{}/networks", world.acme.workspace_id, project.project_id);
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let text = browser.get(&page).await.assert(200).text();
    assert!(
        text.contains("not configured in this deployment") && text.contains("name=\"310004.sim_swap\" checked"),
        "{text}"
    );
    assert!(text.contains("This project is a sandbox"), "{text}");

    browser.submit(&page, &page, &[("310004.sim_swap", "on"), ("*.discovery", "on")]).await.assert(303);
    let expected =
        json!([{"network_id": "310004", "products": ["sim_swap"]}, {"network_id": "*", "products": ["discovery"]}]);
    assert_eq!(allowed(&world, &project.path).await, expected);
    browser.submit(&page, &page, &[("23411.sim_swap", "on"), ("23410.sim_swap", "on")]).await.assert(303);
    let expected = json!([{"network_id": "23410", "products": ["sim_swap"]}]);
    assert_eq!(allowed(&world, &project.path).await, expected, "both ids belong to one network");
}

#[tokio::test]
async fn page_of_networks_changes_only_its_own() {
    let world = World::sqlite().await;
    let ids: Vec<String> = (0..6_000).map(|number| (200_000 + number).to_string()).collect();
    configure(&world, ids.iter().map(String::as_str));
    let project = world.project("Shop", json!({})).await;
    let page = format!("/console/workspaces/{}/projects/{}/networks", world.acme.workspace_id, project.project_id);
    let mut browser = Browser::member(&world, &world.acme, Role::Developer).await;
    let shown = browser.get(&page).await.assert(200);
    assert_well_formed(&page, &shown);
    assert!(shown.text().len() < 100_000, "{} bytes", shown.text().len());
    let shown_ids = |text: &str| {
        let rest = text.split("name=\"shown\" value=\"").nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let first = shown_ids(&shown.text());
    let last_path = format!("{page}?q=20599&page=1");
    let last = shown_ids(&browser.get(&last_path).await.assert(200).text());
    assert!(
        first.starts_with("* 200000 ")
            && last == "* 205990 205991 205992 205993 205994 205995 205996 205997 205998 205999"
    );

    let fields = [("shown", &*first), ("page", "1"), ("200000.sim_swap", "on"), ("200003.discovery", "on")];
    browser.submit(&page, &page, &fields).await.assert(303);
    let fields = [("shown", &*last), ("q", "20599"), ("page", "1"), ("205999.reverse_sms", "on")];
    let saved = browser.submit(&last_path, &page, &fields).await;
    assert_eq!(location(&saved), format!("{page}?q=20599&page=1&saved="));
    assert!(browser.get(location(&saved)).await.assert(200).text().contains("Saved."));
    let fields = [("shown", &*first), ("page", "1"), ("200003.discovery", "on")];
    browser.submit(&page, &page, &fields).await.assert(303);
    let expected = json!([
        {"network_id": "205999", "products": ["reverse_sms"]},
        {"network_id": "200003", "products": ["discovery"]},
    ]);
    assert_eq!(allowed(&world, &project.path).await, expected);
}

#[tokio::test]
async fn viewers_see_a_hint_without_configured_networks() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let page = format!("/console/workspaces/{}/projects/{}/networks", world.acme.workspace_id, project.project_id);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&page).await.assert(200).text();
    assert!(text.contains("No networks are configured") && !text.contains(">Save<"), "{text}");
}
