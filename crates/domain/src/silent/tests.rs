//! What ends a silent check, and which devices are let through.

use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::{
    lifecycle::{CheckId, Lifecycle, Open, Status},
    product::Product,
    tenancy::{Mode, ProjectId},
};

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn check() -> SilentCheck {
    Check {
        id: CheckId(Uuid::from_u128(7)),
        project: ProjectId(Uuid::from_u128(1)),
        product: Product::SecureSna,
        mode: Mode::Live,
        network: None,
        claimed: None,
        reference: None,
        callback_url: None,
        redirect_url: None,
        created_at: at("2026-11-14T09:30:00Z"),
        expires_at: at("2026-11-14T09:32:00Z"),
        state: Lifecycle::Open(Open::Accepted),
    }
}

#[test]
fn a_code_redeemed_in_time_reveals_the_proof() {
    let redeemed = check().redeem(Proof::Match(true), at("2026-11-14T09:31:59.999Z")).unwrap();
    assert_eq!(redeemed.check().verdict(), Some(&Proof::Match(true)));
}

#[test]
fn the_window_covers_redemption_and_faults() {
    let late = at("2026-11-14T09:32:00Z");
    assert_eq!(check().redeem(Proof::Match(true), late).unwrap().check().status(), Status::Expired);
    assert_eq!(check().fail(ErrorCode::MnoTimeout, late).unwrap().check().status(), Status::Expired);
}

#[test]
fn a_check_ends_once() {
    let ended = check().fail(ErrorCode::MnoTimeout, at("2026-11-14T09:31:00Z")).unwrap().into_check();
    assert_eq!(ended.error_code(), Some(ErrorCode::MnoTimeout));
    assert_eq!(ended.redeem(Proof::Match(true), at("2026-11-14T09:31:01Z")), Err(AlreadyConcluded));
}

#[test]
fn a_device_must_come_from_the_right_place() {
    let id = |text: &str| text.parse::<NetworkId>().unwrap();
    let (ours, brand, other) = (id("23410"), id("23411"), id("23420"));
    let mobile = Located::Mobile(ours.clone());
    let here = "203.0.113.7";
    // Where it is, the network of its number, the announced address, and what comes of it.
    for (located, claimed, announced, expected) in [
        (&mobile, None, None, Ok(())),
        (&mobile, Some(&ours), Some(here), Ok(())),
        (&mobile, Some(&ours), Some("::ffff:203.0.113.7"), Ok(())),
        (&mobile, Some(&brand), None, Ok(())),
        (&mobile, Some(&other), None, Err(ErrorCode::IpMsisdnMismatch)),
        (&mobile, Some(&other), Some("203.0.113.8"), Err(ErrorCode::IpMsisdnMismatch)),
        (&mobile, Some(&ours), Some("203.0.113.8"), Err(ErrorCode::IpMismatch)),
        (&Located::NotMobile, Some(&ours), Some("203.0.113.8"), Err(ErrorCode::NotMobileIp)),
        (&Located::Unknown, None, None, Err(ErrorCode::MnoNotSupported)),
    ] {
        let announced = announced.map(|address| address.parse().unwrap());
        let sighting = Sighting { address: here.parse().unwrap(), located, announced, claimed };
        let network = sighting.network(|claimed, device| (claimed, device) == (&brand, &ours));
        assert_eq!(network, expected.map(|()| ours.clone()), "{sighting:?}");
    }
}
