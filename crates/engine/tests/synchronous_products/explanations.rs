//! Tests the explanations of eligibility results.

use ringtrue_domain::{eligibility::EligibilityGate, phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::{
    lookups::{
        eligibility::{EligibilityExplanation, EligibilitySubject},
        number_lookup::SourceResult,
    },
    ports::lookups::{LookupError, LookupResult},
};

use crate::world::{ALL, EVERYTHING, FORBIDDEN, PORTED, SIMS_ONLY, UNCONNECTED, World, ids};

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

fn source_result(source: &str, result: Result<LookupResult, LookupError>) -> SourceResult {
    SourceResult { source: source.to_owned(), result }
}

#[expect(clippy::unnecessary_wraps, reason = "tables also contain errors")]
fn on(id: &str) -> Result<LookupResult, LookupError> {
    Ok(LookupResult::Network(id.parse().unwrap()))
}

fn gates(explanation: &EligibilityExplanation) -> Vec<Option<EligibilityGate>> {
    let (products, gates): (Vec<_>, Vec<_>) = explanation.gates.iter().copied().unzip();
    assert!(products.is_empty() || products == ALL, "in the order of responses");
    gates.into_iter().map(Result::err).collect()
}

#[tokio::test]
async fn explanation_lists_source_results() {
    let world = World::new().await;
    world.source.set_result("+447700900130", Ok(LookupResult::NoSubscriber));
    world.source.set_result("+447700900132", Err(LookupError::Unreachable));
    world.source.set_result("+447700900134", on("26201"));
    world.source.set_result("+447700900136", Ok(LookupResult::OtherNetwork));
    world.source.set_result("+4915112345699", Err(LookupError::Unreachable));
    for (text, source_results, network) in [
        (
            EVERYTHING,
            vec![source_result("hlr", Ok(LookupResult::NoData)), source_result("prefixes", on("23410"))],
            Ok("23410"),
        ),
        (PORTED, vec![source_result("hlr", on("23420"))], Ok("23420")),
        (
            "+447700900130",
            vec![source_result("hlr", Ok(LookupResult::NoSubscriber))],
            Err("no active subscriber has this number"),
        ),
        (
            "+447700900132",
            vec![source_result("hlr", Err(LookupError::Unreachable)), source_result("prefixes", on("23410"))],
            Ok("23410"),
        ),
        (
            "+4915112345699",
            vec![
                source_result("hlr", Err(LookupError::Unreachable)),
                source_result("prefixes", Ok(LookupResult::NoData)),
            ],
            Err("number lookup unavailable: a source failed, and no other source or prefix resolved the number"),
        ),
        (
            "+447700900136",
            vec![source_result("hlr", Ok(LookupResult::OtherNetwork))],
            Err("the number is in service on a network that is not configured"),
        ),
        ("+447700900134", vec![source_result("hlr", on("26201"))], Err("26201, which is not configured")),
        (
            "+4915112345678",
            vec![source_result("hlr", Ok(LookupResult::NoData)), source_result("prefixes", Ok(LookupResult::NoData))],
            Err("no source has data about this number"),
        ),
    ] {
        let explanation =
            world.engine.checks.explain_eligibility(Some(&world.live), &EligibilitySubject::Number(number(text))).await;
        assert_eq!(explanation.source_results, source_results, "{text}");
        let network = network.map(|id| ids(&[id]).remove(0)).map_err(str::to_owned);
        assert_eq!(explanation.network.map(|network| network.id.clone()), network, "{text}");
    }
}

#[tokio::test]
async fn explanation_names_the_excluding_gate() {
    let world = World::new().await;
    let (support, project) = (Some(EligibilityGate::ProductSupport), Some(EligibilityGate::Authorisation));
    for (text, expected) in [
        (EVERYTHING, [None; 4]),
        (SIMS_ONLY, [support, None, support, support]),
        (UNCONNECTED, [Some(EligibilityGate::Connectivity); 4]),
        (FORBIDDEN, [project; 4]),
    ] {
        let explanation =
            world.engine.checks.explain_eligibility(Some(&world.live), &EligibilitySubject::Number(number(text))).await;
        assert_eq!(gates(&explanation), expected, "{text}");
    }
    let few = world.project("Few", Mode::Live, &[Product::SimSwap]).await;
    let few = world.allow(&few, &["23410"], &ALL).await;
    let explanation =
        world.engine.checks.explain_eligibility(Some(&few), &EligibilitySubject::Number(number(EVERYTHING))).await;
    assert_eq!(gates(&explanation), [project, None, project, project]);
}

#[tokio::test]
async fn addresses_are_explained() {
    let world = World::new().await;
    for (address, network) in [
        ("82.132.0.1", Ok("23410")),
        ("2a01:4c8::1", Ok("23410")),
        ("80.187.0.1", Err("26201, which is not configured")),
        ("81.2.69.1", Err("the address does not belong to a mobile network")),
        ("10.0.0.1", Err("the address is private, reserved, or belongs to no known network")),
    ] {
        let explanation = world
            .engine
            .checks
            .explain_eligibility(Some(&world.live), &EligibilitySubject::Address(address.parse().unwrap()))
            .await;
        assert_eq!(gates(&explanation), vec![None; if network.is_ok() { 4 } else { 0 }], "{address}");
        let network = network.map(|id| ids(&[id]).remove(0)).map_err(str::to_owned);
        assert_eq!(explanation.network.map(|network| network.id.clone()), network, "{address}");
        assert!(explanation.source_results.is_empty());
    }
}

#[tokio::test]
async fn authorisation_is_skipped_without_a_project() {
    let world = World::new().await;
    let support = Some(EligibilityGate::ProductSupport);
    let silent_only = [None, None, support, None];
    for (text, expected) in
        [(EVERYTHING, [None; 4]), (FORBIDDEN, silent_only), (UNCONNECTED, [Some(EligibilityGate::Connectivity); 4])]
    {
        let explanation =
            world.engine.checks.explain_eligibility(None, &EligibilitySubject::Number(number(text))).await;
        assert_eq!(gates(&explanation), expected, "{text}");
    }
    assert_eq!(
        gates(
            &world
                .engine
                .checks
                .explain_eligibility(None, &EligibilitySubject::Address("82.132.0.1".parse().unwrap()))
                .await
        ),
        [None; 4]
    );
}

#[tokio::test]
async fn sandbox_explanation_follows_the_suffix() {
    let world = World::new().await;
    world.source.set_result("+447700900197", Err(LookupError::Unreachable));
    let support = Some(EligibilityGate::ProductSupport);
    for (text, expected) in [
        ("+990123456700", Ok([None; 4])),
        ("+447700900197", Ok([support; 4])),
        ("+990123456796", Ok([support, None, None, None])),
        ("+990123456794", Err("no active subscriber has this number")),
    ] {
        let number = Msisdn::parse(text, Mode::Sandbox).unwrap();
        let explanation =
            world.engine.checks.explain_eligibility(Some(&world.sandbox), &EligibilitySubject::Number(number)).await;
        assert!(explanation.source_results.is_empty(), "sandbox requests do not query real sources");
        let open = gates(&explanation);
        let found = explanation.network.map(|_| open);
        assert_eq!(found, expected.map(|gates| gates.to_vec()).map_err(str::to_owned), "{text}");
    }
    let explanation = world
        .engine
        .checks
        .explain_eligibility(Some(&world.sandbox), &EligibilitySubject::Address("198.51.100.1".parse().unwrap()))
        .await;
    assert_eq!(explanation.network.unwrap_err(), "this address does not belong to a mobile network");
}
