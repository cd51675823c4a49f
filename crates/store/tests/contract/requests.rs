use jiff::SignedDuration;
use ringtrue_domain::{page::PageRequest, tenancy::ProjectId};
use ringtrue_engine::ports::{KeptRequests, Rejection, RequestFilter, RequestRecord, StatusClass, Store};

use crate::{bench::Bench, sample};

fn record(project: ProjectId, status: u16, request_id: &str) -> RequestRecord {
    let rejection = Rejection { error_code: "bad_request".to_owned(), detail: "`/x`: not known".to_owned() };
    RequestRecord {
        id: sample::uuid(),
        project,
        at: sample::now(),
        request_id: request_id.to_owned(),
        method: "POST".to_owned(),
        route: "/v1/number-verification/reverse-sms-checks".to_owned(),
        status,
        rejection: (status >= 400).then_some(rejection),
        client: "prj_shop".parse().unwrap(),
        authenticated: true,
        micros: 1_234,
        query: Some("size=10".to_owned()),
        body: (status >= 400).then(|| "{\n}".to_owned()),
        skipped: 7,
    }
}

async fn project(store: &dyn Store, name: &str) -> ProjectId {
    let workspace = sample::stored_workspace(store).await;
    sample::stored_project(store, workspace.id, name).await.0.id
}

async fn ids(store: &dyn Store, project: ProjectId, filter: &RequestFilter) -> Vec<String> {
    let page = store.requests(project, filter, PageRequest::new(100, 1).unwrap()).await.unwrap();
    assert_eq!(page.total_items, page.items.len() as u64);
    page.items.into_iter().map(|request| request.request_id).collect()
}

pub async fn requests_come_back_as_they_were_kept(bench: &Bench) {
    let store = &*bench.store;
    let (shop, other) = (project(store, "Shop").await, project(store, "Other").await);
    store.keep_requests(vec![]).await.unwrap();
    let kept = vec![record(shop, 201, "one"), record(shop, 400, "two"), record(other, 200, "three")];
    store.keep_requests(kept.clone()).await.unwrap();
    let page = store.requests(shop, &RequestFilter::default(), PageRequest::default()).await.unwrap();
    assert_eq!(page.items, [kept[1].clone(), kept[0].clone()], "newest first, and of one project");
    let bad = RequestRecord { status: 99, ..record(shop, 200, "four") };
    assert!(store.keep_requests(vec![record(shop, 200, "five"), bad]).await.is_err());
    assert_eq!(ids(store, shop, &RequestFilter::default()).await, ["two", "one"], "all or nothing");
}

pub async fn requests_are_found_by_what_they_were_answered(bench: &Bench) {
    let store = &*bench.store;
    let shop = project(store, "Shop").await;
    let mut wrong = record(shop, 403, "a");
    wrong.rejection = Some(Rejection { error_code: "forbidden".to_owned(), detail: String::new() });
    store
        .keep_requests(vec![record(shop, 200, "a"), wrong, record(shop, 400, "b"), record(shop, 503, "c")])
        .await
        .unwrap();
    let class = |class| RequestFilter { class: Some(class), ..RequestFilter::default() };
    let code = |code: &str| RequestFilter { error_code: Some(code.to_owned()), ..RequestFilter::default() };
    let named = |id: &str| RequestFilter { request_id: Some(id.to_owned()), ..RequestFilter::default() };
    for (filter, found) in [
        (RequestFilter::default(), vec!["c", "b", "a", "a"]),
        (class(StatusClass::Served), vec!["a"]),
        (class(StatusClass::CallersFault), vec!["b", "a"]),
        (class(StatusClass::OurFault), vec!["c"]),
        (code("forbidden"), vec!["a"]),
        (code("Forbidden"), vec![]),
        (RequestFilter { class: Some(StatusClass::OurFault), ..code("forbidden") }, vec![]),
        (named("a"), vec!["a", "a"]),
        (named("%"), vec![]),
    ] {
        assert_eq!(ids(store, shop, &filter).await, found, "{filter:?}");
    }
}

pub async fn a_projects_oldest_requests_go_first(bench: &Bench) {
    let store = &*bench.store;
    let (shop, other) = (project(store, "Shop").await, project(store, "Other").await);
    store.keep_requests((0..5).map(|n| record(shop, 200, &n.to_string())).collect()).await.unwrap();
    store.keep_requests(vec![record(other, 200, "x")]).await.unwrap();
    assert_eq!(store.trim_requests(shop, kept(5, 0)).await.unwrap(), 0);
    assert_eq!(store.trim_requests(shop, kept(2, 0)).await.unwrap(), 3);
    assert_eq!(ids(store, shop, &RequestFilter::default()).await, ["4", "3"]);
    assert_eq!(ids(store, other, &RequestFilter::default()).await, ["x"]);
}

fn kept(authenticated: u32, unauthenticated: u32) -> KeptRequests {
    KeptRequests { authenticated, unauthenticated }
}

pub async fn unauthenticated_requests_displace_no_others(bench: &Bench) {
    let store = &*bench.store;
    let shop = project(store, "Shop").await;
    let named = |id: &str| RequestRecord { authenticated: false, ..record(shop, 401, id) };
    let flood = (0..5).map(|n| named(&format!("flood {n}")));
    store.keep_requests([record(shop, 200, "own")].into_iter().chain(flood).collect()).await.unwrap();
    let page = store.requests(shop, &RequestFilter::default(), PageRequest::default()).await.unwrap();
    assert!(!page.items[0].authenticated && page.items[5].authenticated, "{:?}", page.items);
    assert_eq!(store.trim_requests(shop, kept(3, 2)).await.unwrap(), 3);
    assert_eq!(ids(store, shop, &RequestFilter::default()).await, ["flood 4", "flood 3", "own"]);
}

pub async fn old_requests_are_forgotten_a_bounded_number_at_a_time(bench: &Bench) {
    let store = &*bench.store;
    let shop = project(store, "Shop").await;
    let old = sample::now() - SignedDuration::from_hours(25);
    let aged = |n: usize| RequestRecord { at: old, ..record(shop, 200, &n.to_string()) };
    // More than one statement takes.
    store.keep_requests((0..1_200).map(aged).collect()).await.unwrap();
    store.keep_requests(vec![record(shop, 200, "new")]).await.unwrap();
    let before = sample::now() - SignedDuration::from_hours(24);
    for gone in [1_000, 200, 0] {
        assert_eq!(store.forget_requests(before).await.unwrap(), gone);
    }
    assert_eq!(ids(store, shop, &RequestFilter::default()).await, ["new"]);
}
