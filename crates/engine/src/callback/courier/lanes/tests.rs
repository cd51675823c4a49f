//! Turns among destinations, as cases.

use super::*;

const LIMITS: Limits =
    Limits { in_flight: 20, poor_in_flight: 5, per_destination: 10, queued: 100, queued_per_destination: 50 };

fn start_all(lanes: &mut Lanes<u32>) -> Vec<String> {
    std::iter::from_fn(|| lanes.next()).map(|(name, _)| name.to_string()).collect()
}

fn fill(lanes: &mut Lanes<u32>, name: &str, count: u32) -> usize {
    (0..count).filter(|item| lanes.push(name, false, *item).is_ok()).count()
}

#[test]
fn destinations_take_turns() {
    let mut lanes = Lanes::new(LIMITS);
    fill(&mut lanes, "a", 3);
    fill(&mut lanes, "b", 1);
    assert_eq!(start_all(&mut lanes), ["a", "b", "a", "a"]);
    assert_eq!((lanes.waiting(), lanes.in_flight()), (0, 4));
}

#[test]
fn slots_follow_from_standing() {
    let mut lanes = Lanes::new(LIMITS);
    fill(&mut lanes, "a", 40);
    assert_eq!(start_all(&mut lanes).len(), NEW_SLOTS);
    lanes.end("a", Ended::Well);
    assert_eq!(start_all(&mut lanes).len(), LIMITS.per_destination - NEW_SLOTS + 1, "it has answered");
    lanes.drags("a");
    for _ in 0..LIMITS.per_destination {
        lanes.end("a", Ended::Badly);
    }
    assert_eq!(start_all(&mut lanes).len(), POOR_SLOTS, "it is slow");
    lanes.end("a", Ended::Well);
    assert_eq!(start_all(&mut lanes).len(), LIMITS.per_destination - 1, "it has recovered");
}

#[test]
fn failures_in_a_row_make_a_standing_poor_and_it_is_remembered() {
    let mut lanes = Lanes::new(LIMITS);
    for item in 0..FAILURES {
        // Kept alive by one more that waits.
        lanes.push("dead", false, item).unwrap();
        lanes.push("dead", false, item).unwrap();
        lanes.next().unwrap();
        lanes.end("dead", Ended::Badly);
    }
    while lanes.next().is_some() {
        lanes.end("dead", Ended::Badly);
    }
    fill(&mut lanes, "dead", 9);
    assert_eq!(start_all(&mut lanes).len(), POOR_SLOTS);
}

#[test]
fn dead_receivers_leave_room_and_slots_to_others() {
    let mut lanes = Lanes::new(LIMITS);
    for dead in 0..60 {
        // Retries of destinations that we know nothing of, as after a restart.
        for item in 0..5 {
            let _ = lanes.push(&format!("dead{dead}"), true, item);
        }
    }
    assert_eq!(start_all(&mut lanes).len(), LIMITS.poor_in_flight);
    assert_eq!(lanes.room(), LIMITS.queued);
    assert_eq!(fill(&mut lanes, "alive", 5), 5);
    assert_eq!(start_all(&mut lanes), ["alive"; 5]);
}

#[test]
fn a_receiver_that_becomes_slow_gives_its_share_back() {
    let mut lanes = Lanes::new(Limits { in_flight: 30, ..LIMITS });
    fill(&mut lanes, "slow", 50);
    start_all(&mut lanes);
    assert_eq!(lanes.room(), LIMITS.queued - 50 + NEW_SLOTS);
    lanes.drags("slow");
    assert_eq!(lanes.room(), LIMITS.queued);
    fill(&mut lanes, "alive", 3);
    assert_eq!(start_all(&mut lanes), ["alive"; 3]);
}

#[test]
fn queues_are_bounded() {
    let mut lanes = Lanes::new(LIMITS);
    assert_eq!(fill(&mut lanes, "a", 500), LIMITS.queued_per_destination);
    assert_eq!(fill(&mut lanes, "b", 500), LIMITS.queued_per_destination);
    assert_eq!((fill(&mut lanes, "c", 500), lanes.room()), (0, 0));
    assert_eq!(lanes.drain().len(), 100);
    assert_eq!((lanes.waiting(), lanes.next()), (0, None));
}

#[test]
fn nothing_is_kept_of_those_who_answer() {
    let mut lanes = Lanes::new(LIMITS);
    for item in 0..1_000 {
        let name = format!("host{item}");
        lanes.push(&name, false, item).unwrap();
        lanes.next().unwrap();
        lanes.end(&name, Ended::Well);
    }
    assert!(lanes.destinations.is_empty());
    assert_eq!((lanes.waiting(), lanes.in_flight(), lanes.idle_poor), (0, 0, 0));
}
