//! Isolation of tenants.

use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    protocol::routes::{self, Ids},
    world::{Tenant, TestProject, World},
};

const UNKNOWN_ID: &str = "01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71";

/// Two tenants with a project each.
async fn two_tenants(world: &World) -> [(Tenant, TestProject); 2] {
    let ours = world.project("Ours", json!({})).await;
    let other = world.another_tenant().await;
    let configuration = json!({"reverse_sms": {"callback_url": "https://theirs.example/hook"}});
    let theirs = world.project_of(&other, "Secret plan", json!({"configuration": configuration})).await;
    [(world.acme.clone(), ours), (other, theirs)]
}

/// Reads everything that a tenant can see.
async fn state_of(world: &World, tenant: &Tenant, project: &TestProject) -> Vec<Value> {
    let ids = Ids::of(tenant, project);
    let token = world.management_token_of(tenant).await;
    let mut state = vec![];
    for route in routes::managed().filter(|route| route.method == "GET") {
        state.push(world.send(route.request(&ids).bearer(&token)).await.assert(200).json());
    }
    state
}

/// Calls every route with a workspace, and replaces each id in turn with the id of another tenant's resource.
async fn ids_of_another_tenant_return_403(world: World) {
    let [(acme, ours), (other, theirs)] = two_tenants(&world).await;
    let before = state_of(&world, &other, &theirs).await;
    let own = Ids::of(&acme, &ours);
    let foreign = Ids::of(&other, &theirs);
    let mixtures = [
        foreign.clone(),
        Ids { workspace_id: own.workspace_id.clone(), ..foreign.clone() },
        Ids {
            project_client: foreign.project_client.clone(),
            workspace_client: foreign.workspace_client.clone(),
            ..own.clone()
        },
        Ids { workspace_id: foreign.workspace_id.clone(), ..own.clone() },
    ];
    let token = world.management_token().await;
    for route in routes::managed() {
        for ids in &mixtures {
            let request = route.request(ids);
            if request.target == route.request(&own).target {
                continue;
            }
            let response = world.send(request.bearer(&token)).await;
            assert_eq!((response.status, response.code().as_str()), (403, "forbidden"), "{route:?} with {ids:?}");
            for secret in ["Secret plan", "Other", "theirs.example", &theirs.client_secret] {
                assert!(!response.text().contains(secret), "{route:?} discloses {secret}");
            }
        }
    }
    assert_eq!(state_of(&world, &other, &theirs).await, before, "the other tenant is not affected");
}

async fn other_tenants_are_rejected_before_their_body_is_validated(world: World) {
    let [_, (other, theirs)] = two_tenants(&world).await;
    let foreign = Ids::of(&other, &theirs);
    let token = world.management_token().await;
    for route in routes::with_body().filter(|route| route.template.starts_with("/v1/management/")) {
        for (media_type, body) in [("application/json", "{"), ("text/plain", "{}")] {
            let request = Request::new(route.method, &routes::fill(route.template, &foreign));
            let response = world.send(request.body(media_type, body).bearer(&token)).await;
            assert_eq!((response.status, response.code().as_str()), (403, "forbidden"), "{route:?} with {body}");
        }
    }
}

async fn unknown_ids_return_404(world: World) {
    let [(acme, ours), _] = two_tenants(&world).await;
    let own = Ids::of(&acme, &ours);
    let token = world.management_token().await;
    let call = async |route: routes::Route, ids: &Ids| world.send(route.request(ids).bearer(&token)).await;
    for route in routes::managed() {
        if route.template.contains("{workspace_id}") {
            let ids = Ids { workspace_id: UNKNOWN_ID.to_owned(), ..own.clone() };
            call(route, &ids).await.assert_problem(404, "workspace_not_found");
        }
        if route.template.contains("{project_id}") {
            let ids = Ids { project_id: UNKNOWN_ID.to_owned(), ..own.clone() };
            call(route, &ids).await.assert_problem(404, "project_not_found");
        }
        if route.template.contains("{client_id}") {
            let unknown_client = "prj_unknown".to_owned();
            let ids = Ids { project_client: unknown_client.clone(), workspace_client: unknown_client, ..own.clone() };
            call(route, &ids).await.assert_problem(404, "credential_not_found");
        }
    }
}

async fn invalid_ids_return_400(world: World) {
    let [(acme, ours), _] = two_tenants(&world).await;
    let own = Ids::of(&acme, &ours);
    let token = world.management_token().await;
    for route in routes::managed() {
        for nonsense in ["not-a-uuid", "1", "%20", &own.workspace_id.replace('-', "")] {
            for (parameter, ids) in [
                ("workspace_id", Ids { workspace_id: nonsense.to_owned(), ..own.clone() }),
                ("project_id", Ids { project_id: nonsense.to_owned(), ..own.clone() }),
            ] {
                if route.template.contains(parameter) {
                    let response =
                        world.send(route.request(&ids).bearer(&token)).await.assert_problem(400, "bad_request");
                    assert!(response.detail().contains(parameter), "{}", response.detail());
                }
            }
        }
    }
}

async fn lists_contain_only_the_tenants_own_items(world: World) {
    let [(acme, ours), (other, theirs)] = two_tenants(&world).await;
    let own = state_of(&world, &acme, &ours).await;
    let own = serde_json::to_string(&own).unwrap();
    for id in [&other.workspace_id, &other.client_id, &theirs.project_id, &theirs.client_id] {
        assert!(!own.contains(id.as_str()));
    }
    let search = format!("{}/projects?search=name==%22Secret%20plan%22", acme.path());
    let found = world.manage(Request::get(&search)).await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], 0);
}

on_both_stores!(
    ids_of_another_tenant_return_403,
    other_tenants_are_rejected_before_their_body_is_validated,
    unknown_ids_return_404,
    invalid_ids_return_400,
    lists_contain_only_the_tenants_own_items,
);
