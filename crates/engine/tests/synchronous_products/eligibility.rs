//! Eligibility by number and by address, live and sandbox.

use std::sync::Arc;

use ringtrue_domain::{product::Product, tenancy::Mode};
use ringtrue_engine::{
    lookups::{
        eligibility::{Eligibility, EligibilityError, ServingNetwork},
        networks::NetworkInfo,
        number_lookup::LookupSources,
    },
    ports::lookups::{LookupError, LookupResult},
};

use crate::world::{ALL, EVERYTHING, FORBIDDEN, OF_BRAND, PORTED, SIMS_ONLY, UNCONNECTED, World};

type Found = Result<(String, Vec<Product>), String>;

fn found(result: Result<Eligibility, EligibilityError>) -> Found {
    let id_and_products = |eligibility: Eligibility| {
        (eligibility.network.id().map(ToString::to_string).unwrap_or_default(), eligibility.products)
    };
    result.map(id_and_products).map_err(|error| format!("{error:?}"))
}

#[expect(clippy::unnecessary_wraps, reason = "tables also contain errors")]
fn at(network: &str, products: &[Product]) -> Found {
    Ok((network.to_owned(), products.to_vec()))
}

fn ours(result: Result<Eligibility, EligibilityError>) -> Arc<NetworkInfo> {
    match result.unwrap().network {
        ServingNetwork::Configured(network) => network,
        other @ ServingNetwork::Other { .. } => panic!("{other:?}"),
    }
}

fn not(problem: &str) -> Found {
    Err(problem.to_owned())
}

#[tokio::test]
async fn sandbox_results_depend_on_the_last_digits() {
    let world = World::new().await;
    let without_secure_sna = [Product::SimSwap, Product::ReverseSms, Product::Discovery];
    for (suffix, expected) in [
        ("00", at("00101", &ALL)),
        ("01", at("00101", &ALL)),
        ("99", at("00101", &ALL)),
        ("98", at("00101", &ALL)),
        ("97", at("00101", &[])),
        ("96", at("00101", &without_secure_sna)),
        ("95", at("00101", &ALL)),
        ("94", not("NoSubscriber")),
        ("93", not("LookupUnavailable")),
    ] {
        for start in ["+9901234567", "+4477009001"] {
            let result = world.engine.checks.eligibility_of_number(&world.sandbox, &format!("{start}{suffix}")).await;
            assert_eq!(found(result), expected, "{suffix}");
        }
    }
}

#[tokio::test]
async fn sandbox_uses_documentation_addresses() {
    let world = World::new().await;
    for (address, expected) in [
        ("203.0.113.0", at("00101", &ALL)),
        ("203.0.113.127", at("00101", &ALL)),
        ("::ffff:203.0.113.9", at("00101", &ALL)),
        ("203.0.113.128", at("00101", &[])),
        ("203.0.113.255", at("00101", &[])),
        ("198.51.100.1", not("NotMobile")),
        ("192.0.2.1", not("NoNetwork")),
        ("82.132.0.1", not("NoNetwork")),
        ("2001:db8::1", not("NoNetwork")),
        ("203.0.113", not("Address")),
    ] {
        assert_eq!(found(world.engine.checks.eligibility_of_address(&world.sandbox, address)), expected, "{address}");
    }
}

#[tokio::test]
async fn numbers_get_the_products_of_their_network() {
    let world = World::new().await;
    world.source.set_result("+447700900130", Ok(LookupResult::NoSubscriber));
    world.source.set_result("+447700900132", Err(LookupError::Unreachable));
    world.source.set_result("+4915112345699", Err(LookupError::Unreachable));
    world.source.set_result("+447700900134", Ok(LookupResult::Network("26201".parse().unwrap())));
    world.source.set_result("+447700900136", Ok(LookupResult::OtherNetwork));
    for (number, expected) in [
        (EVERYTHING, at("23410", &ALL)),
        (SIMS_ONLY, at("23420", &[Product::SimSwap])),
        (UNCONNECTED, at("23430", &[])),
        (FORBIDDEN, at("23450", &[])),
        (PORTED, at("23420", &[Product::SimSwap])),
        (OF_BRAND, at("23410", &ALL)),
        ("+447700900130", not("NoSubscriber")),
        ("+447700900132", at("23410", &ALL)),
        ("+4915112345699", not("LookupUnavailable")),
        ("+447700900134", at("26201", &[])),
        ("+447700900136", at("", &[])),
        ("+4915112345678", not("NoSubscriber")),
        ("447700900122", not("PhoneNumber(Shape)")),
        ("+990123456700", not("PhoneNumber(Simulated)")),
    ] {
        let result = world.engine.checks.eligibility_of_number(&world.live, number).await;
        assert_eq!(found(result), expected, "{number}");
    }
}

#[tokio::test]
async fn addresses_get_the_products_of_their_network() {
    let world = World::new().await;
    for (address, expected) in [
        ("82.132.0.1", at("23410", &ALL)),
        ("::ffff:82.132.0.1", at("23410", &ALL)),
        ("2a01:4c8::1", at("23410", &ALL)),
        ("85.255.0.1", at("23420", &[Product::SimSwap])),
        ("80.187.0.1", not("NoNetwork")),
        ("81.2.69.1", not("NotMobile")),
        ("10.0.0.1", not("NoNetwork")),
        ("1.2.3", not("Address")),
        ("0x7f.1", not("Address")),
        ("fe80::1%eth0", not("Address")),
        ("[::1]", not("Address")),
        ("82.132.0.01", not("Address")),
    ] {
        assert_eq!(found(world.engine.checks.eligibility_of_address(&world.live, address)), expected, "{address}");
    }
}

#[tokio::test]
async fn products_are_limited_to_the_project() {
    let world = World::new().await;
    let few = [Product::Eligibility, Product::SimSwap, Product::Discovery];
    let project = world.project("Few", Mode::Live, &few).await;
    let of = async |project: &_| found(world.engine.checks.eligibility_of_number(project, EVERYTHING).await);
    assert_eq!(of(&project).await, at("23410", &[]), "no network is allowed");
    let project = world.allow(&project, &["23410"], &ALL).await;
    assert_eq!(
        of(&project).await,
        at("23410", &[Product::SimSwap, Product::Discovery]),
        "other products are not enabled"
    );
    let project = world.allow(&project, &["23410"], &[Product::Discovery, Product::ReverseSms]).await;
    assert_eq!(of(&project).await, at("23410", &[Product::Discovery]));
    let project = world.allow(&project, &["23420"], &ALL).await;
    assert_eq!(of(&project).await, at("23410", &[]));
}

#[tokio::test]
async fn unavailable_receiver_disables_reverse_sms() {
    let world = World::new().await;
    let receiver = world.engine.networks().directory().receivers().next().unwrap().clone();
    let name = "kannel".into();
    for (is_available, expected) in
        [(false, at("23410", &[Product::SecureSna, Product::SimSwap, Product::Discovery])), (true, at("23410", &ALL))]
    {
        world.engine.networks().set_receivers_available(&name, std::slice::from_ref(&receiver), is_available);
        let result = world.engine.checks.eligibility_of_number(&world.live, EVERYTHING).await;
        assert_eq!(found(result), expected);
    }
}

#[tokio::test]
async fn network_has_country_and_aliases() {
    let world = World::new().await;
    let network = ours(world.engine.checks.eligibility_of_number(&world.live, OF_BRAND).await);
    assert_eq!((network.id.as_str(), network.name.as_str()), ("23410", "Network 23410"));
    assert_eq!(network.aliases, ["23411", "A brand"]);
    assert_eq!((network.country.as_str(), network.dialing_code.as_str()), ("GB", "44"));
    let network = ours(world.engine.checks.eligibility_of_number(&world.sandbox, "+990123456700").await);
    assert_eq!((network.country.as_str(), network.dialing_code.as_str()), ("ZZ", "990"));
}

#[tokio::test]
async fn prefixes_decide_without_sources() {
    let world = World::new().await;
    world.engine.number_lookup().replace(LookupSources::default());
    let result = world.engine.checks.eligibility_of_number(&world.live, PORTED).await;
    assert_eq!(found(result), at("23410", &ALL));
}
