//! Redeeming codes.

use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::{ErrorCode, Status},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::ReadError,
    ports::Reply,
    silent::{CreateSilent, RedeemError},
};

use crate::{
    operators::number,
    world::{Device, OURS, PRODUCTS, World},
};

/// A device that is back, and its code.
async fn back(world: &World, product: Product) -> (Device<'_>, String) {
    world.ours.says(Ok(if product == Product::SecureSna { Reply::Match(true) } else { number(OURS) }));
    let device = world.create(product).await;
    let code = device.brings_a_code().await;
    (device, code)
}

#[tokio::test]
async fn a_code_is_redeemed_once() {
    let world = World::new().await;
    for product in PRODUCTS {
        let (device, code) = back(&world, product).await;
        let redeemed = device.redeem(&code).await.unwrap();
        for code in [code.as_str(), "another"] {
            let again = device.redeem(code).await;
            assert!(
                matches!(again, Err(RedeemError::AlreadyCompleted { error_code: None, falls_back: false })),
                "{again:?}"
            );
        }
        assert_eq!(device.check().await, redeemed);
    }
}

#[tokio::test]
async fn of_many_who_redeem_a_code_one_does() {
    let world = World::new().await;
    let (device, code) = back(&world, Product::SecureSna).await;
    let answers = join_all((0..20).map(|_| device.redeem(&code))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    let lost = answers.iter().filter(|answer| matches!(answer, Err(RedeemError::AlreadyCompleted { .. })));
    assert_eq!(lost.count(), 19, "{answers:?}");
}

#[tokio::test]
async fn there_is_nothing_to_redeem_before_the_device_is_back() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let not_ready = async || {
        for _ in 0..5 {
            let answer = device.redeem("anything").await;
            assert!(matches!(answer, Err(RedeemError::NotReady)), "{answer:?}");
        }
    };
    not_ready().await;
    let ticket = device.sets_out().await;
    not_ready().await;
    // None of these was a wrong code.
    let code = device.comes_back(&ticket).await.unwrap().result.unwrap().0;
    assert_eq!(device.redeem(&code).await.unwrap().status(), Status::Completed);
}

#[tokio::test]
async fn the_third_wrong_code_ends_the_check() {
    let world = World::new().await;
    for product in PRODUCTS {
        let (device, code) = back(&world, product).await;
        let (_, code_of_another) = back(&world, product).await;
        for (wrong, expected) in [("", 2), (code_of_another.as_str(), 1), (&code[1..], 0)] {
            assert_eq!(device.status().await, Status::Pending);
            match device.redeem(wrong).await {
                Err(RedeemError::WrongCode { left }) => assert_eq!(left, expected),
                other => panic!("{other:?}"),
            }
        }
        let check = device.check().await;
        assert_eq!((check.status(), check.error_code()), (Status::Error, Some(ErrorCode::CodeAttemptsExceeded)));
        match device.redeem(&code).await {
            Err(RedeemError::AlreadyCompleted { error_code, .. }) => assert_eq!(error_code, check.error_code()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn two_wrong_codes_are_forgiven() {
    let world = World::new().await;
    let (device, code) = back(&world, Product::SecureSna).await;
    for wrong in ["one", "two"] {
        assert!(device.redeem(wrong).await.is_err());
    }
    assert_eq!(device.redeem(&code).await.unwrap().status(), Status::Completed);
}

/// Whoever counted the third may have died before the end was recorded.
#[tokio::test]
async fn no_code_is_good_after_three_wrong_ones() {
    let world = World::new().await;
    let (device, code) = back(&world, Product::SecureSna).await;
    for _ in 0..3 {
        world.engine.store().count_wrong_code(device.id).await.unwrap();
    }
    let answer = device.redeem(&code).await;
    assert!(matches!(answer, Err(RedeemError::AlreadyCompleted { .. })), "{answer:?}");
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::CodeAttemptsExceeded));
}

#[tokio::test]
async fn many_wrong_codes_at_once_end_the_check_once() {
    let world = World::new().await;
    let (device, _) = back(&world, Product::SecureSna).await;
    let answers = join_all((0..20).map(|_| device.redeem("wrong"))).await;
    assert!(answers.iter().all(Result::is_err));
    let taken = answers.iter().filter(|answer| matches!(answer, Err(RedeemError::WrongCode { left }) if *left > 0));
    assert_eq!(taken.count(), 2, "{answers:?}");
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::CodeAttemptsExceeded));
}

#[tokio::test]
async fn a_code_dies_with_its_check() {
    let world = World::new().await;
    for (seconds, is_in_time) in [(119, true), (120, false)] {
        let (device, code) = back(&world, Product::SecureSna).await;
        world.pass(seconds);
        let answer = device.redeem(&code).await;
        if is_in_time {
            assert_eq!(answer.unwrap().status(), Status::Completed);
        } else {
            assert!(matches!(answer, Err(RedeemError::Expired)), "{answer:?}");
            assert_eq!(device.status().await, Status::Expired);
            let again = device.redeem(&code).await;
            assert!(matches!(again, Err(RedeemError::Expired)), "{again:?}");
        }
    }
}

#[tokio::test]
async fn a_check_is_redeemed_by_its_project_as_what_it_is() {
    let world = World::new().await;
    let (device, code) = back(&world, Product::SecureSna).await;
    let engine = &world.engine;
    let stranger = world.project(Mode::Sandbox).id;
    let answer = engine.redeem(stranger, device.product, device.id, &code).await;
    assert!(matches!(answer, Err(RedeemError::Read(ReadError::NotYours))), "{answer:?}");
    let answer = engine.redeem(device.project.id, Product::Discovery, device.id, &code).await;
    assert!(matches!(answer, Err(RedeemError::Read(ReadError::NotFound))), "{answer:?}");

    let other = world.create_in(Mode::Live, Product::SecureSna, CreateSilent::default()).await;
    let answer = other.redeem(&code).await;
    assert!(matches!(answer, Err(RedeemError::NotReady)), "{answer:?}");
    assert_eq!(device.redeem(&code).await.unwrap().status(), Status::Completed, "none of this counts");
}
