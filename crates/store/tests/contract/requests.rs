use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::CheckId, page::PageRequest, tenancy::ProjectId};
use ringtrue_engine::ports::{
    combined::Store,
    request_log::{Rejection, RequestLogEntry, RequestLogFilter, RequestLogLimits, StatusClass},
};

use crate::{fixture::StoreFixture, sample};

pub fn record(project: ProjectId, status: u16, request_id: &str) -> RequestLogEntry {
    let rejection = Rejection { error_code: "bad_request".to_owned(), detail: "`/x`: not known".to_owned() };
    RequestLogEntry {
        id: sample::uuid(),
        project,
        at: sample::now(),
        request_id: request_id.to_owned(),
        method: "POST".to_owned(),
        route: "/v1/number-verification/reverse-sms-checks".to_owned(),
        check: (status == 201).then(|| CheckId(sample::uuid())),
        status,
        rejection: (status >= 400).then_some(rejection),
        client: "prj_shop".parse().unwrap(),
        authenticated: true,
        duration_micros: 1_234,
        query: Some("size=10".to_owned()),
        body: (status >= 400).then(|| "{\n}".to_owned()),
        skipped: 7,
    }
}

async fn project(store: &dyn Store, name: &str) -> ProjectId {
    let workspace = sample::stored_workspace(store).await;
    sample::stored_project(store, workspace.id, name).await.0.id
}

async fn ids(store: &dyn Store, project: ProjectId, filter: &RequestLogFilter) -> Vec<String> {
    let page = store.list_requests(project, filter, PageRequest::new(100, 1).unwrap()).await.unwrap();
    assert_eq!(page.total_items, page.items.len() as u64);
    page.items.into_iter().map(|request| request.request_id).collect()
}

pub async fn requests_round_trip(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (shop, other) = (project(store, "Shop").await, project(store, "Other").await);
    store.append_requests(vec![]).await.unwrap();
    let kept = vec![record(shop, 201, "one"), record(shop, 400, "two"), record(other, 200, "three")];
    store.append_requests(kept.clone()).await.unwrap();
    let page = store.list_requests(shop, &RequestLogFilter::default(), PageRequest::default()).await.unwrap();
    assert_eq!(page.items, [kept[1].clone(), kept[0].clone()], "newest first, of one project");
    let bad = RequestLogEntry { status: 99, ..record(shop, 200, "four") };
    assert!(store.append_requests(vec![record(shop, 200, "five"), bad]).await.is_err());
    assert_eq!(
        ids(store, shop, &RequestLogFilter::default()).await,
        ["two", "one"],
        "the failed batch stores no request"
    );
}

pub async fn requests_are_filtered_by_response(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = project(store, "Shop").await;
    let mut forbidden = record(shop, 403, "a");
    forbidden.rejection = Some(Rejection { error_code: "forbidden".to_owned(), detail: String::new() });
    store
        .append_requests(vec![record(shop, 200, "a"), forbidden, record(shop, 400, "b"), record(shop, 503, "c")])
        .await
        .unwrap();
    let class = |class| RequestLogFilter { class: Some(class), ..RequestLogFilter::default() };
    let code = |code: &str| RequestLogFilter { error_code: Some(code.to_owned()), ..RequestLogFilter::default() };
    let named = |id: &str| RequestLogFilter { request_id: Some(id.to_owned()), ..RequestLogFilter::default() };
    let of_client = |id: &str| RequestLogFilter { client: Some(id.parse().unwrap()), ..RequestLogFilter::default() };
    let of_route = |route: &str| RequestLogFilter { route: Some(route.to_owned()), ..RequestLogFilter::default() };
    for (filter, found) in [
        (of_client("prj_shop"), vec!["c", "b", "a", "a"]),
        (of_client("prj_other"), vec![]),
        (of_route("/v1/number-verification/reverse-sms-checks"), vec!["c", "b", "a", "a"]),
        (of_route("/v1/%"), vec![]),
        (RequestLogFilter::default(), vec!["c", "b", "a", "a"]),
        (class(StatusClass::Success), vec!["a"]),
        (class(StatusClass::ClientError), vec!["b", "a"]),
        (class(StatusClass::ServerError), vec!["c"]),
        (code("forbidden"), vec!["a"]),
        (code("Forbidden"), vec![]),
        (RequestLogFilter { class: Some(StatusClass::ServerError), ..code("forbidden") }, vec![]),
        (named("a"), vec!["a", "a"]),
        (named("%"), vec![]),
    ] {
        assert_eq!(ids(store, shop, &filter).await, found, "{filter:?}");
    }
}

pub async fn trimming_deletes_the_oldest_requests(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (shop, other) = (project(store, "Shop").await, project(store, "Other").await);
    store.append_requests((0..5).map(|n| record(shop, 200, &n.to_string())).collect()).await.unwrap();
    store.append_requests(vec![record(other, 200, "x")]).await.unwrap();
    assert_eq!(store.trim_requests(shop, kept(5, 0)).await.unwrap(), 0);
    assert_eq!(store.trim_requests(shop, kept(2, 0)).await.unwrap(), 3);
    assert_eq!(ids(store, shop, &RequestLogFilter::default()).await, ["4", "3"]);
    assert_eq!(ids(store, other, &RequestLogFilter::default()).await, ["x"]);
}

fn kept(authenticated: u32, unauthenticated: u32) -> RequestLogLimits {
    RequestLogLimits { authenticated, unauthenticated }
}

pub async fn unauthenticated_requests_are_trimmed_separately(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = project(store, "Shop").await;
    let named = |id: &str| RequestLogEntry { authenticated: false, ..record(shop, 401, id) };
    let flood = (0..5).map(|n| named(&format!("flood {n}")));
    store.append_requests([record(shop, 200, "own")].into_iter().chain(flood).collect()).await.unwrap();
    let page = store.list_requests(shop, &RequestLogFilter::default(), PageRequest::default()).await.unwrap();
    assert!(!page.items[0].authenticated && page.items[5].authenticated, "{:?}", page.items);
    assert_eq!(store.trim_requests(shop, kept(3, 2)).await.unwrap(), 3);
    assert_eq!(ids(store, shop, &RequestLogFilter::default()).await, ["flood 4", "flood 3", "own"]);
}

pub async fn old_requests_are_deleted_in_batches(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = project(store, "Shop").await;
    let old = sample::now() - SignedDuration::from_hours(25);
    let old_request = |n: usize| RequestLogEntry { at: old, ..record(shop, 200, &n.to_string()) };
    // More rows than one statement inserts.
    store.append_requests((0..1_200).map(old_request).collect()).await.unwrap();
    store.append_requests(vec![record(shop, 200, "new")]).await.unwrap();
    let before = sample::now() - SignedDuration::from_hours(24);
    for deleted in [1_000, 200, 0] {
        assert_eq!(store.delete_requests_before(before).await.unwrap(), deleted);
    }
    assert_eq!(ids(store, shop, &RequestLogFilter::default()).await, ["new"]);
}
