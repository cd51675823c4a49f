//! Tests that slots are shared fairly among destinations and tenants, with example cases and a property test.

use proptest::{collection::vec, prelude::*};
use uuid::Uuid;

use super::*;

const LIMITS: CourierLimits = CourierLimits {
    concurrency: 40,
    unproven_concurrency: 12,
    poor_concurrency: 8,
    concurrency_per_destination: 10,
    queue: 400,
    queue_per_destination: 50,
};

fn tenant(workspace: u128, project: u128) -> Tenant {
    let project = ProjectId(Uuid::from_u128(workspace * 1_000 + project));
    Tenant { workspace: WorkspaceId(Uuid::from_u128(workspace)), project }
}

const ATTACKER: u128 = 1;
const OTHER: u128 = 2;

fn start_all(scheduler: &mut Scheduler<u32>) -> Vec<SlotGrant> {
    std::iter::from_fn(|| scheduler.next()).map(|(grant, _)| grant).collect()
}

fn names(grants: &[SlotGrant]) -> Vec<&str> {
    grants.iter().map(|grant| &*grant.destination).collect()
}

fn fill(scheduler: &mut Scheduler<u32>, tenant: Tenant, name: &str, count: u32) -> usize {
    (0..count).filter(|item| scheduler.push(tenant, name, false, *item).is_ok()).count()
}

/// Delivers one callback, which makes the destination proven.
fn prove(scheduler: &mut Scheduler<u32>, tenant: Tenant, name: &str) {
    scheduler.push(tenant, name, false, 0).unwrap();
    let (grant, _) = scheduler.next().unwrap();
    assert_eq!(&*grant.destination, name);
    scheduler.finish(&grant, AttemptResult::Delivered);
}

#[test]
fn destinations_of_a_project_take_turns() {
    let mut scheduler = Scheduler::new(LIMITS);
    fill(&mut scheduler, tenant(1, 1), "a", 3);
    fill(&mut scheduler, tenant(1, 1), "b", 1);
    assert_eq!(names(&start_all(&mut scheduler)), ["a", "b", "a", "a"]);
    assert_eq!((scheduler.waiting(), scheduler.in_flight()), (0, 4));
}

#[test]
fn slots_rotate_by_workspace_then_by_project() {
    let mut scheduler = Scheduler::new(LIMITS);
    for (project, name) in [(1, "a1"), (1, "a2"), (2, "a3")] {
        fill(&mut scheduler, tenant(1, project), name, 2);
    }
    fill(&mut scheduler, tenant(2, 1), "b1", 3);
    let grants = start_all(&mut scheduler);
    assert_eq!(names(&grants)[..6], ["a1", "b1", "a3", "b1", "a2", "b1"], "{:?}", names(&grants));
}

#[test]
fn idle_destination_is_reassigned_to_its_next_tenant() {
    let mut scheduler = Scheduler::new(LIMITS);
    prove(&mut scheduler, tenant(1, 1), "a");
    let owner = Tenant { workspace: WorkspaceId(Uuid::from_u128(2)), ..tenant(1, 1) };
    scheduler.push(owner, "a", false, 0).unwrap();
    let (grant, _) = scheduler.next().unwrap();
    assert_eq!((grant.tenant, grant.class), (owner, DestinationClass::Proven));
}

#[test]
fn slots_depend_on_destination_health() {
    let mut scheduler = Scheduler::new(LIMITS);
    let ours = tenant(1, 1);
    fill(&mut scheduler, ours, "a", 50);
    let first = start_all(&mut scheduler);
    assert_eq!(first.len(), LIMITS.unproven_concurrency / 3, "a single project's share of unproven slots");
    scheduler.finish(&first[0], AttemptResult::Delivered);
    let more = start_all(&mut scheduler);
    assert_eq!(scheduler.in_flight(), LIMITS.concurrency_per_destination, "proven");
    scheduler.mark_poor(&first[1]);
    for grant in first[1..].iter().chain(&more) {
        scheduler.finish(grant, AttemptResult::Failed);
    }
    let poor = start_all(&mut scheduler);
    assert_eq!(poor.len(), POOR_DESTINATION_SLOTS, "slow");
    scheduler.finish(&poor[0], AttemptResult::Delivered);
    start_all(&mut scheduler);
    assert_eq!(scheduler.in_flight(), LIMITS.concurrency_per_destination, "recovered");
}

#[test]
fn poor_health_after_consecutive_failures_is_kept() {
    let mut scheduler = Scheduler::new(LIMITS);
    let ours = tenant(1, 1);
    for item in 0..POOR_AFTER_FAILURES {
        scheduler.push(ours, "dead", false, item).unwrap();
        let (grant, _) = scheduler.next().unwrap();
        scheduler.finish(&grant, AttemptResult::Failed);
    }
    fill(&mut scheduler, ours, "dead", 9);
    assert_eq!(start_all(&mut scheduler).len(), POOR_DESTINATION_SLOTS);
}

/// A destination that does not respond holds its slots until the attempts time out. Here no attempt ends.
#[test]
fn hanging_destinations_leave_slots_to_other_workspaces() {
    let mut scheduler = Scheduler::new(LIMITS);
    prove(&mut scheduler, tenant(OTHER, 1), "proven");
    for host in 0..200 {
        let _ = scheduler.push(tenant(ATTACKER, 1), &format!("hangs{host}"), false, host);
        let _ = scheduler.push(tenant(ATTACKER, 2), &format!("hangs too{host}"), false, host);
    }
    let hanging = start_all(&mut scheduler);
    assert!(hanging.len() <= LIMITS.unproven_concurrency / 2, "{}", hanging.len());
    for grant in &hanging {
        scheduler.mark_poor(grant);
    }
    assert_eq!(start_all(&mut scheduler).len(), 0, "a slot stays charged to its initial class");

    assert_eq!(fill(&mut scheduler, tenant(OTHER, 1), "proven", 5), 5);
    assert_eq!(names(&start_all(&mut scheduler)), ["proven"; 5]);
    assert_eq!(fill(&mut scheduler, tenant(OTHER, 1), "new", 1), 1);
    assert_eq!(names(&start_all(&mut scheduler)), ["new"]);
    assert_eq!(fill(&mut scheduler, tenant(ATTACKER, 3), "project of the same workspace", 1), 1);
    assert_eq!(start_all(&mut scheduler).len(), 1);
}

#[test]
fn proven_destinations_that_start_to_hang_leave_slots() {
    let mut scheduler = Scheduler::new(LIMITS);
    for host in 0..20 {
        prove(&mut scheduler, tenant(ATTACKER, 1), &format!("host{host}"));
    }
    for host in 0..20 {
        fill(&mut scheduler, tenant(ATTACKER, 1), &format!("host{host}"), 10);
    }
    let held = start_all(&mut scheduler).len();
    assert!((LIMITS.concurrency / 2..LIMITS.concurrency * 3 / 4).contains(&held), "{held}");
    assert_eq!(fill(&mut scheduler, tenant(OTHER, 1), "new", 1), 1);
    assert_eq!(names(&start_all(&mut scheduler)), ["new"]);
}

#[test]
fn retries_to_unknown_destinations_start_as_poor() {
    let mut scheduler = Scheduler::new(LIMITS);
    for dead in 0..60 {
        let _ = scheduler.push(tenant(ATTACKER, 1), &format!("dead{dead}"), true, 0);
    }
    let held = start_all(&mut scheduler).len();
    assert!(held < LIMITS.poor_concurrency, "{held}");
    scheduler.push(tenant(OTHER, 1), "dead", true, 0).unwrap();
    assert_eq!(names(&start_all(&mut scheduler)), ["dead"]);
}

#[test]
fn queues_are_bounded_per_destination_and_workspace() {
    let mut scheduler = Scheduler::new(LIMITS);
    assert_eq!(fill(&mut scheduler, tenant(ATTACKER, 1), "a", 500), LIMITS.queue_per_destination);
    for host in 0..100 {
        fill(&mut scheduler, tenant(ATTACKER, 1), &format!("host{host}"), 10);
    }
    let taken = scheduler.waiting();
    assert!(taken < LIMITS.queue / 2 * 3 / 4, "{taken}");
    assert!(!scheduler.has_room(tenant(ATTACKER, 1)) && scheduler.has_room(tenant(OTHER, 1)));
    assert!(fill(&mut scheduler, tenant(OTHER, 1), "b", 20) == 20 && scheduler.free_capacity() > 0);
    assert_eq!(scheduler.drain().len(), taken + 20);
    assert!(scheduler.waiting() == 0 && scheduler.next().is_none());
}

#[test]
fn idle_destinations_are_bounded() {
    let mut scheduler = Scheduler::new(CourierLimits::default());
    for item in 0..u32::try_from(MAX_IDLE_DESTINATIONS).unwrap() + 100 {
        for (name, result) in [
            ("good", AttemptResult::Delivered),
            ("bad", AttemptResult::Failed),
            ("unused", AttemptResult::NotAttempted),
        ] {
            scheduler.push(tenant(1, 1), &format!("{name}{item}"), false, item).unwrap();
            let (grant, _) = scheduler.next().unwrap();
            scheduler.finish(&grant, result);
        }
    }
    assert_eq!(scheduler.destinations.len(), 2 * MAX_IDLE_DESTINATIONS);
    assert!(!scheduler.destinations.contains_key("good0"), "the longest idle is evicted first");
    assert!(scheduler.classes.iter().all(|class| class.workspaces.is_empty()), "idle tenants use no memory");
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push { workspace: u128, project: u128, host: u8, has_failed: bool },
    StartAll,
    MarkPoor(usize),
    End(usize, AttemptResult),
}

fn op() -> impl Strategy<Value = Op> {
    let result = prop_oneof![
        Just(AttemptResult::Delivered),
        Just(AttemptResult::DeliveredSlowly),
        Just(AttemptResult::Failed),
        Just(AttemptResult::NotAttempted)
    ];
    prop_oneof![
        6 => (0..4_u128, 0..3_u128, 0..6_u8, any::<bool>())
            .prop_map(|(workspace, project, host, has_failed)| Op::Push { workspace, project, host, has_failed }),
        2 => Just(Op::StartAll),
        1 => any::<usize>().prop_map(Op::MarkPoor),
        3 => (any::<usize>(), result).prop_map(|(at, result)| Op::End(at, result)),
    ]
}

/// Asserts that the counters match the actual state, and that no bound is exceeded.
fn assert_sound(scheduler: &Scheduler<u32>, grants: &[SlotGrant]) {
    let CourierLimits { concurrency, unproven_concurrency, poor_concurrency, .. } = scheduler.limits;
    assert!(scheduler.in_flight() <= concurrency);
    for (class, most) in
        [(DestinationClass::Unproven, unproven_concurrency), (DestinationClass::Poor, poor_concurrency)]
    {
        assert!(scheduler.classes[class as usize].usage.held <= most, "{class:?}");
    }
    for &class in DestinationClass::VARIANTS {
        let state = &scheduler.classes[class as usize];
        let of_class = |destination: &&Destination<u32>| destination.health.class() == class;
        let waiting: usize = scheduler.destinations.values().filter(of_class).map(|of| of.waiting.len()).sum();
        assert_eq!(state.usage.waiting, waiting, "{class:?}");
        assert_eq!(state.usage.held, grants.iter().filter(|grant| grant.class == class).count(), "{class:?}");
        let of_workspaces: usize = state.workspaces.values().map(|workspace| workspace.usage.held).sum();
        assert_eq!(state.usage.held, of_workspaces, "{class:?}");
    }
}

/// Asserts, after all possible attempts were started, that items wait only because their destination, project or
/// workspace has reached its bound, or because no slot is free.
fn assert_work_conserving(scheduler: &Scheduler<u32>) {
    for (name, destination) in &scheduler.destinations {
        if !destination.may_start(&scheduler.limits) {
            continue;
        }
        let (class, tenant) = (destination.health.class(), destination.tenant);
        let free = scheduler.free_slots(class);
        let [of_workspace, of_project] = scheduler.tenant_usage(class, tenant);
        assert!(of_workspace.held > 0 || free == 0, "{name} waits although slots are free and its workspace has none");
        let fewest = scheduler.classes[class as usize].workspaces[&tenant.workspace].ready.first().map(|project| {
            scheduler.classes[class as usize].workspaces[&tenant.workspace].projects[project].usage.held
        });
        let is_admitted =
            is_within_share(class.share_factor(), free, of_workspace.held, fewest.unwrap_or(of_project.held));
        assert!(!is_admitted, "{name} waits below its share");
    }
}

proptest! {
    #[test]
    fn shares_are_bounded_and_scheduling_is_work_conserving(ops in vec(op(), 1..400)) {
        let mut scheduler = Scheduler::new(LIMITS);
        let mut grants = vec![];
        let (mut pushed, mut started) = (0, 0);
        for op in ops {
            match op {
                Op::Push { workspace, project, host, has_failed } => {
                    let name = format!("{workspace} {project} {host}");
                    pushed += usize::from(scheduler.push(tenant(workspace, project), &name, has_failed, 0).is_ok());
                }
                Op::StartAll => {
                    let new = start_all(&mut scheduler);
                    started += new.len();
                    grants.extend(new);
                    assert_work_conserving(&scheduler);
                }
                Op::MarkPoor(at) if !grants.is_empty() => scheduler.mark_poor(&grants[at % grants.len()]),
                Op::End(at, result) if !grants.is_empty() => {
                    let grant = grants.swap_remove(at % grants.len());
                    scheduler.finish(&grant, result);
                }
                Op::MarkPoor(_) | Op::End(..) => {}
            }
            assert_sound(&scheduler, &grants);
            assert_eq!(pushed, started + scheduler.waiting());
        }
    }
}
