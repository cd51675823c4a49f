//! SIM Swap in live projects: the gates, what operators say, and operators that say nothing.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join};
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{ErrorCode, Status},
    page::PageRequest,
    product::Product,
    sim_swap::{Period, SimHistory, SimSwap},
    tenancy::Mode,
};
use ringtrue_engine::{
    number_lookup::{Prefixes, Sources},
    ports::{Resolved, SourceFault},
    sim_swap::CreateSimSwap,
};

use crate::{
    sim_swap::{about, create},
    sources::Says,
    world::{BEGINNING, EVERYTHING, FORBIDDEN, OF_BRAND, PORTED, SIMS_ONLY, UNCONNECTED, World, ids},
};

#[tokio::test]
async fn the_gates_stand_in_their_order() {
    let world = World::new().await;
    world.source.knows("+447700900130", Ok(Resolved::NoSubscriber));
    world.source.knows("+4915112345699", Err(SourceFault::Unreachable));
    world.source.knows("+447700900134", Ok(Resolved::Network("26201".parse().unwrap())));
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
        let refused = create(&world, &world.live, number).await.expect_err("it is not made");
        assert_eq!(format!("{refused:?}"), expected, "{number}");
    }
    let strict = world.project("Strict", Mode::Live, &Product::ALL).await;
    let strict = world.allow(&strict, &["23410"], &[Product::ReverseSms, Product::SecureSna]).await;
    let refused = create(&world, &strict, EVERYTHING).await.unwrap_err();
    assert_eq!(format!("{refused:?}"), "NetworkNotAllowed");
    assert!(world.register.asked().is_empty(), "nobody was asked");
    let page = PageRequest::new(10, 1).unwrap();
    assert_eq!(world.engine.sim_swap_checks(world.live.id, None, page).await.unwrap().total_items, 0);
}

#[tokio::test]
async fn the_operator_that_serves_the_number_now_is_asked() {
    let world = World::new().await;
    for (number, network) in [(EVERYTHING, "23410"), (SIMS_ONLY, "23420"), (PORTED, "23420"), (OF_BRAND, "23410")] {
        let check = create(&world, &world.live, number).await.unwrap();
        assert_eq!((check.status(), check.network), (Status::Completed, ids(&[network]).pop()), "{number}");
        assert_eq!(world.register.asked().pop().unwrap(), (number.to_owned(), Period::DEFAULT, BEGINNING));
    }
    assert!(world.simulated.asked().is_empty());
}

#[tokio::test]
async fn an_end_is_what_the_operator_said() {
    let world = World::new().await;
    let hours = SignedDuration::from_hours;
    let found = |no_sim_change, covered, change_within| Ok(SimSwap { no_sim_change, covered, change_within });
    for (says, period, end) in [
        (Ok(SimHistory::ChangedAt(BEGINNING - hours(1))), 60, found(false, 60, Some(60))),
        (Ok(SimHistory::ChangedAt(BEGINNING - hours(2))), 60, found(true, 60, Some(360))),
        (Ok(SimHistory::ChangedAt(BEGINNING + hours(1))), 60, found(false, 60, Some(60))),
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
        world.register.says(Says::This(says));
        let request = CreateSimSwap { period: Some(period), ..about(EVERYTHING) };
        let check = world.engine.create_sim_swap(&world.live, request, None).await.unwrap();
        assert_eq!(check.verdict().copied().ok_or(check.error_code()), end.map_err(Some), "{says:?}");
        assert_eq!(world.engine.sim_swap(world.live.id, check.id).await.unwrap(), check, "{says:?}");
    }
    for period in [59, 540_001, 0, -60, i64::MIN, i64::MAX] {
        let request = CreateSimSwap { period: Some(period), ..about(EVERYTHING) };
        let refused = world.engine.create_sim_swap(&world.live, request, None).await.unwrap_err();
        assert_eq!(format!("{refused:?}"), "Period(InvalidPeriod)", "{period}");
    }
}

#[tokio::test]
async fn an_operator_that_says_nothing_is_not_waited_for_for_ever() {
    let world = World::new().await;
    for (project, register) in [(&world.live, &world.register), (&world.sandbox, &world.simulated)] {
        register.says(Says::Nothing);
        let is_over = Cell::new(false);
        let asking = create(&world, project, EVERYTHING).inspect(|_| is_over.set(true));
        // The store keeps its own time, so that time stands still only while the operator is waited for.
        let waiting = async {
            register.called.notified().await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_millis(9_999)).await;
            tokio::task::yield_now().await;
            assert!(!is_over.get(), "the operator still has time");
            tokio::time::advance(Duration::from_millis(1)).await;
            tokio::time::resume();
        };
        let (check, ()) = join(asking, waiting).await;
        let check = check.unwrap();
        assert_eq!(check.error_code(), Some(ErrorCode::MnoTimeout));
        assert_eq!(world.engine.sim_swap(project.id, check.id).await.unwrap(), check);
    }
}

/// A caller that hangs up leaves nothing half done.
#[tokio::test]
async fn a_question_that_is_dropped_leaves_no_check() {
    let world = World::new().await;
    world.register.says(Says::Nothing);
    tokio::select! {
        _ = create(&world, &world.live, EVERYTHING) => panic!("an answer from nowhere"),
        () = world.register.called.notified() => {}
    }
    let page = PageRequest::new(10, 1).unwrap();
    assert_eq!(world.engine.sim_swap_checks(world.live.id, None, page).await.unwrap().total_items, 0);
}

#[tokio::test]
async fn prefixes_that_are_final_need_no_source() {
    let world = World::new().await;
    let sources = vec![Arc::clone(&world.source) as _];
    let sources = Sources { prefixes: Prefixes::Final, sources, ..Sources::default() };
    world.engine.number_lookup().replace(sources);
    let check = create(&world, &world.live, PORTED).await.unwrap();
    assert_eq!(check.network, ids(&["23410"]).pop(), "whatever the source says");
}
