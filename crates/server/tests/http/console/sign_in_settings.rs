//! The part *Sign-in* of a project's settings.

use ringtrue_domain::account::Role;
use serde_json::{Value, json};

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{client::Request, on_both_stores, world::World};

on_both_stores!(sign_in_is_configured_on_its_own);

const KEYS: &str =
    r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

async fn sign_in_is_configured_on_its_own(world: World) {
    let project =
        world.project("Shop", json!({"configuration": {"callbacks": {"url": "https://shop.example/cb"}}})).await;
    let settings = format!("/console/workspaces/{}/projects/{}/settings", world.acme.workspace_id, project.project_id);
    let configuration = async || -> Value {
        world.manage(Request::get(&project.path)).await.assert(200).json()["configuration"].clone()
    };
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let shown = developer.get(&settings).await.assert(200);
    assert_well_formed(&settings, &shown);
    let base_url = &world.node.base_url;
    for value in [base_url, &format!("{base_url}/.well-known/openid-configuration"), &project.client_id] {
        assert!(shown.text().contains(&format!("\">{value}</code>")), "{value}: {}", shown.text());
    }

    let fields = [
        ("part", "sign-in"),
        ("sign_in.redirect_uris", "https://id.example/cb?x=1\r\n\r\ncom.example.app:/cb\r\n"),
        ("sign_in.token_endpoint_auth_method", "private_key_jwt"),
        ("sign_in.jwks", KEYS),
        ("sign_in.id_token_signed_response_alg", "ES256"),
        ("sign_in.session", "3600"),
        ("sign_in.sim_swap_period", "1440"),
    ];
    let saved = developer.submit(&settings, &settings, &fields).await;
    assert_eq!(location(&saved), format!("{settings}?saved=sign-in#sign-in"));
    let expected = json!({
        "redirect_uris": ["https://id.example/cb?x=1", "com.example.app:/cb"],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": serde_json::from_str::<Value>(KEYS).unwrap(),
        "id_token_signed_response_alg": "ES256",
        "session": 3600,
        "sim_swap_period": 1440,
    });
    assert_eq!(configuration().await["sign_in"], expected);
    assert_eq!(configuration().await["callbacks"]["url"], "https://shop.example/cb", "other parts are unchanged");
    let saved = developer.get(location(&saved)).await.assert(200);
    assert_well_formed(&settings, &saved);
    for value in [
        ">\nhttps://id.example/cb?x=1\ncom.example.app:/cb</textarea>",
        "value=\"private_key_jwt\" selected",
        "value=\"ES256\" selected",
        "value=\"3600\"",
        "value=\"1440\"",
        "\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"".replace('"', "&#34;").as_str(),
    ] {
        assert!(saved.text().contains(value), "{value}: {}", saved.text());
    }

    // Errors are shown at their fields, with what was typed, and nothing is saved.
    let private = KEYS.replace("\"x\"", "\"d\": \"AA\", \"x\"");
    for (name, value, why) in [
        ("sign_in.redirect_uris", "https://id.example/cb\r\nhttps://id.example/cb#x", "Entry 2: a redirect URI has no"),
        ("sign_in.redirect_uris", "data:text/html,x", "Entry 1: a redirect URI begins with"),
        ("sign_in.token_endpoint_auth_method", "tls_client_auth", "Unknown authentication method"),
        ("sign_in.jwks", "keys", "A key set is a JSON object"),
        ("sign_in.jwks", "{}", "no array"),
        ("sign_in.jwks", &*private, "private or secret key"),
        ("sign_in.jwks_uri", "ftp://id.example/keys", "scheme"),
        ("sign_in.id_token_signed_response_alg", "none", "Unknown signature algorithm"),
        ("sign_in.session", "86401", "0 to 86400"),
        ("sign_in.sim_swap_period", "a week", "60"),
    ] {
        let fields = [("part", "sign-in"), (name, value)];
        let rejected = developer.submit(&settings, &settings, &fields).await.assert(400);
        assert_well_formed(&settings, &rejected);
        let text = rejected.text();
        let field = text.split('<').find(|tag| tag.contains(&format!(" name=\"{name}\""))).unwrap();
        assert!(field.contains(&format!("aria-invalid=\"true\" aria-describedby=\"{name}-error\"")), "{field}");
        let error = text.split(&format!("id=\"{name}-error\">")).nth(1).unwrap().split("</p>").next().unwrap();
        assert!(error.contains(why), "{name}: {error}");
    }
    assert_eq!(configuration().await["sign_in"], expected);

    // Viewers see the values without the queries of URLs, and save nothing.
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let read = viewer.get(&settings).await.assert(200).text();
    assert!(read.contains(&project.client_id) && !read.contains("Save sign-in settings"), "{read}");
    assert!(!read.contains("cb?x=1"), "{read}");
    viewer.submit(&settings, &settings, &fields).await.assert(403);

    // Empty fields clear their settings.
    location(&developer.submit(&settings, &settings, &[("part", "sign-in")]).await);
    assert_eq!(configuration().await["sign_in"], json!({}));
}

/// Redirect URIs with `http` are for the sandbox. Going live names them as a missing requirement.
#[tokio::test]
async fn http_redirect_uris_prevent_going_live() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let settings = format!("/console/workspaces/{}/projects/{}/settings", world.acme.workspace_id, project.project_id);
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    for (uri, is_named) in [("http://id.example/cb", true), ("https://id.example/cb", false)] {
        let fields = [("part", "sign-in"), ("sign_in.redirect_uris", uri)];
        location(&owner.submit(&settings, &settings, &fields).await);
        let checklist = owner.get(&format!("{settings}/mode")).await.assert(200).text();
        assert_eq!(checklist.contains("configuration/sign_in/redirect_uris/0"), is_named, "{uri}: {checklist}");
    }
}
