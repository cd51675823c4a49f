//! Projects: create, read and merge patch.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    world::World,
};

const EVERY_PRODUCT: [&str; 7] =
    ["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility", "verification", "sign_in"];

async fn new_project_has_defaults_and_a_working_credential(world: World) {
    let created = create(&world, &json!({"name": "Shop"})).await.assert(201).json();
    let id = created["project_id"].as_str().unwrap();
    let mut expected = json!({
        "project_id": id,
        "workspace_id": world.acme.workspace_id,
        "name": "Shop",
        "mode": "sandbox",
        "disabled": false,
        "configuration": {
            "reverse_sms": {}, "secure_sna": {}, "discovery": {}, "verification": {}, "sign_in": {}, "camara": {},
            "callbacks": {},
        },
        "products": EVERY_PRODUCT,
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:00.000Z",
    });
    let path = format!("{}/projects/{id}", world.acme.path());
    assert_eq!(world.manage(Request::get(&path)).await.assert(200).json(), expected, "reads return no secret");

    let credential = &created["credentials"][0];
    assert_eq!(credential["scopes"], json!(EVERY_PRODUCT));
    assert_eq!(credential["created_at"], "2026-01-01T00:00:00.000Z");
    assert!(credential.get("expires_at").is_none());
    expected["credentials"] = created["credentials"].clone();
    assert_eq!(created, expected);
    let (client_id, secret) =
        (credential["client_id"].as_str().unwrap(), credential["client_secret"].as_str().unwrap());
    world.token(client_id, secret, "reverse_sms").await;
}

/// Ids are UUIDs of version 7.
async fn project_ids_sort_by_creation_time(world: World) {
    let mut ids = vec![world.acme.workspace_id.clone()];
    for number in 0..5 {
        world.advance(SignedDuration::from_millis(1));
        ids.push(world.project(&format!("Project {number}"), json!({})).await.project_id);
    }
    assert!(ids.is_sorted(), "{ids:?}");
    assert!(ids.iter().all(|id| id.as_bytes()[14] == b'7' && *id == id.to_lowercase()), "{ids:?}");
}

async fn project_can_be_created_with_all_settings(world: World) {
    let body = json!({
        "name": "Shop",
        "mode": "live",
        "products": ["sim_swap", "reverse_sms"],
        "configuration": {
            "reverse_sms": {"callback_url": "https://shop.example/sms", "ttl": 60, "prefix": "SHOP1"},
            "secure_sna": {"callback_url": "https://shop.example/sna?x=1", "redirect_url": "https://shop.example/end"},
            "discovery": {"redirect_url": "https://shop.example/d"},
            "verification": {
                "methods": ["reverse_sms", "secure_sna"],
                "fall_back_on_mismatch": true,
                "callback_url": "https://shop.example/verified",
                "redirect_url": "https://shop.example/back",
                "ttl": 3600,
                "brand": {"name": "Shop", "logo_url": "https://shop.example/logo.svg", "support_url": "https://shop.example/help", "colour": "#0b6e4f"},
            },
            "sign_in": {
                "redirect_uris": ["https://id.shop.example/cb"],
                "sim_swap_period": 60,
                "session": 86_400,
                "token_endpoint_auth_method": "private_key_jwt",
                "jwks_uri": "https://id.shop.example/jwks",
                "id_token_signed_response_alg": "ES256",
            },
            "camara": {"purposes": ["dpv:FraudPreventionAndDetection"]},
            "callbacks": {"retry_for": 259_200},
        },
    });
    let created = create(&world, &body).await.assert(201).json();
    assert_eq!(created["mode"], "live");
    assert_eq!(created["configuration"], body["configuration"]);
    assert_eq!(created["products"], json!(["reverse_sms", "sim_swap"]));
}

async fn project_name_is_unique_in_its_workspace(world: World) {
    let (one, two) = (world.project("One", json!({})).await, world.project("Two", json!({})).await);
    create(&world, &json!({"name": "One"})).await.assert_problem(409, "project_name_taken");
    patch(&world, &two.path, &json!({"name": "One"})).await.assert_problem(409, "project_name_taken");
    patch(&world, &one.path, &json!({"name": "One"})).await.assert(200);
    create(&world, &json!({"name": "one"})).await.assert(201);
    let other = world.another_tenant().await;
    world.project_of(&other, "One", json!({})).await;

    patch(&world, &one.path, &json!({"name": "Free"})).await.assert(200);
    patch(&world, &two.path, &json!({"name": "One"})).await.assert(200);
}

/// Names that look the same count as equal, although their Unicode characters differ.
async fn project_names_are_normalised(world: World) {
    let created = create(&world, &json!({"name": " Cafe\u{301}\u{a0}"})).await.assert(201).json();
    assert_eq!(created["name"], "Caf\u{e9}");
    for name in ["Caf\u{e9}", "Cafe\u{301}", "Caf\u{e9} ", "\u{2003}Caf\u{e9}"] {
        create(&world, &json!({"name": name})).await.assert_problem(409, "project_name_taken");
    }
    let shop = world.project("Shop", json!({})).await;
    patch(&world, &shop.path, &json!({"name": "Cafe\u{301}"})).await.assert_problem(409, "project_name_taken");
    for (name, code_point) in
        [("Shop\u{200b}", "U+200B"), ("Sh\u{ad}op", "U+00AD"), ("\u{202e}Shop", "U+202E"), ("Sh\u{feff}op", "U+FEFF")]
    {
        let refused = create(&world, &json!({"name": name})).await.assert_problem(400, "bad_request");
        assert!(refused.detail().contains(code_point), "{}", refused.detail());
        let brand = json!({"configuration": {"verification": {"brand": {"name": name}}}});
        patch(&world, &shop.path, &brand).await.assert_problem(400, "bad_request");
        let label = json!({"label": name});
        world
            .manage(Request::post(&format!("{}/credentials", shop.path)).json(&label))
            .await
            .assert_problem(400, "bad_request");
        world
            .manage(Request::patch(&world.acme.path()).json(&json!({"name": name})))
            .await
            .assert_problem(400, "bad_request");
    }
}

async fn one_of_concurrent_creates_with_the_same_name_succeeds(world: World) {
    let token = world.management_token().await;
    let path = format!("{}/projects", world.acme.path());
    let one = || world.send(Request::post(&path).bearer(&token).json(&json!({"name": "Wanted"})));
    let responses = tokio::join!(one(), one(), one(), one(), one(), one());
    let mut statuses: Vec<u16> = <[HttpResponse; 6]>::from(responses).iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409]);
}

/// RFC 7396: omitted members are unchanged, `null` removes a member, and arrays are replaced as a whole.
async fn merge_patch_changes_only_the_given_members(world: World) {
    let configuration = json!({
        "reverse_sms": {"callback_url": "https://shop.example/sms", "ttl": 120, "prefix": "SHOP"},
        "secure_sna": {"callback_url": "https://shop.example/sna", "redirect_url": "https://shop.example/end"},
        "discovery": {"redirect_url": "https://shop.example/d"},
        "verification": {"ttl": 120, "methods": ["reverse_sms"], "brand": {"name": "Shop", "colour": "#0b6e4f"}},
    });
    let project = world.project("Shop", json!({"configuration": configuration})).await;
    let mut expected = world.manage(Request::get(&project.path)).await.json();
    for (second, (body, at, value)) in [
        (json!({"name": "Store"}), "/name", json!("Store")),
        (json!({"products": ["discovery"]}), "/products", json!(["discovery"])),
        (json!({"products": []}), "/products", json!([])),
        (json!({"disabled": true}), "/disabled", json!(true)),
        (json!({"configuration": {"reverse_sms": {"ttl": 61}}}), "/configuration/reverse_sms/ttl", json!(61)),
        (
            json!({"configuration": {"reverse_sms": {"ttl": null, "prefix": null}}}),
            "/configuration/reverse_sms",
            json!({"callback_url": "https://shop.example/sms"}),
        ),
        (json!({"configuration": {"secure_sna": null}}), "/configuration/secure_sna", json!({})),
        (
            json!({"configuration": {"secure_sna": {"redirect_url": "https://x.example/"}}}),
            "/configuration/secure_sna",
            json!({"redirect_url": "https://x.example/"}),
        ),
        (
            json!({"configuration": {"verification": {"ttl": null, "brand": {"colour": null}}}}),
            "/configuration/verification",
            json!({"methods": ["reverse_sms"], "brand": {"name": "Shop"}}),
        ),
        (
            json!({"configuration": {"verification": {"methods": null, "brand": null, "fall_back_on_mismatch": true}}}),
            "/configuration/verification",
            json!({"fall_back_on_mismatch": true}),
        ),
        (
            json!({"configuration": null}),
            "/configuration",
            json!({
                "reverse_sms": {}, "secure_sna": {}, "discovery": {}, "verification": {}, "sign_in": {}, "camara": {},
            "callbacks": {},
            }),
        ),
        (json!({"mode": "live", "disabled": false}), "/mode", json!("live")),
    ]
    .into_iter()
    .enumerate()
    {
        world.advance(SignedDuration::from_secs(1));
        *expected.pointer_mut(at).unwrap() = value;
        expected["updated_at"] = json!(format!("2026-01-01T00:00:{:02}.000Z", second + 1));
        if body.get("disabled").is_some() {
            expected["disabled"] = body["disabled"].clone();
        }
        let mut patched = patch(&world, &format!("{}?force=true", project.path), &body).await.assert(200).json();
        let credentials = patched.as_object_mut().unwrap().remove("credentials");
        assert_eq!(credentials.is_some(), body.get("mode").is_some(), "only going live returns credentials");
        assert_eq!(patched, expected, "{body}");
        assert_eq!(world.manage(Request::get(&project.path)).await.json(), expected, "{body}");
    }
}

async fn patch_without_changes_is_not_recorded(world: World) {
    let body = json!({"configuration": {"reverse_sms": {"ttl": 120}}, "products": ["sim_swap", "discovery"]});
    let project = world.project("Shop", body).await;
    let before = world.manage(Request::get(&project.path)).await.json();
    let events = async || {
        let list = format!("{}/audit-events", world.acme.path());
        world.manage(Request::get(&list)).await.assert(200).json()["page"]["total_elements"].clone()
    };
    let events_before = events().await;
    world.advance(SignedDuration::from_secs(1));
    for body in [
        json!({}),
        json!({"name": "Shop", "mode": "sandbox", "disabled": false}),
        json!({"products": ["discovery", "sim_swap"]}),
        json!({"configuration": {}}),
        json!({"configuration": {"reverse_sms": {"ttl": 120, "prefix": null}, "discovery": {}, "secure_sna": null}}),
    ] {
        assert_eq!(patch(&world, &project.path, &body).await.assert(200).json(), before, "{body}");
    }
    assert_eq!(events().await, events_before);
}

#[tokio::test]
async fn merge_patch_content_type_is_accepted() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    for content_type in ["application/json", "application/merge-patch+json", "application/json; charset=utf-8"] {
        let request = Request::patch(&project.path).body(content_type, r#"{"name":"Store"}"#);
        world.manage(request).await.assert(200);
    }
    let create = Request::post(&format!("{}/projects", world.acme.path()));
    let create = create.body("application/merge-patch+json", r#"{"name":"New"}"#);
    world.manage(create).await.assert_problem(415, "unsupported_media_type");
}

async fn invalid_values_are_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let reverse_sms = |member: &str, value: Value| json!({"configuration": {"reverse_sms": {member: value}}});
    let verification = |member: &str, value: Value| json!({"configuration": {"verification": {member: value}}});
    for (body, pointer) in [
        (json!({"name": ""}), "/name"),
        (json!({"name": "x".repeat(101)}), "/name"),
        (json!({"name": "a\u{0}b"}), "/name"),
        (json!({"name": null}), "/name"),
        (json!({"mode": "production"}), "/mode"),
        (json!({"mode": "LIVE"}), "/mode"),
        (json!({"name": "Shop\u{202e}pohS"}), "/name"),
        (json!({"name": "Shop\u{9b}31m"}), "/name"),
        (json!({"products": ["management"]}), "/products/0"),
        (json!({"products": ["sim_swap", "sim_swap"]}), "/products/1"),
        (json!({"products": ["sim_swap", 1]}), "/products/1"),
        (json!({"products": "sim_swap"}), "/products"),
        (reverse_sms("ttl", json!(59)), "/configuration/reverse_sms/ttl"),
        (reverse_sms("ttl", json!(901)), "/configuration/reverse_sms/ttl"),
        (reverse_sms("ttl", json!(300.5)), "/configuration/reverse_sms/ttl"),
        (reverse_sms("ttl", json!("300")), "/configuration/reverse_sms/ttl"),
        (reverse_sms("ttl", json!(u64::MAX)), "/configuration/reverse_sms/ttl"),
        (reverse_sms("prefix", json!("two words")), "/configuration/reverse_sms/prefix"),
        (reverse_sms("prefix", json!("STOP")), "/configuration/reverse_sms/prefix"),
        (reverse_sms("prefix", json!("")), "/configuration/reverse_sms/prefix"),
        (reverse_sms("redirect_url", json!("https://x.example/")), "/configuration/reverse_sms/redirect_url"),
        (json!({"configuration": {"sim_swap": {}}}), "/configuration/sim_swap"),
        (json!({"configuration": {"discovery": {"ttl": 60}}}), "/configuration/discovery/ttl"),
        (verification("ttl", json!(59)), "/configuration/verification/ttl"),
        (verification("ttl", json!(3601)), "/configuration/verification/ttl"),
        (verification("methods", json!([])), "/configuration/verification/methods"),
        (verification("methods", json!(["discovery"])), "/configuration/verification/methods/0"),
        (verification("methods", json!(["secure_sna", "secure_sna"])), "/configuration/verification/methods/1"),
        (verification("fall_back_on_mismatch", json!("yes")), "/configuration/verification/fall_back_on_mismatch"),
        (verification("brand", json!({"name": "x".repeat(61)})), "/configuration/verification/brand/name"),
        (verification("brand", json!({"logo_url": "http://x.example/"})), "/configuration/verification/brand/logo_url"),
        (
            verification("brand", json!({"support_url": "javascript:alert(1)"})),
            "/configuration/verification/brand/support_url",
        ),
        (verification("brand", json!({"colour": "red"})), "/configuration/verification/brand/colour"),
        (verification("brand", json!({"color": "#0b6e4f"})), "/configuration/verification/brand/color"),
        (json!({"configuration": []}), "/configuration"),
        (json!({"project_id": project.project_id}), "/project_id"),
        (json!({"workspace_id": world.acme.workspace_id}), "/workspace_id"),
        (json!({"credentials": []}), "/credentials"),
        (json!({"allowed_networks": []}), "/allowed_networks"),
        (json!({"created_at": "2026-01-01T00:00:00Z"}), "/created_at"),
    ] {
        let mut new = body.clone();
        if new.get("name").is_none() {
            new["name"] = json!("New");
        }
        for response in [patch(&world, &project.path, &body).await, create(&world, &new).await] {
            let response = response.assert_problem(400, "bad_request");
            assert!(response.detail().starts_with(&format!("`{pointer}`: ")), "{body}: {}", response.detail());
        }
    }
    create(&world, &json!({})).await.assert_problem(400, "bad_request");
    create(&world, &json!({"name": "New", "disabled": true})).await.assert_problem(400, "bad_request");
    patch(&world, &project.path, &json!({"disabled": "yes"})).await.assert_problem(400, "bad_request");
    // In a patch, `null` cannot remove required members. On creation, it selects their defaults.
    for member in ["mode", "disabled", "products"] {
        let response = patch(&world, &project.path, &json!({member: null})).await.assert_problem(400, "bad_request");
        assert!(response.detail().starts_with(&format!("`/{member}`: ")), "{}", response.detail());
    }
    let nulls = json!({"name": "Nulls", "mode": null, "products": null, "configuration": {"secure_sna": null}});
    let created = create(&world, &nulls).await.assert(201).json();
    assert_eq!((&created["mode"], created["products"].as_array().unwrap().len()), (&json!("sandbox"), 7));
    create(&world, &json!({"name": "No settings", "configuration": null})).await.assert(201);
}

async fn project_can_be_disabled_but_not_deleted(world: World) {
    let project = world.project("Shop", json!({})).await;
    let response = world.manage(Request::delete(&project.path)).await.assert_problem(405, "method_not_allowed");
    let allow = response.header("allow").unwrap();
    assert!(allow.contains("PATCH") && !allow.contains("DELETE"), "{allow}");

    patch(&world, &project.path, &json!({"disabled": true})).await.assert(200);
    assert_eq!(world.manage(Request::get(&project.path)).await.assert(200).json()["disabled"], true);
    let credentials = format!("{}/credentials", project.path);
    world.manage(Request::post(&credentials).json(&json!({}))).await.assert(201);
}

/// Removing a product from a project applies to new tokens and to those already issued.
async fn removed_product_is_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let request_token = async || world.token_request(&project.client_id, &project.client_secret, "sim_swap").await;
    request_token().await.assert(200);
    patch(&world, &project.path, &json!({"products": ["reverse_sms"]})).await.assert(200);
    request_token().await.assert_problem(400, "invalid_scope");
    patch(&world, &project.path, &json!({"products": ["reverse_sms", "sim_swap"]})).await.assert(200);
    request_token().await.assert(200);
}

async fn concurrent_changes_are_all_applied(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.management_token().await;
    let path = format!("{}?force=true", project.path);
    let change = |body: Value| world.send(Request::patch(&path).bearer(&token).json(&body));
    let responses = tokio::join!(
        change(json!({"name": "Store"})),
        change(json!({"mode": "live"})),
        change(json!({"products": ["sim_swap"]})),
        change(json!({"configuration": {"reverse_sms": {"ttl": 77}}})),
    );
    for response in <[HttpResponse; 4]>::from(responses) {
        response.assert(200);
    }
    let after = world.manage(Request::get(&project.path)).await.json();
    assert_eq!((&after["name"], &after["mode"]), (&json!("Store"), &json!("live")));
    assert_eq!(after["products"], json!(["sim_swap"]));
    assert_eq!(after["configuration"]["reverse_sms"]["ttl"], 77);
}

on_both_stores!(
    new_project_has_defaults_and_a_working_credential,
    project_ids_sort_by_creation_time,
    project_names_are_normalised,
    project_can_be_created_with_all_settings,
    project_name_is_unique_in_its_workspace,
    one_of_concurrent_creates_with_the_same_name_succeeds,
    merge_patch_changes_only_the_given_members,
    patch_without_changes_is_not_recorded,
    invalid_values_are_rejected,
    project_can_be_disabled_but_not_deleted,
    removed_product_is_rejected,
    concurrent_changes_are_all_applied,
);

async fn create(world: &World, body: &Value) -> HttpResponse {
    world.manage(Request::post(&format!("{}/projects", world.acme.path())).json(body)).await
}

async fn patch(world: &World, path: &str, body: &Value) -> HttpResponse {
    world.manage(Request::patch(path).json(body)).await
}
