//! SIM Swap checks: missing operators, idempotency and erasure.

use jiff::SignedDuration;
use ringtrue_domain::{
    phone::Msisdn,
    sim_swap::SimSwapCheck,
    tenancy::{CredentialOwner, Mode, Project},
};
use ringtrue_engine::{
    checks::{CreateError, sim_swap::CreateSimSwap},
    idempotency::{IdempotencyError, IdempotencyState, IdempotentRequest, StoredResponse},
};

use crate::world::{EVERYTHING, World};

pub fn sim_swap_request(number: &str) -> CreateSimSwap {
    CreateSimSwap { phone_number: number.to_owned(), period: None, reference: None }
}

pub async fn create(world: &World, project: &Project, number: &str) -> Result<SimSwapCheck, CreateError> {
    world.engine.checks.create_sim_swap(project, sim_swap_request(number), None).await
}

#[tokio::test]
async fn sandbox_without_simulated_operator_is_unsupported() {
    let world = World::without_simulated_operator().await;
    let refused = create(&world, &world.sandbox, "+990123456700").await.unwrap_err();
    assert!(matches!(refused, CreateError::MnoNotSupported), "{refused:?}");
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
    assert_eq!(check.claimed, None, "the number is not stored");
    let number = Msisdn::parse(EVERYTHING, Mode::Live).unwrap();
    let (erased, _) = world.engine.node.erase_number(&number).await.unwrap();
    assert_eq!(erased.checks, 0);
    assert_eq!(world.engine.checks.sim_swap_check(world.live.id, check.id).await.unwrap(), check);
}
