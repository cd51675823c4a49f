//! Credentials of projects and workspaces.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    world::World,
};

const EVERY_PRODUCT: [&str; 7] =
    ["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility", "verification", "sign_in"];

/// Paths of project and workspace credentials, with their scopes.
async fn credential_paths(world: &World) -> [(String, Vec<&'static str>); 2] {
    let project = world.project("Shop", json!({})).await;
    [
        (format!("{}/credentials", world.acme.path()), vec!["management"]),
        (format!("{}/credentials", project.path), EVERY_PRODUCT.to_vec()),
    ]
}

async fn secret_is_shown_once(world: World) {
    world.advance(SignedDuration::from_secs(5));
    for (path, scopes) in credential_paths(&world).await {
        let created = create(&world, &path, &json!({})).await.assert(201).json();
        assert_eq!(created["scopes"], json!(scopes));
        assert_eq!(created["created_at"], "2026-01-01T00:00:05.000Z");
        assert!(created.get("expires_at").is_none());
        let (id, secret) = (text(&created, "client_id"), text(&created, "client_secret"));
        world.token(&id, &secret, scopes[0]).await;

        let mut without_secret = created.clone();
        without_secret.as_object_mut().unwrap().remove("client_secret");
        let one = world.manage(Request::get(&format!("{path}/{id}"))).await.assert(200);
        assert_eq!(one.json(), without_secret);
        let list = world.manage(Request::get(&path)).await.assert(200);
        assert!(list.json()["content"].as_array().unwrap().contains(&without_secret));
        for response in [one, list] {
            assert!(!response.text().contains(&secret) && !response.text().contains("secret"), "{}", response.text());
        }
    }
}

async fn several_credentials_can_be_active(world: World) {
    for (path, scopes) in credential_paths(&world).await {
        let mut made = vec![];
        for _ in 0..12 {
            made.push(create(&world, &path, &json!({})).await.assert(201).json());
        }
        for credential in &made {
            world.token(&text(credential, "client_id"), &text(credential, "client_secret"), scopes[0]).await;
        }
        let ids: BTreeSet<_> = made.iter().map(|credential| text(credential, "client_id")).collect();
        let secrets: BTreeSet<_> = made.iter().map(|credential| text(credential, "client_secret")).collect();
        assert_eq!((ids.len(), secrets.len()), (12, 12));
        let page = world.manage(Request::get(&format!("{path}?size=100"))).await.assert(200).json();
        assert_eq!(page["page"]["total_elements"], 13, "the owner was created with a credential");
        let listed: BTreeSet<_> =
            page["content"].as_array().unwrap().iter().map(|credential| text(credential, "client_id")).collect();
        assert!(listed.is_superset(&ids));
    }
}

async fn deleted_credential_returns_404(world: World) {
    for (path, scopes) in credential_paths(&world).await {
        let created = create(&world, &path, &json!({})).await.assert(201).json();
        let (id, secret) = (text(&created, "client_id"), text(&created, "client_secret"));
        let one = format!("{path}/{id}");
        let token = world.token(&id, &secret, scopes[0]).await;

        let deleted = world.manage(Request::delete(&one)).await.assert(204);
        assert_eq!((deleted.body.as_slice(), deleted.header("content-type")), (&b""[..], None));
        assert!(!world.accepts_token(&token).await);
        world.token_request(&id, &secret, scopes[0]).await.assert_problem(401, "unauthorized");
        world.manage(Request::get(&one)).await.assert_problem(404, "credential_not_found");
        world.manage(Request::delete(&one)).await.assert_problem(404, "credential_not_found");
        let list = world.manage(Request::get(&format!("{path}?size=100"))).await.assert(200);
        assert!(!list.text().contains(&id));
    }
}

async fn credential_can_delete_itself(world: World) {
    let path = format!("{}/credentials", world.acme.path());
    create(&world, &path, &json!({})).await.assert(201);
    let token = world.management_token().await;
    let itself = format!("{path}/{}", world.acme.client_id);
    world.send(Request::delete(&itself).bearer(&token)).await.assert(204);
    world.send(Request::get(&path).bearer(&token)).await.assert_problem(401, "unauthorized");
    let again = world.token_request(&world.acme.client_id, &world.acme.client_secret, "management").await;
    again.assert_problem(401, "unauthorized");
}

async fn last_live_credential_of_a_workspace_stays(world: World) {
    let path = format!("{}/credentials", world.acme.path());
    let first = format!("{path}/{}", world.acme.client_id);
    world.manage(Request::delete(&first)).await.assert_problem(409, "last_credential");
    // An expired credential does not count as a valid one, so the first credential is still the last. The expired
    // credential can be deleted.
    let end = world.node.engine.clock().now() + SignedDuration::from_secs(60);
    let created = create(&world, &path, &json!({"expires_at": end.to_string()})).await.assert(201).json();
    let short_lived = format!("{path}/{}", text(&created, "client_id"));
    world.manage(Request::delete(&short_lived)).await.assert(204);
    let created = create(&world, &path, &json!({"expires_at": end.to_string()})).await.assert(201).json();
    let short_lived = format!("{path}/{}", text(&created, "client_id"));
    world.advance(SignedDuration::from_secs(60));
    world.manage(Request::delete(&first)).await.assert_problem(409, "last_credential");
    world.manage(Request::delete(&short_lived)).await.assert(204);

    // Credentials of projects do not count as credentials of the workspace. Unlike a workspace, a project can lose its
    // last credential.
    let project = world.project("Shop", json!({})).await;
    world.manage(Request::delete(&first)).await.assert_problem(409, "last_credential");
    world.manage(Request::delete(&format!("{}/credentials/{}", project.path, project.client_id))).await.assert(204);

    // If all credentials are deleted concurrently, one must remain.
    let mut all = vec![(world.acme.client_id.clone(), world.acme.client_secret.clone())];
    for _ in 0..4 {
        let created = create(&world, &path, &json!({})).await.assert(201).json();
        all.push((text(&created, "client_id"), text(&created, "client_secret")));
    }
    let token = world.management_token().await;
    let deletions = all.iter().map(|(id, _)| world.send(Request::delete(&format!("{path}/{id}")).bearer(&token)));
    let statuses: Vec<_> = join_all(deletions).await.iter().map(|response| response.status).collect();
    // The response is 401 if another of these requests has already deleted the credential of the token.
    assert!(statuses.iter().all(|status| [204, 401, 409].contains(status)), "{statuses:?}");
    let logins = join_all(all.iter().map(|(id, secret)| world.token_request(id, secret, "management"))).await;
    assert!(logins.iter().any(|response| response.status == 200), "{statuses:?}");
}

async fn credential_can_have_an_expiry(world: World) {
    for (path, scopes) in credential_paths(&world).await {
        for (given, kept) in [
            ("2026-06-01T00:00:00.123Z", "2026-06-01T00:00:00.123Z"),
            ("2026-06-01T00:00:00Z", "2026-06-01T00:00:00.000Z"),
            ("2026-06-01T02:00:00.5+02:00", "2026-06-01T00:00:00.500Z"),
            ("2026-06-01t00:00:00z", "2026-06-01T00:00:00.000Z"),
            ("9998-12-31T23:59:59.999Z", "9998-12-31T23:59:59.999Z"),
            ("2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.001Z"),
        ] {
            let created = create(&world, &path, &json!({"expires_at": given})).await.assert(201).json();
            assert_eq!(created["expires_at"], kept);
            let one = world.manage(Request::get(&format!("{path}/{}", text(&created, "client_id")))).await;
            assert_eq!(one.assert(200).json()["expires_at"], kept);
            world.token(&text(&created, "client_id"), &text(&created, "client_secret"), scopes[0]).await;
        }
    }
}

async fn expired_credential_is_still_listed(world: World) {
    for (path, _) in credential_paths(&world).await {
        let end = world.node.engine.clock().now() + SignedDuration::from_secs(1);
        let created = create(&world, &path, &json!({"expires_at": end.to_string()})).await.assert(201).json();
        world.advance(SignedDuration::from_secs(1));
        let one = format!("{path}/{}", text(&created, "client_id"));
        world.manage(Request::get(&one)).await.assert(200);
        world.manage(Request::delete(&one)).await.assert(204);
    }
}

async fn invalid_bodies_are_rejected(world: World) {
    for (path, scopes) in credential_paths(&world).await {
        let of_the_other = if scopes[0] == "management" { "sim_swap" } else { "management" };
        for (body, pointer) in [
            (json!({"scopes": []}), "/scopes"),
            (json!({"scopes": scopes[0]}), "/scopes"),
            (json!({"scopes": ["everything"]}), "/scopes/0"),
            (json!({"scopes": [scopes[0], 1]}), "/scopes/1"),
            (json!({"scopes": [scopes[0], scopes[0]]}), "/scopes/1"),
            (json!({"scopes": [of_the_other]}), "/scopes"),
            (json!({"scopes": [scopes[0], of_the_other]}), "/scopes"),
            (json!({"expires_at": "2026-01-01T00:00:00Z"}), "/expires_at"),
            (json!({"expires_at": "2020-01-01T00:00:00Z"}), "/expires_at"),
            (json!({"expires_at": "1900-01-01T00:00:00Z"}), "/expires_at"),
            (json!({"expires_at": "tomorrow"}), "/expires_at"),
            (json!({"expires_at": "2027-01-01"}), "/expires_at"),
            (json!({"expires_at": "2027-01-01T00:00:00"}), "/expires_at"),
            (json!({"expires_at": "2027-02-30T00:00:00Z"}), "/expires_at"),
            (json!({"expires_at": "10000-01-01T00:00:00Z"}), "/expires_at"),
            (json!({"expires_at": 1_900_000_000}), "/expires_at"),
            (json!({"expires_at": "1969-12-31T23:59:59Z"}), "/expires_at"),
            (json!({"expires_at": "2027-01-01T00:00:00+24:00"}), "/expires_at"),
            (json!({"client_id": "mine"}), "/client_id"),
            (json!({"client_secret": "mine"}), "/client_secret"),
        ] {
            let response = create(&world, &path, &body).await.assert_problem(400, "bad_request");
            assert!(response.detail().starts_with(&format!("`{pointer}`: ")), "{body}: {}", response.detail());
        }
    }
}

async fn credential_is_visible_under_its_owner_only(world: World) {
    let (one, two) = (world.project("One", json!({})).await, world.project("Two", json!({})).await);
    let workspace = world.acme.path();
    for path in [
        format!("{}/credentials/{}", two.path, one.client_id),
        format!("{workspace}/credentials/{}", one.client_id),
        format!("{}/credentials/{}", one.path, world.acme.client_id),
    ] {
        for request in [Request::get(&path), Request::delete(&path)] {
            let response = world.manage(request).await.assert_problem(403, "forbidden");
            assert!(
                !response.detail().contains("another workspace"),
                "both owners are in the same workspace: {}",
                response.detail()
            );
        }
    }
    world.token(&one.client_id, &one.client_secret, "sim_swap").await;

    let (long, longer) = ("x".repeat(65), "x".repeat(1000));
    for (nonsense, status, code) in [
        ("nobody", 404, "credential_not_found"),
        ("prj_x", 404, "credential_not_found"),
        ("%20", 400, "bad_request"),
        ("a%3Ab", 400, "bad_request"),
        ("%F0%9F%94%91", 400, "bad_request"),
        (&long, 400, "bad_request"),
        (&longer, 400, "bad_request"),
    ] {
        for owner in [&one.path, &workspace] {
            let response = world.manage(Request::get(&format!("{owner}/credentials/{nonsense}"))).await;
            response.assert_problem(status, code);
        }
    }
}

on_both_stores!(
    secret_is_shown_once,
    several_credentials_can_be_active,
    deleted_credential_returns_404,
    credential_can_delete_itself,
    last_live_credential_of_a_workspace_stays,
    credential_can_have_an_expiry,
    expired_credential_is_still_listed,
    invalid_bodies_are_rejected,
    credential_is_visible_under_its_owner_only,
);

async fn create(world: &World, path: &str, body: &Value) -> HttpResponse {
    world.manage(Request::post(path).json(body)).await
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap().to_owned()
}
