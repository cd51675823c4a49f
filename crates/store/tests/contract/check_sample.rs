//! Sample checks.

use std::fmt::Debug;

use jiff::Timestamp;
use ringtrue_domain::{
    id::uuid_v7,
    lifecycle::{
        AnyCheck, AnyVerdict, Check, CheckConclusion, CheckId, Concluded, Lifecycle, NumberHash, OpenState, Sealed,
        StoredNumber, Verdict,
    },
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{HashedSender, NumberLimit, ReverseSmsCheck, SenderMatch},
    search::Filter,
    tenancy::{Mode, ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    callbacks::NewCallback,
    checks::{CheckQuery, CreateCheckOutcome, Expectation, NewCheck},
    combined::Store,
    hashes::CodeHash,
    search_limit::SearchLimiter,
    store::{StoreError, TenantLookup},
};

use crate::sample;

pub fn receiver() -> Msisdn {
    Msisdn::parse("+447700900000", Mode::Live).unwrap()
}

/// Returns a unique open check that expires after five minutes.
pub fn check(project: ProjectId, created_at: Timestamp) -> ReverseSmsCheck {
    Check {
        id: CheckId(uuid_v7(created_at, sample::random())),
        project,
        product: Product::ReverseSms,
        mode: Mode::Live,
        network: "23410".parse().ok(),
        claimed: Some(StoredNumber { hash: NumberHash(sample::random()), tail: "23".parse().unwrap() }),
        reference: "order 7".parse().ok(),
        callback_url: Some(Sealed(b"sealed url".to_vec())),
        verification: None,
        redirect_url: None,
        created_at,
        expires_at: created_at + jiff::SignedDuration::from_secs(300),
        state: Lifecycle::Open(OpenState::Accepted),
    }
}

pub fn new(check: ReverseSmsCheck) -> NewCheck {
    let mut code: [u8; 32] = sample::random();
    code[30..].copy_from_slice(&check.id.bucket().number().to_be_bytes());
    NewCheck {
        check: check.map(Into::into),
        expectation: Expectation::Sms { receiver: receiver(), code: CodeHash(code) },
        number_limit: Some(NumberLimit::default()),
        idempotent_response: None,
        verification: None,
    }
}

pub fn code(new: &NewCheck) -> CodeHash {
    match new.expectation {
        Expectation::Sms { code, .. } => code,
        Expectation::Device { .. } | Expectation::DeviceOfStep => panic!("not a Reverse SMS check"),
    }
}

pub async fn store_check(store: &dyn Store, project: ProjectId) -> ReverseSmsCheck {
    let check = check(project, sample::now());
    assert_eq!(store.create_check(new(check.clone())).await.unwrap(), CreateCheckOutcome::Created);
    check
}

/// Lists a page of a project's checks.
pub async fn list(
    store: &dyn Store,
    project: ProjectId,
    product: Product,
    filter: Option<Filter>,
    page: PageRequest,
) -> Result<Page<AnyCheck>, StoreError> {
    let query = CheckQuery { workspace: WorkspaceId(project.0), project, product, filter, created_after: None, page };
    store.list_checks(query, &SearchLimiter::default()).await
}

pub async fn find<V>(store: &dyn Store, check: &Check<V>) -> Check<V>
where
    V: TryFrom<AnyVerdict>,
    V::Error: Debug,
{
    match store.find_check(check.project, check.product, check.id).await.unwrap() {
        TenantLookup::Found(check) => check.try_map(V::try_from).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Concludes a check by an SMS from the claimed number, or from another number if `is_match` is false.
pub fn received(check: &ReverseSmsCheck, is_match: bool) -> Concluded<SenderMatch> {
    let claimed = check.claimed.map(|claimed| claimed.hash).unwrap();
    let sender = if is_match { claimed } else { NumberHash([0; 32]) };
    let at = check.created_at + jiff::SignedDuration::from_secs(7);
    check.clone().evaluate_sms(HashedSender::Number(sender), at).unwrap()
}

/// Returns the conclusion to store, and the check that a later read must return.
pub fn conclusion<V: Verdict + Clone>(concluded: Concluded<V>) -> (CheckConclusion, Check<V>) {
    (CheckConclusion::from(&concluded), concluded.into_check())
}

pub fn callback(due_at: Timestamp) -> NewCallback {
    NewCallback { url: Sealed(b"sealed url".to_vec()), body: Sealed(b"sealed body".to_vec()), due_at }
}

/// Stores a concluded check with a callback.
pub async fn concluded(store: &dyn Store, project: ProjectId, due_at: Timestamp) -> ReverseSmsCheck {
    let check = store_check(store, project).await;
    conclude(store, &check, due_at).await
}

/// Concludes a check with a callback.
pub async fn conclude(store: &dyn Store, check: &ReverseSmsCheck, due_at: Timestamp) -> ReverseSmsCheck {
    let (conclusion, concluded) = conclusion(received(check, true));
    store.conclude(conclusion, Some(callback(due_at))).await.unwrap();
    concluded
}
