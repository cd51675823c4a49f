//! Tests of updates and live subscriptions.

use jiff::Timestamp;
use ringtrue_domain::{
    account::AccountId,
    lifecycle::{Check, CheckId, CheckOutcome, Lifecycle, OpenState},
    tenancy::{Mode, WorkspaceId},
};
use uuid::Uuid;

use super::*;
use crate::ports::TokenHash;

fn second(number: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + number).unwrap()
}

fn check(number: u128, product: Product) -> AnyCheck {
    Check {
        id: CheckId(Uuid::from_u128(number)),
        project: ProjectId(Uuid::from_u128(1)),
        product,
        mode: Mode::Sandbox,
        network: None,
        claimed: None,
        reference: None,
        callback_url: None,
        redirect_url: None,
        created_at: second(i64::try_from(number).unwrap()),
        expires_at: second(1_000),
        state: Lifecycle::Open(OpenState::Accepted),
    }
}

fn expired(number: u128, product: Product, at: i64) -> AnyCheck {
    let state = Lifecycle::Concluded { outcome: CheckOutcome::Expired, at: second(at) };
    AnyCheck { state, ..check(number, product) }
}

fn newest(products: Vec<(Product, Vec<AnyCheck>)>) -> NewestChecks {
    let mut newest = NewestChecks::default();
    for (product, checks) in products {
        newest.add(product, checks);
    }
    newest
}

#[test]
fn updates_are_ordered_by_change() {
    const SMS: Product = Product::ReverseSms;
    const SNA: Product = Product::SecureSna;
    let before = newest(vec![(SMS, vec![check(3, SMS), check(2, SMS), check(1, SMS)])]);
    let now = newest(vec![
        (SMS, vec![check(5, SMS), expired(3, SMS, 4), expired(2, SMS, 6), check(1, SMS)]),
        (SNA, vec![check(4, SNA)]),
    ]);
    let updates: Vec<_> =
        now.updates_since(&before).iter().map(|update| (update.check.id.0.as_u128(), update.is_new)).collect();
    assert_eq!(
        updates,
        [(3, false), (5, true), (2, false)],
        "checks of a product that was just enabled are not updates"
    );
    let shown: Vec<_> = now.most_recently_changed().iter().map(|check| check.id.0.as_u128()).collect();
    assert_eq!(shown, [2, 5, 4, 3, 1]);
    assert!(now.updates_since(&now).is_empty());
}

#[tokio::test]
async fn slow_subscription_receives_the_number_of_missed_updates() {
    let live = LiveFeeds::default();
    let project = ProjectId(Uuid::from_u128(1));
    let (feed, updates) = live.subscribe(project);
    let permit = live
        .viewer_limit
        .acquire(Viewer {
            account: AccountId(Uuid::from_u128(2)),
            is_admin: false,
            workspace: WorkspaceId(Uuid::from_u128(3)),
            session: TokenHash([4; 32]),
        })
        .unwrap();
    let mut subscription = LiveSubscription { feed: Arc::clone(&feed), updates, permit };
    assert_eq!(live.watched_feeds().len(), 1);
    for number in 0..300 {
        let check = Arc::new(check(number, Product::Discovery));
        feed.updates.send(Arc::new(CheckUpdate { check, is_new: true })).unwrap();
    }
    assert!(matches!(subscription.next().await, Some(LiveEvent::Missed(44))));
    let Some(LiveEvent::Updated(update)) = subscription.next().await else { panic!("no update is left") };
    assert_eq!(update.check.id.0.as_u128(), 44);
    drop(subscription);
    assert!(live.watched_feeds().is_empty(), "no subscription is left");
}
