//! Destination scheduler: selects the next callback to send, so that a slow destination or a busy tenant does not delay
//! the callbacks of others.
//!
//! An attempt in flight holds a slot. Every destination has a queue and a [`DestinationHealth`], which determines its
//! class: proven, unproven (no successful delivery yet), or poor (slow or failing). The unproven class and the poor
//! class have a bounded number of slots each, so that hanging destinations, however many, leave slots to proven ones.
//!
//! Within a class, a free slot goes to the workspace that holds the fewest slots, then to the project of this workspace
//! that holds the fewest, and then to the destination of this project that holds the fewest. This alone would not be
//! fair: an attempt holds its slot for up to ten seconds and cannot be interrupted, so one workspace could take all
//! slots while it is alone. Therefore a workspace may hold at most the number of free slots times the
//! [factor](DestinationClass::share_factor) of the class (dynamic thresholds, as in shared switch buffers), which keeps
//! slots free for other workspaces. The same rule divides a workspace's slots among its projects, and the places in the
//! queues among workspaces and projects.
//!
//! A slot counts for the class that the destination had when the attempt started, until the attempt ends. So a class
//! never exceeds its bound when the health of a destination changes. This module does no I/O. Its queues may be lost:
//! the store has all callbacks.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
};

use ringtrue_domain::tenancy::{ProjectId, WorkspaceId};
use strum::VariantArray;

/// Bounds on the callbacks that this node queues in memory, and on the attempts in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CourierLimits {
    /// Maximum number of attempts in flight in total. Each attempt uses a connection.
    pub concurrency: usize,
    /// Maximum number of attempts in flight to destinations without a successful delivery yet.
    pub unproven_concurrency: usize,
    /// Maximum number of attempts in flight to slow or failing destinations.
    pub poor_concurrency: usize,
    /// Maximum number of attempts in flight to one destination. New and poor destinations have lower limits.
    pub concurrency_per_destination: usize,
    /// Maximum number of queued callbacks for proven destinations. Unproven destinations together can have half as
    /// many, and so can poor ones.
    pub queue: usize,
    /// Maximum number of queued callbacks for one destination.
    pub queue_per_destination: usize,
}

impl Default for CourierLimits {
    fn default() -> Self {
        CourierLimits {
            concurrency: 1_024,
            unproven_concurrency: 256,
            poor_concurrency: 256,
            concurrency_per_destination: 64,
            queue: 16_384,
            queue_per_destination: 4_096,
        }
    }
}

const NEW_DESTINATION_SLOTS: usize = 8;
const POOR_DESTINATION_SLOTS: usize = 2;
/// Maximum queue length of a poor destination. In a longer queue, the leases of the last callbacks would expire before
/// these are sent.
const MAX_POOR_QUEUE: usize = 256;
/// Number of consecutive failures that make a destination poor.
const POOR_AFTER_FAILURES: u32 = 3;
/// Maximum number of destinations whose health is remembered while nothing is queued or in flight for them. Applies to
/// proven destinations, and separately to all others.
const MAX_IDLE_DESTINATIONS: usize = 4_096;

/// Result of an attempt, which updates the health of its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    Delivered,
    DeliveredSlowly,
    Failed,
    NotAttempted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DestinationHealth {
    New,
    Healthy,
    /// The last successful attempt was slow.
    Slow,
    Poor,
}

/// Class of a destination. Each class has its own limit of slots. [`Scheduler::next`] tries the classes in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum DestinationClass {
    Proven,
    Unproven,
    Poor,
}

impl DestinationClass {
    /// A workspace may hold up to this many times the number of free slots. With 3, a single active workspace gets
    /// three quarters of the slots. With 1, it gets half. Unproven and poor destinations have 1, because their attempts
    /// can last until the timeout.
    fn share_factor(self) -> usize {
        match self {
            DestinationClass::Proven => 3,
            DestinationClass::Unproven | DestinationClass::Poor => 1,
        }
    }
}

/// Like [`DestinationClass::share_factor`], for places in the queues instead of slots.
const QUEUE_SHARE_FACTOR: usize = 3;

impl DestinationHealth {
    fn class(self) -> DestinationClass {
        match self {
            DestinationHealth::Healthy => DestinationClass::Proven,
            DestinationHealth::New => DestinationClass::Unproven,
            DestinationHealth::Slow | DestinationHealth::Poor => DestinationClass::Poor,
        }
    }
}

/// Workspace and project that the callbacks to a destination belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant {
    pub workspace: WorkspaceId,
    pub project: ProjectId,
}

pub type DestinationName = Arc<str>;

/// A slot held by a running attempt. [`Scheduler::finish`] releases it.
#[derive(Clone, Debug)]
pub struct SlotGrant {
    pub destination: DestinationName,
    tenant: Tenant,
    class: DestinationClass,
}

struct Destination<T> {
    tenant: Tenant,
    health: DestinationHealth,
    failures: u32,
    waiting: VecDeque<T>,
    in_flight: usize,
    /// Key of this destination in `Scheduler::idle`. `None`: not idle.
    idle_since: Option<u64>,
}

/// Number of queued callbacks (`waiting`) and of held slots in one class, for a project, for a workspace, or for all
/// workspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    waiting: usize,
    held: usize,
}

#[derive(Default)]
struct ClassState {
    usage: Usage,
    workspaces: HashMap<WorkspaceId, WorkspaceState>,
    ready: ReadyQueue<WorkspaceId>,
}

#[derive(Default)]
struct WorkspaceState {
    usage: Usage,
    projects: HashMap<ProjectId, ProjectState>,
    ready: ReadyQueue<ProjectId>,
}

#[derive(Default)]
struct ProjectState {
    usage: Usage,
    ready: ReadyQueue<DestinationName>,
}

pub struct Scheduler<T> {
    limits: CourierLimits,
    destinations: HashMap<DestinationName, Destination<T>>,
    classes: [ClassState; 3],
    /// Idle destinations, longest idle first: the first map has the proven ones, the second the others.
    idle: [std::collections::BTreeMap<u64, DestinationName>; 2],
    /// Logical clock. It orders idle destinations by when they became idle. In the ready queues, it orders entries that
    /// hold equally many slots by when they last got a slot.
    turn: u64,
}

impl<T> Scheduler<T> {
    pub fn new(limits: CourierLimits) -> Self {
        Scheduler {
            limits,
            destinations: HashMap::new(),
            classes: Default::default(),
            idle: Default::default(),
            turn: 0,
        }
    }

    /// Returns the number of free queue places of all classes together.
    pub fn free_capacity(&self) -> usize {
        DestinationClass::VARIANTS.iter().map(|&class| self.free_queue_places(class)).sum()
    }

    /// Returns whether the tenant can queue a callback both to a proven and to an unproven destination. The queue of
    /// one destination may still be full.
    pub fn has_room(&self, tenant: Tenant) -> bool {
        self.may_queue(DestinationClass::Proven, tenant) && self.may_queue(DestinationClass::Unproven, tenant)
    }

    /// Returns up to `limit` projects that have callbacks in the queues of some class, and for which these queues do
    /// not have room for `rows` more.
    pub fn projects_without_room(&self, rows: usize, limit: usize) -> Vec<ProjectId> {
        let margin = rows.saturating_sub(1);
        let without_room = DestinationClass::VARIANTS.iter().flat_map(|&class| {
            let free = self.free_queue_places(class).saturating_sub(margin);
            let workspaces = self.classes[class as usize].workspaces.values();
            workspaces.flat_map(move |workspace| {
                workspace.projects.iter().filter_map(move |(project, state)| {
                    let (of_workspace, of_project) = (workspace.usage.waiting, state.usage.waiting);
                    let has_room =
                        is_within_share(QUEUE_SHARE_FACTOR, free, of_workspace + margin, of_project + margin);
                    (of_project > 0 && !has_room).then_some(*project)
                })
            })
        });
        let mut found: Vec<ProjectId> = without_room.collect();
        found.sort_unstable();
        found.dedup();
        found.truncate(limit);
        found
    }

    pub fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.usage.waiting).sum()
    }

    pub fn in_flight(&self) -> usize {
        self.classes.iter().map(|class| class.usage.held).sum()
    }

    /// Queues an item for the destination `name`. Returns the item if the tenant or the destination has no room.
    /// `has_failed`: an earlier attempt failed, so a destination without known health starts as poor.
    pub fn push(&mut self, tenant: Tenant, name: &str, has_failed: bool, item: T) -> Result<(), T> {
        let known = self.destinations.get(name);
        let health = match known {
            Some(destination) => destination.health,
            None if has_failed => DestinationHealth::Poor,
            None => DestinationHealth::New,
        };
        let max_length = match health {
            DestinationHealth::Poor => MAX_POOR_QUEUE.min(self.limits.queue_per_destination),
            DestinationHealth::New | DestinationHealth::Healthy | DestinationHealth::Slow => {
                self.limits.queue_per_destination
            }
        };
        let length = known.map_or(0, |destination| destination.waiting.len());
        if length >= max_length || !self.may_queue(health.class(), tenant) {
            return Err(item);
        }
        let new = Destination { tenant, health, failures: 0, waiting: VecDeque::new(), in_flight: 0, idle_since: None };
        let name = match self.destinations.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => DestinationName::from(name),
        };
        let destination = self.destinations.entry(Arc::clone(&name)).or_insert(new);
        if destination.waiting.is_empty() && destination.in_flight == 0 {
            // The workspace of the project may have been unknown when the destination was added. The destination's
            // tenant can change now, because no queued callback and no slot is counted for the old tenant.
            destination.tenant = tenant;
        }
        self.update_destination(&name, |destination| destination.waiting.push_back(item));
        Ok(())
    }

    /// Removes the next item to send from its queue, and grants it a slot. `None`: nothing is queued, or no slot is
    /// free for what is queued.
    pub fn next(&mut self) -> Option<(SlotGrant, T)> {
        DestinationClass::VARIANTS.iter().find_map(|&class| self.next_in_class(class))
    }

    fn next_in_class(&mut self, class: DestinationClass) -> Option<(SlotGrant, T)> {
        let free = self.free_slots(class);
        let state = &self.classes[class as usize];
        let (workspace, project, name) = state.ready.iter().find_map(|workspace| {
            let of_workspace = state.workspaces.get(workspace)?;
            let project = of_workspace.ready.first()?;
            let of_project = of_workspace.projects.get(project)?;
            let is_admitted =
                is_within_share(class.share_factor(), free, of_workspace.usage.held, of_project.usage.held);
            is_admitted.then_some((*workspace, *project, of_project.ready.first()?))
        })?;
        let name = Arc::clone(name);
        let tenant = Tenant { workspace, project };
        let mut item = None;
        self.update_destination(&name, |destination| {
            item = destination.waiting.pop_front();
            destination.in_flight += 1;
        });
        self.charge(class, tenant, |usage| usage.held += 1);
        self.mark_served(class, tenant, &name);
        item.map(|item| (SlotGrant { destination: name, tenant, class }, item))
    }

    /// Marks a destination as poor while an attempt to it is still running and already slow. A destination with the
    /// health `Slow` keeps this health, which is in the same class.
    pub fn mark_poor(&mut self, grant: &SlotGrant) {
        self.update_destination(&grant.destination, |destination| {
            if destination.health != DestinationHealth::Slow {
                destination.health = DestinationHealth::Poor;
            }
        });
    }

    pub fn finish(&mut self, grant: &SlotGrant, result: AttemptResult) {
        self.charge(grant.class, grant.tenant, |usage| usage.held -= 1);
        self.update_destination(&grant.destination, |destination| {
            destination.in_flight -= 1;
            match result {
                AttemptResult::Delivered => {
                    (destination.failures, destination.health) = (0, DestinationHealth::Healthy);
                }
                AttemptResult::DeliveredSlowly => {
                    (destination.failures, destination.health) = (0, DestinationHealth::Slow);
                }
                AttemptResult::Failed => {
                    destination.failures = destination.failures.saturating_add(1);
                    if destination.failures >= POOR_AFTER_FAILURES {
                        destination.health = DestinationHealth::Poor;
                    }
                }
                AttemptResult::NotAttempted => {}
            }
        });
    }

    /// Removes and returns all queued items.
    pub fn drain(&mut self) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.waiting());
        let names: Vec<DestinationName> = self.destinations.keys().cloned().collect();
        for name in names {
            self.update_destination(&name, |destination| taken.extend(destination.waiting.drain(..)));
        }
        taken
    }

    fn free_queue_places(&self, class: DestinationClass) -> usize {
        let capacity = match class {
            DestinationClass::Proven => self.limits.queue,
            DestinationClass::Unproven | DestinationClass::Poor => self.limits.queue.div_ceil(2),
        };
        capacity.saturating_sub(self.classes[class as usize].usage.waiting)
    }

    fn may_queue(&self, class: DestinationClass, tenant: Tenant) -> bool {
        let [of_workspace, of_project] = self.tenant_usage(class, tenant);
        is_within_share(QUEUE_SHARE_FACTOR, self.free_queue_places(class), of_workspace.waiting, of_project.waiting)
    }

    fn free_slots(&self, class: DestinationClass) -> usize {
        let of_class = match class {
            DestinationClass::Proven => self.limits.concurrency,
            DestinationClass::Unproven => self.limits.unproven_concurrency,
            DestinationClass::Poor => self.limits.poor_concurrency,
        };
        let held = match class {
            DestinationClass::Proven => self.in_flight(),
            DestinationClass::Unproven | DestinationClass::Poor => self.classes[class as usize].usage.held,
        };
        of_class.saturating_sub(held).min(self.limits.concurrency.saturating_sub(self.in_flight()))
    }

    fn tenant_usage(&self, class: DestinationClass, tenant: Tenant) -> [Usage; 2] {
        let workspace = self.classes[class as usize].workspaces.get(&tenant.workspace);
        let project = workspace.and_then(|workspace| workspace.projects.get(&tenant.project));
        [workspace.map(|of| of.usage).unwrap_or_default(), project.map(|of| of.usage).unwrap_or_default()]
    }

    /// Applies `change` to a destination. Then updates all that depends on it: the usage of its class, the ready queues
    /// and the idle destinations.
    fn update_destination(&mut self, name: &str, change: impl FnOnce(&mut Destination<T>)) {
        let Some((name, _)) = self.destinations.get_key_value(name) else { return };
        let name = Arc::clone(name);
        let Some(destination) = self.destinations.get_mut(&name) else { return };
        let (tenant, class_before, waiting_before) =
            (destination.tenant, destination.health.class(), destination.waiting.len());
        let idle_before = destination.idle_since.take();
        change(destination);
        let (class, waiting, in_flight) =
            (destination.health.class(), destination.waiting.len(), destination.in_flight);
        let may_start = destination.may_start(&self.limits);
        let is_idle = waiting == 0 && in_flight == 0;

        if let Some(since) = idle_before {
            self.idle[idle_list(class_before)].remove(&since);
        }
        self.charge(class_before, tenant, |usage| usage.waiting -= waiting_before);
        self.charge(class, tenant, |usage| usage.waiting += waiting);
        if class != class_before {
            self.set_ready(class_before, tenant, &name, None);
        }
        self.set_ready(class, tenant, &name, may_start.then_some(in_flight));
        if is_idle {
            self.remember_idle(name);
        }
    }

    /// Remembers the health of a destination that became idle. Evicts the longest idle one if there are too many.
    /// Forgets a new destination without failures, because it has no health to remember.
    fn remember_idle(&mut self, name: DestinationName) {
        self.turn += 1;
        let Some(destination) = self.destinations.get_mut(&name) else { return };
        if destination.health == DestinationHealth::New && destination.failures == 0 {
            self.destinations.remove(&name);
            return;
        }
        destination.idle_since = Some(self.turn);
        let idle = &mut self.idle[idle_list(destination.health.class())];
        idle.insert(self.turn, name);
        if idle.len() > MAX_IDLE_DESTINATIONS
            && let Some((_, evicted)) = idle.pop_first()
        {
            self.destinations.remove(&evicted);
        }
    }

    fn charge(&mut self, class: DestinationClass, tenant: Tenant, change: impl Fn(&mut Usage)) {
        let state = &mut self.classes[class as usize];
        let workspace = state.workspaces.entry(tenant.workspace).or_default();
        let project = workspace.projects.entry(tenant.project).or_default();
        change(&mut state.usage);
        change(&mut workspace.usage);
        change(&mut project.usage);
        self.update_ready(class, tenant);
    }

    /// Adds a destination with `in_flight` attempts to the ready queue of its project. `None` removes it.
    fn set_ready(&mut self, class: DestinationClass, tenant: Tenant, name: &DestinationName, in_flight: Option<usize>) {
        let turn = self.turn;
        let state = self.classes[class as usize].workspaces.get_mut(&tenant.workspace);
        let project = state.and_then(|workspace| workspace.projects.get_mut(&tenant.project));
        match (project, in_flight) {
            (Some(project), Some(in_flight)) => project.ready.set(name, in_flight, turn),
            (Some(project), None) => project.ready.remove(name),
            (None, Some(in_flight)) => {
                let workspace = self.classes[class as usize].workspaces.entry(tenant.workspace).or_default();
                workspace.projects.entry(tenant.project).or_default().ready.set(name, in_flight, turn);
            }
            (None, None) => {}
        }
        self.update_ready(class, tenant);
    }

    /// Moves a workspace, project and destination that have just got a slot behind all others that hold equally many
    /// slots.
    fn mark_served(&mut self, class: DestinationClass, tenant: Tenant, name: &DestinationName) {
        self.turn += 1;
        let turn = self.turn;
        let state = &mut self.classes[class as usize];
        state.ready.move_back(&tenant.workspace, turn);
        let Some(workspace) = state.workspaces.get_mut(&tenant.workspace) else { return };
        workspace.ready.move_back(&tenant.project, turn);
        if let Some(project) = workspace.projects.get_mut(&tenant.project) {
            project.ready.move_back(name, turn);
        }
    }

    /// Updates the places of a workspace and its project in the ready queues, and removes entries without usage.
    fn update_ready(&mut self, class: DestinationClass, tenant: Tenant) {
        let turn = self.turn;
        let state = &mut self.classes[class as usize];
        let Some(workspace) = state.workspaces.get_mut(&tenant.workspace) else { return };
        if let Some(project) = workspace.projects.get(&tenant.project) {
            if project.ready.is_empty() {
                workspace.ready.remove(&tenant.project);
            } else {
                workspace.ready.set(&tenant.project, project.usage.held, turn);
            }
            if project.ready.is_empty() && project.usage == Usage::default() {
                workspace.projects.remove(&tenant.project);
            }
        }
        if workspace.ready.is_empty() {
            state.ready.remove(&tenant.workspace);
        } else {
            state.ready.set(&tenant.workspace, workspace.usage.held, turn);
        }
        if workspace.projects.is_empty() {
            state.workspaces.remove(&tenant.workspace);
        }
    }
}

/// Returns whether the workspace and its project may take one more slot or queue place. Dynamic threshold: a workspace
/// may hold `factor` × `free`, and a project `factor` × what its workspace may still take.
fn is_within_share(factor: usize, free: usize, of_workspace: usize, of_project: usize) -> bool {
    let left = (factor * free).saturating_sub(of_workspace);
    of_project < factor.saturating_mul(left)
}

fn idle_list(class: DestinationClass) -> usize {
    usize::from(class != DestinationClass::Proven)
}

impl<T> Destination<T> {
    fn may_start(&self, limits: &CourierLimits) -> bool {
        let slots = match self.health {
            DestinationHealth::New => NEW_DESTINATION_SLOTS.min(limits.concurrency_per_destination),
            DestinationHealth::Healthy | DestinationHealth::Slow => limits.concurrency_per_destination,
            DestinationHealth::Poor => POOR_DESTINATION_SLOTS.min(limits.concurrency_per_destination),
        };
        !self.waiting.is_empty() && self.in_flight < slots
    }
}

/// Workspaces, projects or destinations that can start an attempt, fewest held slots first. Among those with equally
/// many slots, the least recently served comes first.
struct ReadyQueue<K> {
    ranks: HashMap<K, (usize, u64)>,
    order: BTreeSet<(usize, u64, K)>,
}

impl<K> Default for ReadyQueue<K> {
    fn default() -> Self {
        ReadyQueue { ranks: HashMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> ReadyQueue<K> {
    /// Adds a key, and ranks it as if it had got a slot at `turn`. For a key that is in the queue already, only updates
    /// the number of held slots.
    fn set(&mut self, key: &K, held: usize, turn: u64) {
        let turn = match self.ranks.get(key) {
            Some((known, _)) if *known == held => return,
            Some((_, turn)) => *turn,
            None => turn,
        };
        self.place(key, (held, turn));
    }

    /// Moves a key that has just got a slot behind all others with equally many held slots.
    fn move_back(&mut self, key: &K, turn: u64) {
        if let Some((held, _)) = self.ranks.get(key) {
            self.place(key, (*held, turn));
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some((held, turn)) = self.ranks.remove(key) {
            self.order.remove(&(held, turn, key.clone()));
        }
    }

    fn first(&self) -> Option<&K> {
        self.order.first().map(|(_, _, key)| key)
    }

    fn iter(&self) -> impl Iterator<Item = &K> {
        self.order.iter().map(|(_, _, key)| key)
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn place(&mut self, key: &K, (held, turn): (usize, u64)) {
        if let Some((held, turn)) = self.ranks.insert(key.clone(), (held, turn)) {
            self.order.remove(&(held, turn, key.clone()));
        }
        self.order.insert((held, turn, key.clone()));
    }
}
