//! Logos in the settings of a project: uploaded with the other settings of the hosted page, and previewed.

use ringtrue_domain::account::Role;
use serde_json::{Value, json};

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{client::Request, management::logo::png, on_both_stores, world::World};

on_both_stores!(logo_is_saved_with_the_other_settings, chosen_file_is_previewed_and_not_stored);

const URL: &str = "verification.brand.logo_url";

async fn brand(world: &World, project: &str) -> Value {
    let read = world.manage(Request::get(project)).await.assert(200).json();
    read["configuration"]["verification"]["brand"].clone()
}

async fn logo_is_saved_with_the_other_settings(world: World) {
    let project = world.project("Shop", json!({})).await;
    let settings = format!("/console/workspaces/{}/projects/{}/settings", world.acme.workspace_id, project.project_id);
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let fields = [("part", "hosted-page"), ("verification.brand.name", "Store"), (URL, "")];
    let saved = developer.submit_file(&settings, &settings, &fields, ("logo", &png(1))).await;
    let saved = developer.get(location(&saved)).await.assert(200);
    assert_well_formed(&settings, &saved);
    let stored = brand(&world, &project.path).await;
    assert_eq!(stored["name"], "Store");
    let url = stored["logo_url"].as_str().unwrap().to_owned();
    assert!(saved.text().contains(&format!("value=\"{url}\"")), "{}", saved.text());

    // No file was chosen, and the form has the uploaded logo's URL.
    let fields = [("part", "hosted-page"), ("verification.brand.name", "Shop"), (URL, &*url)];
    location(&developer.submit_file(&settings, &settings, &fields, ("logo", b"")).await);
    assert_eq!(brand(&world, &project.path).await, json!({"name": "Shop", "logo_url": url}));

    // A file that is no image is named at its field, and nothing is saved.
    let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
    let fields = [("part", "hosted-page"), ("verification.brand.name", "Typed"), (URL, &*url)];
    let rejected = developer.submit_file(&settings, &settings, &fields, ("logo", svg)).await.assert(400);
    assert_well_formed(&settings, &rejected);
    let text = rejected.text();
    let field = text.split('<').find(|tag| tag.contains(" name=\"logo\"")).unwrap();
    assert!(field.contains("aria-invalid=\"true\" aria-describedby=\"logo-error\""), "{field}");
    assert!(text.contains("id=\"logo-error\">SVG images may contain scripts"), "{text}");
    assert!(text.contains("value=\"Typed\""), "{text}");
    let large = [png(1), vec![0; 64 * 1024]].concat();
    let rejected = developer.submit_file(&settings, &settings, &fields, ("logo", &large)).await.assert(400);
    assert!(rejected.text().contains("id=\"logo-error\">A logo has at most 64 KiB"), "{}", rejected.text());
    assert_eq!(brand(&world, &project.path).await["name"], "Shop");

    // Clearing the URL removes the logo. Files belong to the hosted page's part only.
    location(&developer.submit(&settings, &settings, &[("part", "hosted-page"), (URL, "")]).await);
    assert_eq!(brand(&world, &project.path).await["logo_url"], Value::Null);
    location(&developer.submit_file(&settings, &settings, &[("part", "products")], ("logo", &png(1))).await);
    assert_eq!(brand(&world, &project.path).await["logo_url"], Value::Null);

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    viewer.submit_file(&settings, &settings, &fields, ("logo", &png(1))).await.assert(403);
    let forged = Request::post(&settings).body("multipart/form-data; boundary=x", "--x--\r\n");
    developer.send(forged).await.assert(403);
    let damaged = Request::post(&settings).body("multipart/form-data; boundary=x", "--y");
    developer.send(damaged).await.assert(400);
}

async fn chosen_file_is_previewed_and_not_stored(world: World) {
    let project = world.project("Shop", json!({})).await;
    let settings = format!("/console/workspaces/{}/projects/{}/settings", world.acme.workspace_id, project.project_id);
    let preview = format!("{settings}/preview");
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let fields = [("state", "done"), ("lang", "de"), ("name", "Typed")];
    let shown = developer.submit_file(&settings, &preview, &fields, ("logo", &png(1))).await.assert(200);
    let text = shown.text();
    for part in ["<img src=\"data:image/png;base64,iVBORw0KGgo", "<span>Typed</span>", "<html lang=\"de\""] {
        assert!(text.contains(part), "{text}");
    }
    let policy = shown.header("content-security-policy").unwrap();
    assert!(policy.contains("; img-src 'self' data:; ") && policy.ends_with("; sandbox"), "{policy}");
    assert_eq!(brand(&world, &project.path).await, Value::Null);

    let no_image = developer.submit_file(&settings, &preview, &fields, ("logo", b"<svg/>")).await.assert(200);
    assert!(!no_image.text().contains("<img"), "{}", no_image.text());

    // The form has the absolute URL of an uploaded logo.
    let upload = Request::put(&format!("{}/logo", project.path)).body("image/png", png(2));
    world.manage(upload).await.assert(200);
    let url = brand(&world, &project.path).await["logo_url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&world.node.base_url).unwrap();
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("logo_url", &url).finish();
    for query in ["", &*query] {
        let saved = developer.get(&format!("{preview}?{query}")).await.assert(200).text();
        assert!(saved.contains(&format!("<img src=\"{path}\"")), "{saved}");
    }
}
