//! Uploaded logos of the hosted page.

use serde_json::{Value, json};

use crate::{
    client::{self, HttpResponse, Request},
    on_both_stores,
    world::{TestProject, World},
};

on_both_stores!(
    uploaded_logo_is_public_until_it_is_replaced,
    settings_that_are_sent_back_keep_the_logo,
    other_files_are_rejected,
    strangers_change_no_logo,
);

/// A PNG image of one pixel in this grey.
pub fn png(grey: u8) -> Vec<u8> {
    let chunks: [(&[u8; 4], &[u8]); 3] =
        [(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]), (b"IDAT", &[grey]), (b"IEND", &[])];
    let chunk = |(kind, data): (&[u8; 4], &[u8])| {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], kind, data, &[0; 4]].concat()
    };
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunks.map(chunk).concat()].concat()
}

fn upload(project: &TestProject, content_type: &str, content: &[u8]) -> Request {
    Request::put(&format!("{}/logo", project.path)).body(content_type, content)
}

fn remove(project: &TestProject) -> Request {
    Request::delete(&format!("{}/logo", project.path))
}

fn patch_brand(project: &TestProject, brand: &Value) -> Request {
    Request::patch(&project.path).json(&json!({"configuration": {"verification": {"brand": brand}}}))
}

fn logo_url(response: &HttpResponse) -> Option<String> {
    response.json()["configuration"]["verification"]["brand"]["logo_url"].as_str().map(str::to_owned)
}

/// Loads an image as a browser does, without credentials.
async fn load(world: &World, url: &str) -> HttpResponse {
    let path = url.strip_prefix(&world.node.base_url).expect("our own address");
    client::send(world.node.address, &Request::get(path)).await
}

async fn uploaded_logo_is_public_until_it_is_replaced(world: World) {
    let project = world.project("Shop", json!({})).await;
    let stored = world.manage(upload(&project, "image/png", &png(1))).await.assert(200);
    let read = world.manage(Request::get(&project.path)).await.assert(200);
    assert_eq!((stored.json(), stored.header("etag")), (read.json(), read.header("etag")));
    let first = logo_url(&stored).unwrap();

    let image = load(&world, &first).await.assert(200);
    assert_eq!(image.body, png(1));
    for (name, value) in [
        ("content-type", "image/png"),
        ("cache-control", "public, max-age=31536000, immutable"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cross-origin-resource-policy", "cross-origin"),
    ] {
        assert_eq!(image.header(name), Some(value), "{name}");
    }
    for other in [first.replace(".png", ".jpg"), first.replace(".png", "0.png"), first.replace("/logos/", "/logos/x")] {
        load(&world, &other).await.assert(404);
    }

    // The hosted page shows it.
    let token = world.token(&project.client_id, &project.client_secret, "verification").await;
    let new = Request::post("/v1/verifications").bearer(&token).json(&json!({"phone_number": "+990123456700"}));
    let url = world.send(new).await.assert(201).json()["url"].as_str().unwrap().to_owned();
    let page = load(&world, &url).await.assert(200);
    let path = first.strip_prefix(&world.node.base_url).unwrap();
    assert!(page.text().contains(&format!("<img src=\"{path}\" alt=\"\"")), "{}", page.text());
    assert!(page.header("content-security-policy").unwrap().contains("img-src 'self';"));

    // Each image has a URL of its own, and the same image the same.
    let again = world.manage(upload(&project, "image/png", &png(1))).await.assert(200);
    assert_eq!(logo_url(&again).unwrap(), first);
    let second = logo_url(&world.manage(upload(&project, "image/png", &png(2))).await.assert(200)).unwrap();
    assert_ne!(second, first);
    load(&world, &first).await.assert(404);
    assert_eq!(load(&world, &second).await.assert(200).body, png(2));

    world.manage(remove(&project)).await.assert(204);
    load(&world, &second).await.assert(404);
    assert_eq!(logo_url(&world.manage(Request::get(&project.path)).await), None);
    world.manage(remove(&project)).await.assert(204);

    let events = format!("/v1/management/workspaces/{}/audit-events", world.acme.workspace_id);
    let events = world.manage(Request::get(&events)).await.assert(200).json();
    let changed = |event: &&Value| event["changes"] == json!(["configuration.verification.brand.logo_url"]);
    let changes: Vec<_> = events["content"].as_array().unwrap().iter().filter(changed).collect();
    assert_eq!(changes.len(), 3, "two images and a removal: {events:#}");
    assert!(changes.iter().all(|event| event["action"] == "project.updated"), "{events:#}");
}

async fn settings_that_are_sent_back_keep_the_logo(world: World) {
    let project = world.project("Shop", json!({})).await;
    let stored = world.manage(upload(&project, "image/png", &png(1))).await.assert(200);
    let url = logo_url(&stored).unwrap();
    let read = &stored.json()["configuration"];
    let whole = Request::patch(&project.path).json(&json!({"configuration": read}));
    assert_eq!(world.manage(whole).await.assert(200).json()["configuration"], *read);
    world.manage(patch_brand(&project, &json!({"name": "Shop"}))).await.assert(200);
    load(&world, &url).await.assert(200);

    // The path of another image is no upload.
    let path = url.strip_prefix(&world.node.base_url).unwrap().replace(".png", ".jpg");
    let refused = world.manage(patch_brand(&project, &json!({"logo_url": path}))).await.assert(400);
    assert!(refused.detail().contains("/configuration/verification/brand/logo_url"), "{}", refused.detail());

    let external = "https://shop.example/logo.svg";
    let replaced = world.manage(patch_brand(&project, &json!({"logo_url": external}))).await.assert(200);
    assert_eq!(logo_url(&replaced).as_deref(), Some(external));
    load(&world, &url).await.assert(404);
    world.manage(patch_brand(&project, &json!({"logo_url": path.replace(".jpg", ".png")}))).await.assert(400);
    world.manage(remove(&project)).await.assert(204);
    assert_eq!(logo_url(&world.manage(Request::get(&project.path)).await), None);
}

async fn other_files_are_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    for (content_type, content, status, code) in [
        ("image/svg+xml", &svg[..], 415, "unsupported_media_type"),
        ("application/json", b"{}", 415, "unsupported_media_type"),
        ("image/png", svg, 400, "bad_request"),
        ("image/png", b"", 400, "bad_request"),
        ("image/jpeg", b"<!doctype html>", 400, "bad_request"),
        ("image/png", &png(1)[..40], 400, "bad_request"),
        ("image/png", &[png(1), vec![0; 64 * 1024]].concat(), 413, "payload_too_large"),
    ] {
        let refused = world.manage(upload(&project, content_type, content)).await;
        refused.assert_problem(status, code);
    }
    let svg = world.manage(upload(&project, "image/png", svg)).await;
    assert!(svg.detail().contains("SVG") && svg.detail().contains("PNG"), "{}", svg.detail());
    assert_eq!(logo_url(&world.manage(Request::get(&project.path)).await), None);
}

async fn strangers_change_no_logo(world: World) {
    let project = world.project("Shop", json!({})).await;
    let own = logo_url(&world.manage(upload(&project, "image/png", &png(1))).await.assert(200)).unwrap();
    let stranger = world.another_tenant().await;
    let theirs = world.management_token_of(&stranger).await;
    let of_project = world.token(&project.client_id, &project.client_secret, "verification").await;
    for request in [upload(&project, "image/png", &png(2)), remove(&project)] {
        world.send(request.clone().bearer(&theirs)).await.assert_problem(403, "forbidden");
        world.send(request.clone().bearer(&of_project)).await.assert_problem(403, "forbidden");
        world.send(request.clone()).await.assert_problem(401, "unauthorized");
        world.manage(request.header("If-Match", "\"old\"")).await.assert_problem(412, "precondition_failed");
    }
    let unknown =
        format!("/v1/management/workspaces/{}/projects/{}/logo", world.acme.workspace_id, stranger.workspace_id);
    world.manage(Request::put(&unknown).body("image/png", png(2))).await.assert_problem(404, "project_not_found");
    assert_eq!(load(&world, &own).await.assert(200).body, png(1));
}
