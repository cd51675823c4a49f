//! What ends a check on its device's way.

use ringtrue_domain::{
    lifecycle::{ErrorCode, Status},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    ports::Reply,
    silent::{ChainEnd, ChainFault, CreateSilent, RedeemError},
};

use crate::{
    operators::number,
    world::{
        AT_HOME, Device, NOWHERE, ON_BRAND, ON_FORBIDDEN, ON_OTHER, ON_OURS, ON_UNASKED, OURS, PRODUCTS, World, fault,
    },
};

/// The check has ended with this code, for its device, for its caller and for good.
async fn has_failed(device: &Device<'_>, end: ChainEnd, code: ErrorCode) {
    let falls_back = end.falls_back;
    assert_eq!(fault(end), ChainFault::Failed(code));
    let check = device.check().await;
    assert_eq!((check.status(), check.error_code()), (Status::Error, Some(code)));
    match device.redeem("anything").await {
        Err(RedeemError::AlreadyCompleted { error_code, falls_back: for_the_caller }) => {
            assert_eq!((error_code, for_the_caller), (Some(code), falls_back));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fault(device.is_stopped_at(ON_OURS).await), ChainFault::AlreadyCompleted);
    assert_eq!(device.check().await, check, "it ends once");
}

#[tokio::test]
async fn a_device_must_come_from_the_right_place() {
    let world = World::new().await;
    let (sna, discovery) = (Product::SecureSna, Product::Discovery);
    // What is checked, the announced address, where the device comes from, and what is wrong with that.
    for (product, announced, from, code) in [
        (sna, None, AT_HOME, ErrorCode::NotMobileIp),
        (sna, None, NOWHERE, ErrorCode::MnoNotSupported),
        (sna, None, ON_OTHER, ErrorCode::IpMsisdnMismatch),
        (sna, Some(ON_OTHER), ON_OTHER, ErrorCode::IpMsisdnMismatch),
        (sna, Some(ON_BRAND), ON_OURS, ErrorCode::IpMismatch),
        (sna, Some("2001:db8::1"), ON_OURS, ErrorCode::IpMismatch),
        (discovery, None, AT_HOME, ErrorCode::NotMobileIp),
        (discovery, None, NOWHERE, ErrorCode::MnoNotSupported),
        (discovery, Some(ON_OTHER), ON_OURS, ErrorCode::IpMismatch),
        (discovery, None, ON_UNASKED, ErrorCode::MnoRedirectUnsupported),
        (discovery, None, ON_FORBIDDEN, ErrorCode::MnoNotSupported),
    ] {
        let request = CreateSilent { device_ip: announced.map(str::to_owned), ..CreateSilent::default() };
        let device = world.create_in(Mode::Live, product, request).await;
        let end = device.is_stopped_at(from).await;
        assert_eq!(end.falls_back, product == sna, "users of the number's network can text us");
        has_failed(&device, end, code).await;
    }
    assert!(world.ours.seen().departures.is_empty(), "no operator was asked");
    assert!(world.other.seen().departures.is_empty());
}

#[tokio::test]
async fn an_announced_address_is_the_same_in_every_spelling() {
    let world = World::new().await;
    for announced in [ON_OURS, "::ffff:203.0.113.10", "::ffff:cb00:710a"] {
        let request = CreateSilent { device_ip: Some(announced.to_owned()), ..CreateSilent::default() };
        world.create_in(Mode::Live, Product::Discovery, request).await.sets_out().await;
    }
}

#[tokio::test]
async fn a_network_that_nobody_asks_any_more_is_no_way() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    world.engine.networks().set_routes(vec![]);
    let end = device.is_stopped_at(ON_OURS).await;
    has_failed(&device, end, ErrorCode::MnoRedirectUnsupported).await;
}

#[tokio::test]
async fn a_fault_of_the_operator_ends_the_check() {
    let world = World::new().await;
    for mode in Mode::ALL {
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
                operator.lets_depart(Err(code));
                let device = world.create_in(mode, product, CreateSilent::default()).await;
                let end = device.is_stopped_at(ON_OURS).await;
                has_failed(&device, end, code).await;

                operator.lets_depart(Ok(()));
                operator.says(Err(code));
                let device = world.create_in(mode, product, CreateSilent::default()).await;
                let ticket = device.sets_out().await;
                let end = device.comes_back(&ticket).await.unwrap();
                has_failed(&device, end, code).await;
            }
        }
    }
}

#[tokio::test]
async fn an_answer_to_another_question_is_none() {
    let world = World::new().await;
    for (product, reply) in [(Product::SecureSna, number(OURS)), (Product::Discovery, Reply::Match(true))] {
        world.ours.says(Ok(reply));
        let device = world.create(product).await;
        let ticket = device.sets_out().await;
        let end = device.comes_back(&ticket).await.unwrap();
        has_failed(&device, end, ErrorCode::MnoResponseError).await;
    }
}

/// A device is told of the end that its check has, not of one that came too late.
#[tokio::test]
async fn of_two_faults_the_first_ends_the_check() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let ticket = device.sets_out().await;
    let (engine, id, token) = (world.engine.clone(), device.id, device.token.clone());
    world.ours.says(Err(ErrorCode::MnoServerError));
    world.ours.meanwhile(async move {
        let visit = ringtrue_engine::silent::Visit {
            product: Product::SecureSna,
            check: id,
            token: &token,
            sim: None,
            address: crate::world::address(AT_HOME),
        };
        engine.visit(visit).await.unwrap();
    });
    assert_eq!(fault(device.comes_back(&ticket).await.unwrap()), ChainFault::AlreadyCompleted);
    assert_eq!(device.check().await.error_code(), Some(ErrorCode::NotMobileIp));
}

#[tokio::test]
async fn the_sandbox_has_addresses_for_every_place() {
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
            // From wherever the developer sits.
            let step = device.opens_url_from("100.0.0.7").await;
            match code {
                None => drop(crate::world::ticket(step)),
                Some(code) => {
                    assert!(matches!(step, Ok(ringtrue_engine::silent::Step::End(_))), "{announced}");
                    assert_eq!(device.check().await.error_code(), Some(code), "{announced}");
                }
            }
        }
    }
    assert!(world.ours.seen().departures.is_empty(), "a sandbox reaches no real operator");
}
