//! Pagination: the same rules on every list.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    protocol::routes::{self, Ids, fill},
    world::World,
};

/// Returns the paths of the lists that have pages.
async fn lists(world: &World) -> Vec<String> {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let mut lists = vec![];
    for route in routes::managed().filter(|route| route.method == "GET") {
        let path = fill(route.template, &ids);
        let response = world.manage(Request::get(&path)).await.assert(200).json();
        if response.get("page").is_some() {
            lists.push(path);
        }
    }
    assert_eq!(lists.len(), 8, "{lists:?}");
    lists
}

async fn page_size_and_number_are_bounded_on_every_list(world: World) {
    for list in lists(&world).await {
        for bad in [
            "size=0",
            "size=101",
            "size=-1",
            "size=1.5",
            "size=abc",
            "size=",
            "size=10&size=10",
            "size=+5",
            "size=%205",
            "size=1e2",
            "size=0x10",
            "size=99999999999999999999",
            "size=１",
            "page=0",
            "page=-1",
            "page=abc",
            "page=",
            "page=1.0",
            "page=1&page=2",
            "page=2147483648",
            "page=4294967296",
            "page=99999999999999999999",
            "page=1&size=0",
            "limit=10",
            "offset=0",
            "Size=10",
            "page%00=1",
            "sort=name",
            "x",
        ] {
            let request = Request::get(&format!("{list}?{}", bad.replace('１', "%EF%BC%91")));
            let response = world.manage(request).await;
            assert_eq!((response.status, response.code().as_str()), (400, "bad_request"), "{list}?{bad}");
        }
        for (good, size, number) in [
            ("", 10, 1),
            ("size=1", 1, 1),
            ("size=100", 100, 1),
            ("page=1", 10, 1),
            ("size=7&page=3", 7, 3),
            ("page=2147483647&size=100", 100, 2_147_483_647_u64),
            ("size=%31%30", 10, 1),
            ("size=010", 10, 1),
        ] {
            let body = world.manage(Request::get(&format!("{list}?{good}"))).await.assert(200).json();
            assert_eq!(
                (&body["page"]["size"], &body["page"]["number"]),
                (&json!(size), &json!(number)),
                "{list}?{good}"
            );
        }
    }
}

/// 23 projects: two full pages and a short one, without overlap.
async fn pages_cover_the_whole_list(world: World) {
    for number in 1..=23 {
        world.project(&format!("Project {number}"), json!({})).await;
        world.advance(SignedDuration::from_secs(1));
    }
    let list = format!("{}/projects", world.acme.path());
    for (size, pages) in [(10, 3), (23, 1), (22, 2), (1, 23), (100, 1)] {
        let mut seen: Vec<Value> = vec![];
        for number in 1..=pages {
            let page =
                world.manage(Request::get(&format!("{list}?size={size}&page={number}"))).await.assert(200).json();
            assert_eq!(
                page["page"],
                json!({"size": size, "number": number, "total_pages": pages, "total_elements": 23})
            );
            seen.extend(page["content"].as_array().unwrap().iter().map(|project| project["name"].clone()));
        }
        let newest_first: Vec<Value> = (1..=23).rev().map(|number| json!(format!("Project {number}"))).collect();
        assert_eq!(seen, newest_first, "{size}");
    }
    for past in ["size=10&page=4", "size=100&page=2", "size=100&page=2147483647"] {
        let page = world.manage(Request::get(&format!("{list}?{past}"))).await.assert(200).json();
        assert_eq!((&page["content"], &page["page"]["total_elements"]), (&json!([]), &json!(23)), "{past}");
    }
    let found = world.manage(Request::get(&format!("{list}?search=name==*2*&size=2&page=2"))).await.assert(200).json();
    assert_eq!(found["page"], json!({"size": 2, "number": 2, "total_pages": 3, "total_elements": 6}));
    let nothing = world.manage(Request::get(&format!("{list}?search=name==x"))).await.assert(200).json();
    assert_eq!(nothing["page"], json!({"size": 10, "number": 1, "total_pages": 0, "total_elements": 0}));
}

/// Items with equal timestamps have a fixed order, so pages neither repeat nor omit any of them.
async fn pages_cover_items_with_equal_timestamps(world: World) {
    let path = format!("{}/credentials", world.acme.path());
    for _ in 0..9 {
        world.manage(Request::post(&path).json(&json!({}))).await.assert(201);
    }
    for list in ["credentials", "audit-events"] {
        let list = format!("{}/{list}", world.acme.path());
        let whole = world.manage(Request::get(&format!("{list}?size=100"))).await.assert(200).json();
        let whole = whole["content"].as_array().unwrap();
        let mut seen = vec![];
        for number in 1..=whole.len().div_ceil(3) {
            let page = world.manage(Request::get(&format!("{list}?size=3&page={number}"))).await.assert(200).json();
            seen.extend(page["content"].as_array().unwrap().clone());
        }
        assert_eq!(&seen, whole);
    }
}

on_both_stores!(
    page_size_and_number_are_bounded_on_every_list,
    pages_cover_the_whole_list,
    pages_cover_items_with_equal_timestamps
);
