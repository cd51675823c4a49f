//! Checks to store.

use std::fmt::Debug;

use jiff::Timestamp;
use ringtrue_domain::{
    id::time_ordered,
    lifecycle::{
        AnyCheck, AnyVerdict, Check, CheckId, ClaimedNumber, Concluded, Ending, Lifecycle, NumberHash, Open, Sealed,
        Verdict,
    },
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{NumberGuard, ReceivedFrom, ReverseSmsCheck, SenderMatch},
    search::Filter,
    tenancy::{Mode, ProjectId, WorkspaceId},
};
use ringtrue_engine::{
    ports::{Admitted, Awaits, CheckQuery, CodeHash, Found, NewCallback, NewCheck, Store, StoreError},
    search_limit::SearchLimiter,
};

use crate::sample;

pub fn receiver() -> Msisdn {
    Msisdn::parse("+447700900000", Mode::Live).unwrap()
}

/// An open check, unlike any other, that waits for five minutes.
pub fn check(project: ProjectId, created_at: Timestamp) -> ReverseSmsCheck {
    Check {
        id: CheckId(time_ordered(created_at, sample::random())),
        project,
        product: Product::ReverseSms,
        mode: Mode::Live,
        network: "23410".parse().ok(),
        claimed: Some(ClaimedNumber { hash: NumberHash(sample::random()), tail: "23".parse().unwrap() }),
        reference: "order 7".parse().ok(),
        callback_url: Some(Sealed(b"sealed url".to_vec())),
        redirect_url: None,
        created_at,
        expires_at: created_at + jiff::SignedDuration::from_secs(300),
        state: Lifecycle::Open(Open::Accepted),
    }
}

pub fn new(check: ReverseSmsCheck) -> NewCheck {
    NewCheck {
        check: check.map(Into::into),
        awaits: Awaits::Sms { receiver: receiver(), code: CodeHash(sample::random()) },
        guard: Some(NumberGuard::default()),
        completion: None,
    }
}

/// The code that a check waits for.
pub fn code(new: &NewCheck) -> CodeHash {
    match new.awaits {
        Awaits::Sms { code, .. } => code,
        Awaits::Device { .. } => panic!("it waits for no SMS"),
    }
}

/// Stores a check that was created now.
pub async fn stored(store: &dyn Store, project: ProjectId) -> ReverseSmsCheck {
    let check = check(project, sample::now());
    assert_eq!(store.create_check(new(check.clone())).await.unwrap(), Admitted::Stored);
    check
}

/// A page of a project's checks.
pub async fn listed(
    store: &dyn Store,
    project: ProjectId,
    product: Product,
    filter: Option<Filter>,
    page: PageRequest,
) -> Result<Page<AnyCheck>, StoreError> {
    let query = CheckQuery { workspace: WorkspaceId(project.0), project, product, filter, created_after: None, page };
    store.list_checks(query, &SearchLimiter::default()).await
}

/// A check as it is now.
pub async fn found<V>(store: &dyn Store, check: &Check<V>) -> Check<V>
where
    V: TryFrom<AnyVerdict>,
    V::Error: Debug,
{
    match store.find_check(check.project, check.product, check.id).await.unwrap() {
        Found::Mine(check) => check.try_map(V::try_from).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The end of a check whose SMS came from the claimed number, or from another.
pub fn received(check: &ReverseSmsCheck, is_match: bool) -> Concluded<SenderMatch> {
    let claimed = check.claimed.map(|claimed| claimed.hash).unwrap();
    let sender = if is_match { claimed } else { NumberHash([0; 32]) };
    let at = check.created_at + jiff::SignedDuration::from_secs(7);
    check.clone().receive(ReceivedFrom::Number(sender), at).unwrap().unwrap()
}

/// The end of a check, and the check as it is then.
pub fn ending<V: Verdict + Clone>(concluded: Concluded<V>) -> (Ending, Check<V>) {
    (Ending::from(&concluded), concluded.into_check())
}

pub fn callback(due_at: Timestamp) -> NewCallback {
    NewCallback { url: Sealed(b"sealed url".to_vec()), body: Sealed(b"sealed body".to_vec()), due_at }
}

/// Stores a check that has ended, with a callback.
pub async fn ended(store: &dyn Store, project: ProjectId, due_at: Timestamp) -> ReverseSmsCheck {
    let check = stored(store, project).await;
    let (ending, ended) = ending(received(&check, true));
    store.conclude(ending, Some(callback(due_at))).await.unwrap();
    ended
}
