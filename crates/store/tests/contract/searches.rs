use std::{pin::pin, time::Duration};

use futures_util::{
    future::{Either, join_all, select},
    poll,
};
use ringtrue_domain::{
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    search::{Filter, parse},
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::{
    ports::{CheckQuery, Found, Store, StoreError, Version},
    search_limit::SearchLimiter,
};
use ringtrue_store::StoreOptions;
use tokio::{task::yield_now, time::timeout};

use crate::{bench::Bench, check_sample, sample};

/// One search at a time, stopped after a moment.
const OPTIONS: StoreOptions =
    StoreOptions { connections: 4, readers: 2, searches: 1, search_timeout: Duration::from_millis(300) };
const CHECKS: usize = 12;

/// A filter that makes so many comparisons that a dozen checks are too many for a list.
fn expensive() -> Filter {
    let references = vec!["x"; 100].join(",");
    parse(&vec![format!("reference_id=out=({references})"); 9].join(";"), &SEARCH_FIELDS).unwrap()
}

fn query(workspace: WorkspaceId, project: ProjectId, filter: Option<Filter>) -> CheckQuery {
    CheckQuery {
        workspace,
        project,
        product: Product::ReverseSms,
        filter,
        created_after: None,
        page: sample::page(5, 2),
    }
}

async fn project_with_checks(store: &dyn Store) -> ProjectId {
    let project = ProjectId(sample::uuid());
    join_all((0..CHECKS).map(|_| check_sample::stored(store, project))).await;
    project
}

pub async fn a_search_is_stopped_at_its_deadline(bench: &Bench) {
    let shop = project_with_checks(&*bench.store).await;
    let acme = WorkspaceId(sample::uuid());
    bench.database.make_references_endless(shop).await;
    let store = bench.database.open_with(OPTIONS).await;
    let limiter = SearchLimiter::default();
    for _ in 0..2 {
        let stopped = store.list_checks(query(acme, shop, Some(expensive())), &limiter).await;
        assert!(matches!(stopped, Err(StoreError::DeadlineExceeded(_))), "{stopped:?}");
        assert_eq!(limiter.running(), 0);
    }

    // A caller that goes away keeps its permit until the statement has ended.
    {
        let mut abandoned = pin!(store.list_checks(query(acme, shop, Some(expensive())), &limiter));
        while limiter.running() == 0 {
            assert!(poll!(abandoned.as_mut()).is_pending());
            yield_now().await;
        }
    }
    let ended = async {
        while limiter.running() > 0 {
            yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.expect("the statement is stopped");

    // The only connection for searches is free: an endless statement does not run on.
    bench.database.make_references_end().await;
    let found = store.list_checks(query(acme, shop, Some(expensive())), &limiter).await.unwrap();
    assert_eq!((found.items.len(), found.total_items), (5, CHECKS as u64));
}

pub async fn nothing_else_waits_for_searches(bench: &Bench) {
    let shop = project_with_checks(&*bench.store).await;
    let bank = project_with_checks(&*bench.store).await;
    let known = check_sample::stored(&*bench.store, bank).await;
    bench.database.make_references_endless(shop).await;
    let store = bench.database.open_with(OPTIONS).await;
    let (limiter, workspace) = (SearchLimiter::default(), WorkspaceId(sample::uuid()));

    // More than there are connections or threads of any kind.
    let searches = join_all((0..12).map(|_| {
        let query = query(WorkspaceId(sample::uuid()), shop, Some(expensive()));
        store.list_checks(query, &limiter)
    }));
    let others = async {
        let found = store.find_check(bank, Product::ReverseSms, known.id).await.unwrap();
        assert!(matches!(found, Found::Mine(_)), "{found:?}");
        assert_eq!(store.overdue(sample::now(), 9).await.unwrap(), []);
        store.changes_since(Version(0), sample::now()).await.unwrap();
        for filter in [None, Some("reference_id==x"), Some("status==ACCEPTED")] {
            let filter = filter.map(|text| parse(text, &SEARCH_FIELDS).unwrap());
            store.list_checks(query(workspace, bank, filter), &limiter).await.unwrap();
        }
    };
    match select(searches, Box::pin(others)).await {
        Either::Left(_) => panic!("the others waited for the searches"),
        Either::Right(((), searches)) => drop(searches),
    }
}

pub async fn a_workspace_has_two_searches_at_a_time(bench: &Bench) {
    let store = &*bench.store;
    let shop = project_with_checks(store).await;
    let [acme, other] = [(); 2].map(|()| WorkspaceId(sample::uuid()));
    let limiter = SearchLimiter::default();
    let permits = [(); 2].map(|()| limiter.try_acquire(acme).unwrap());
    let rejected = store.list_checks(query(acme, shop, Some(expensive())), &limiter).await;
    assert!(matches!(rejected, Err(StoreError::TooManySearches)), "{rejected:?}");
    store.list_checks(query(other, shop, Some(expensive())), &limiter).await.unwrap();
    // What counters, an index or a few rows answer is no search.
    for text in ["status==ACCEPTED", "reference_id==x", "error_code==a"] {
        let filter = parse(text, &SEARCH_FIELDS).unwrap();
        store.list_checks(query(acme, shop, Some(filter)), &limiter).await.unwrap();
    }
    drop(permits);
    let found = store.list_checks(query(acme, shop, Some(expensive())), &limiter).await.unwrap();
    assert_eq!(found.total_items, CHECKS as u64);
}
