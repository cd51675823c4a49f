//! Sample silent checks and redirects.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::uuid_v7,
    lifecycle::{Check, CheckId, DiscoveredNumber, NumberHash, Sealed, StoredNumber},
    product::Product,
    reverse_sms::NumberLimit,
    silent::{OperatorVerdict, SilentCheck},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    checks::{ConcludeOutcome, CreateCheckOutcome, Expectation, NewCheck},
    combined::Store,
    hashes::{BrowserHash, TokenHash},
    silent::{BeginRedirect, RedirectSessionRecord, SealedVerdict},
};

use crate::{check_sample, sample};

/// Returns a unique open check that expires after two minutes. A Discovery check has no number or network.
pub fn check(project: ProjectId, product: Product, created_at: Timestamp) -> SilentCheck {
    let is_claimed = product == Product::SecureSna;
    let check = check_sample::check(project, created_at).map(|_| OperatorVerdict::Match(true));
    Check {
        id: CheckId(uuid_v7(created_at, sample::random())),
        product,
        network: check.network.filter(|_| is_claimed),
        claimed: check.claimed.filter(|_| is_claimed),
        redirect_url: Some(sealed("redirect url")),
        expires_at: created_at + SignedDuration::from_secs(120),
        ..check
    }
}

pub fn new(check: SilentCheck) -> NewCheck {
    NewCheck {
        check: check.map(Into::into),
        expectation: Expectation::Device { input: sealed("input") },
        number_limit: Some(NumberLimit::default()),
        idempotent_response: None,
        verification: None,
    }
}

pub async fn store_check(store: &dyn Store, project: ProjectId, product: Product) -> SilentCheck {
    let check = check(project, product, sample::now());
    assert_eq!(store.create_check(new(check.clone())).await.unwrap(), CreateCheckOutcome::Created);
    check
}

pub async fn redirect_session(store: &dyn Store, check: &SilentCheck) -> RedirectSessionRecord {
    store.redirect_session(check.id).await.unwrap().expect("a check")
}

/// Returns a redirect to a network, one second after the check was created.
pub fn redirect(check: &SilentCheck, network: &str) -> BeginRedirect {
    BeginRedirect {
        check: check.id,
        network: network.parse().unwrap(),
        state_hash: TokenHash(sample::random()),
        pending_redirect: Sealed(sample::random::<40>().to_vec()),
        browser: Some(BrowserHash(sample::random())),
        at: check.created_at + SignedDuration::from_secs(1),
    }
}

pub fn sealed_verdict() -> SealedVerdict {
    SealedVerdict { code_hash: TokenHash(sample::random()), verdict: Sealed(sample::random::<40>().to_vec()) }
}

/// Returns an operator's verdict for a product.
pub fn verdict(product: Product) -> OperatorVerdict {
    if product == Product::SecureSna {
        return OperatorVerdict::Match(true);
    }
    let number = StoredNumber { hash: NumberHash(sample::random()), tail: "07".parse().unwrap() };
    OperatorVerdict::Number(DiscoveredNumber { number: Some(number), sealed: Some(sealed("number")) })
}

/// Stores a check that was concluded with an operator's verdict, and its callback.
pub async fn redeemed(store: &dyn Store, project: ProjectId, product: Product) -> SilentCheck {
    let check = store_check(store, project, product).await;
    let at = check.created_at + SignedDuration::from_secs(7);
    let (conclusion, concluded) = check_sample::conclusion(check.conclude_with_verdict(verdict(product), at).unwrap());
    let recorded = store.conclude(conclusion, Some(check_sample::callback(sample::now()))).await.unwrap();
    assert_eq!(recorded, ConcludeOutcome::Concluded { was_pending: false });
    concluded
}

fn sealed(content: &str) -> Sealed {
    Sealed(format!("sealed {content}").into_bytes())
}
