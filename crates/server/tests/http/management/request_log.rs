//! The request log of a project in the Management API.

use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::{CHECKS, ReverseSmsClient},
    world::World,
};

on_both_stores!(requests_are_listed_and_filtered, invalid_filters_are_rejected);

fn id_of(response: &HttpResponse) -> &str {
    response.header("x-request-id").unwrap()
}

async fn list(world: &World, path: &str) -> Vec<Value> {
    let page = world.manage(Request::get(path)).await.assert(200).json();
    page["content"].as_array().unwrap().clone()
}

async fn requests_are_listed_and_filtered(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let project = &backend.project;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let refused =
        world.send(Request::post(CHECKS).bearer(&token).json(&json!({"phone_number": "0123"}))).await.assert(400);
    let served = world.send(Request::get(&format!("{CHECKS}?size=5")).bearer(&token)).await.assert(200);
    world.node.engine.request_log.write_queued_requests().await.unwrap();

    let requests = format!("{}/requests", project.path);
    let all = list(&world, &requests).await;
    let entry = |id: &str| all.iter().find(|entry| entry["request_id"] == id).expect("the request is logged");
    let (first, second) = (entry(id_of(&refused)), entry(id_of(&served)));
    assert_eq!((&first["method"], &first["route"]), (&json!("POST"), &json!(CHECKS)));
    assert_eq!((&first["status"], &first["error_code"]), (&json!(400), &json!("phone_number_invalid")));
    assert_eq!((&first["client_id"], &first["authenticated"]), (&json!(project.client_id), &json!(true)));
    for field in ["body", "detail"] {
        assert!(!first[field].as_str().unwrap().contains("0123"), "{first}");
    }
    assert_eq!(
        (&second["status"], &second["query"], &second["error_code"]),
        (&json!(200), &json!("size=5"), &Value::Null)
    );

    for (filter, expected) in [
        ("status=4xx".to_owned(), vec![id_of(&refused)]),
        ("status=5xx".to_owned(), vec![]),
        ("error_code=phone_number_invalid".to_owned(), vec![id_of(&refused)]),
        (format!("request_id={}", id_of(&served)), vec![id_of(&served)]),
    ] {
        let found = list(&world, &format!("{requests}?{filter}")).await;
        let ids: Vec<&str> = found.iter().map(|entry| entry["request_id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{filter}");
    }

    let other = world.another_tenant().await;
    let theirs = world.project_of(&other, "Theirs", json!({})).await;
    world.manage(Request::get(&format!("{}/requests", theirs.path))).await.assert(403);
    let empty = world.project("Empty", json!({})).await;
    assert_eq!(list(&world, &format!("{}/requests", empty.path)).await, Vec::<Value>::new());
}

async fn invalid_filters_are_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    for filter in ["status=400", "status=", "error_code=", "error_code=%00", "request_id=a%20b", "request_id=%C3%A9"] {
        let response = world.manage(Request::get(&format!("{}/requests?{filter}", project.path))).await.assert(400);
        assert_eq!(response.code(), "bad_request", "{filter}");
    }
}
