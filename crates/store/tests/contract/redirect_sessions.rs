use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, CheckStatus, ErrorCode, Lifecycle, OpenState, Verdict},
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    search::parse,
    silent::{OperatorVerdict, SilentCheck},
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    activity::{UsageFilter, UsagePeriod},
    checks::ConcludeOutcome,
    combined::Store,
    hashes::TokenHash,
    silent::{BeginRedirect, BegunRedirect, ConsumedState, RedirectSession, RedirectSessionRecord, TakenVerdict},
    store::{Completeness, TenantLookup},
};

use crate::{
    check_sample::{self, find},
    fixture::StoreFixture,
    sample,
    silent_sample::{self, redirect_session, store_check},
};

const PRODUCTS: [Product; 2] = [Product::SecureSna, Product::Discovery];

async fn project(store: &dyn Store) -> (WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    (acme.id, sample::stored_project(store, acme.id, "Shop").await.0.id)
}

/// Number of checks by product, status, verdict and network.
type Counts = BTreeMap<(&'static str, CheckStatus, Option<bool>, Option<String>), i64>;

async fn usage_counts(store: &dyn Store, (workspace, project): (WorkspaceId, ProjectId)) -> Counts {
    let all = UsageFilter {
        from: "2026-01-01T00:00:00Z".parse().unwrap(),
        to: "2027-01-01T00:00:00Z".parse().unwrap(),
        period: UsagePeriod::Month,
        project: Some(project),
    };
    let rows = store.usage(workspace, all).await.unwrap().into_iter();
    rows.map(|row| {
        ((row.product.into_str(), row.status, row.matched, row.network.map(|network| network.to_string())), row.count)
    })
    .collect()
}

/// Counts the checks themselves, to compare with the counters.
fn count_checks(checks: &[SilentCheck]) -> Counts {
    let mut counts = Counts::new();
    for check in checks {
        let network = check.network.as_ref().map(ToString::to_string);
        let matched = check.verdict().and_then(Verdict::matched);
        *counts.entry((check.product.into_str(), check.status(), matched, network)).or_default() += 1;
    }
    counts
}

async fn total(store: &dyn Store, check: &SilentCheck, filter: &str) -> u64 {
    let filter = parse(filter, &SEARCH_FIELDS).unwrap();
    let listed = check_sample::list(store, check.project, check.product, Some(filter), sample::first_100()).await;
    listed.unwrap().total_items
}

pub async fn new_check_has_a_redirect_session(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    for product in PRODUCTS {
        let full = silent_sample::check(shop, product, sample::now());
        let bare = Check {
            reference: None,
            callback_url: None,
            redirect_url: None,
            ..silent_sample::check(shop, product, sample::later(1))
        };
        for check in [full, bare] {
            let new = silent_sample::new(check.clone());
            store.create_check(new.clone()).await.unwrap();
            assert_eq!(find(store, &check).await, check);
            let ringtrue_engine::ports::checks::Expectation::Device { input } = new.expectation else { panic!() };
            let progress =
                RedirectSession { input, state_hash: None, last_redirect: None, verdict: None, wrong_codes: 0 };
            assert_eq!(
                redirect_session(store, &check).await,
                RedirectSessionRecord { check: check.map(AnyVerdict::from), session: Some(progress) }
            );
        }
    }
    let unknown = silent_sample::check(shop, Product::Discovery, sample::now());
    assert_eq!(store.redirect_session(unknown.id).await.unwrap(), None);
    let sms = check_sample::store_check(store, shop).await;
    let record = store.redirect_session(sms.id).await.unwrap().unwrap();
    assert_eq!(record, RedirectSessionRecord { check: sms.map(AnyVerdict::from), session: None });
}

pub async fn redirect_marks_the_check_pending(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    for product in PRODUCTS {
        let check = store_check(store, shop, product).await;
        let first = silent_sample::redirect(&check, "23420");
        let pending = Check {
            network: Some(first.network.clone()),
            state: Lifecycle::Open(OpenState::Pending { since: first.at }),
            ..check.clone()
        };
        let again = BeginRedirect { at: sample::later(9), ..silent_sample::redirect(&check, "23420") };
        for redirect in [first, again] {
            assert!(store.begin_redirect(redirect).await.unwrap());
            assert_eq!(find(store, &check).await, pending, "pending since the first redirect");
            for (filter, expected) in [
                ("status==PENDING;network_id==23420", 1),
                ("status==PENDING", 1),
                ("network_id==23420", 1),
                ("status==ACCEPTED", 0),
                ("network_id==23410", 0),
            ] {
                assert_eq!(total(store, &check, filter).await, expected, "{product} {filter}");
            }
        }
    }
    let expected =
        PRODUCTS.map(|product| ((product.into_str(), CheckStatus::Pending, None, Some("23420".to_owned())), 1));
    assert_eq!(usage_counts(store, (acme, shop)).await, expected.into());
}

pub async fn second_redirect_replaces_the_state(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let check = store_check(store, ProjectId(sample::uuid()), Product::SecureSna).await;
    let [first, second, third] = ["23410", "23420", "23410"].map(|network| silent_sample::redirect(&check, network));
    let second = BeginRedirect { at: sample::later(9), ..second };
    let third = BeginRedirect { browser: None, at: sample::later(10), ..third };
    let state_hash = async || redirect_session(store, &check).await.session.unwrap().state_hash;
    let last_redirect = async || redirect_session(store, &check).await.session.unwrap().last_redirect;
    let begun = |redirect: &BeginRedirect| Some(BegunRedirect { at: redirect.at, browser: redirect.browser });
    for redirect in [&first, &second] {
        assert!(store.begin_redirect(redirect.clone()).await.unwrap());
        assert_eq!(state_hash().await, Some(redirect.state_hash));
        assert_eq!(last_redirect().await, begun(redirect));
    }
    let pending_redirect_of = async |redirect: &BeginRedirect| {
        store.consume_state(check.id, redirect.state_hash).await.unwrap().map(|back| back.pending_redirect)
    };
    assert_eq!(pending_redirect_of(&first).await, None);
    assert_eq!(pending_redirect_of(&second).await, Some(second.pending_redirect.clone()));
    assert_eq!((state_hash().await, last_redirect().await), (None, begun(&second)));
    assert!(store.begin_redirect(third.clone()).await.unwrap(), "a new redirect after a consumed state");
    assert_eq!(pending_redirect_of(&second).await, None);
    assert_eq!(pending_redirect_of(&third).await, Some(third.pending_redirect.clone()));
    assert!(store.store_verdict(check.id, silent_sample::sealed_verdict()).await.unwrap());
    assert_eq!(last_redirect().await, begun(&third));
}

pub async fn concurrent_redirects_leave_one_valid_state(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let (acme, shop) = project(&*fixture.store).await;
    let check = store_check(&*fixture.store, shop, Product::Discovery).await;
    let networks = ["23410", "23420", "310004"].into_iter().cycle();
    let redirects: Vec<_> = networks.take(60).map(|network| silent_sample::redirect(&check, network)).collect();
    let attempts =
        redirects.iter().zip(stores.iter().cycle()).map(|(redirect, store)| store.begin_redirect(redirect.clone()));
    for is_redirected in join_all(attempts).await {
        assert!(is_redirected.unwrap(), "the check is open");
    }
    let check = find(&*fixture.store, &check).await;
    assert_eq!(usage_counts(&*fixture.store, (acme, shop)).await, count_checks(std::slice::from_ref(&check)));
    let mut valid = Vec::new();
    for redirect in &redirects {
        if let Some(back) = fixture.store.consume_state(check.id, redirect.state_hash).await.unwrap() {
            assert_eq!(back.pending_redirect, redirect.pending_redirect);
            valid.push(redirect);
        }
    }
    assert_eq!(valid.len(), 1);
    assert_eq!(check.network.as_ref(), Some(&valid[0].network), "state and network of the same redirect");
}

pub async fn state_is_consumed_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let shop = ProjectId(sample::uuid());
    let check = store_check(&*fixture.store, shop, Product::SecureSna).await;
    let other = store_check(&*fixture.store, shop, Product::SecureSna).await;
    let redirect = silent_sample::redirect(&check, "23410");
    fixture.store.begin_redirect(redirect.clone()).await.unwrap();
    for (check, state) in [(&check, TokenHash(sample::random())), (&other, redirect.state_hash)] {
        assert_eq!(fixture.store.consume_state(check.id, state).await.unwrap(), None);
    }
    let record = redirect_session(&*fixture.store, &check).await;
    let attempts = stores.iter().cycle().take(100).map(|store| store.consume_state(check.id, redirect.state_hash));
    let back: Vec<_> = join_all(attempts).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(back, [ConsumedState { record, pending_redirect: redirect.pending_redirect }]);
    let consumed = redirect_session(&*fixture.store, &check).await.session.expect("a session");
    assert_eq!(consumed.state_hash, None);
}

pub async fn verdict_is_stored_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let check = store_check(store, shop, Product::SecureSna).await;
    let redirect = silent_sample::redirect(&check, "23410");
    store.begin_redirect(redirect.clone()).await.unwrap();
    let verdicts: Vec<_> = (0..20).map(|_| silent_sample::sealed_verdict()).collect();
    let attempts = verdicts
        .iter()
        .zip(stores.iter().cycle())
        .map(|(decision, store)| store.store_verdict(check.id, decision.clone()));
    let stored: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> = verdicts.iter().zip(stored).filter(|(_, is_kept)| *is_kept).collect();
    assert_eq!(winners.len(), 1);
    let before = redirect_session(store, &check).await;
    assert_eq!(before.session.as_ref().unwrap().verdict.as_ref(), Some(winners[0].0));

    // After the verdict, the store accepts neither a state nor a redirect.
    assert_eq!(store.consume_state(check.id, redirect.state_hash).await.unwrap(), None);
    assert!(!store.begin_redirect(silent_sample::redirect(&check, "23420")).await.unwrap());
    assert!(!store.store_verdict(check.id, silent_sample::sealed_verdict()).await.unwrap());
    assert_eq!(redirect_session(store, &check).await, before);
    assert_eq!(usage_counts(store, (acme, shop)).await, count_checks(&[find(store, &check).await]));
}

pub async fn verdict_is_taken_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let check = store_check(store, shop, Product::SecureSna).await;
    let other = store_check(store, shop, Product::SecureSna).await;
    let redirect = silent_sample::redirect(&check, "23410");
    store.begin_redirect(redirect.clone()).await.unwrap();
    assert_eq!(store.take_verdict(check.id).await.unwrap(), None, "no verdict yet");
    let (verdict, kept) = (silent_sample::sealed_verdict(), silent_sample::sealed_verdict());
    assert!(store.store_verdict(check.id, verdict.clone()).await.unwrap());
    assert!(store.store_verdict(other.id, kept.clone()).await.unwrap());

    let attempts = stores.iter().cycle().take(50).map(|store| store.take_verdict(check.id));
    let taken: Vec<_> = join_all(attempts).await.into_iter().filter_map(Result::unwrap).collect();
    let before = find(store, &check).await.map(AnyVerdict::from);
    assert_eq!(taken, [TakenVerdict { check: before, verdict: verdict.verdict }]);
    let session = async |check| redirect_session(store, check).await.session.unwrap();
    assert_eq!(session(&check).await.verdict, None);
    assert_eq!(session(&other).await.verdict, Some(kept), "another check keeps its verdict");

    let (conclusion, _) = check_sample::conclusion(other.clone().expire().unwrap());
    store.conclude(conclusion, None).await.unwrap();
    assert_eq!(store.take_verdict(other.id).await.unwrap(), None, "concluded");
}

pub async fn wrong_codes_are_counted(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let check = store_check(&*fixture.store, ProjectId(sample::uuid()), Product::Discovery).await;
    let attempts = stores.iter().cycle().take(50).map(|store| store.count_wrong_code(check.id));
    let counts: BTreeSet<_> = join_all(attempts).await.into_iter().map(|count| count.unwrap().unwrap()).collect();
    assert_eq!(counts, (1..=50).collect(), "each call counts");
    assert_eq!(redirect_session(&*fixture.store, &check).await.session.unwrap().wrong_codes, 50);
}

pub async fn conclusion_deletes_the_redirect_session(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let at = sample::later(20);
    for (product, number) in PRODUCTS.into_iter().flat_map(|product| [(product, 0), (product, 1), (product, 2)]) {
        let check = store_check(store, shop, product).await;
        let redirect = silent_sample::redirect(&check, "23410");
        store.begin_redirect(redirect.clone()).await.unwrap();
        let check = find(store, &check).await;
        let (conclusion, concluded) = check_sample::conclusion(match number {
            0 => check.clone().expire().unwrap(),
            1 => check.clone().conclude_with_error(ErrorCode::MnoTimeout, at).unwrap(),
            _ => check.clone().conclude_with_verdict(silent_sample::verdict(product), at).unwrap(),
        });
        assert_eq!(
            store.conclude(conclusion.clone(), None).await.unwrap(),
            ConcludeOutcome::Concluded { was_pending: true }
        );
        assert_eq!(find(store, &check).await, concluded);
        let record = RedirectSessionRecord { check: concluded.clone().map(AnyVerdict::from), session: None };
        assert_eq!(redirect_session(store, &check).await, record);

        assert_eq!(store.consume_state(check.id, redirect.state_hash).await.unwrap(), None);
        assert!(!store.begin_redirect(silent_sample::redirect(&check, "23420")).await.unwrap());
        assert!(!store.store_verdict(check.id, silent_sample::sealed_verdict()).await.unwrap());
        assert_eq!(store.count_wrong_code(check.id).await.unwrap(), None);
        assert_eq!(store.conclude(conclusion, None).await.unwrap(), ConcludeOutcome::AlreadyConcluded);
        assert_eq!(redirect_session(store, &check).await, record, "nothing is changed");
    }
}

/// Each conclusion is based on a read from before the redirects, which change the network.
pub async fn counters_follow_network_changes(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let mut checks = Vec::new();
    for (product, networks) in PRODUCTS.into_iter().flat_map(|product| {
        [(product, &[][..]), (product, &["23420"]), (product, &["23410", "310004"]), (product, &["23420", "23410"])]
    }) {
        let check = store_check(store, shop, product).await;
        for network in networks {
            assert!(store.begin_redirect(silent_sample::redirect(&check, network)).await.unwrap());
        }
        let at = sample::later(9);
        let (conclusion, _) =
            check_sample::conclusion(check.clone().conclude_with_verdict(silent_sample::verdict(product), at).unwrap());
        let was_pending = !networks.is_empty();
        assert_eq!(store.conclude(conclusion, None).await.unwrap(), ConcludeOutcome::Concluded { was_pending });
        let concluded = find(store, &check).await;
        let last = networks.last().map(|network| network.parse().unwrap());
        assert_eq!(concluded.network, last.or(check.network));
        checks.push(concluded);
    }
    assert_eq!(usage_counts(store, (acme, shop)).await, count_checks(&checks));
}

/// Two nodes redirect and conclude the same checks concurrently.
pub async fn counters_match_checks_after_concurrent_redirects(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let (acme, shop) = project(&*fixture.store).await;
    let mut checks = Vec::new();
    for number in 0..20 {
        checks.push(store_check(&*fixture.store, shop, PRODUCTS[number % 2]).await);
    }
    let race = checks.iter().enumerate().map(|(number, check)| {
        let (one, other) = (&stores[number % 2], &stores[1 - number % 2]);
        let redirects =
            ["23420", "23410", "310004"].map(|network| one.begin_redirect(silent_sample::redirect(check, network)));
        let (conclusion, _) = check_sample::conclusion(check.clone().expire().unwrap());
        async move {
            let end =
                async { if number % 4 == 0 { None } else { Some(other.conclude(conclusion, None).await.unwrap()) } };
            let (redirects, recorded) = tokio::join!(join_all(redirects), end);
            assert!(recorded.is_none_or(|recorded| matches!(recorded, ConcludeOutcome::Concluded { .. })));
            assert!(redirects.iter().all(Result::is_ok), "{redirects:?}");
        }
    });
    join_all(race).await;
    for check in &mut checks {
        *check = find(&*fixture.store, check).await;
    }
    assert_eq!(usage_counts(&*fixture.store, (acme, shop)).await, count_checks(&checks));
}

pub async fn check_is_scoped_by_product(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let shop = ProjectId(sample::uuid());
    let sms = check_sample::store_check(store, shop).await.map(AnyVerdict::from);
    let mut checks = vec![sms];
    for product in PRODUCTS {
        checks.push(store_check(store, shop, product).await.map(AnyVerdict::from));
    }
    let late = sample::later(600);
    for check in &checks {
        for other in &checks {
            let found = store.find_check(shop, other.product, check.id).await.unwrap();
            let expected = if other.product == check.product {
                TenantLookup::Found(check.clone())
            } else {
                TenantLookup::NotFound
            };
            assert_eq!(found, expected);
        }
        let other_project = ProjectId(sample::uuid());
        assert_eq!(store.find_check(other_project, check.product, check.id).await.unwrap(), TenantLookup::OtherTenant);
        let listed = check_sample::list(store, shop, check.product, None, sample::first_100()).await.unwrap();
        assert_eq!((listed.total_items, listed.items), (1, vec![check.clone()]));
        assert_eq!(
            store.overdue_checks_of_project(shop, check.product, late, 9).await.unwrap(),
            std::slice::from_ref(check)
        );
        let before = check.expires_at - SignedDuration::from_millis(1);
        assert_eq!(store.overdue_checks_of_project(shop, check.product, before, 9).await.unwrap(), []);
    }
    let overdue: BTreeSet<_> =
        store.overdue_checks(late, 9, Completeness::All).await.unwrap().into_iter().map(|check| check.id).collect();
    assert_eq!(overdue, checks.iter().map(|check| check.id).collect(), "all are overdue");
}

/// A discovered number is stored in the same columns as a claimed number, but must not be read as one.
pub async fn discovered_number_round_trips(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let concluded = silent_sample::redeemed(store, ProjectId(sample::uuid()), Product::Discovery).await;
    let Some(OperatorVerdict::Number(number)) = concluded.verdict() else { panic!() };
    assert!(number.number.is_some() && number.sealed.is_some());
    let found = find(store, &concluded).await;
    assert_eq!(found, concluded);
    assert_eq!(found.claimed, None);
}
