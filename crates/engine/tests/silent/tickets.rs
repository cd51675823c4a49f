//! Coming back from the operator.

use futures_util::future::join_all;
use ringtrue_domain::{lifecycle::Status, product::Product, tenancy::Mode};
use ringtrue_engine::silent::{ChainEnd, ChainFault, CreateSilent, VisitError};

use crate::world::{World, fault};

fn is_refused(answer: &Result<ChainEnd, VisitError>) -> bool {
    matches!(answer, Err(VisitError::Ticket))
}

#[tokio::test]
async fn a_ticket_is_good_once() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let ticket = device.sets_out().await;
    let answers = join_all((0..20).map(|_| device.comes_back(&ticket))).await;
    let codes = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|end| end.result.is_ok()));
    assert_eq!(codes.count(), 1, "{answers:?}");
    assert_eq!(world.ours.seen().arrivals.len(), 1, "the operator is asked once");
    assert_eq!(fault(device.comes_back(&ticket).await.unwrap()), ChainFault::AlreadyCompleted);
}

#[tokio::test]
async fn a_second_visit_voids_the_first_ticket() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let (first, second) = (device.sets_out().await, device.sets_out().await);
    assert_ne!(first, second);
    assert!(is_refused(&device.comes_back(&first).await));
    assert_eq!(device.status().await, Status::Pending, "a ticket that is void harms nobody");
    assert!(device.comes_back(&second).await.unwrap().result.is_ok());
}

#[tokio::test]
async fn what_is_no_ticket_of_ours_is_refused() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let ticket = device.sets_out().await;
    let other_letter = if ticket.ends_with('A') { 'B' } else { 'A' };
    let changed = format!("{}{other_letter}", &ticket[..63]);
    let doubled = ticket.repeat(2);
    for wrong in ["", "x", &ticket[..63], &changed, &doubled, "ä", &device.id.to_string(), &device.token] {
        assert!(is_refused(&device.comes_back(wrong).await), "{wrong}");
    }
    assert!(device.comes_back(&ticket).await.unwrap().result.is_ok());
}

#[tokio::test]
async fn a_ticket_is_good_at_the_connector_that_it_was_given_by() {
    let world = World::new().await;
    for connector in ["other", "simulated", "unknown", ""] {
        let device = world.create(Product::SecureSna).await;
        let ticket = device.sets_out().await;
        assert!(is_refused(&device.comes_back_to(connector, &ticket).await), "{connector}");
        assert_eq!(device.status().await, Status::Pending);
    }
    // A simulated operator proves nothing to a live project, nor the other way round.
    let device = world.create_in(Mode::Sandbox, Product::SecureSna, CreateSilent::default()).await;
    let ticket = device.sets_out().await;
    assert!(is_refused(&device.comes_back_to("ours", &ticket).await));
    for operator in [&world.ours, &world.other, &world.simulated] {
        assert!(operator.seen().arrivals.is_empty(), "nobody was asked");
    }
}

#[tokio::test]
async fn a_ticket_of_an_ended_check_tells_of_its_end() {
    let world = World::new().await;
    let device = world.create(Product::SecureSna).await;
    let ticket = device.sets_out().await;
    device.is_stopped_at(crate::world::AT_HOME).await;
    assert_eq!(fault(device.comes_back(&ticket).await.unwrap()), ChainFault::AlreadyCompleted);
    assert!(world.ours.seen().arrivals.is_empty());
}
