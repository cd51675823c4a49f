//! SIM Swap checks in the sandbox: results, storage and idempotency.

use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{CheckStatus, ErrorCode},
    page::PageRequest,
    phone::Msisdn,
    product::Product,
    search,
    sim_swap::{SEARCH_FIELDS, SimSwapCheck},
    tenancy::{CredentialOwner, Mode, Project},
};
use ringtrue_engine::{
    checks::{CreateError, ReadError, sim_swap::CreateSimSwap},
    idempotency::{IdempotencyError, IdempotencyState, IdempotentRequest, StoredResponse},
    ports::activity::{UsageFilter, UsageGrouping},
};

use crate::world::{EVERYTHING, START_TIME, World};

pub fn sim_swap_request(number: &str) -> CreateSimSwap {
    CreateSimSwap { phone_number: number.to_owned(), period: None, reference: None }
}

pub async fn create(world: &World, project: &Project, number: &str) -> Result<SimSwapCheck, CreateError> {
    world.engine.checks.create_sim_swap(project, sim_swap_request(number), None).await
}

#[tokio::test]
async fn sandbox_results_depend_on_the_last_digits() {
    let world = World::new().await;
    // Each row: last digits of the number, and the verdict (`no_sim_change`, `changed_within_minutes`) or the error
    // code.
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
            let status = if found.is_ok() { CheckStatus::Completed } else { CheckStatus::Error };
            assert_eq!((check.status(), check.mode), (status, Mode::Sandbox), "{suffix}");
            assert_eq!(check.error_code(), found.err(), "{suffix}");
            let verdict = check.verdict().map(|verdict| (verdict.no_sim_change, verdict.changed_within_minutes));
            assert_eq!(verdict, found.ok(), "{suffix}");
            assert_eq!(check.network.as_ref().unwrap().as_str(), "00101");
        }
    }
    let request_count = world.simulated.requests().len();
    for (suffix, expected) in [("97", "MnoNotSupported"), ("94", "MnoNotSupported"), ("93", "LookupUnavailable")] {
        let refused = create(&world, &world.sandbox, &format!("+9901234567{suffix}")).await.unwrap_err();
        assert_eq!(format!("{refused:?}"), expected, "{suffix}");
    }
    assert_eq!(world.simulated.requests().len(), request_count, "no operator was contacted");
    assert!(world.operator.requests().is_empty(), "sandbox checks do not contact real operators");
}

#[tokio::test]
async fn sandbox_without_simulated_operator_is_unsupported() {
    let world = World::without_simulated_operator().await;
    let refused = create(&world, &world.sandbox, "+990123456700").await.unwrap_err();
    assert!(matches!(refused, CreateError::MnoNotSupported), "{refused:?}");
}

#[tokio::test]
async fn repeated_checks_are_not_limited() {
    let world = World::new().await;
    for _ in 0..20 {
        create(&world, &world.sandbox, "+990123456700").await.unwrap();
    }
    assert_eq!(world.simulated.requests().len(), 20, "one operator request per check");
}

#[tokio::test]
async fn check_is_read_and_listed_as_created() {
    let world = World::new().await;
    let (engine, page) = (&world.engine, PageRequest::new(10, 1).unwrap());
    let mut created = vec![];
    for (number, reference) in [("+990123456700", "a"), ("+990123456701", "b"), ("+990123456799", "c")] {
        let request = CreateSimSwap { reference: Some(reference.parse().unwrap()), ..sim_swap_request(number) };
        created.push(engine.checks.create_sim_swap(&world.sandbox, request, None).await.unwrap());
        world.clock.advance(SignedDuration::from_secs(1));
    }
    for check in &created {
        assert_eq!(engine.checks.sim_swap_check(world.sandbox.id, check.id).await.unwrap(), *check);
        assert!(matches!(engine.checks.sim_swap_check(world.live.id, check.id).await, Err(ReadError::OtherProject)));
        assert!(matches!(engine.checks.reverse_sms_check(world.sandbox.id, check.id).await, Err(ReadError::NotFound)));
        assert_eq!(check.claimed, None, "the number is not stored");
    }
    // Concluded checks do not change when time passes.
    world.clock.advance(SignedDuration::from_hours(48));
    let listed = engine.checks.sim_swap_checks(world.sandbox.id, None, page).await.unwrap();
    created.reverse();
    assert_eq!((listed.items, listed.total_items), (created, 3));
    for (text, found) in [
        ("status==COMPLETED", "ba"),
        ("verified==false", "b"),
        ("no_sim_change==true", "a"),
        ("no_sim_change!=true;status=gt=COMPLETED", "c"),
        ("no_sim_change==false;reference_id=gt=a", "b"),
        ("error_code==mno_server_error", "c"),
        ("network_id==00101", "cba"),
        ("status=in=(ACCEPTED,PENDING,EXPIRED)", ""),
        ("created_at=ge=2026-01-01T00:00:01Z", "cb"),
    ] {
        let filter = search::parse(text, &SEARCH_FIELDS).unwrap();
        let page = engine.checks.sim_swap_checks(world.sandbox.id, Some(filter), page).await.unwrap();
        let references = page.items.iter().map(|check| check.reference.as_ref().unwrap().as_str());
        assert_eq!(references.collect::<String>(), found, "{text}");
    }
    assert_eq!(engine.checks.sim_swap_checks(world.live.id, None, page).await.unwrap().total_items, 0);
}

#[tokio::test]
async fn conclusions_are_counted_as_usage() {
    let world = World::new().await;
    for number in ["+990123456700", "+990123456702", "+990123456701", "+990123456799"] {
        create(&world, &world.sandbox, number).await.unwrap();
    }
    let _ = create(&world, &world.sandbox, "+990123456797").await.unwrap_err();
    let filter = UsageFilter {
        from: START_TIME - SignedDuration::from_hours(1),
        to: START_TIME + SignedDuration::from_hours(1),
        grouping: UsageGrouping::Day,
        project: Some(world.sandbox.id),
    };
    let rows = world.engine.store().usage(world.manager.workspace, filter).await.unwrap();
    assert!(rows.iter().all(|row| row.product == Product::SimSwap));
    let mut counts: Vec<_> = rows.iter().map(|row| (row.status, row.matched, row.count)).collect();
    counts.sort_by_key(|(status, matched, _)| (status.into_str(), *matched));
    assert_eq!(
        counts,
        [
            (CheckStatus::Completed, Some(false), 1),
            (CheckStatus::Completed, Some(true), 2),
            (CheckStatus::Error, None, 1)
        ]
    );
}

#[tokio::test]
async fn idempotent_repeat_gets_the_first_response() {
    let world = World::new().await;
    let engine = &world.engine;
    let owner = CredentialOwner::Project(world.sandbox.workspace, world.sandbox.id);
    let scope = engine.management.authorize(&world.manager, owner).await.unwrap();
    let answer = |check: &SimSwapCheck| StoredResponse { status: 201, body: check.id.to_string().into_bytes() };
    let IdempotencyState::Claimed(claim) = engine.idempotency.claim(scope, "key", [1; 32]).await.unwrap() else {
        panic!("the key is unused")
    };
    let again = engine.idempotency.claim(scope, "key", [1; 32]).await;
    assert!(matches!(again, Err(IdempotencyError::InProgress)));
    let once = IdempotentRequest { claim: &claim, render_response: &answer };
    let check =
        engine.checks.create_sim_swap(&world.sandbox, sim_swap_request("+990123456700"), Some(once)).await.unwrap();
    let IdempotencyState::Replay(replayed) = engine.idempotency.claim(scope, "key", [1; 32]).await.unwrap() else {
        panic!("a replay")
    };
    assert_eq!(replayed, answer(&check));
    assert!(matches!(engine.idempotency.claim(scope, "key", [2; 32]).await, Err(IdempotencyError::Reused)));

    // A slow first request loses its reservation of the idempotency key, and a second request reserves the key. Only
    // the second request can store its check.
    let IdempotencyState::Claimed(expired_claim) = engine.idempotency.claim(scope, "other", [1; 32]).await.unwrap()
    else {
        panic!("the key is unused")
    };
    world.clock.advance(SignedDuration::from_secs(61));
    let IdempotencyState::Claimed(new_claim) = engine.idempotency.claim(scope, "other", [1; 32]).await.unwrap() else {
        panic!("the claim expired")
    };
    let once = IdempotentRequest { claim: &new_claim, render_response: &answer };
    let kept =
        engine.checks.create_sim_swap(&world.sandbox, sim_swap_request("+990123456700"), Some(once)).await.unwrap();
    let once = IdempotentRequest { claim: &expired_claim, render_response: &answer };
    let late = engine.checks.create_sim_swap(&world.sandbox, sim_swap_request("+990123456700"), Some(once)).await;
    assert!(late.is_err(), "one check per idempotency key");
    let IdempotencyState::Replay(replayed) = engine.idempotency.claim(scope, "other", [1; 32]).await.unwrap() else {
        panic!("a replay")
    };
    assert_eq!(replayed, answer(&kept));
}

#[tokio::test]
async fn erasing_a_number_keeps_sim_swap_checks() {
    let world = World::new().await;
    let check = create(&world, &world.live, EVERYTHING).await.unwrap();
    let number = Msisdn::parse(EVERYTHING, Mode::Live).unwrap();
    let (erased, _) = world.engine.node.erase_number(&number).await.unwrap();
    assert_eq!(erased.checks, 0);
    assert_eq!(world.engine.checks.sim_swap_check(world.live.id, check.id).await.unwrap(), check);
}
