//! Tests of redirect sessions: a device goes to its operator and returns.

use ringtrue_domain::{
    lifecycle::{CheckStatus, ErrorCode},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    ports::{clock::Clock, silent::SilentResult},
    silent::{CreateSilent, DeviceRequest, RedirectError, RedirectFailure},
};
use strum::VariantArray as _;

use crate::{
    operators::{RecordedOperation, number},
    world::{
        ALSO_ON_OURS, ON_BRAND, ON_OTHER, ON_OURS, OTHER, OURS, PRODUCTS, START_TIME, World, address, expect_failure,
        expect_state,
    },
};

#[tokio::test]
async fn operator_gets_the_operation_of_the_product() {
    let world = World::new().await;
    for &mode in Mode::VARIANTS {
        for product in PRODUCTS {
            world.operator(mode).set_result(Ok(if product == Product::SecureSna {
                SilentResult::Match(true)
            } else {
                number(OURS)
            }));
            world.create_in(mode, product, CreateSilent::default()).await.obtain_code().await;
        }
        let seen = world.operator(mode).calls();
        let sim = (mode == Mode::Sandbox).then(|| OURS.to_owned());
        let is_ours = RecordedOperation::Verify(OURS.to_owned());
        assert_eq!(seen.requests, [(is_ours.clone(), sim), (RecordedOperation::Discover, None)]);
        assert_eq!(seen.responses, [(is_ours, address(ON_OURS)), (RecordedOperation::Discover, address(ON_OURS))]);
    }
    assert_eq!(world.ours.calls().requests.len(), 2, "sandbox checks do not contact real operators");
    assert!(world.other.calls().requests.is_empty());
}

#[tokio::test]
async fn sandbox_device_uses_the_requested_sim() {
    let world = World::new().await;
    let sim = Some("+99000000017");
    for (mode, expected) in [(Mode::Sandbox, sim), (Mode::Live, None)] {
        let device = world.create_in(mode, Product::SecureSna, CreateSilent::default()).await;
        expect_state(world.engine.silent.open_device_url(DeviceRequest { sim, ..device.request() }).await);
        let (_, seen) = world.operator(mode).calls().requests.remove(0);
        assert_eq!(seen.as_deref(), expected, "{mode:?}");
    }
    let device = world.create_in(Mode::Sandbox, Product::Discovery, CreateSilent::default()).await;
    let refused = world.engine.silent.open_device_url(DeviceRequest { sim: Some("99"), ..device.request() }).await;
    assert!(matches!(refused, Err(RedirectError::Sim(_))), "{refused:?}");
    assert_eq!(device.status().await, CheckStatus::Accepted, "the device may retry");
}

#[tokio::test]
async fn connector_is_selected_by_network() {
    let world = World::new().await;
    let request = CreateSilent { phone_number: Some(OTHER.to_owned()), ..CreateSilent::default() };
    let device = world.create_in(Mode::Live, Product::SecureSna, request).await;
    let other_state = expect_state(device.open_url_from(ON_OTHER).await);
    assert!(device.return_from(ON_OTHER, "other", &other_state).await.unwrap().result.is_ok());
    assert_eq!((world.ours.calls().requests.len(), world.other.calls().responses.len()), (0, 1));

    // The device is on the network of a brand (MVNO), and the number on the brand's host network. One connector serves
    // both.
    let device = world.create(Product::SecureSna).await;
    let state = expect_state(device.open_url_from(ON_BRAND).await);
    let code = device.return_from(ON_BRAND, "ours", &state).await.unwrap().result.unwrap().0;
    assert_eq!(device.redeem(&code).await.unwrap().network.unwrap().as_str(), "23410", "the number's network");
}

/// If any device could return, an attacker could pass a redirect URL to a victim and have the victim's number verified.
#[tokio::test]
async fn return_from_another_network_is_rejected() {
    let world = World::new().await;
    let other_network = ON_OTHER;
    for (announced, back, is_good) in [
        (None, ON_OURS, true),
        (None, ALSO_ON_OURS, true),
        (None, other_network, false),
        (Some(ON_OURS), ON_OURS, true),
        (Some(ON_OURS), ALSO_ON_OURS, false),
    ] {
        let device_ip = announced.map(str::to_owned);
        let request = CreateSilent { phone_number: Some(OURS.to_owned()), device_ip, ..CreateSilent::default() };
        let device = world.create_in(Mode::Live, Product::SecureSna, request).await;
        let state = device.begin_redirect().await;
        let end = device.return_from(back, "ours", &state).await.unwrap();
        match end.result {
            Ok(_) => assert!(is_good, "{announced:?} {back}"),
            Err(fault) => {
                assert!(!is_good, "{announced:?} {back}");
                assert_eq!(fault, RedirectFailure::Failed(ErrorCode::IpMismatch));
            }
        }
    }
}

#[tokio::test]
async fn code_is_issued_once() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let code = device.obtain_code().await;
    assert_eq!(expect_failure(device.open_url_and_finish(ON_OURS).await), RedirectFailure::AlreadyCompleted);
    assert_eq!(
        expect_failure(device.open_url_and_finish(ON_OTHER).await),
        RedirectFailure::AlreadyCompleted,
        "from any address"
    );
    assert_eq!(device.redeem(&code).await.unwrap().status(), CheckStatus::Completed, "the code is still valid");
    assert_eq!(expect_failure(device.open_url_and_finish(ON_OURS).await), RedirectFailure::AlreadyCompleted);
    assert_eq!(world.ours.calls().requests.len(), 1);
}

/// The check expires while the operator responds. Runs with and without a sweep that records the expiry meanwhile.
#[tokio::test]
async fn late_operator_result_gives_no_code() {
    let world = World::new().await;
    for is_swept in [false, true] {
        let slow = |engine: ringtrue_engine::Engine,
                    clock: std::sync::Arc<ringtrue_engine::ports::clock::ManualClock>| async move {
            clock.advance(jiff::SignedDuration::from_secs(120));
            if is_swept {
                engine.checks.sweep().await.unwrap();
            }
        };
        let device = world.create(Product::SecureSna).await;
        let state = device.begin_redirect().await;
        world.ours.run_during_call(slow(world.engine.clone(), world.clock.clone()));
        assert_eq!(
            expect_failure(device.return_from_operator(&state).await.unwrap()),
            RedirectFailure::Expired,
            "swept: {is_swept}"
        );
        assert_eq!(device.status().await, CheckStatus::Expired);

        let device = world.create(Product::SecureSna).await;
        world.ours.run_during_call(slow(world.engine.clone(), world.clock.clone()));
        assert_eq!(
            expect_failure(device.open_url_and_finish(ON_OURS).await),
            RedirectFailure::Expired,
            "swept: {is_swept}"
        );
        let check = device.check().await;
        assert_eq!(check.status(), CheckStatus::Expired);
        assert_eq!(check.updated_at(), Some(check.expires_at));
    }
    assert!(world.clock.now() > START_TIME);
}
