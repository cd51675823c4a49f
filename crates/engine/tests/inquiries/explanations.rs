//! Why a user can use what: for whoever runs the service.

use ringtrue_domain::{eligibility::Gate, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::{
    eligibility::{Explanation, User},
    number_lookup::Asked,
    ports::{Resolved, SourceFault},
};

use crate::world::{ALL, EVERYTHING, FORBIDDEN, PORTED, SIMS_ONLY, UNCONNECTED, World, ids};

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

fn said(source: &str, said: Result<Resolved, SourceFault>) -> Asked {
    Asked { source: source.to_owned(), said }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands beside answers that are errors")]
fn on(id: &str) -> Result<Resolved, SourceFault> {
    Ok(Resolved::Network(id.parse().unwrap()))
}

fn gates(explanation: &Explanation) -> Vec<Option<Gate>> {
    let (products, gates): (Vec<_>, Vec<_>) = explanation.gates.iter().copied().unzip();
    assert!(products.is_empty() || products == ALL, "in the order of answers");
    gates.into_iter().map(Result::err).collect()
}

#[tokio::test]
async fn every_source_is_named_with_what_it_said() {
    let world = World::new().await;
    world.source.knows("+447700900130", Ok(Resolved::NoSubscriber));
    world.source.knows("+447700900132", Err(SourceFault::Unreachable));
    world.source.knows("+447700900134", on("26201"));
    world.source.knows("+447700900136", Ok(Resolved::OtherNetwork));
    world.source.knows("+4915112345699", Err(SourceFault::Unreachable));
    for (text, asked, network) in [
        (EVERYTHING, vec![said("hlr", Ok(Resolved::NoData)), said("prefixes", on("23410"))], Ok("23410")),
        (PORTED, vec![said("hlr", on("23420"))], Ok("23420")),
        ("+447700900130", vec![said("hlr", Ok(Resolved::NoSubscriber))], Err("nobody has this number")),
        ("+447700900132", vec![said("hlr", Err(SourceFault::Unreachable)), said("prefixes", on("23410"))], Ok("23410")),
        (
            "+4915112345699",
            vec![said("hlr", Err(SourceFault::Unreachable)), said("prefixes", Ok(Resolved::NoData))],
            Err("a source failed, and neither another source nor a prefix knows the number's network"),
        ),
        (
            "+447700900136",
            vec![said("hlr", Ok(Resolved::OtherNetwork))],
            Err("the number is in service on a network that is not configured here"),
        ),
        ("+447700900134", vec![said("hlr", on("26201"))], Err("26201, which is not configured here")),
        (
            "+4915112345678",
            vec![said("hlr", Ok(Resolved::NoData)), said("prefixes", Ok(Resolved::NoData))],
            Err("no source knows this number"),
        ),
    ] {
        let told = world.engine.explain(Some(&world.live), &User::Number(number(text))).await;
        assert_eq!(told.asked, asked, "{text}");
        let network = network.map(|id| ids(&[id]).remove(0)).map_err(str::to_owned);
        assert_eq!(told.network.map(|network| network.id.clone()), network, "{text}");
    }
}

#[tokio::test]
async fn the_gate_that_lets_a_product_fall_is_named() {
    let world = World::new().await;
    let (support, project) = (Some(Gate::ProductSupport), Some(Gate::Authorisation));
    for (text, expected) in [
        (EVERYTHING, [None; 4]),
        (SIMS_ONLY, [support, None, support, support]),
        (UNCONNECTED, [Some(Gate::Connectivity); 4]),
        (FORBIDDEN, [project; 4]),
    ] {
        let told = world.engine.explain(Some(&world.live), &User::Number(number(text))).await;
        assert_eq!(gates(&told), expected, "{text}");
    }
    let few = world.project("Few", Mode::Live, &[Product::SimSwap]).await;
    let few = world.allow(&few, &["23410"], &ALL).await;
    let told = world.engine.explain(Some(&few), &User::Number(number(EVERYTHING))).await;
    assert_eq!(gates(&told), [project, None, project, project]);
}

#[tokio::test]
async fn addresses_are_explained_too() {
    let world = World::new().await;
    for (address, network) in [
        ("82.132.0.1", Ok("23410")),
        ("2a01:4c8::1", Ok("23410")),
        ("80.187.0.1", Err("26201, which is not configured here")),
        ("81.2.69.1", Err("the address is known, and not a mobile one")),
        ("10.0.0.1", Err("the address is private, reserved, or of no network that is known here")),
    ] {
        let told = world.engine.explain(Some(&world.live), &User::Address(address.parse().unwrap())).await;
        assert_eq!(gates(&told), vec![None; if network.is_ok() { 4 } else { 0 }], "{address}");
        let network = network.map(|id| ids(&[id]).remove(0)).map_err(str::to_owned);
        assert_eq!(told.network.map(|network| network.id.clone()), network, "{address}");
        assert!(told.asked.is_empty());
    }
}

#[tokio::test]
async fn without_a_project_its_gate_is_open() {
    let world = World::new().await;
    let support = Some(Gate::ProductSupport);
    let silent_only = [None, None, support, None];
    for (text, expected) in
        [(EVERYTHING, [None; 4]), (FORBIDDEN, silent_only), (UNCONNECTED, [Some(Gate::Connectivity); 4])]
    {
        let told = world.engine.explain(None, &User::Number(number(text))).await;
        assert_eq!(gates(&told), expected, "{text}");
    }
    assert_eq!(gates(&world.engine.explain(None, &User::Address("82.132.0.1".parse().unwrap())).await), [None; 4]);
}

#[tokio::test]
async fn in_a_sandbox_the_digits_are_the_explanation() {
    let world = World::new().await;
    world.source.knows("+447700900197", Err(SourceFault::Unreachable));
    let support = Some(Gate::ProductSupport);
    for (text, expected) in [
        ("+990123456700", Ok([None; 4])),
        ("+447700900197", Ok([support; 4])),
        ("+990123456796", Ok([support, None, None, None])),
        ("+990123456794", Err("no active subscriber has this number")),
    ] {
        let number = Msisdn::parse(text, Mode::Sandbox).unwrap();
        let told = world.engine.explain(Some(&world.sandbox), &User::Number(number)).await;
        assert!(told.asked.is_empty(), "a sandbox asks no real source");
        let open = gates(&told);
        let found = told.network.map(|_| open);
        assert_eq!(found, expected.map(|gates| gates.to_vec()).map_err(str::to_owned), "{text}");
    }
    let told = world.engine.explain(Some(&world.sandbox), &User::Address("198.51.100.1".parse().unwrap())).await;
    assert_eq!(told.network.unwrap_err(), "this address does not belong to a mobile network");
}
