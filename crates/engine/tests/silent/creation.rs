//! Tests the validation of requests that create silent checks.

use ringtrue_domain::{page::PageRequest, product::Product, tenancy::Mode};
use ringtrue_engine::{
    checks::{CreateError, ReadError},
    silent::CreateSilent,
};

use crate::world::{FORBIDDEN, ON_OURS, OURS, PRODUCTS, SMS_ONLY, UNCONNECTED, World};

async fn refused(world: &World, mode: Mode, product: Product, request: CreateSilent) -> String {
    let answer = world.engine.silent.create_silent(world.project(mode), product, request, None).await;
    let name = match answer.expect_err("rejected") {
        CreateError::CallbackUrl(_) => "CallbackUrl",
        CreateError::RedirectUrl(_) => "RedirectUrl",
        CreateError::PhoneNumber(_) => "PhoneNumber",
        CreateError::DeviceIp => "DeviceIp",
        CreateError::MnoNotSupported => "MnoNotSupported",
        CreateError::OnlyReverseSms => "OnlyReverseSms",
        CreateError::NetworkNotAllowed => "NetworkNotAllowed",
        CreateError::LookupUnavailable => "LookupUnavailable",
        other => panic!("{other:?}"),
    };
    name.to_owned()
}

#[tokio::test]
async fn unsupported_numbers_are_rejected() {
    let world = World::new().await;
    for (mode, number, expected) in [
        (Mode::Live, "447700900122", "PhoneNumber"),
        (Mode::Live, "+99000000010", "PhoneNumber"),
        (Mode::Live, "+4915112345678", "MnoNotSupported"),
        (Mode::Live, UNCONNECTED, "MnoNotSupported"),
        (Mode::Live, SMS_ONLY, "OnlyReverseSms"),
        (Mode::Live, FORBIDDEN, "NetworkNotAllowed"),
        (Mode::Sandbox, "+99000000097", "MnoNotSupported"),
        (Mode::Sandbox, "+99000000096", "OnlyReverseSms"),
        (Mode::Sandbox, "+99000000094", "MnoNotSupported"),
        (Mode::Sandbox, "+99000000093", "LookupUnavailable"),
        (Mode::Sandbox, "+447700900197", "MnoNotSupported"),
    ] {
        let request = CreateSilent { phone_number: Some(number.to_owned()), ..CreateSilent::default() };
        assert_eq!(refused(&world, mode, Product::SecureSna, request).await, expected, "{number}");
    }
    for number in ["+99000000099", "+99000000098", "+99000000095", "+99000000092", "+99000000091", OURS] {
        let request = CreateSilent { phone_number: Some(number.to_owned()), ..CreateSilent::default() };
        world.create_in(Mode::Sandbox, Product::SecureSna, request).await.begin_redirect().await;
    }
}

#[tokio::test]
async fn invalid_addresses_and_urls_are_rejected() {
    let world = World::new().await;
    let text = |text: &str| Some(text.to_owned());
    for product in PRODUCTS {
        let bare = CreateSilent {
            phone_number: Some(OURS.to_owned()).filter(|_| product == Product::SecureSna),
            ..CreateSilent::default()
        };
        for address in ["", "localhost", "203.0.113", "203.0.113.10:80", "[2001:db8::1]", " 203.0.113.10", "1.2.3.04"] {
            let request = CreateSilent { device_ip: text(address), ..bare.clone() };
            assert_eq!(refused(&world, Mode::Live, product, request).await, "DeviceIp", "{address}");
        }
        let callback = CreateSilent { callback_url: text("ftp://shop.example/"), ..bare.clone() };
        assert_eq!(refused(&world, Mode::Live, product, callback).await, "CallbackUrl");
        let redirect = CreateSilent { redirect_url: text("javascript:alert(1)"), ..bare.clone() };
        assert_eq!(refused(&world, Mode::Live, product, redirect).await, "RedirectUrl");
        let good = CreateSilent { device_ip: text(ON_OURS), ..bare };
        world.create_in(Mode::Live, product, good).await;
    }
}

#[tokio::test]
async fn reads_require_project_and_product() {
    let world = World::new().await;
    let (page, engine) = (PageRequest::new(10, 1).unwrap(), &world.engine);
    for (product, other) in PRODUCTS.into_iter().zip(PRODUCTS.into_iter().rev()) {
        let device = world.create(product).await;
        let (project, other_project) = (world.live.id, world.sandbox.id);
        let read = engine.silent.silent_check(other_project, product, device.id).await;
        assert!(matches!(read, Err(ReadError::OtherProject)), "{read:?}");
        let read = engine.silent.silent_check(project, other, device.id).await;
        assert!(matches!(read, Err(ReadError::NotFound)), "{read:?}");
        let listed = engine.silent.silent_checks(project, product, None, page).await.unwrap();
        assert_eq!((listed.total_items, listed.items), (1, vec![device.check().await]));
        assert_eq!(engine.silent.silent_checks(other_project, product, None, page).await.unwrap().total_items, 0);
    }
}

#[test]
fn debug_output_is_masked() {
    let request = CreateSilent {
        phone_number: Some(OURS.to_owned()),
        device_ip: Some(ON_OURS.to_owned()),
        callback_url: Some("https://shop.example/secret".to_owned()),
        redirect_url: Some("https://shop.example/secret".to_owned()),
        ..CreateSilent::default()
    };
    let debug_output = format!("{request:?}");
    for secret in [OURS, ON_OURS, "secret"] {
        assert!(!debug_output.contains(secret), "{debug_output}");
    }
}
