//! Tests how the API client redeems the code that a device got when it returned from its operator.

use futures_util::future::join_all;
use ringtrue_domain::{lifecycle::ErrorCode, product::Product};
use ringtrue_engine::silent::RedeemError;

use crate::world::{Device, World};

/// Creates a check, and completes the redirects of its device. Returns the device and its code.
async fn returned_device(world: &World) -> (Device<'_>, String) {
    let device = world.create(Product::SecureSna).await;
    let code = device.obtain_code().await;
    (device, code)
}

#[tokio::test]
async fn concurrent_redemption_succeeds_once() {
    let world = World::new().await;
    let (device, code) = returned_device(&world).await;
    let results = join_all((0..20).map(|_| device.redeem(&code))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    let lost = results.iter().filter(|result| matches!(result, Err(RedeemError::AlreadyCompleted { .. })));
    assert_eq!(lost.count(), 19, "{results:?}");
}

/// Simulates a node that counted the third wrong code, and died before it concluded the check.
#[tokio::test]
async fn right_code_is_rejected_after_three_wrong_ones() {
    let world = World::new().await;
    let (device, code) = returned_device(&world).await;
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
    let (device, _) = returned_device(&world).await;
    let results = join_all((0..20).map(|_| device.redeem("wrong"))).await;
    assert!(results.iter().all(Result::is_err));
    let taken = results
        .iter()
        .filter(|result| matches!(result, Err(RedeemError::WrongCode { remaining_attempts: left }) if *left > 0));
    assert_eq!(taken.count(), 2, "{results:?}");
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::CodeAttemptsExceeded));
}
