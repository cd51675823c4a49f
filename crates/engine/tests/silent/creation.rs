//! Tests the validation of requests that create silent checks.

use ringtrue_domain::{product::Product, tenancy::Mode};
use ringtrue_engine::{checks::CreateError, silent::CreateSilent};

use crate::world::{FORBIDDEN, ON_OURS, OURS, SMS_ONLY, UNCONNECTED, World};

async fn refused(world: &World, mode: Mode, request: CreateSilent) -> String {
    let answer = world.engine.silent.create_silent(world.project(mode), Product::SecureSna, request, None).await;
    let name = match answer.expect_err("rejected") {
        CreateError::PhoneNumber(_) => "PhoneNumber",
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
        assert_eq!(refused(&world, mode, request).await, expected, "{number}");
    }
    for number in ["+99000000099", "+99000000098", "+99000000095", "+99000000092", "+99000000091", OURS] {
        let request = CreateSilent { phone_number: Some(number.to_owned()), ..CreateSilent::default() };
        world.create_in(Mode::Sandbox, Product::SecureSna, request).await.begin_redirect().await;
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
