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
use strum::VariantArray as _;

use crate::{
    operators::number,
    world::{
        Device, NOT_MOBILE, ON_BRAND, ON_FORBIDDEN, ON_OTHER, ON_OURS, ON_UNCONNECTED, OURS, PRODUCTS, UNKNOWN_ADDRESS,
        World, expect_failure,
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
async fn announced_address_is_canonicalized() {
    let world = World::new().await;
    for announced in [ON_OURS, "::ffff:203.0.113.10", "::ffff:cb00:710a"] {
        let request = CreateSilent { device_ip: Some(announced.to_owned()), ..CreateSilent::default() };
        world.create_in(Mode::Live, Product::Discovery, request).await.begin_redirect().await;
    }
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
async fn operator_error_concludes_the_check() {
    let world = World::new().await;
    for &mode in Mode::VARIANTS {
        let operator = world.operator(mode);
        for product in PRODUCTS {
            for code in [
                ErrorCode::MnoTimeout,
                ErrorCode::MnoUserNotFound,
                ErrorCode::MnoResponseError,
                ErrorCode::MnoServerError,
                ErrorCode::MnoNoDataAvailable,
                ErrorCode::MnoNotSupported,
                ErrorCode::InternalError,
            ] {
                operator.set_authorization_result(Err(code));
                let device = world.create_in(mode, product, CreateSilent::default()).await;
                let end = device.open_url_and_finish(ON_OURS).await;
                assert_failed(&device, end, code).await;

                operator.set_authorization_result(Ok(()));
                operator.set_result(Err(code));
                let device = world.create_in(mode, product, CreateSilent::default()).await;
                let state = device.begin_redirect().await;
                let end = device.return_from_operator(&state).await.unwrap();
                assert_failed(&device, end, code).await;
            }
        }
    }
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

#[tokio::test]
async fn sandbox_test_addresses_simulate_locations() {
    let world = World::new().await;
    for product in PRODUCTS {
        for (announced, code) in [
            ("203.0.113.0", None),
            ("203.0.113.127", None),
            ("::ffff:203.0.113.9", None),
            (ON_OURS, None),
            ("203.0.113.128", Some(ErrorCode::MnoNotSupported)),
            ("203.0.113.255", Some(ErrorCode::MnoNotSupported)),
            ("198.51.100.0", Some(ErrorCode::NotMobileIp)),
            ("198.51.100.255", Some(ErrorCode::NotMobileIp)),
            ("192.0.2.7", Some(ErrorCode::MnoNotSupported)),
            ("100.0.0.7", None),
            ("100.0.0.8", Some(ErrorCode::IpMismatch)),
        ] {
            let request = CreateSilent { device_ip: Some(announced.to_owned()), ..CreateSilent::default() };
            let device = world.create_in(Mode::Sandbox, product, request).await;
            // In the sandbox, the developer may open the URL from any address.
            let step = device.open_url_from("100.0.0.7").await;
            match code {
                None => drop(crate::world::expect_state(step)),
                Some(code) => {
                    assert!(matches!(step, Ok(ringtrue_engine::silent::NextStep::Finish(_))), "{announced}");
                    assert_eq!(device.check().await.error_code(), Some(code), "{announced}");
                }
            }
        }
    }
    assert!(world.ours.calls().requests.is_empty(), "sandbox checks do not contact real operators");
}
