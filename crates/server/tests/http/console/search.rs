use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::Request,
    on_both_stores,
    products::reverse_sms::{EVEN, ReverseSmsClient},
    world::{TestProject, World},
};

on_both_stores!(
    checks_are_found_by_id_reference_request_and_number,
    viewers_cannot_search_by_number,
    searches_by_number_are_limited_and_audited,
    requests_link_to_their_check,
);

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

    // A search for an id or reference redirects to a URL with the search. For a check id, that URL redirects to the
    // page of the check.
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

    // Numbers are found by their hash, and never appear in URLs. SIM Swap checks contain no number.
    let mut viewer = Browser::member(&world, &world.acme, Role::Developer).await;
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
    // A reference that looks like a phone number is found, too.
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

async fn viewers_cannot_search_by_number(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN, "reference_id": "1234567890"})).await;
    let page = format!("{}/search", path_of(&world, &backend.project));
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let guesses = [EVEN.to_owned(), "+990123456799".to_owned(), "+123".to_owned()];
    let mut refused = vec![];
    for guess in &guesses {
        let response = viewer.submit(&page, &page, &[("q", guess)]).await.assert(403);
        assert_well_formed(&page, &response);
        assert!(response.text().contains("Only developers and owners"), "{}", response.text());
        refused.push(response.text());
    }
    assert!(refused.iter().all(|text| *text == refused[0] && !text.contains(&check.id)));
    // For viewers, digits are searched as references only, not as numbers.
    let found = viewer.submit(&page, &page, &[("q", EVEN.trim_start_matches('+'))]).await.assert(200).text();
    assert!(found.contains("Only developers and owners") && !found.contains(&check.id), "{found}");
    let found = viewer.submit(&page, &page, &[("q", "1234567890")]).await.assert(200).text();
    assert!(found.contains(&check.id), "{found}");
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let found = owner.submit(&page, &page, &[("q", EVEN)]).await.assert(200).text();
    assert!(found.contains(&check.id), "{found}");
}

async fn searches_by_number_are_limited_and_audited(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    let other = world.project("Other", json!({})).await;
    let pages = [&backend.project, &other].map(|project| format!("{}/search", path_of(&world, project)));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let second = world.second_node().await;
    let mut elsewhere = Browser { address: second.address, cookies: developer.cookies.clone() };
    for number in 0..20 {
        let browser = if number % 2 == 0 { &mut developer } else { &mut elsewhere };
        let (page, guess) = (&pages[number % 2], format!("+9901234567{number:02}"));
        browser.submit(page, page, &[("q", &guess)]).await.assert(200);
    }
    // The limit applies across all projects and nodes.
    for browser in [&mut developer, &mut elsewhere] {
        let refused = browser.submit(&pages[0], &pages[0], &[("q", EVEN)]).await.assert(429);
        assert_well_formed(&pages[0], &refused);
        assert_eq!(refused.header("retry-after"), Some("60"));
        assert!(!refused.text().contains(&check.id), "{}", refused.text());
    }
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    owner.submit(&pages[0], &pages[0], &[("q", EVEN)]).await.assert(200);
    world.advance(SignedDuration::from_secs(60));
    let found = developer.submit(&pages[0], &pages[0], &[("q", EVEN)]).await.assert(200).text();
    assert!(found.contains(&check.id), "{found}");

    let path = format!("{}/audit-events?size=100", world.acme.path());
    let events = world.manage(Request::get(&path)).await.assert(200).json();
    let searches: Vec<_> =
        events["content"].as_array().unwrap().iter().filter(|event| event["action"] == "number.searched").collect();
    assert_eq!(searches.len(), 22, "{events}");
    let newest = searches[0];
    assert_eq!(newest["target"], json!({"type": "project", "id": backend.project.project_id}));
    assert_eq!((&newest["actor"]["type"], &newest["changes"]), (&json!("account"), &json!(["number=…00"])));
    assert!(newest["request_id"].is_string());
    assert!(!events.to_string().contains("99012345"), "{events}");
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
