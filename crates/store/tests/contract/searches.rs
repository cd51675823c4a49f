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
use ringtrue_engine::ports::{
    checks::CheckQuery,
    combined::Store,
    search_limit::SearchLimiter,
    store::{Completeness, ControlPlaneVersion, StoreError, TenantLookup},
};
use ringtrue_store::{CitusAccess, StoreOptions};
use tokio::{task::yield_now, time::timeout};

use crate::{check_sample, fixture::StoreFixture, sample};

/// Options with one concurrent search and a short timeout.
const OPTIONS: StoreOptions = StoreOptions {
    connections: 4,
    readers: 2,
    searches: 1,
    search_timeout: Duration::from_millis(300),
    citus: CitusAccess::Direct,
};
const CHECKS: usize = 12;

/// Returns a filter with so many comparisons that a dozen checks exceed the budget of a list.
fn expensive_filter() -> Filter {
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
    join_all((0..CHECKS).map(|_| check_sample::store_check(store, project))).await;
    project
}

pub async fn search_ends_at_its_deadline(fixture: &StoreFixture) {
    let shop = project_with_checks(&*fixture.store).await;
    let acme = WorkspaceId(sample::uuid());
    fixture.database.make_references_endless(shop).await;
    let store = fixture.database.open_with(OPTIONS).await;
    let limiter = SearchLimiter::default();
    for _ in 0..2 {
        let stopped = store.list_checks(query(acme, shop, Some(expensive_filter())), &limiter).await;
        assert!(matches!(stopped, Err(StoreError::DeadlineExceeded(_))), "{stopped:?}");
        assert_eq!(limiter.running(), 0);
    }

    // A cancelled call holds its permit until the statement ends.
    {
        let mut abandoned = pin!(store.list_checks(query(acme, shop, Some(expensive_filter())), &limiter));
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

    // The only search connection is free: the endless statement was cancelled.
    fixture.database.make_references_end().await;
    let found = store.list_checks(query(acme, shop, Some(expensive_filter())), &limiter).await.unwrap();
    assert_eq!((found.items.len(), found.total_items), (5, CHECKS as u64));
}

pub async fn searches_do_not_delay_other_queries(fixture: &StoreFixture) {
    let shop = project_with_checks(&*fixture.store).await;
    let bank = project_with_checks(&*fixture.store).await;
    let known = check_sample::store_check(&*fixture.store, bank).await;
    fixture.database.make_references_endless(shop).await;
    let store = fixture.database.open_with(OPTIONS).await;
    let (limiter, workspace) = (SearchLimiter::default(), WorkspaceId(sample::uuid()));

    // More searches than there are connections or threads.
    let searches = join_all((0..12).map(|_| {
        let query = query(WorkspaceId(sample::uuid()), shop, Some(expensive_filter()));
        store.list_checks(query, &limiter)
    }));
    let others = async {
        let found = store.find_check(bank, Product::ReverseSms, known.id).await.unwrap();
        assert!(matches!(found, TenantLookup::Found(_)), "{found:?}");
        assert_eq!(store.overdue_checks(sample::now(), 9, Completeness::All).await.unwrap(), []);
        store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
        for filter in [None, Some("reference_id==x"), Some("status==ACCEPTED")] {
            let filter = filter.map(|text| parse(text, &SEARCH_FIELDS).unwrap());
            store.list_checks(query(workspace, bank, filter), &limiter).await.unwrap();
        }
    };
    match select(searches, Box::pin(others)).await {
        Either::Left(_) => panic!("other queries waited for the searches"),
        Either::Right(((), searches)) => drop(searches),
    }
}

/// One workspace reads more lists than there are connections or threads, and each list runs to its deadline.
pub async fn lists_of_one_workspace_do_not_delay_others(fixture: &StoreFixture) {
    let shop = project_with_checks(&*fixture.store).await;
    let bank = project_with_checks(&*fixture.store).await;
    fixture.database.make_references_endless(shop).await;
    let store = fixture.database.open_with(StoreOptions { search_timeout: Duration::from_secs(5), ..OPTIONS }).await;
    let (limiter, [acme, other]) = (SearchLimiter::default(), [(); 2].map(|()| WorkspaceId(sample::uuid())));
    let by_reference = || Some(parse("reference_id==x", &SEARCH_FIELDS).unwrap());
    let lists = join_all((0..8).map(|_| store.list_checks(query(acme, shop, by_reference()), &limiter)));
    let others = async {
        for filter in [None, by_reference()] {
            store.list_checks(query(other, bank, filter), &limiter).await.unwrap();
        }
    };
    match select(lists, Box::pin(others)).await {
        Either::Left(_) => panic!("another workspace waited for the lists"),
        Either::Right(((), lists)) => drop(lists),
    }
}

pub async fn searches_per_workspace_are_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = project_with_checks(store).await;
    let [acme, other] = [(); 2].map(|()| WorkspaceId(sample::uuid()));
    let limiter = SearchLimiter::default();
    let permits = [(); 2].map(|()| limiter.try_acquire(acme).unwrap());
    let rejected = store.list_checks(query(acme, shop, Some(expensive_filter())), &limiter).await;
    assert!(matches!(rejected, Err(StoreError::TooManySearches)), "{rejected:?}");
    store.list_checks(query(other, shop, Some(expensive_filter())), &limiter).await.unwrap();
    // A query that uses counters, an index or few rows is not a search.
    for text in ["status==ACCEPTED", "reference_id==x", "error_code==a"] {
        let filter = parse(text, &SEARCH_FIELDS).unwrap();
        store.list_checks(query(acme, shop, Some(filter)), &limiter).await.unwrap();
    }
    drop(permits);
    let found = store.list_checks(query(acme, shop, Some(expensive_filter())), &limiter).await.unwrap();
    assert_eq!(found.total_items, CHECKS as u64);
}
