//! What becomes of a SIM Swap check: the sandbox's table, what is kept, and what a repetition gets.

use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{ErrorCode, Status},
    page::PageRequest,
    phone::Msisdn,
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    search,
    sim_swap::SimSwapCheck,
    tenancy::{CredentialOwner, Mode, Project},
};
use ringtrue_engine::{
    checks::{CreateError, ReadError},
    idempotency::{Begun, IdempotencyError, Once, StoredAnswer},
    ports::{UsageFilter, UsageGrouping},
    sim_swap::CreateSimSwap,
};

use crate::world::{BEGINNING, EVERYTHING, World};

pub fn about(number: &str) -> CreateSimSwap {
    CreateSimSwap { phone_number: number.to_owned(), period: None, reference: None }
}

pub async fn create(world: &World, project: &Project, number: &str) -> Result<SimSwapCheck, CreateError> {
    world.engine.create_sim_swap(project, about(number), None).await
}

#[tokio::test]
async fn simulated_numbers_do_as_their_last_digits_say() {
    let world = World::new().await;
    // The suffix, what was found (no change, and when the last one was), or why nothing.
    for (suffix, found) in [
        ("00", Ok((true, Some(525_601)))),
        ("92", Ok((true, Some(525_601)))),
        ("01", Ok((false, Some(1_440)))),
        ("91", Ok((false, Some(1_440)))),
        ("99", Err(ErrorCode::MnoServerError)),
        ("98", Ok((true, None))),
        ("96", Ok((true, Some(525_601)))),
        ("95", Err(ErrorCode::MnoTimeout)),
    ] {
        for start in ["+9901234567", "+4477009001"] {
            let check = create(&world, &world.sandbox, &format!("{start}{suffix}")).await.unwrap();
            let status = if found.is_ok() { Status::Completed } else { Status::Error };
            assert_eq!((check.status(), check.mode), (status, Mode::Sandbox), "{suffix}");
            assert_eq!(check.error_code(), found.err(), "{suffix}");
            let said = check.verdict().map(|said| (said.no_sim_change, said.change_within));
            assert_eq!(said, found.ok(), "{suffix}");
            assert_eq!(check.network.as_ref().unwrap().as_str(), "00101");
        }
    }
    let asked = world.simulated.asked().len();
    for (suffix, expected) in [("97", "MnoNotSupported"), ("94", "MnoNotSupported"), ("93", "LookupUnavailable")] {
        let refused = create(&world, &world.sandbox, &format!("+9901234567{suffix}")).await.unwrap_err();
        assert_eq!(format!("{refused:?}"), expected, "{suffix}");
    }
    assert_eq!(world.simulated.asked().len(), asked, "nobody was asked");
    assert!(world.register.asked().is_empty(), "a sandbox reaches no real operator");
}

/// The sandbox operator can be switched off.
#[tokio::test]
async fn without_a_simulated_operator_there_is_nobody_to_ask() {
    let world = World::without_simulated_operator().await;
    let refused = create(&world, &world.sandbox, "+990123456700").await.unwrap_err();
    assert!(matches!(refused, CreateError::MnoNotSupported), "{refused:?}");
}

#[tokio::test]
async fn a_number_can_be_asked_about_again_and_again() {
    let world = World::new().await;
    for _ in 0..20 {
        create(&world, &world.sandbox, "+990123456700").await.unwrap();
    }
    assert_eq!(world.simulated.asked().len(), 20, "the operator is asked each time");
}

#[tokio::test]
async fn a_check_is_read_and_listed_as_it_was_created() {
    let world = World::new().await;
    let (engine, page) = (&world.engine, PageRequest::new(10, 1).unwrap());
    let mut created = vec![];
    for (number, reference) in [("+990123456700", "a"), ("+990123456701", "b"), ("+990123456799", "c")] {
        let request = CreateSimSwap { reference: Some(reference.parse().unwrap()), ..about(number) };
        created.push(engine.create_sim_swap(&world.sandbox, request, None).await.unwrap());
        world.clock.advance(SignedDuration::from_secs(1));
    }
    for check in &created {
        assert_eq!(engine.sim_swap(world.sandbox.id, check.id).await.unwrap(), *check);
        assert!(matches!(engine.sim_swap(world.live.id, check.id).await, Err(ReadError::NotYours)));
        assert!(matches!(engine.reverse_sms(world.sandbox.id, check.id).await, Err(ReadError::NotFound)));
        assert_eq!(check.claimed, None, "the number is not kept");
    }
    // However much time passes, an end is an end.
    world.clock.advance(SignedDuration::from_hours(48));
    let listed = engine.sim_swap_checks(world.sandbox.id, None, page).await.unwrap();
    created.reverse();
    assert_eq!((listed.items, listed.total_items), (created, 3));
    for (text, found) in [
        ("status==COMPLETED", "ba"),
        ("verified==false", "b"),
        ("error_code==mno_server_error", "c"),
        ("network_id==00101", "cba"),
        ("status=in=(ACCEPTED,PENDING,EXPIRED)", ""),
        ("created_at=ge=2026-01-01T00:00:01Z", "cb"),
    ] {
        let filter = search::parse(text, &SEARCH_FIELDS).unwrap();
        let page = engine.sim_swap_checks(world.sandbox.id, Some(filter), page).await.unwrap();
        let references = page.items.iter().map(|check| check.reference.as_ref().unwrap().as_str());
        assert_eq!(references.collect::<String>(), found, "{text}");
    }
    assert_eq!(engine.sim_swap_checks(world.live.id, None, page).await.unwrap().total_items, 0);
}

#[tokio::test]
async fn ends_are_counted() {
    let world = World::new().await;
    for number in ["+990123456700", "+990123456702", "+990123456701", "+990123456799"] {
        create(&world, &world.sandbox, number).await.unwrap();
    }
    let _ = create(&world, &world.sandbox, "+990123456797").await.unwrap_err();
    let filter = UsageFilter {
        from: BEGINNING - SignedDuration::from_hours(1),
        to: BEGINNING + SignedDuration::from_hours(1),
        grouping: UsageGrouping::Day,
        project: Some(world.sandbox.id),
    };
    let rows = world.engine.store().usage(world.manager.workspace, filter).await.unwrap();
    assert!(rows.iter().all(|row| row.product == Product::SimSwap));
    let mut counts: Vec<_> = rows.iter().map(|row| (row.status, row.matched, row.count)).collect();
    counts.sort_by_key(|(status, matched, _)| (status.as_str(), *matched));
    assert_eq!(
        counts,
        [(Status::Completed, Some(false), 1), (Status::Completed, Some(true), 2), (Status::Error, None, 1)]
    );
}

#[tokio::test]
async fn a_repetition_gets_the_first_answer() {
    let world = World::new().await;
    let engine = &world.engine;
    let owner = CredentialOwner::Project(world.sandbox.workspace, world.sandbox.id);
    let scope = engine.authorize(&world.manager, owner).await.unwrap();
    let answer = |check: &SimSwapCheck| StoredAnswer { status: 201, body: check.id.to_string().into_bytes() };
    let Begun::First(claim) = engine.begin_once(scope, "key", [1; 32]).await.unwrap() else { panic!("the first") };
    let again = engine.begin_once(scope, "key", [1; 32]).await;
    assert!(matches!(again, Err(IdempotencyError::InProgress)));
    let once = Once { claim: &claim, answer: &answer };
    let check = engine.create_sim_swap(&world.sandbox, about("+990123456700"), Some(once)).await.unwrap();
    let Begun::Replay(replayed) = engine.begin_once(scope, "key", [1; 32]).await.unwrap() else { panic!("a replay") };
    assert_eq!(replayed, answer(&check));
    assert!(matches!(engine.begin_once(scope, "key", [2; 32]).await, Err(IdempotencyError::Reused)));

    // A claim that ran out while the operator was slow: the work of the one who came later counts.
    let Begun::First(slow) = engine.begin_once(scope, "other", [1; 32]).await.unwrap() else { panic!("the first") };
    world.clock.advance(SignedDuration::from_secs(61));
    let Begun::First(quick) = engine.begin_once(scope, "other", [1; 32]).await.unwrap() else { panic!("free again") };
    let once = Once { claim: &quick, answer: &answer };
    let kept = engine.create_sim_swap(&world.sandbox, about("+990123456700"), Some(once)).await.unwrap();
    let once = Once { claim: &slow, answer: &answer };
    let late = engine.create_sim_swap(&world.sandbox, about("+990123456700"), Some(once)).await;
    assert!(late.is_err(), "two checks for one key");
    let Begun::Replay(replayed) = engine.begin_once(scope, "other", [1; 32]).await.unwrap() else { panic!("a replay") };
    assert_eq!(replayed, answer(&kept));
}

#[tokio::test]
async fn erasing_a_number_leaves_checks_that_never_kept_it() {
    let world = World::new().await;
    let check = create(&world, &world.live, EVERYTHING).await.unwrap();
    let number = Msisdn::parse(EVERYTHING, Mode::Live).unwrap();
    let (erased, _) = world.engine.erase_number(&number).await.unwrap();
    assert_eq!(erased.checks, 0);
    assert_eq!(world.engine.sim_swap(world.live.id, check.id).await.unwrap(), check);
}
