use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, ErrorCode, Lifecycle, Open, Status, Verdict},
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    search::parse,
    silent::{Proof, SilentCheck},
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    CameBack, Found, JourneyRecord, Progress, Recorded, SetOut, Store, TokenHash, UsageFilter, UsageGrouping,
};

use crate::{
    bench::Bench,
    check_sample::{self, found},
    sample,
    silent_sample::{self, journey, stored},
};

const PRODUCTS: [Product; 2] = [Product::SecureSna, Product::Discovery];

async fn project(store: &dyn Store) -> (WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    (acme.id, sample::stored_project(store, acme.id, "Shop").await.0.id)
}

/// How many checks are counted, by product, status, verdict and network.
type Counts = BTreeMap<(&'static str, Status, Option<bool>, Option<String>), i64>;

async fn counted(store: &dyn Store, (workspace, project): (WorkspaceId, ProjectId)) -> Counts {
    let all = UsageFilter {
        from: "2026-01-01T00:00:00Z".parse().unwrap(),
        to: "2027-01-01T00:00:00Z".parse().unwrap(),
        grouping: UsageGrouping::Month,
        project: Some(project),
    };
    let rows = store.usage(workspace, all).await.unwrap().into_iter();
    rows.map(|row| {
        ((row.product.as_str(), row.status, row.matched, row.network.map(|network| network.to_string())), row.count)
    })
    .collect()
}

/// The same, by looking at the checks.
fn looked_at(checks: &[SilentCheck]) -> Counts {
    let mut counts = Counts::new();
    for check in checks {
        let network = check.network.as_ref().map(ToString::to_string);
        let matched = check.verdict().and_then(Verdict::matched);
        *counts.entry((check.product.as_str(), check.status(), matched, network)).or_default() += 1;
    }
    counts
}

async fn total(store: &dyn Store, check: &SilentCheck, filter: &str) -> u64 {
    let filter = parse(filter, &SEARCH_FIELDS).unwrap();
    let listed = check_sample::listed(store, check.project, check.product, Some(filter), sample::whole()).await;
    listed.unwrap().total_items
}

pub async fn a_new_check_waits_for_its_device(bench: &Bench) {
    let store = &*bench.store;
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
            assert_eq!(found(store, &check).await, check);
            let ringtrue_engine::ports::Awaits::Device { brief } = new.awaits else { panic!() };
            let progress = Progress { brief, decision: None, wrong_codes: 0 };
            assert_eq!(
                journey(store, &check).await,
                JourneyRecord { check: check.map(AnyVerdict::from), progress: Some(progress) }
            );
        }
    }
    let unknown = silent_sample::check(shop, Product::Discovery, sample::now());
    assert_eq!(store.journey(unknown.id).await.unwrap(), None);
    let sms = check_sample::stored(store, shop).await;
    let record = store.journey(sms.id).await.unwrap().unwrap();
    assert_eq!(record, JourneyRecord { check: sms.map(AnyVerdict::from), progress: None });
}

pub async fn a_device_sets_out(bench: &Bench) {
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    for product in PRODUCTS {
        let check = stored(store, shop, product).await;
        let first = silent_sample::set_out(&check, "23420");
        let pending = Check {
            network: Some(first.network.clone()),
            state: Lifecycle::Open(Open::Pending { since: first.at }),
            ..check.clone()
        };
        let again = SetOut { at: sample::later(9), ..silent_sample::set_out(&check, "23420") };
        for step in [first, again] {
            assert!(store.set_out(step).await.unwrap());
            assert_eq!(found(store, &check).await, pending, "since the first time");
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
    let expected = PRODUCTS.map(|product| ((product.as_str(), Status::Pending, None, Some("23420".to_owned())), 1));
    assert_eq!(counted(store, (acme, shop)).await, expected.into());
}

pub async fn a_device_that_sets_out_again_has_a_new_ticket(bench: &Bench) {
    let store = &*bench.store;
    let check = stored(store, ProjectId(sample::uuid()), Product::SecureSna).await;
    let [first, second, third] = ["23410", "23420", "23410"].map(|network| silent_sample::set_out(&check, network));
    for step in [&first, &second] {
        assert!(store.set_out(step.clone()).await.unwrap());
    }
    let leg_of = async |step: &SetOut| store.come_back(check.id, step.ticket).await.unwrap().map(|back| back.leg);
    assert_eq!(leg_of(&first).await, None);
    assert_eq!(leg_of(&second).await, Some(second.leg.clone()));
    assert!(store.set_out(third.clone()).await.unwrap(), "it was back, and nothing came of it");
    assert_eq!(leg_of(&second).await, None);
    assert_eq!(leg_of(&third).await, Some(third.leg.clone()));
}

pub async fn a_device_that_sets_out_many_times_at_once_has_one_ticket(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let (acme, shop) = project(&*bench.store).await;
    let check = stored(&*bench.store, shop, Product::Discovery).await;
    let networks = ["23410", "23420", "310004"].into_iter().cycle();
    let steps: Vec<_> = networks.take(60).map(|network| silent_sample::set_out(&check, network)).collect();
    let attempts = steps.iter().zip(stores.iter().cycle()).map(|(step, store)| store.set_out(step.clone()));
    for has_set_out in join_all(attempts).await {
        assert!(has_set_out.unwrap(), "nobody has ended the check");
    }
    let check = found(&*bench.store, &check).await;
    assert_eq!(counted(&*bench.store, (acme, shop)).await, looked_at(std::slice::from_ref(&check)));
    let mut good = Vec::new();
    for step in &steps {
        if let Some(back) = bench.store.come_back(check.id, step.ticket).await.unwrap() {
            assert_eq!(back.leg, step.leg);
            good.push(step);
        }
    }
    assert_eq!(good.len(), 1);
    assert_eq!(check.network.as_ref(), Some(&good[0].network), "of one step");
}

pub async fn a_ticket_is_used_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let shop = ProjectId(sample::uuid());
    let check = stored(&*bench.store, shop, Product::SecureSna).await;
    let other = stored(&*bench.store, shop, Product::SecureSna).await;
    let step = silent_sample::set_out(&check, "23410");
    bench.store.set_out(step.clone()).await.unwrap();
    for (check, ticket) in [(&check, TokenHash(sample::random())), (&other, step.ticket)] {
        assert_eq!(bench.store.come_back(check.id, ticket).await.unwrap(), None);
    }
    let attempts = stores.iter().cycle().take(100).map(|store| store.come_back(check.id, step.ticket));
    let back: Vec<_> = join_all(attempts).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(back, [CameBack { record: journey(&*bench.store, &check).await, leg: step.leg }]);
}

pub async fn an_operator_speaks_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    let check = stored(store, shop, Product::SecureSna).await;
    let step = silent_sample::set_out(&check, "23410");
    store.set_out(step.clone()).await.unwrap();
    let decisions: Vec<_> = (0..20).map(|_| silent_sample::decision()).collect();
    let attempts =
        decisions.iter().zip(stores.iter().cycle()).map(|(decision, store)| store.decide(check.id, decision.clone()));
    let decided: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> = decisions.iter().zip(decided).filter(|(_, is_kept)| *is_kept).collect();
    assert_eq!(winners.len(), 1);
    let before = journey(store, &check).await;
    assert_eq!(before.progress.as_ref().unwrap().decision.as_ref(), Some(winners[0].0));

    // What was said stays: the device can neither come back once more nor set out again.
    assert_eq!(store.come_back(check.id, step.ticket).await.unwrap(), None);
    assert!(!store.set_out(silent_sample::set_out(&check, "23420")).await.unwrap());
    assert!(!store.decide(check.id, silent_sample::decision()).await.unwrap());
    assert_eq!(journey(store, &check).await, before);
    assert_eq!(counted(store, (acme, shop)).await, looked_at(&[found(store, &check).await]));
}

pub async fn wrong_codes_are_counted(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let check = stored(&*bench.store, ProjectId(sample::uuid()), Product::Discovery).await;
    let attempts = stores.iter().cycle().take(50).map(|store| store.count_wrong_code(check.id));
    let counts: BTreeSet<_> = join_all(attempts).await.into_iter().map(|count| count.unwrap().unwrap()).collect();
    assert_eq!(counts, (1..=50).collect(), "each counts");
    assert_eq!(journey(&*bench.store, &check).await.progress.unwrap().wrong_codes, 50);
}

pub async fn nothing_is_left_of_a_journey_when_its_check_ends(bench: &Bench) {
    let store = &*bench.store;
    let shop = ProjectId(sample::uuid());
    let at = sample::later(20);
    for (product, number) in PRODUCTS.into_iter().flat_map(|product| [(product, 0), (product, 1), (product, 2)]) {
        let check = stored(store, shop, product).await;
        let step = silent_sample::set_out(&check, "23410");
        store.set_out(step.clone()).await.unwrap();
        let check = found(store, &check).await;
        let (ending, ended) = check_sample::ending(match number {
            0 => check.clone().expire().unwrap(),
            1 => check.clone().fail(ErrorCode::MnoTimeout, at).unwrap(),
            _ => check.clone().redeem(silent_sample::proof(product), at).unwrap(),
        });
        assert_eq!(store.conclude(ending.clone(), None).await.unwrap(), Recorded::Now { was_pending: true });
        assert_eq!(found(store, &check).await, ended);
        let record = JourneyRecord { check: ended.clone().map(AnyVerdict::from), progress: None };
        assert_eq!(journey(store, &check).await, record);

        assert_eq!(store.come_back(check.id, step.ticket).await.unwrap(), None);
        assert!(!store.set_out(silent_sample::set_out(&check, "23420")).await.unwrap());
        assert!(!store.decide(check.id, silent_sample::decision()).await.unwrap());
        assert_eq!(store.count_wrong_code(check.id).await.unwrap(), None);
        assert_eq!(store.conclude(ending, None).await.unwrap(), Recorded::AlreadyConcluded);
        assert_eq!(journey(store, &check).await, record, "nothing has changed");
    }
}

/// The end was made from a reading that is older than the last step.
pub async fn counters_follow_a_device_from_network_to_network(bench: &Bench) {
    let store = &*bench.store;
    let (acme, shop) = project(store).await;
    let mut checks = Vec::new();
    for (product, networks) in PRODUCTS.into_iter().flat_map(|product| {
        [(product, &[][..]), (product, &["23420"]), (product, &["23410", "310004"]), (product, &["23420", "23410"])]
    }) {
        let check = stored(store, shop, product).await;
        for network in networks {
            assert!(store.set_out(silent_sample::set_out(&check, network)).await.unwrap());
        }
        let at = sample::later(9);
        let (ending, _) = check_sample::ending(check.clone().redeem(silent_sample::proof(product), at).unwrap());
        let was_pending = !networks.is_empty();
        assert_eq!(store.conclude(ending, None).await.unwrap(), Recorded::Now { was_pending });
        let ended = found(store, &check).await;
        let last = networks.last().map(|network| network.parse().unwrap());
        assert_eq!(ended.network, last.or(check.network));
        checks.push(ended);
    }
    assert_eq!(counted(store, (acme, shop)).await, looked_at(&checks));
}

/// Steps and ends of the same checks, all at once, from two nodes.
pub async fn counters_agree_with_checks_that_end_while_devices_set_out(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let (acme, shop) = project(&*bench.store).await;
    let mut checks = Vec::new();
    for number in 0..20 {
        checks.push(stored(&*bench.store, shop, PRODUCTS[number % 2]).await);
    }
    let race = checks.iter().enumerate().map(|(number, check)| {
        let (one, other) = (&stores[number % 2], &stores[1 - number % 2]);
        let steps = ["23420", "23410", "310004"].map(|network| one.set_out(silent_sample::set_out(check, network)));
        let (ending, _) = check_sample::ending(check.clone().expire().unwrap());
        async move {
            let end = async { if number % 4 == 0 { None } else { Some(other.conclude(ending, None).await.unwrap()) } };
            let (steps, recorded) = tokio::join!(join_all(steps), end);
            assert!(recorded.is_none_or(|recorded| matches!(recorded, Recorded::Now { .. })));
            assert!(steps.iter().all(Result::is_ok), "{steps:?}");
        }
    });
    join_all(race).await;
    for check in &mut checks {
        *check = found(&*bench.store, check).await;
    }
    assert_eq!(counted(&*bench.store, (acme, shop)).await, looked_at(&checks));
}

pub async fn a_check_is_of_one_product(bench: &Bench) {
    let store = &*bench.store;
    let shop = ProjectId(sample::uuid());
    let sms = check_sample::stored(store, shop).await.map(AnyVerdict::from);
    let mut checks = vec![sms];
    for product in PRODUCTS {
        checks.push(stored(store, shop, product).await.map(AnyVerdict::from));
    }
    let late = sample::later(600);
    for check in &checks {
        for other in &checks {
            let found = store.find_check(shop, other.product, check.id).await.unwrap();
            let expected = if other.product == check.product { Found::Mine(check.clone()) } else { Found::Nothing };
            assert_eq!(found, expected);
        }
        let stranger = ProjectId(sample::uuid());
        assert_eq!(store.find_check(stranger, check.product, check.id).await.unwrap(), Found::SomeoneElses);
        let listed = check_sample::listed(store, shop, check.product, None, sample::whole()).await.unwrap();
        assert_eq!((listed.total_items, listed.items), (1, vec![check.clone()]));
        assert_eq!(store.overdue_of(shop, check.product, late, 9).await.unwrap(), std::slice::from_ref(check));
        let before = check.expires_at - SignedDuration::from_millis(1);
        assert_eq!(store.overdue_of(shop, check.product, before, 9).await.unwrap(), []);
    }
    let overdue: BTreeSet<_> = store.overdue(late, 9).await.unwrap().into_iter().map(|check| check.id).collect();
    assert_eq!(overdue, checks.iter().map(|check| check.id).collect(), "time ends them all");
}

/// Its hash and tail are those of a claimed number in the database, and nobody takes them for one.
pub async fn a_discovered_number_is_kept_with_its_check(bench: &Bench) {
    let store = &*bench.store;
    let ended = silent_sample::redeemed(store, ProjectId(sample::uuid()), Product::Discovery).await;
    let Some(Proof::Number(number)) = ended.verdict() else { panic!() };
    assert!(number.number.is_some() && number.sealed.is_some());
    let found = found(store, &ended).await;
    assert_eq!(found, ended);
    assert_eq!(found.claimed, None);
}
