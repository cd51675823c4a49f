use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::Request,
    on_both_stores,
    reverse_sms::{EVEN, ReverseSmsClient},
    world::{TestProject, World},
};

on_both_stores!(checks_are_found_by_id_reference_request_and_number, requests_link_to_their_check);

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

async fn checks_are_found_by_id_reference_request_and_number(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let sms = backend.create(json!({"phone_number": EVEN, "reference_id": "order 7*"})).await;
    backend.create(json!({"phone_number": "+990123456702", "reference_id": "order 78"})).await;
    let token = world.token(&backend.project.client_id, &backend.project.client_secret, "sim_swap").await;
    let swap = json!({"phone_number": EVEN, "reference_id": "1234567890"});
    let swap = world.send(Request::post("/v1/sim-swap-checks").bearer(&token).json(&swap)).await.assert(201).json();
    let swap = swap["check_id"].as_str().unwrap();
    let token = world.token(&backend.project.client_id, &backend.project.client_secret, "secure_sna").await;
    let silent = Request::post("/v1/number-verification/secure-sna-checks").json(&json!({"phone_number": EVEN}));
    let silent = world.send(silent.bearer(&token)).await.assert(201).json();
    let silent = silent["check_id"].as_str().unwrap();

    let project = path_of(&world, &backend.project);
    let page = format!("{project}/search");
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    assert_well_formed(&page, &viewer.get(&page).await.assert(200));

    // Ids and references are in the URL, and a check id leads to its check.
    for (id, product) in [(&*sms.id, "reverse_sms"), (swap, "sim_swap")] {
        let redirect = viewer.submit(&page, &page, &[("q", id)]).await;
        assert_eq!(location(&redirect), format!("{page}?q={id}"));
        let check = viewer.get(location(&redirect)).await;
        assert_eq!(location(&check), format!("{project}/checks/{product}/{id}"));
        viewer.get(location(&check)).await.assert(200);
    }
    let redirect = viewer.submit(&page, &page, &[("q", " order 7* ")]).await;
    let found = viewer.get(location(&redirect)).await.assert(200);
    assert_well_formed(&page, &found);
    assert!(found.text().contains(&sms.id) && !found.text().contains("order 78"), "{}", found.text());

    // Numbers are found by their hash, and not in URLs. SIM Swap checks contain no number.
    for number in [EVEN.to_owned(), EVEN.replace("+990", "+990 (12) "), EVEN.trim_start_matches('+').to_owned()] {
        let found = viewer.submit(&page, &page, &[("q", &number)]).await.assert(200);
        assert_well_formed(&page, &found);
        let text = found.text();
        let is_found = text.contains(&sms.id) && text.contains(silent) && !text.contains("order 78");
        assert_eq!(is_found, !number.contains("(12)"), "{number}: {text}");
        assert!(!text.contains(&number) && text.contains("the number …00"), "{text}");
        let query = url::form_urlencoded::byte_serialize(number.as_bytes()).collect::<String>();
        let refused = viewer.get(&format!("{page}?q={query}")).await.assert(400);
        assert_well_formed(&page, &refused);
        assert!(!refused.text().contains(&number) && !refused.text().contains(&sms.id), "{}", refused.text());
    }
    // A reference may look like a number.
    let found = viewer.submit(&page, &page, &[("q", "1234567890")]).await.assert(200).text();
    assert!(found.contains(swap), "{found}");
    viewer.submit(&page, &page, &[("q", "+123")]).await.assert(400);

    for nothing in ["01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", "order", "\"", "\u{0}x", "<script>"] {
        let query = url::form_urlencoded::byte_serialize(nothing.as_bytes()).collect::<String>();
        let found = viewer.get(&format!("{page}?q={query}")).await.assert(200);
        assert_well_formed(&page, &found);
        assert!(found.text().contains("Nothing found"), "{nothing:?}: {}", found.text());
    }
    // Another project finds nothing.
    let other = format!("{}/search", path_of(&world, &world.project("Other", json!({})).await));
    assert!(viewer.get(&format!("{other}?q={}", sms.id)).await.assert(200).text().contains("Nothing found"));
    let found = viewer.submit(&other, &other, &[("q", EVEN)]).await.assert(200).text();
    assert!(found.contains("Nothing found") && !found.contains(&sms.id), "{found}");
}

async fn requests_link_to_their_check(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let created = backend.post(json!({"phone_number": EVEN})).await.assert(201);
    let id = created.json()["check_id"].as_str().unwrap().to_owned();
    let read = backend.get(&id).await.assert(200);
    let missing = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b";
    let not_found = backend.get(missing).await.assert(404);
    world.node.engine.request_log.write_queued_requests().await.unwrap();

    let project = path_of(&world, &backend.project);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let link = format!("href=\"{project}/checks/reverse_sms/{id}\"");
    for (response, has_link) in [(&created, true), (&read, true), (&not_found, false)] {
        let request = response.header("x-request-id").unwrap();
        for page in [format!("{project}/requests/{request}"), format!("{project}/search?q={request}")] {
            let shown = viewer.get(&page).await.assert(200);
            assert_well_formed(&page, &shown);
            let text = shown.text();
            assert!(text.contains(request), "{text}");
            assert_eq!(text.contains(&link), has_link, "{text}");
            assert!(!text.contains(missing), "{text}");
        }
    }
    let requests = format!("{project}/requests");
    let client = &backend.project.client_id;
    for (query, shown) in [
        (format!("client_id={client}"), true),
        ("client_id=prj_other".to_owned(), false),
        ("route=%2Fv1%2Fnumber-verification%2Freverse-sms-checks".to_owned(), true),
        ("route=%2Fv1%2Fsim-swap-checks".to_owned(), false),
        ("route=unknown".to_owned(), true),
    ] {
        let page = viewer.get(&format!("{requests}?{query}")).await.assert(200);
        assert_well_formed(&requests, &page);
        assert_eq!(page.text().contains(created.header("x-request-id").unwrap()), shown, "{query}: {}", page.text());
    }
}
