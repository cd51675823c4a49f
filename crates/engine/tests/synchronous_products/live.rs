//! SIM Swap in live projects: eligibility gates, operator results, and timeouts.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join};
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{CheckStatus, ErrorCode},
    page::PageRequest,
    product::Product,
    sim_swap::{SimHistory, SimSwapPeriod, SimSwapVerdict},
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::sim_swap::CreateSimSwap,
    lookups::number_lookup::{LookupSources, PrefixPolicy},
    ports::lookups::{LookupError, LookupResult},
};
use strum::VariantArray as _;

use crate::{
    sim_swap::{create, sim_swap_request},
    sources::Behavior,
    world::{EVERYTHING, FORBIDDEN, OF_BRAND, PORTED, SIMS_ONLY, START_TIME, UNCONNECTED, World, ids},
};

#[tokio::test]
async fn gates_are_checked_in_order() {
    let world = World::new().await;
    world.source.set_result("+447700900130", Ok(LookupResult::NoSubscriber));
    world.source.set_result("+4915112345699", Err(LookupError::Unreachable));
    world.source.set_result("+447700900134", Ok(LookupResult::Network("26201".parse().unwrap())));
    for (number, expected) in [
        ("447700900122", "PhoneNumber(Shape)"),
        ("+990123456700", "PhoneNumber(Simulated)"),
        ("+4915112345678", "MnoNotSupported"),
        (UNCONNECTED, "MnoNotSupported"),
        (FORBIDDEN, "NetworkNotAllowed"),
        ("+447700900130", "MnoNotSupported"),
        ("+4915112345699", "LookupUnavailable"),
        ("+447700900134", "MnoNotSupported"),
    ] {
        let refused = create(&world, &world.live, number).await.expect_err("rejected");
        assert_eq!(format!("{refused:?}"), expected, "{number}");
    }
    let strict = world.project("Strict", Mode::Live, Product::VARIANTS).await;
    let strict = world.allow(&strict, &["23410"], &[Product::ReverseSms, Product::SecureSna]).await;
    let refused = create(&world, &strict, EVERYTHING).await.unwrap_err();
    assert_eq!(format!("{refused:?}"), "NetworkNotAllowed");
    assert!(world.operator.requests().is_empty(), "no operator was contacted");
    let page = PageRequest::new(10, 1).unwrap();
    assert_eq!(world.engine.checks.sim_swap_checks(world.live.id, None, page).await.unwrap().total_items, 0);
}

#[tokio::test]
async fn request_goes_to_the_serving_operator() {
    let world = World::new().await;
    for (number, network) in [(EVERYTHING, "23410"), (SIMS_ONLY, "23420"), (PORTED, "23420"), (OF_BRAND, "23410")] {
        let check = create(&world, &world.live, number).await.unwrap();
        assert_eq!((check.status(), check.network), (CheckStatus::Completed, ids(&[network]).pop()), "{number}");
        assert_eq!(world.operator.requests().pop().unwrap(), (number.to_owned(), SimSwapPeriod::DEFAULT, START_TIME));
    }
    assert!(world.simulated.requests().is_empty());
}

#[tokio::test]
async fn verdict_follows_the_operator_result() {
    let world = World::new().await;
    let hours = SignedDuration::from_hours;
    let found = |no_sim_change, covered_minutes, changed_within_minutes| {
        Ok(SimSwapVerdict { no_sim_change, covered_minutes, changed_within_minutes })
    };
    for (history, period, end) in [
        (Ok(SimHistory::ChangedAt(START_TIME - hours(1))), 60, found(false, 60, Some(60))),
        (Ok(SimHistory::ChangedAt(START_TIME - hours(2))), 60, found(true, 60, Some(360))),
        (Ok(SimHistory::ChangedAt(START_TIME + hours(1))), 60, found(false, 60, Some(60))),
        (Ok(SimHistory::NoChangeFor(hours(24))), 540_000, found(true, 1_440, None)),
        (Ok(SimHistory::NoChangeFor(hours(24))), 60, found(true, 60, None)),
        (Ok(SimHistory::ChangedWithin(hours(24))), 1_440, found(false, 1_440, Some(1_440))),
        (Err(ErrorCode::MnoNotSupported), 60, Err(ErrorCode::MnoNotSupported)),
        (Err(ErrorCode::MnoTimeout), 60, Err(ErrorCode::MnoTimeout)),
        (Err(ErrorCode::MnoUserNotFound), 60, Err(ErrorCode::MnoUserNotFound)),
        (Err(ErrorCode::MnoResponseError), 60, Err(ErrorCode::MnoResponseError)),
        (Err(ErrorCode::MnoServerError), 60, Err(ErrorCode::MnoServerError)),
        (Err(ErrorCode::MnoNoDataAvailable), 60, Err(ErrorCode::MnoNoDataAvailable)),
        (Err(ErrorCode::InternalError), 60, Err(ErrorCode::InternalError)),
    ] {
        world.operator.set_behavior(Behavior::Fixed(history));
        let request = CreateSimSwap { period: Some(period.try_into()), ..sim_swap_request(EVERYTHING) };
        let check = world.engine.checks.create_sim_swap(&world.live, request, None).await.unwrap();
        assert_eq!(check.verdict().copied().ok_or(check.error_code()), end.map_err(Some), "{history:?}");
        assert_eq!(world.engine.checks.sim_swap_check(world.live.id, check.id).await.unwrap(), check, "{history:?}");
    }
    for period in [59, 540_001, 0, -60, i64::MIN, i64::MAX] {
        let request = CreateSimSwap { period: Some(period.try_into()), ..sim_swap_request(EVERYTHING) };
        let refused = world.engine.checks.create_sim_swap(&world.live, request, None).await.unwrap_err();
        assert_eq!(format!("{refused:?}"), "Period(InvalidSimSwapPeriod)", "{period}");
    }
}

#[tokio::test]
async fn hanging_operator_times_out() {
    let world = World::new().await;
    for (project, operator) in [(&world.live, &world.operator), (&world.sandbox, &world.simulated)] {
        operator.set_behavior(Behavior::Hang);
        let is_over = Cell::new(false);
        let request = create(&world, project, EVERYTHING).inspect(|_| is_over.set(true));
        // Pauses Tokio's time only while the request waits for the operator, because the store does not work while
        // time is paused.
        let waiting = async {
            operator.called.notified().await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_millis(14_999)).await;
            tokio::task::yield_now().await;
            assert!(!is_over.get(), "the operator still has time");
            tokio::time::advance(Duration::from_millis(1)).await;
            tokio::time::resume();
        };
        let (check, ()) = join(request, waiting).await;
        let check = check.unwrap();
        assert_eq!(check.error_code(), Some(ErrorCode::MnoTimeout));
        assert_eq!(world.engine.checks.sim_swap_check(project.id, check.id).await.unwrap(), check);
    }
}

/// The server drops a request when the API client disconnects.
#[tokio::test]
async fn dropped_request_stores_no_check() {
    let world = World::new().await;
    world.operator.set_behavior(Behavior::Hang);
    tokio::select! {
        _ = create(&world, &world.live, EVERYTHING) => panic!("unexpected result"),
        () = world.operator.called.notified() => {}
    }
    let page = PageRequest::new(10, 1).unwrap();
    assert_eq!(world.engine.checks.sim_swap_checks(world.live.id, None, page).await.unwrap().total_items, 0);
}

#[tokio::test]
async fn final_prefixes_skip_sources() {
    let world = World::new().await;
    let sources = vec![Arc::clone(&world.source) as _];
    let sources = LookupSources { prefixes: PrefixPolicy::Final, sources, ..LookupSources::default() };
    world.engine.number_lookup().replace(sources);
    let check = create(&world, &world.live, PORTED).await.unwrap();
    assert_eq!(check.network, ids(&["23410"]).pop(), "the source is not queried");
}
