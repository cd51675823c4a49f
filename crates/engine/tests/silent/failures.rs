//! Tests failures during the redirects of a silent check.

use ringtrue_domain::{
    lifecycle::{CheckStatus, ErrorCode},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    ports::silent::SilentResult,
    silent::{CreateSilent, RedeemError, RedirectFailure, RedirectOutcome},
};

use crate::{
    operators::number,
    world::{
        Device, NOT_MOBILE, ON_BRAND, ON_FORBIDDEN, ON_OTHER, ON_OURS, ON_UNCONNECTED, OURS, UNKNOWN_ADDRESS, World,
        expect_failure,
    },
};

/// Asserts that the device and the API client get this error code, and that the conclusion is final.
async fn assert_failed(device: &Device<'_>, end: RedirectOutcome, code: ErrorCode) {
    let may_use_reverse_sms = end.may_use_reverse_sms;
    assert_eq!(expect_failure(end), RedirectFailure::Failed(code));
    let check = device.check().await;
    assert_eq!((check.status(), check.error_code()), (CheckStatus::Error, Some(code)));
    match device.redeem("anything").await {
        Err(RedeemError::AlreadyCompleted { error_code, may_use_reverse_sms: for_client }) => {
            assert_eq!((error_code, for_client), (Some(code), may_use_reverse_sms));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(expect_failure(device.open_url_and_finish(ON_OURS).await), RedirectFailure::AlreadyCompleted);
    assert_eq!(device.check().await, check, "the conclusion is final");
}

#[tokio::test]
async fn device_address_must_match() {
    let world = World::new().await;
    let (sna, discovery) = (Product::SecureSna, Product::Discovery);
    // Each row: product, announced address, address of the device, expected error code.
    for (product, announced, from, code) in [
        (sna, None, NOT_MOBILE, ErrorCode::NotMobileIp),
        (sna, None, UNKNOWN_ADDRESS, ErrorCode::MnoNotSupported),
        (sna, None, ON_OTHER, ErrorCode::IpMsisdnMismatch),
        (sna, Some(ON_OTHER), ON_OTHER, ErrorCode::IpMsisdnMismatch),
        (sna, Some(ON_BRAND), ON_OURS, ErrorCode::IpMismatch),
        (sna, Some("2001:db8::1"), ON_OURS, ErrorCode::IpMismatch),
        (discovery, None, NOT_MOBILE, ErrorCode::NotMobileIp),
        (discovery, None, UNKNOWN_ADDRESS, ErrorCode::MnoNotSupported),
        (discovery, Some(ON_OTHER), ON_OURS, ErrorCode::IpMismatch),
        (discovery, None, ON_UNCONNECTED, ErrorCode::MnoRedirectUnsupported),
        (discovery, None, ON_FORBIDDEN, ErrorCode::MnoNotSupported),
    ] {
        let request = CreateSilent { device_ip: announced.map(str::to_owned), ..CreateSilent::default() };
        let device = world.create_in(Mode::Live, product, request).await;
        let end = device.open_url_and_finish(from).await;
        assert_eq!(end.may_use_reverse_sms, product == sna, "the number's network supports Reverse SMS");
        assert_failed(&device, end, code).await;
    }
    assert!(world.ours.calls().requests.is_empty(), "no operator was contacted");
    assert!(world.other.calls().requests.is_empty());
}

#[tokio::test]
async fn network_without_connector_is_unsupported() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    world.engine.networks().set_silent_routes(vec![]);
    let end = device.open_url_and_finish(ON_OURS).await;
    assert_failed(&device, end, ErrorCode::MnoRedirectUnsupported).await;
}

#[tokio::test]
async fn result_of_another_operation_is_an_error() {
    let world = World::new().await;
    for (product, reply) in [(Product::SecureSna, number(OURS)), (Product::Discovery, SilentResult::Match(true))] {
        world.ours.set_result(Ok(reply));
        let device = world.create(product).await;
        let state = device.begin_redirect().await;
        let end = device.return_from_operator(&state).await.unwrap();
        assert_failed(&device, end, ErrorCode::MnoResponseError).await;
    }
}

/// The check fails for another reason while the operator responds. That failure stays recorded, and the device gets it
/// instead of the operator's error.
#[tokio::test]
async fn first_failure_concludes_the_check() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let state = device.begin_redirect().await;
    let (engine, id, token) = (world.engine.clone(), device.id, device.token.clone());
    world.ours.set_result(Err(ErrorCode::MnoServerError));
    world.ours.run_during_call(async move {
        let visit = ringtrue_engine::silent::DeviceRequest {
            product: Product::SecureSna,
            check: id,
            token: &token,
            sim: None,
            address: crate::world::address(NOT_MOBILE),
        };
        engine.silent.open_device_url(visit).await.unwrap();
    });
    assert_eq!(expect_failure(device.return_from_operator(&state).await.unwrap()), RedirectFailure::AlreadyCompleted);
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::NotMobileIp));
}
