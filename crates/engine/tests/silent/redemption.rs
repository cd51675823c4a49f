//! Tests how the API client redeems the code that a device got when it returned from its operator.

use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::{CheckStatus, ErrorCode},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::ReadError,
    ports::silent::SilentResult,
    silent::{CreateSilent, RedeemError},
};

use crate::{
    operators::number,
    world::{Device, OURS, PRODUCTS, World},
};

/// Creates a check, and completes the redirects of its device. Returns the device and its code.
async fn returned_device(world: &World, product: Product) -> (Device<'_>, String) {
    world.ours.set_result(Ok(if product == Product::SecureSna { SilentResult::Match(true) } else { number(OURS) }));
    let device = world.create(product).await;
    let code = device.obtain_code().await;
    (device, code)
}

#[tokio::test]
async fn code_is_redeemed_once() {
    let world = World::new().await;
    for product in PRODUCTS {
        let (device, code) = returned_device(&world, product).await;
        let redeemed = device.redeem(&code).await.unwrap();
        for code in [code.as_str(), "another"] {
            let again = device.redeem(code).await;
            assert!(
                matches!(again, Err(RedeemError::AlreadyCompleted { error_code: None, may_use_reverse_sms: false })),
                "{again:?}"
            );
        }
        assert_eq!(device.check().await, redeemed);
    }
}

#[tokio::test]
async fn concurrent_redemption_succeeds_once() {
    let world = World::new().await;
    let (device, code) = returned_device(&world, Product::SecureSna).await;
    let results = join_all((0..20).map(|_| device.redeem(&code))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    let lost = results.iter().filter(|result| matches!(result, Err(RedeemError::AlreadyCompleted { .. })));
    assert_eq!(lost.count(), 19, "{results:?}");
}

#[tokio::test]
async fn redemption_before_the_return_is_not_ready() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let not_ready = async || {
        for _ in 0..5 {
            let result = device.redeem("anything").await;
            assert!(matches!(result, Err(RedeemError::NotReady)), "{result:?}");
        }
    };
    not_ready().await;
    let state = device.begin_redirect().await;
    not_ready().await;
    // The attempts above did not count as wrong codes.
    let code = device.return_from_operator(&state).await.unwrap().result.unwrap().0;
    assert_eq!(device.redeem(&code).await.unwrap().status(), CheckStatus::Completed);
}

#[tokio::test]
async fn third_wrong_code_concludes_the_check() {
    let world = World::new().await;
    for product in PRODUCTS {
        let (device, code) = returned_device(&world, product).await;
        let (_, code_of_another) = returned_device(&world, product).await;
        for (wrong, expected) in [("", 2), (code_of_another.as_str(), 1), (&code[1..], 0)] {
            assert_eq!(device.status().await, CheckStatus::Pending);
            match device.redeem(wrong).await {
                Err(RedeemError::WrongCode { remaining_attempts: left }) => assert_eq!(left, expected),
                other => panic!("{other:?}"),
            }
        }
        let check = device.check().await;
        assert_eq!((check.status(), check.error_code()), (CheckStatus::Error, Some(ErrorCode::CodeAttemptsExceeded)));
        match device.redeem(&code).await {
            Err(RedeemError::AlreadyCompleted { error_code, .. }) => assert_eq!(error_code, check.error_code()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn two_wrong_codes_are_tolerated() {
    let world = World::new().await;
    let (device, code) = returned_device(&world, Product::SecureSna).await;
    for wrong in ["one", "two"] {
        assert!(device.redeem(wrong).await.is_err());
    }
    assert_eq!(device.redeem(&code).await.unwrap().status(), CheckStatus::Completed);
}

/// Simulates a node that counted the third wrong code, and died before it concluded the check.
#[tokio::test]
async fn right_code_is_rejected_after_three_wrong_ones() {
    let world = World::new().await;
    let (device, code) = returned_device(&world, Product::SecureSna).await;
    for _ in 0..3 {
        world.engine.store().count_wrong_code(device.id).await.unwrap();
    }
    let result = device.redeem(&code).await;
    assert!(matches!(result, Err(RedeemError::AlreadyCompleted { .. })), "{result:?}");
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::CodeAttemptsExceeded));
}

#[tokio::test]
async fn concurrent_wrong_codes_conclude_the_check_once() {
    let world = World::new().await;
    let (device, _) = returned_device(&world, Product::SecureSna).await;
    let results = join_all((0..20).map(|_| device.redeem("wrong"))).await;
    assert!(results.iter().all(Result::is_err));
    let taken = results
        .iter()
        .filter(|result| matches!(result, Err(RedeemError::WrongCode { remaining_attempts: left }) if *left > 0));
    assert_eq!(taken.count(), 2, "{results:?}");
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::CodeAttemptsExceeded));
}

#[tokio::test]
async fn code_expires_with_its_check() {
    let world = World::new().await;
    for (seconds, is_in_time) in [(119, true), (120, false)] {
        let (device, code) = returned_device(&world, Product::SecureSna).await;
        world.advance_seconds(seconds);
        let result = device.redeem(&code).await;
        if is_in_time {
            assert_eq!(result.unwrap().status(), CheckStatus::Completed);
        } else {
            assert!(matches!(result, Err(RedeemError::Expired)), "{result:?}");
            assert_eq!(device.status().await, CheckStatus::Expired);
            let again = device.redeem(&code).await;
            assert!(matches!(again, Err(RedeemError::Expired)), "{again:?}");
        }
    }
}

#[tokio::test]
async fn redemption_requires_project_and_product() {
    let world = World::new().await;
    let (device, code) = returned_device(&world, Product::SecureSna).await;
    let engine = &world.engine;
    let other_project = world.project(Mode::Sandbox).id;
    let result = engine.silent.redeem(other_project, device.product, device.id, &code).await;
    assert!(matches!(result, Err(RedeemError::Read(ReadError::OtherProject))), "{result:?}");
    let result = engine.silent.redeem(device.project.id, Product::Discovery, device.id, &code).await;
    assert!(matches!(result, Err(RedeemError::Read(ReadError::NotFound))), "{result:?}");

    let other = world.create_in(Mode::Live, Product::SecureSna, CreateSilent::default()).await;
    let result = other.redeem(&code).await;
    assert!(matches!(result, Err(RedeemError::NotReady)), "{result:?}");
    assert_eq!(
        device.redeem(&code).await.unwrap().status(),
        CheckStatus::Completed,
        "foreign requests are not counted"
    );
}
