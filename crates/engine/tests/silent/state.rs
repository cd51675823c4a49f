//! Tests the validation of the `state` with which a device returns from its operator.

use futures_util::future::join_all;
use ringtrue_domain::{lifecycle::CheckStatus, product::Product, tenancy::Mode};
use ringtrue_engine::silent::{CreateSilent, RedirectError, RedirectFailure, RedirectOutcome};

use crate::world::{World, expect_failure};

fn is_invalid_state(result: &Result<RedirectOutcome, RedirectError>) -> bool {
    matches!(result, Err(RedirectError::InvalidState))
}

#[tokio::test]
async fn state_is_used_once() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let state = device.begin_redirect().await;
    let results = join_all((0..20).map(|_| device.return_from_operator(&state))).await;
    let codes = results.iter().filter(|result| result.as_ref().is_ok_and(|end| end.result.is_ok()));
    assert_eq!(codes.count(), 1, "{results:?}");
    assert_eq!(world.ours.calls().responses.len(), 1, "one operator request");
    assert_eq!(expect_failure(device.return_from_operator(&state).await.unwrap()), RedirectFailure::AlreadyCompleted);
}

#[tokio::test]
async fn state_is_bound_to_its_connector() {
    let world = World::new().await;
    for connector in ["other", "simulated", "unknown", ""] {
        let device = world.create(Product::SecureSna).await;
        let state = device.begin_redirect().await;
        assert!(is_invalid_state(&device.return_to(connector, &state).await), "{connector}");
        assert_eq!(device.status().await, CheckStatus::Pending);
    }
    // The `state` of a sandbox check is invalid at a live connector.
    let device = world.create_in(Mode::Sandbox, Product::SecureSna, CreateSilent::default()).await;
    let state = device.begin_redirect().await;
    assert!(is_invalid_state(&device.return_to("ours", &state).await));
    for operator in [&world.ours, &world.other, &world.simulated] {
        assert!(operator.calls().responses.is_empty(), "no operator was contacted");
    }
}

#[tokio::test]
async fn state_of_a_concluded_check_returns_its_outcome() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let state = device.begin_redirect().await;
    device.open_url_and_finish(crate::world::NOT_MOBILE).await;
    assert_eq!(expect_failure(device.return_from_operator(&state).await.unwrap()), RedirectFailure::AlreadyCompleted);
    assert!(world.ours.calls().responses.is_empty());
}
