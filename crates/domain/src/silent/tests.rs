//! Tests of the conclusion of silent checks, and of the validation of device locations.

use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::{
    lifecycle::{CheckId, CheckStatus, Lifecycle, OpenState},
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
        verification: None,
        redirect_url: None,
        created_at: at("2026-11-14T09:30:00Z"),
        expires_at: at("2026-11-14T09:32:00Z"),
        state: Lifecycle::Open(OpenState::Accepted),
    }
}

#[test]
fn code_redeemed_in_time_reveals_the_verdict() {
    let redeemed = check().conclude_with_verdict(OperatorVerdict::Match(true), at("2026-11-14T09:31:59.999Z")).unwrap();
    assert_eq!(redeemed.check().verdict(), Some(&OperatorVerdict::Match(true)));
}

#[test]
fn outcome_after_the_deadline_expires_the_check() {
    let late = at("2026-11-14T09:32:00Z");
    assert_eq!(
        check().conclude_with_verdict(OperatorVerdict::Match(true), late).unwrap().check().status(),
        CheckStatus::Expired
    );
    assert_eq!(
        check().conclude_with_error(ErrorCode::MnoTimeout, late).unwrap().check().status(),
        CheckStatus::Expired
    );
}

#[test]
fn check_is_concluded_once() {
    let ended = check().conclude_with_error(ErrorCode::MnoTimeout, at("2026-11-14T09:31:00Z")).unwrap().into_check();
    assert_eq!(ended.error_code(), Some(ErrorCode::MnoTimeout));
    assert_eq!(
        ended.conclude_with_verdict(OperatorVerdict::Match(true), at("2026-11-14T09:31:01Z")),
        Err(AlreadyConcluded)
    );
}

#[test]
fn device_address_must_match_number_and_announced_address() {
    let id = |text: &str| text.parse::<NetworkId>().unwrap();
    let (ours, brand, other) = (id("23410"), id("23411"), id("23420"));
    let mobile = AddressNetwork::Mobile(ours.clone());
    let here = "203.0.113.7";
    // Columns: network of the device, network of the number, announced address, expected result.
    for (device_network, claimed, announced, expected) in [
        (&mobile, None, None, Ok(())),
        (&mobile, Some(&ours), Some(here), Ok(())),
        (&mobile, Some(&ours), Some("::ffff:203.0.113.7"), Ok(())),
        (&mobile, Some(&brand), None, Ok(())),
        (&mobile, Some(&other), None, Err(ErrorCode::IpMsisdnMismatch)),
        (&mobile, Some(&other), Some("203.0.113.8"), Err(ErrorCode::IpMsisdnMismatch)),
        (&mobile, Some(&ours), Some("203.0.113.8"), Err(ErrorCode::IpMismatch)),
        (&AddressNetwork::NotMobile, Some(&ours), Some("203.0.113.8"), Err(ErrorCode::NotMobileIp)),
        (&AddressNetwork::Unknown, None, None, Err(ErrorCode::MnoNotSupported)),
    ] {
        let announced = announced.map(|address| address.parse().unwrap());
        let comparison = DeviceAddressComparison {
            ip: here.parse().unwrap(),
            network: device_network,
            announced_ip: announced,
            claimed_network: claimed,
        };
        let network = comparison.resolve_network(|claimed, device| (claimed, device) == (&brand, &ours));
        assert_eq!(network, expected.map(|()| ours.clone()), "{comparison:?}");
    }
}
