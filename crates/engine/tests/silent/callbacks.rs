//! Tests the callbacks of silent checks.

use ringtrue_domain::{product::Product, tenancy::Mode};
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

/// Runs once for each component that can detect the expiry.
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
