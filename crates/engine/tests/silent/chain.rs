//! The way of the device, and what comes of it.

use ringtrue_domain::{
    lifecycle::{ErrorCode, Lifecycle, Open, Status},
    product::Product,
    silent::Proof,
    tenancy::Mode,
};
use ringtrue_engine::{
    ports::{Clock, Reply},
    silent::{ChainFault, CreateSilent, Visit, VisitError},
};

use crate::{
    operators::{Asked, number},
    world::{
        ALSO_ON_OURS, BEGINNING, ON_BRAND, ON_OTHER, ON_OURS, OTHER, OURS, PRODUCTS, World, address, fault, ticket,
    },
};

#[tokio::test]
async fn a_code_reveals_what_the_operator_said() {
    let world = World::new().await;
    for (mode, product, reply) in [
        (Mode::Live, Product::SecureSna, Reply::Match(true)),
        (Mode::Live, Product::SecureSna, Reply::Match(false)),
        (Mode::Live, Product::Discovery, number(OURS)),
        (Mode::Sandbox, Product::SecureSna, Reply::Match(true)),
        (Mode::Sandbox, Product::SecureSna, Reply::Match(false)),
        (Mode::Sandbox, Product::Discovery, number("+99000000010")),
    ] {
        world.operator(mode).says(Ok(reply.clone()));
        let device = world.create_in(mode, product, CreateSilent::default()).await;
        assert_eq!(device.status().await, Status::Accepted);

        let ticket = device.sets_out().await;
        let pending = device.check().await;
        assert_eq!(pending.state, Lifecycle::Open(Open::Pending { since: world.clock.now() }));
        let network = if mode == Mode::Live { "23410" } else { "00101" };
        assert_eq!(pending.network.as_ref().unwrap().as_str(), network);

        let end = device.comes_back(&ticket).await.unwrap();
        assert_eq!((end.check, end.falls_back), (device.id, false));
        assert_eq!(device.check().await, pending, "nothing is revealed");

        let redeemed = device.redeem(&end.result.unwrap().0).await.unwrap();
        assert_eq!(redeemed, device.check().await);
        assert_eq!(redeemed.network, pending.network);
        let said = match redeemed.verdict().expect("a verdict") {
            Proof::Match(matched) => Reply::Match(*matched),
            Proof::Number(found) => Reply::Number(world.engine.open_number(device.id, found).unwrap()),
        };
        assert_eq!(said, reply);
        world.pass(1);
    }
}

#[tokio::test]
async fn the_url_says_where_the_device_goes_first() {
    let world = World::new().await;
    for (product, path) in PRODUCTS.into_iter().zip(["secure-sna-checks", "discovery-checks"]) {
        let device = world.create(product).await;
        let beginning = format!("https://ringtrue.example/v1/number-verification/{path}/{}/redirect?t=", device.id);
        assert_eq!(device.url.strip_prefix(&beginning), Some(device.token.as_str()));
        assert_eq!(device.token.len(), 22, "128 bits in base64url");
        assert_ne!(world.create(product).await.token, device.token);
    }
}

#[tokio::test]
async fn an_operator_is_asked_what_the_product_wants_to_know() {
    let world = World::new().await;
    for mode in Mode::ALL {
        for product in PRODUCTS {
            world.operator(mode).says(Ok(if product == Product::SecureSna {
                Reply::Match(true)
            } else {
                number(OURS)
            }));
            world.create_in(mode, product, CreateSilent::default()).await.brings_a_code().await;
        }
        let seen = world.operator(mode).seen();
        let sim = (mode == Mode::Sandbox).then(|| OURS.to_owned());
        let is_ours = Asked::Is(OURS.to_owned());
        assert_eq!(seen.departures, [(is_ours.clone(), sim), (Asked::Which, None)]);
        assert_eq!(seen.arrivals, [(is_ours, address(ON_OURS)), (Asked::Which, address(ON_OURS))]);
    }
    assert!(world.other.seen().departures.is_empty());
}

#[tokio::test]
async fn a_simulated_device_has_the_sim_that_it_names() {
    let world = World::new().await;
    let sim = Some("+99000000017");
    for (mode, expected) in [(Mode::Sandbox, sim), (Mode::Live, None)] {
        let device = world.create_in(mode, Product::SecureSna, CreateSilent::default()).await;
        ticket(world.engine.visit(Visit { sim, ..device.visit() }).await);
        let (_, seen) = world.operator(mode).seen().departures.remove(0);
        assert_eq!(seen.as_deref(), expected, "{mode:?}");
    }
    let device = world.create_in(Mode::Sandbox, Product::Discovery, CreateSilent::default()).await;
    let refused = world.engine.visit(Visit { sim: Some("99"), ..device.visit() }).await;
    assert!(matches!(refused, Err(VisitError::Sim(_))), "{refused:?}");
    assert_eq!(device.status().await, Status::Accepted, "it may try again");
}

#[tokio::test]
async fn each_network_has_its_connector() {
    let world = World::new().await;
    let request = CreateSilent { phone_number: Some(OTHER.to_owned()), ..CreateSilent::default() };
    let device = world.create_in(Mode::Live, Product::SecureSna, request).await;
    let ticket_there = ticket(device.opens_url_from(ON_OTHER).await);
    assert!(device.comes_back_from(ON_OTHER, "other", &ticket_there).await.unwrap().result.is_ok());
    assert_eq!((world.ours.seen().departures.len(), world.other.seen().arrivals.len()), (0, 1));

    // A brand lives on another network: one connector asks for both.
    let device = world.create(Product::SecureSna).await;
    let ticket = ticket(device.opens_url_from(ON_BRAND).await);
    let code = device.comes_back_from(ON_BRAND, "ours", &ticket).await.unwrap().result.unwrap().0;
    assert_eq!(device.redeem(&code).await.unwrap().network.unwrap().as_str(), "23410", "the number's");
}

/// Who is talked into opening another's URL comes from elsewhere.
#[tokio::test]
async fn only_the_device_that_left_comes_back() {
    let world = World::new().await;
    let elsewhere = ON_OTHER;
    for (announced, back, is_good) in [
        (None, ON_OURS, true),
        (None, ALSO_ON_OURS, true),
        (None, elsewhere, false),
        (Some(ON_OURS), ON_OURS, true),
        (Some(ON_OURS), ALSO_ON_OURS, false),
    ] {
        let device_ip = announced.map(str::to_owned);
        let request = CreateSilent { phone_number: Some(OURS.to_owned()), device_ip, ..CreateSilent::default() };
        let device = world.create_in(Mode::Live, Product::SecureSna, request).await;
        let ticket = device.sets_out().await;
        let end = device.comes_back_from(back, "ours", &ticket).await.unwrap();
        match end.result {
            Ok(_) => assert!(is_good, "{announced:?} {back}"),
            Err(fault) => {
                assert!(!is_good, "{announced:?} {back}");
                assert_eq!(fault, ChainFault::Failed(ErrorCode::IpMismatch));
            }
        }
    }
}

#[tokio::test]
async fn the_device_is_sent_where_the_caller_wants_it() {
    let world = World::new().await;
    let request = CreateSilent {
        reference: "order 7".parse().ok(),
        redirect_url: Some("https://shop.example/back?session=7".to_owned()),
        ..CreateSilent::default()
    };
    for request in [request, CreateSilent::default()] {
        let device = world.create_in(Mode::Live, Product::SecureSna, request.clone()).await;
        let ticket = device.sets_out().await;
        for end in [device.comes_back(&ticket).await.unwrap(), device.is_stopped_at(ON_OURS).await] {
            assert_eq!(end.redirect_url.map(|url| url.as_str().to_owned()), request.redirect_url);
            assert_eq!(end.reference, request.reference);
        }
    }
}

#[tokio::test]
async fn a_url_is_good_for_its_check_and_product() {
    let world = World::new().await;
    let (device, other) = (world.create(Product::SecureSna).await, world.create(Product::SecureSna).await);
    for visit in [
        Visit { token: "", ..device.visit() },
        Visit { token: &other.token, ..device.visit() },
        Visit { check: other.id, ..device.visit() },
        Visit { token: &device.token[..21], ..device.visit() },
        Visit { product: Product::Discovery, ..device.visit() },
    ] {
        let refused = world.engine.visit(visit).await;
        assert!(matches!(refused, Err(VisitError::NotFound)), "{refused:?}");
    }
    assert_eq!(device.status().await, Status::Accepted);
    assert!(world.ours.seen().departures.is_empty());
    device.sets_out().await;
}

#[tokio::test]
async fn a_device_that_comes_when_all_is_said_gets_no_second_code() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let code = device.brings_a_code().await;
    assert_eq!(fault(device.is_stopped_at(ON_OURS).await), ChainFault::AlreadyCompleted);
    assert_eq!(fault(device.is_stopped_at(ON_OTHER).await), ChainFault::AlreadyCompleted, "from wherever");
    assert_eq!(device.redeem(&code).await.unwrap().status(), Status::Completed, "the code is still good");
    assert_eq!(fault(device.is_stopped_at(ON_OURS).await), ChainFault::AlreadyCompleted);
    assert_eq!(world.ours.seen().departures.len(), 1);
}

#[tokio::test]
async fn time_ends_a_check_wherever_its_device_is() {
    let world = World::new().await;
    let (waiting, away, back) = (
        world.create(Product::SecureSna).await,
        world.create(Product::SecureSna).await,
        world.create(Product::SecureSna).await,
    );
    let ticket = away.sets_out().await;
    back.brings_a_code().await;
    world.pass(119);
    assert_eq!(waiting.status().await, Status::Accepted);
    world.pass(1);
    assert_eq!(fault(waiting.is_stopped_at(ON_OURS).await), ChainFault::Expired);
    assert_eq!(fault(away.comes_back(&ticket).await.unwrap()), ChainFault::Expired);
    assert_eq!(fault(back.is_stopped_at(ON_OURS).await), ChainFault::Expired);
    for device in [&waiting, &away, &back] {
        assert_eq!(device.status().await, Status::Expired);
        assert_eq!(fault(device.is_stopped_at(ON_OURS).await), ChainFault::Expired, "and again");
    }
    assert_eq!(world.ours.seen().arrivals.len(), 1, "nobody was asked about one that is over");
}

/// Nobody has recorded the end when the operator answers, or somebody has.
#[tokio::test]
async fn what_an_operator_says_too_late_gives_no_code() {
    let world = World::new().await;
    for is_swept in [false, true] {
        let slow = |engine: ringtrue_engine::Engine, clock: std::sync::Arc<ringtrue_engine::ports::ManualClock>| async move {
            clock.advance(jiff::SignedDuration::from_secs(120));
            if is_swept {
                engine.sweep().await.unwrap();
            }
        };
        let device = world.create(Product::SecureSna).await;
        let ticket = device.sets_out().await;
        world.ours.meanwhile(slow(world.engine.clone(), world.clock.clone()));
        assert_eq!(fault(device.comes_back(&ticket).await.unwrap()), ChainFault::Expired, "swept: {is_swept}");
        assert_eq!(device.status().await, Status::Expired);

        let device = world.create(Product::SecureSna).await;
        world.ours.meanwhile(slow(world.engine.clone(), world.clock.clone()));
        assert_eq!(fault(device.is_stopped_at(ON_OURS).await), ChainFault::Expired, "swept: {is_swept}");
        let check = device.check().await;
        assert_eq!(check.status(), Status::Expired);
        assert_eq!(check.updated_at(), Some(check.expires_at));
    }
    assert!(world.clock.now() > BEGINNING);
}
