//! Tests the callbacks of silent checks.

use ringtrue_domain::{lifecycle::ErrorCode, product::Product, tenancy::Mode};
use ringtrue_engine::{
    ports::silent::SilentResult,
    silent::{CreateSilent, RedeemError},
};

use crate::{
    operators::number,
    world::{Device, NOT_MOBILE, OURS, PRODUCTS, World},
};

async fn with_callback(world: &World, mode: Mode, product: Product) -> Device<'_> {
    let request = CreateSilent {
        reference: "order 7".parse().ok(),
        callback_url: Some("https://shop.example/done".to_owned()),
        ..CreateSilent::default()
    };
    world.create_in(mode, product, request).await
}

/// Returns the expected callback of a check that was created at the start of the test and concluded at `after`, in
/// minutes and seconds.
fn expected_body(device: &Device<'_>, status: &str, verdict: &str, after: &str, error: &str) -> String {
    format!(
        r#"{{"check_id":"{}","status":"{status}",{verdict}"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:{after}.000Z","reference_id":"order 7"{error}}}"#,
        device.id
    )
}

#[tokio::test]
async fn callback_has_the_verdict() {
    for (mode, product, reply, verdict) in [
        (Mode::Live, Product::SecureSna, SilentResult::Match(true), r#""match":true,"network_id":"23410","#),
        (Mode::Live, Product::SecureSna, SilentResult::Match(false), r#""match":false,"network_id":"23410","#),
        (Mode::Live, Product::Discovery, number(OURS), r#""phone_number":"+447700900122","#),
        (Mode::Sandbox, Product::SecureSna, SilentResult::Match(true), r#""match":true,"network_id":"00101","#),
        (Mode::Sandbox, Product::Discovery, number("+99000000010"), r#""phone_number":"+99000000010","#),
    ] {
        let world = World::new().await;
        world.operator(mode).set_result(Ok(reply));
        let device = with_callback(&world, mode, product).await;
        let code = device.obtain_code().await;
        assert_eq!(world.callbacks().await, [] as [&str; 0], "the check is open");
        world.advance_seconds(5);
        device.redeem(&code).await.unwrap();
        assert_eq!(world.callbacks().await, [expected_body(&device, "COMPLETED", verdict, "00:05", "")]);
    }
}

#[tokio::test]
async fn failure_sends_a_callback_immediately() {
    for product in PRODUCTS {
        let world = World::new().await;
        let device = with_callback(&world, Mode::Live, product).await;
        world.advance_seconds(3);
        device.open_url_and_finish(NOT_MOBILE).await;
        let error = r#","error_code":"not_mobile_ip""#;
        assert_eq!(world.callbacks().await, [expected_body(&device, "ERROR", "", "00:03", error)]);

        let world = World::new().await;
        let device = with_callback(&world, Mode::Live, product).await;
        let state = device.begin_redirect().await;
        world.ours.set_result(Err(ErrorCode::MnoUserNotFound));
        world.advance_seconds(61);
        device.return_from_operator(&state).await.unwrap();
        let error = r#","error_code":"mno_user_not_found""#;
        assert_eq!(world.callbacks().await, [expected_body(&device, "ERROR", "", "01:01", error)]);
    }
}

#[tokio::test]
async fn wrong_codes_send_a_callback() {
    let world = World::new().await;
    let device = with_callback(&world, Mode::Live, Product::SecureSna).await;
    device.obtain_code().await;
    for _ in 0..4 {
        assert!(device.redeem("wrong").await.is_err());
    }
    let error = r#","error_code":"code_attempts_exceeded""#;
    assert_eq!(world.callbacks().await, [expected_body(&device, "ERROR", "", "00:00", error)]);
}

/// Runs once for each kind of request or task that can detect the expiry.
#[tokio::test]
async fn expiry_sends_a_callback() {
    for product in PRODUCTS {
        for detected_by in ["the sweeper", "a reader", "the caller", "the device", "the returning device"] {
            let world = World::new().await;
            let device = with_callback(&world, Mode::Live, product).await;
            let state = device.begin_redirect().await;
            world.advance_seconds(125);
            match detected_by {
                "the sweeper" => assert_eq!(world.engine.checks.sweep().await.unwrap(), 1),
                "a reader" => drop(device.check().await),
                "the caller" => assert!(matches!(device.redeem("late").await, Err(RedeemError::Expired))),
                "the device" => drop(device.open_url_and_finish(NOT_MOBILE).await),
                _ => drop(device.return_from_operator(&state).await.unwrap()),
            }
            world.engine.checks.sweep().await.unwrap();
            let error = r#","error_code":"check_expired""#;
            assert_eq!(
                world.callbacks().await,
                [expected_body(&device, "EXPIRED", "", "02:00", error)],
                "{detected_by}"
            );
        }
    }
}
