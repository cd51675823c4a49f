//! What windows see, and what they do not.

use jiff::Timestamp;
use ringtrue_domain::{
    account::AccountId,
    lifecycle::{Check, CheckId, Lifecycle, Open, Outcome},
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
        state: Lifecycle::Open(Open::Accepted),
    }
}

fn expired(number: u128, product: Product, at: i64) -> AnyCheck {
    let state = Lifecycle::Concluded { outcome: Outcome::Expired, at: second(at) };
    AnyCheck { state, ..check(number, product) }
}

fn newest(products: Vec<(Product, Vec<AnyCheck>)>) -> Newest {
    let mut newest = Newest::default();
    for (product, checks) in products {
        newest.add(product, checks);
    }
    newest
}

#[test]
fn what_came_and_what_changed_is_told_in_its_order() {
    const SMS: Product = Product::ReverseSms;
    const SNA: Product = Product::SecureSna;
    let before = newest(vec![(SMS, vec![check(3, SMS), check(2, SMS), check(1, SMS)])]);
    let now = newest(vec![
        (SMS, vec![check(5, SMS), expired(3, SMS, 4), expired(2, SMS, 6), check(1, SMS)]),
        (SNA, vec![check(4, SNA)]),
    ]);
    let told: Vec<_> = now.since(&before).iter().map(|news| (news.check.id.0.as_u128(), news.is_new)).collect();
    assert_eq!(told, [(3, false), (5, true), (2, false)], "what was there when its product came is not new");
    let shown: Vec<_> = now.by_change().iter().map(|check| check.id.0.as_u128()).collect();
    assert_eq!(shown, [2, 5, 4, 3, 1]);
    assert!(now.since(&now).is_empty());
}

#[tokio::test]
async fn a_slow_window_is_told_how_much_it_has_missed() {
    let live = Live::default();
    let project = ProjectId(Uuid::from_u128(1));
    let (feed, news) = live.join(project);
    let seat = live
        .seats
        .take(Viewer {
            account: AccountId(Uuid::from_u128(2)),
            is_admin: false,
            workspace: WorkspaceId(Uuid::from_u128(3)),
            session: TokenHash([4; 32]),
        })
        .unwrap();
    let mut window = Window { feed: Arc::clone(&feed), news, seat };
    assert_eq!(live.watched().len(), 1);
    for number in 0..300 {
        let check = Arc::new(check(number, Product::Discovery));
        feed.news.send(Arc::new(News { check, is_new: true })).unwrap();
    }
    assert!(matches!(window.next().await, Some(Seen::Missed(44))));
    let Some(Seen::News(news)) = window.next().await else { panic!("nothing is left") };
    assert_eq!(news.check.id.0.as_u128(), 44);
    drop(window);
    assert!(live.watched().is_empty(), "nobody watches any more");
}
