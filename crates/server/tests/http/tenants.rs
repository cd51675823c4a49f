//! One tenant never sees or touches what is another's, whatever ids it names.

use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    routes::{self, Ids},
    world::{ProjectOf, Tenant, World},
};

const NOBODYS: &str = "01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71";

/// Two tenants, each with a project.
async fn two_tenants(world: &World) -> [(Tenant, ProjectOf); 2] {
    let ours = world.project("Ours", json!({})).await;
    let other = world.another_tenant().await;
    let configuration = json!({"reverse_sms": {"callback_url": "https://theirs.example/hook"}});
    let theirs = world.project_of(&other, "Secret plan", json!({"configuration": configuration})).await;
    [(world.acme.clone(), ours), (other, theirs)]
}

/// All that a tenant can see of itself.
async fn state_of(world: &World, tenant: &Tenant, project: &ProjectOf) -> Vec<Value> {
    let ids = Ids::of(tenant, project);
    let token = world.manager_of(tenant).await;
    let mut state = vec![];
    for route in routes::managed().filter(|route| route.method == "GET") {
        state.push(world.send(route.request(&ids).bearer(&token)).await.assert(200).json());
    }
    state
}

/// Every route that names a workspace, with each id that it names replaced by another tenant's.
async fn ids_of_another_tenant_open_nothing(world: World) {
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
    let token = world.manager().await;
    for route in routes::managed() {
        for ids in &mixtures {
            let request = route.request(ids);
            if request.target == route.request(&own).target {
                continue;
            }
            let answer = world.send(request.bearer(&token)).await;
            assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{route:?} with {ids:?}");
            for secret in ["Secret plan", "Other", "theirs.example", &theirs.client_secret] {
                assert!(!answer.text().contains(secret), "{route:?} tells {secret}");
            }
        }
    }
    assert_eq!(state_of(&world, &other, &theirs).await, before, "nothing was touched");
}

/// Callers are authorised before their body is read.
async fn strangers_are_refused_whatever_they_send(world: World) {
    let [_, (other, theirs)] = two_tenants(&world).await;
    let foreign = Ids::of(&other, &theirs);
    let token = world.manager().await;
    for route in routes::with_body().filter(|route| route.template.starts_with("/v1/management/")) {
        for (media_type, body) in [("application/json", "{"), ("text/plain", "{}")] {
            let request = Request::new(route.method, &routes::fill(route.template, &foreign));
            let answer = world.send(request.body(media_type, body).bearer(&token)).await;
            assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{route:?} with {body}");
        }
    }
}

async fn ids_of_nobody_are_404(world: World) {
    let [(acme, ours), _] = two_tenants(&world).await;
    let own = Ids::of(&acme, &ours);
    let token = world.manager().await;
    let call = async |route: routes::Route, ids: &Ids| world.send(route.request(ids).bearer(&token)).await;
    for route in routes::managed() {
        if route.template.contains("{workspace_id}") {
            let ids = Ids { workspace_id: NOBODYS.to_owned(), ..own.clone() };
            call(route, &ids).await.assert_problem(404, "workspace_not_found");
        }
        if route.template.contains("{project_id}") {
            let ids = Ids { project_id: NOBODYS.to_owned(), ..own.clone() };
            call(route, &ids).await.assert_problem(404, "project_not_found");
        }
        if route.template.contains("{client_id}") {
            let nobody = "prj_nobody".to_owned();
            let ids = Ids { project_client: nobody.clone(), workspace_client: nobody, ..own.clone() };
            call(route, &ids).await.assert_problem(404, "credential_not_found");
        }
    }
}

async fn ids_that_are_none_are_400(world: World) {
    let [(acme, ours), _] = two_tenants(&world).await;
    let own = Ids::of(&acme, &ours);
    let token = world.manager().await;
    for route in routes::managed() {
        for nonsense in ["not-a-uuid", "1", "%20", &own.workspace_id.replace('-', "")] {
            for (parameter, ids) in [
                ("workspace_id", Ids { workspace_id: nonsense.to_owned(), ..own.clone() }),
                ("project_id", Ids { project_id: nonsense.to_owned(), ..own.clone() }),
            ] {
                if route.template.contains(parameter) {
                    let answer =
                        world.send(route.request(&ids).bearer(&token)).await.assert_problem(400, "bad_request");
                    assert!(answer.detail().contains(parameter), "{}", answer.detail());
                }
            }
        }
    }
}

/// Lists hold what is one's own.
async fn lists_end_at_the_wall(world: World) {
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
    ids_of_another_tenant_open_nothing,
    strangers_are_refused_whatever_they_send,
    ids_of_nobody_are_404,
    ids_that_are_none_are_400,
    lists_end_at_the_wall,
);
