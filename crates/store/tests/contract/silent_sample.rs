//! Checks that wait for a device, and its steps.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::time_ordered,
    lifecycle::{Check, CheckId, ClaimedNumber, DiscoveredNumber, NumberHash, Sealed},
    product::Product,
    reverse_sms::NumberGuard,
    silent::{Proof, SilentCheck},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{Admitted, Awaits, Decision, JourneyRecord, NewCheck, Recorded, SetOut, Store, TokenHash};

use crate::{check_sample, sample};

/// An open check, unlike any other, that waits for two minutes. Discovery has neither number nor network yet.
pub fn check(project: ProjectId, product: Product, created_at: Timestamp) -> SilentCheck {
    let is_claimed = product == Product::SecureSna;
    let check = check_sample::check(project, created_at).map(|_| Proof::Match(true));
    Check {
        id: CheckId(time_ordered(created_at, sample::random())),
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
        awaits: Awaits::Device { brief: sealed("brief") },
        guard: Some(NumberGuard::default()),
        completion: None,
    }
}

/// Stores a check that was created now.
pub async fn stored(store: &dyn Store, project: ProjectId, product: Product) -> SilentCheck {
    let check = check(project, product, sample::now());
    assert_eq!(store.create_check(new(check.clone())).await.unwrap(), Admitted::Stored);
    check
}

pub async fn journey(store: &dyn Store, check: &SilentCheck) -> JourneyRecord {
    store.journey(check.id).await.unwrap().expect("a check")
}

/// The device is sent to this network, a second after the check was made.
pub fn set_out(check: &SilentCheck, network: &str) -> SetOut {
    SetOut {
        check: check.id,
        network: network.parse().unwrap(),
        ticket: TokenHash(sample::random()),
        leg: Sealed(sample::random::<40>().to_vec()),
        at: check.created_at + SignedDuration::from_secs(1),
    }
}

pub fn decision() -> Decision {
    Decision { code: TokenHash(sample::random()), proof: Sealed(sample::random::<40>().to_vec()) }
}

/// What is found out of a device, by the product.
pub fn proof(product: Product) -> Proof {
    if product == Product::SecureSna {
        return Proof::Match(true);
    }
    let number = ClaimedNumber { hash: NumberHash(sample::random()), tail: "07".parse().unwrap() };
    Proof::Number(DiscoveredNumber { number: Some(number), sealed: Some(sealed("number")) })
}

/// Stores a check whose code was redeemed, with a callback.
pub async fn redeemed(store: &dyn Store, project: ProjectId, product: Product) -> SilentCheck {
    let check = stored(store, project, product).await;
    let at = check.created_at + SignedDuration::from_secs(7);
    let (ending, ended) = check_sample::ending(check.redeem(proof(product), at).unwrap());
    let recorded = store.conclude(ending, Some(check_sample::callback(sample::now()))).await.unwrap();
    assert_eq!(recorded, Recorded::Now { was_pending: false });
    ended
}

fn sealed(what: &str) -> Sealed {
    Sealed(format!("sealed {what}").into_bytes())
}
