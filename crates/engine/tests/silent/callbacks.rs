//! What callers are told.

use ringtrue_domain::{lifecycle::ErrorCode, product::Product, tenancy::Mode};
use ringtrue_engine::{
    ports::Reply,
    silent::{CreateSilent, RedeemError},
};

use crate::{
    operators::number,
    world::{AT_HOME, Device, OURS, PRODUCTS, World},
};

async fn with_callback(world: &World, mode: Mode, product: Product) -> Device<'_> {
    let request = CreateSilent {
        reference: "order 7".parse().ok(),
        callback_url: Some("https://shop.example/done".to_owned()),
        ..CreateSilent::default()
    };
    world.create_in(mode, product, request).await
}

/// The callback of a check that was made at the beginning and ended after some seconds.
fn told(device: &Device<'_>, status: &str, said: &str, after: &str, error: &str) -> String {
    format!(
        r#"{{"check_id":"{}","status":"{status}",{said}"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:{after}.000Z","reference_id":"order 7"{error}}}"#,
        device.id
    )
}

#[tokio::test]
async fn a_caller_is_told_what_was_proved() {
    for (mode, product, reply, said) in [
        (Mode::Live, Product::SecureSna, Reply::Match(true), r#""match":true,"network_id":"23410","#),
        (Mode::Live, Product::SecureSna, Reply::Match(false), r#""match":false,"network_id":"23410","#),
        (Mode::Live, Product::Discovery, number(OURS), r#""phone_number":"+447700900122","#),
        (Mode::Sandbox, Product::SecureSna, Reply::Match(true), r#""match":true,"network_id":"00101","#),
        (Mode::Sandbox, Product::Discovery, number("+99000000010"), r#""phone_number":"+99000000010","#),
    ] {
        let world = World::new().await;
        world.operator(mode).says(Ok(reply));
        let device = with_callback(&world, mode, product).await;
        let code = device.brings_a_code().await;
        assert_eq!(world.callbacks().await, [] as [&str; 0], "the check is open");
        world.pass(5);
        device.redeem(&code).await.unwrap();
        assert_eq!(world.callbacks().await, [told(&device, "COMPLETED", said, "00:05", "")]);
    }
}

#[tokio::test]
async fn a_caller_is_told_of_a_fault_at_once() {
    for product in PRODUCTS {
        let world = World::new().await;
        let device = with_callback(&world, Mode::Live, product).await;
        world.pass(3);
        device.is_stopped_at(AT_HOME).await;
        let error = r#","error_code":"not_mobile_ip""#;
        assert_eq!(world.callbacks().await, [told(&device, "ERROR", "", "00:03", error)]);

        let world = World::new().await;
        let device = with_callback(&world, Mode::Live, product).await;
        let ticket = device.sets_out().await;
        world.ours.says(Err(ErrorCode::MnoUserNotFound));
        world.pass(61);
        device.comes_back(&ticket).await.unwrap();
        let error = r#","error_code":"mno_user_not_found""#;
        assert_eq!(world.callbacks().await, [told(&device, "ERROR", "", "01:01", error)]);
    }
}

#[tokio::test]
async fn a_caller_is_told_that_codes_were_wrong() {
    let world = World::new().await;
    let device = with_callback(&world, Mode::Live, Product::SecureSna).await;
    device.brings_a_code().await;
    for _ in 0..4 {
        assert!(device.redeem("wrong").await.is_err());
    }
    let error = r#","error_code":"code_attempts_exceeded""#;
    assert_eq!(world.callbacks().await, [told(&device, "ERROR", "", "00:00", error)]);
}

/// Whoever notices that the time is up.
#[tokio::test]
async fn a_caller_is_told_that_the_time_is_up() {
    for product in PRODUCTS {
        for noticed_by in ["the sweeper", "a reader", "the caller", "the device", "the device that is back"] {
            let world = World::new().await;
            let device = with_callback(&world, Mode::Live, product).await;
            let ticket = device.sets_out().await;
            world.pass(125);
            match noticed_by {
                "the sweeper" => assert_eq!(world.engine.sweep().await.unwrap(), 1),
                "a reader" => drop(device.check().await),
                "the caller" => assert!(matches!(device.redeem("late").await, Err(RedeemError::Expired))),
                "the device" => drop(device.is_stopped_at(AT_HOME).await),
                _ => drop(device.comes_back(&ticket).await.unwrap()),
            }
            world.engine.sweep().await.unwrap();
            let error = r#","error_code":"check_expired""#;
            assert_eq!(world.callbacks().await, [told(&device, "EXPIRED", "", "02:00", error)], "{noticed_by}");
        }
    }
}
