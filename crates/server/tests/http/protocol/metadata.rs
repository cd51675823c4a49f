//! OAuth metadata and public keys.

use aws_lc_rs::digest::{SHA256, digest};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::SignedDuration;
use ringtrue_engine::{
    keys::{self, KeyRotation},
    ports::keys::KeyPurpose,
};
use ringtrue_server::config::BaseUrl;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    node::keys::master,
    on_both_stores,
    world::World,
};

const METADATA: &str = "/.well-known/oauth-authorization-server";
const JWKS: &str = "/.well-known/jwks.json";

#[tokio::test]
async fn metadata_is_sufficient_to_get_a_token() {
    let world = World::configured(|config| config.camara_enabled = false).await;
    let base = &world.node.base_url;
    let response = world.send(Request::get(METADATA)).await.assert(200);
    let metadata = response.json();
    for (member, value) in [
        ("issuer", json!(base)),
        ("token_endpoint", json!(format!("{base}/oauth2/token"))),
        ("revocation_endpoint", json!(format!("{base}/oauth2/revoke"))),
        ("jwks_uri", json!(format!("{base}/.well-known/jwks.json"))),
        (
            "scopes_supported",
            json!([
                "openid",
                "phone",
                "reverse_sms",
                "secure_sna",
                "discovery",
                "sim_swap",
                "eligibility",
                "verification",
                "management",
            ]),
        ),
        ("grant_types_supported", json!(["client_credentials", "authorization_code"])),
        (
            "token_endpoint_auth_methods_supported",
            json!(["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]),
        ),
        ("service_documentation", json!(format!("{base}/docs"))),
    ] {
        assert_eq!(metadata[member], value, "{member}");
    }
    assert_eq!(response.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn metadata_uses_the_base_url() {
    let world =
        World::configured(|config| config.base_url = Some(BaseUrl::parse("https://eu.verify.example").unwrap())).await;
    let metadata = world.send(Request::get(METADATA)).await.assert(200).json();
    assert_eq!(metadata["issuer"], "https://eu.verify.example");
    assert_eq!(metadata["token_endpoint"], "https://eu.verify.example/oauth2/token");
    let problem = world.send(Request::get("/nowhere")).await.assert(404).json();
    assert_eq!(problem["type"], "https://eu.verify.example/errors/not_found");
}

/// `kid` is the thumbprint of RFC 7638.
async fn callback_keys_are_published_with_their_thumbprint(world: World) {
    let response = world.send(Request::get(JWKS)).await.assert(200);
    assert_eq!(response.header("cache-control"), Some("public, max-age=3600"));
    let keys = response.json()["keys"].as_array().unwrap().clone();
    let modes: Vec<_> = keys.iter().map(|key| key.get("use_mode").and_then(Value::as_str)).collect();
    let marked = [None, Some("sandbox"), Some("id_token"), Some("id_token")];
    assert_eq!(modes, marked, "one key for live checks, and marked ones for sandbox checks and ID tokens");
    for key in keys {
        if key["kty"] == "EC" {
            let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":{},"y":{}}}"#, key["x"], key["y"]);
            let thumbprint = digest(&SHA256, canonical.as_bytes());
            assert_eq!(key["kid"], BASE64_URL_SAFE_NO_PAD.encode(thumbprint));
            continue;
        }
        let canonical = format!(r#"{{"e":{},"kty":"RSA","n":{}}}"#, key["e"], key["n"]);
        let thumbprint = digest(&SHA256, canonical.as_bytes());
        assert_eq!(key["kid"], BASE64_URL_SAFE_NO_PAD.encode(thumbprint));
        let modulus = BASE64_URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap();
        assert!(modulus.len() >= 256 && modulus[0] != 0, "at least 2048 bits, without padding");
        assert!(key.get("d").is_none(), "private keys are not published");
    }
}

/// Receivers of callbacks cache keys for an hour. A new key is therefore published a day before its first use, and an
/// old one for a day after its last.
async fn rotation_publishes_the_next_key_beside_the_old_one(world: World) {
    let old = key_ids(&world).await;
    rotate(&world, KeyPurpose::SandboxCallback, false).await;
    let both = key_ids(&world).await;
    assert!(both.len() == 3 && both.starts_with(&old), "{both:?}");

    world.advance(SignedDuration::from_hours(47));
    assert_eq!(key_ids(&world).await, both, "both keys are published for a day before and after the change");
    world.advance(SignedDuration::from_hours(2));
    let new = key_ids(&world).await;
    assert_eq!(new, [&old[0], &both[2]].map(Clone::clone), "the live key is unchanged");
}

async fn emergency_rotation_withdraws_the_old_key(world: World) {
    let old = key_ids(&world).await;
    rotate(&world, KeyPurpose::Callback, true).await;
    let new = key_ids(&world).await;
    assert!(new.len() == 2 && !new.contains(&old[0]), "{new:?}");
}

#[tokio::test]
async fn jwks_returns_304_for_a_matching_etag() {
    let world = World::sqlite().await;
    let tag = world.send(Request::get(JWKS)).await.header("etag").unwrap().to_owned();
    let get_keys = async |known: &str| world.send(Request::get(JWKS).header("If-None-Match", known)).await;
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let response = get_keys(&known).await.assert(304);
        assert_eq!((response.header("etag"), response.body.as_slice()), (Some(tag.as_str()), &b""[..]), "{known}");
        assert_eq!(response.header("cache-control"), Some("public, max-age=3600"));
    }
    for unknown in ["\"other\"", "nonsense", "", tag.trim_matches('"')] {
        get_keys(unknown).await.assert(200);
    }
    rotate(&world, KeyPurpose::Callback, false).await;
    get_keys(&tag).await.assert(200);
}

#[tokio::test]
async fn metadata_and_jwks_ignore_tokens() {
    let world = World::sqlite().await;
    for path in [METADATA, JWKS] {
        for request in [Request::get(path), Request::get(path).bearer("nonsense")] {
            world.send(request).await.assert(200);
        }
        let head: HttpResponse = world.send(Request::new("HEAD", path)).await.assert(200);
        assert_eq!(head.body, b"");
    }
}

on_both_stores!(
    callback_keys_are_published_with_their_thumbprint,
    rotation_publishes_the_next_key_beside_the_old_one,
    emergency_rotation_withdraws_the_old_key,
);

/// Returns the ids of the published keys of callbacks.
async fn key_ids(world: &World) -> Vec<Value> {
    let keys = world.send(Request::get(JWKS)).await.assert(200).json();
    let keys = keys["keys"].as_array().unwrap().iter().filter(|key| key["use_mode"] != "id_token");
    keys.map(|key| key["kid"].clone()).collect()
}

pub async fn rotate(world: &World, purpose: KeyPurpose, emergency: bool) {
    let engine = &world.node.engine;
    let rotation = KeyRotation::by_command_line(purpose, emergency);
    keys::rotate_key(rotation, engine.store(), &master(), engine.clock(), engine.entropy()).await.expect("a rotation");
    engine.node.refresh().await.unwrap();
}
