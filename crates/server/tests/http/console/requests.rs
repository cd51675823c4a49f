use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{browser::Browser, pages::assert_well_formed};
use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    world::{TestProject, World},
};

on_both_stores!(
    rejected_request_is_found_by_its_id,
    successful_polls_are_not_logged,
    invalid_requests_are_logged_without_secrets,
    unauthenticated_requests_do_not_flood_the_log,
);

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}/requests", world.acme.workspace_id, project.project_id)
}

fn id_of(response: &HttpResponse) -> String {
    response.header("x-request-id").unwrap().to_owned()
}

async fn flush_log(world: &World) {
    world.node.engine.request_log.write_queued_requests().await.unwrap();
}

async fn successful_polls_are_not_logged(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let project = &backend.project;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let poll = |path: &str| Request::get(path).bearer(&token).header("x-background-request", "true");
    let succeeded = world.send(poll(CHECKS)).await.assert(200);
    let rejected = world.send(poll(&format!("{CHECKS}?size=0"))).await.assert(400);
    let read = world.send(Request::get(CHECKS).bearer(&token)).await.assert(200);
    flush_log(&world).await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let list = viewer.get(&path_of(&world, project)).await.assert(200).text();
    for (response, is_logged) in [(&succeeded, false), (&rejected, true), (&read, true)] {
        assert_eq!(list.contains(&id_of(response)), is_logged, "{list}");
    }
}

async fn rejected_request_is_found_by_its_id(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let project = &backend.project;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let wrong = json!({"phone_number": "0123", "callback_url": "https://example.com/hook", "extra": 1});
    let refused = world.send(Request::post(CHECKS).bearer(&token).json(&wrong)).await.assert(400);
    let guessed = world.token_request(&project.client_id, "a-guess-that-is-wrong", "reverse_sms").await.assert(401);
    let other_scope = world.send(Request::get("/v1/sim-swap-checks?size=5").bearer(&token)).await.assert(403);
    world.advance(SignedDuration::from_hours(2));
    let late = world.send(Request::get(&format!("{CHECKS}?size=5&page=1")).bearer(&token)).await.assert(401);
    flush_log(&world).await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let requests = path_of(&world, project);
    let list = viewer.get(&requests).await.assert(200);
    assert_well_formed(&requests, &list);
    for (response, code, route) in [
        (&refused, "bad_request", CHECKS),
        (&guessed, "invalid_client", "/oauth2/token"),
        (&other_scope, "forbidden", "/v1/sim-swap-checks"),
        (&late, "unauthorized", CHECKS),
    ] {
        let id = id_of(response);
        assert!(list.text().contains(&format!("<code title=\"{id}\">")), "{code}: {}", list.text());
        let one = viewer.get(&format!("{requests}/{id}")).await.assert(200);
        assert_well_formed(&requests, &one);
        for part in [&*response.status.to_string(), code, route, &*project.client_id, " ms"] {
            assert!(one.text().contains(part), "{part}: {}", one.text());
        }
        let found = viewer.get(&format!("{requests}?request_id={id}")).await.assert(200).text();
        assert!(found.contains("1 total"), "{found}");
    }
    let one = viewer.get(&format!("{requests}/{}", id_of(&refused))).await.text();
    assert!(one.contains("Unknown property") || one.contains("<code>/extra</code>"), "{one}");
    assert!(one.contains("&#34;phone_number&#34;: &#34;…&#34; (4 characters)"), "{one}");
    let queried = viewer.get(&format!("{requests}/{}", id_of(&late))).await.text();
    assert!(queried.contains("size=5&#38;page=1"), "{queried}");

    for (filter, ids, others) in [
        ("status=4xx", vec![&refused, &guessed, &other_scope, &late], vec![]),
        ("status=5xx", vec![], vec![&refused, &guessed, &other_scope, &late]),
        ("status=4xx&error_code=forbidden", vec![&other_scope], vec![&refused, &guessed, &late]),
        ("request_id=unknown", vec![], vec![&refused, &guessed, &other_scope, &late]),
    ] {
        let page = viewer.get(&format!("{requests}?{filter}")).await.assert(200).text();
        assert!(ids.iter().all(|response| page.contains(&id_of(response))), "{filter}: {page}");
        assert!(!others.iter().any(|response| page.contains(&id_of(response))), "{filter}: {page}");
    }
    viewer.get(&format!("{requests}/unknown")).await.assert(404);
}

/// The requests come from a caller who knows the client id of the project but not the secret.
async fn unauthenticated_requests_do_not_flood_the_log(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let project = &backend.project;
    let outsider = world.project_of(&world.another_tenant().await, "Outsider", json!({})).await;
    let scope = world.token_request(&project.client_id, &project.client_secret, "no_such_scope").await.assert(400);
    for _ in 0..60 {
        let flood = world.token_request(&project.client_id, &outsider.client_secret, "reverse_sms").await;
        assert!([401, 429].contains(&flood.status), "{flood:?}");
    }
    let own = backend.post(json!({"phone_number": "0123"})).await.assert(400);
    flush_log(&world).await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let requests = path_of(&world, project);
    for response in [&own, &scope] {
        let one = viewer.get(&format!("{requests}/{}", id_of(response))).await.assert(200).text();
        assert!(!one.contains("not authenticated"), "{one}");
    }
    let flood = viewer.get(&format!("{requests}?error_code=invalid_client")).await.assert(200).text();
    assert!(flood.contains("2 total"), "{flood}");
}

async fn invalid_requests_are_logged_without_secrets(world: World) {
    const NUMBER: &str = "990481516277";
    const CODE: &str = "735182";
    const SECRET: &str = "s3cr3t-that-was-put-where-it-does-not-belong";
    let backend = ReverseSmsClient::sandbox(&world).await;
    let project = &backend.project;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let number = format!("+{NUMBER}");
    let wrong = [
        json!({"phone_number": number, "extra": SECRET}),
        json!({"phone_number": [number], "code": CODE}),
        json!({number.clone(): 1, "phone_number": EVEN}),
        json!({"phone_number": EVEN, SECRET: SECRET}),
        json!({"phone_number": EVEN, "reference_id": {"code": CODE, "deep": [[[[[number]]]]]}}),
        json!({"phone_number": EVEN, CODE: CODE}),
        json!(number),
    ];
    let mut responses = vec![];
    for body in wrong {
        responses.push(world.send(Request::post(CHECKS).bearer(&token).json(&body)).await.assert(400));
    }
    let broken = format!("{{\"phone_number\": {number}");
    for request in [
        Request::post(CHECKS).body("application/json", broken),
        Request::get(&format!("{CHECKS}?{NUMBER}={SECRET}")),
        Request::get(&format!("{CHECKS}?search=%2B{NUMBER}%3D%3Dx")),
        Request::get(&format!("{CHECKS}?access_token={SECRET}")),
        Request::get(&format!("{CHECKS}/{SECRET}")),
        Request::get(&format!("/v1/eligibility/phone-numbers/%2B{NUMBER}")),
    ] {
        responses.push(world.send(request.bearer(&token)).await);
    }
    responses.push(world.token_request(&project.client_id, SECRET, "reverse_sms").await.assert(401));
    responses.push(world.token_request(&project.client_id, &project.client_secret, SECRET).await.assert(400));
    flush_log(&world).await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let requests = path_of(&world, project);
    let mut pages = vec![viewer.get(&requests).await.assert(200).text()];
    for response in &responses {
        assert!(response.status >= 400, "{}", response.text());
        pages.push(viewer.get(&format!("{requests}/{}", id_of(response))).await.assert(200).text());
    }
    let dump = world.database.dump();
    for secret in [NUMBER, CODE, SECRET, &*token, &*project.client_secret] {
        assert!(!pages.iter().any(|page| page.contains(secret)), "{secret} is on a page");
        assert!(!dump.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} is in the database");
    }
}

#[tokio::test]
async fn bursts_of_requests_are_sampled_and_counted() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let project = &backend.project;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let list = || world.send(Request::get(CHECKS).bearer(&token));
    world.advance(SignedDuration::from_secs(1));
    for _ in 0..30 {
        list().await.assert(200);
    }
    flush_log(&world).await;
    world.advance(SignedDuration::from_secs(1));
    let next = id_of(&list().await.assert(200));
    flush_log(&world).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let requests = path_of(&world, project);
    let page = viewer.get(&format!("{requests}?status=2xx")).await.assert(200).text();
    assert!(page.contains("10 more requests within one earlier second") && page.contains(&next), "{page}");
    let other = world.project("Other", json!({})).await;
    let page = viewer.get(&path_of(&world, &other)).await.assert(200);
    assert_well_formed(&requests, &page);
    assert!(page.text().contains("No requests in the last"), "{}", page.text());
}

#[tokio::test]
async fn requests_are_kept_for_the_retention_period() {
    let world = World::sqlite().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let requests = path_of(&world, &backend.project);
    flush_log(&world).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    assert!(viewer.get(&requests).await.text().contains("title=\"POST /oauth2/token\""));
    world.advance(SignedDuration::from_hours(11));
    viewer.get(&requests).await.assert(200);
    world.advance(SignedDuration::from_hours(11));
    viewer.get(&requests).await.assert(200);
    world.advance(SignedDuration::from_hours(3));
    world.node.engine.node.delete_expired().await.unwrap();
    assert!(viewer.get(&requests).await.text().contains("No requests in the last 24 hours"));

    let world = World::configured(|config| config.retention.request_log = None).await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    flush_log(&world).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let page = viewer.get(&path_of(&world, &backend.project)).await.assert(200);
    assert_well_formed(&requests, &page);
    assert!(page.text().contains("retention.request_log") && !page.text().contains("/oauth2/token"), "{}", page.text());
}

#[tokio::test]
async fn requests_of_another_workspace_are_not_shown() {
    let world = World::sqlite().await;
    let other = world.another_tenant().await;
    let theirs = world.project_of(&other, "Theirs", json!({})).await;
    let response = world.token_request(&theirs.client_id, &theirs.client_secret, "reverse_sms").await.assert(200);
    flush_log(&world).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let requests = path_of(&world, &theirs);
    for page in [requests.clone(), format!("{requests}/{}", id_of(&response))] {
        let response = owner.get(&page).await.assert(404);
        assert!(
            !response.text().contains("Theirs") && !response.text().contains(&theirs.client_id),
            "{}",
            response.text()
        );
    }
    let ours = world.project("Ours", json!({})).await;
    owner.get(&format!("{}/{}", path_of(&world, &ours), id_of(&response))).await.assert(404);
}
