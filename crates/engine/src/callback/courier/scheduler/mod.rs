//! Which callback is sent next, so that no receiver and no tenant delays another.
//!
//! Every destination has a queue and a [`Health`], which puts it into one of three classes: proven destinations, those
//! that have not answered yet, and those that are slow or fail. The last two have a bounded part of the slots each, so
//! that however many receivers accept and never answer, the proven ones find slots free.
//!
//! In each class, slots are shared by workspace, then by project, then by destination: a free slot goes to the one that
//! holds the fewest. An attempt holds its slot for up to ten seconds and cannot be interrupted, so sharing only what is
//! freed would be too late. Therefore nobody may take the last slots: a workspace may hold as many slots as its class's
//! [factor](Class::factor) times those that are still free (dynamic thresholds, as in shared switch buffers). A
//! workspace that holds nothing finds a slot unless very many others are busy. The same rule shares a workspace's part
//! among its projects, and the queues' memory among both.
//!
//! An attempt is charged to the class that its destination was in when it started, until it ends: a bound can never be
//! exceeded by a change of health. Everything here is pure; the rows in the store remain the truth.

mod ready;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use ringtrue_domain::tenancy::{ProjectId, WorkspaceId};

use ready::ReadyQueue;

/// How much is held in memory and sent at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts in flight in total. Each needs a connection.
    pub in_flight: usize,
    /// Attempts in flight to destinations that have not answered yet.
    pub unproven_in_flight: usize,
    /// Attempts in flight to destinations that are slow or fail.
    pub poor_in_flight: usize,
    /// Attempts in flight to one healthy destination.
    pub per_destination: usize,
    /// Callbacks that wait for healthy destinations. Half as many may wait for unproven ones, and half for poor ones.
    pub queued: usize,
    /// Callbacks that wait for one destination.
    pub queued_per_destination: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            in_flight: 1_024,
            unproven_in_flight: 256,
            poor_in_flight: 256,
            per_destination: 64,
            queued: 16_384,
            queued_per_destination: 4_096,
        }
    }
}

const NEW_SLOTS: usize = 8;
const POOR_SLOTS: usize = 2;
/// A poor destination needs no longer queue: the lease of what waits longer expires anyway.
const POOR_QUEUE: usize = 256;
/// Consecutive failures that make a destination poor.
const MAX_FAILURES: u32 = 3;
/// Idle destinations whose health is remembered, for the proven and for the others.
const REMEMBERED: usize = 4_096;

/// How an attempt ended, as far as health is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Delivered,
    DeliveredSlowly,
    Failed,
    NotMade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    New,
    Healthy,
    /// It answers, and takes its time.
    Slow,
    Poor,
}

/// What a slot is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Proven,
    Unproven,
    Poor,
}

impl Class {
    /// In the order in which free slots are offered.
    const ALL: [Class; 3] = [Class::Proven, Class::Unproven, Class::Poor];

    /// A workspace may hold this many times the slots that are still free. With 3 a workspace alone gets three quarters
    /// of them, with 1 a half: what has not answered yet may hold its slots for the longest time.
    fn factor(self) -> usize {
        match self {
            Class::Proven => 3,
            Class::Unproven | Class::Poor => 1,
        }
    }
}

/// Memory is shared more generously than slots.
const QUEUE_FACTOR: usize = 3;

impl Health {
    fn class(self) -> Class {
        match self {
            Health::Healthy => Class::Proven,
            Health::New => Class::Unproven,
            Health::Slow | Health::Poor => Class::Poor,
        }
    }
}

/// Whose callbacks go to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant {
    pub workspace: WorkspaceId,
    pub project: ProjectId,
}

pub type Name = Arc<str>;

/// A slot that an attempt holds. It is given back by [`Scheduler::end`].
#[derive(Clone, Debug)]
pub struct Grant {
    pub destination: Name,
    tenant: Tenant,
    class: Class,
}

struct Destination<T> {
    tenant: Tenant,
    health: Health,
    failures: u32,
    waiting: VecDeque<T>,
    in_flight: usize,
    /// When it became idle, as a key of the idle list.
    idle_since: Option<u64>,
}

/// What somebody has of a class.
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
    ready: ReadyQueue<Name>,
}

pub struct Scheduler<T> {
    limits: Limits,
    destinations: HashMap<Name, Destination<T>>,
    classes: [ClassState; 3],
    /// Idle destinations, the longest idle first: proven ones, and the others.
    idle: [std::collections::BTreeMap<u64, Name>; 2],
    /// Counts up; orders those that hold equally much by who was served longest ago.
    turn: u64,
}

impl<T> Scheduler<T> {
    pub fn new(limits: Limits) -> Self {
        Scheduler {
            limits,
            destinations: HashMap::new(),
            classes: Default::default(),
            idle: Default::default(),
            turn: 0,
        }
    }

    /// How many more callbacks fit into memory, of all tenants together.
    pub fn room(&self) -> usize {
        Class::ALL.into_iter().map(|class| self.free_memory(class)).sum()
    }

    /// Whether a first attempt of this tenant finds memory, wherever it goes.
    pub fn has_room(&self, tenant: Tenant) -> bool {
        self.admits_waiting(Class::Proven, tenant) && self.admits_waiting(Class::Unproven, tenant)
    }

    /// Projects that have no room for so many more in some class.
    pub fn projects_without_room(&self, rows: usize, limit: usize) -> Vec<ProjectId> {
        let margin = rows.saturating_sub(1);
        let without_room = Class::ALL.into_iter().flat_map(|class| {
            let free = self.free_memory(class).saturating_sub(margin);
            let workspaces = self.classes[class as usize].workspaces.values();
            workspaces.flat_map(move |workspace| {
                workspace.projects.iter().filter_map(move |(project, state)| {
                    let (of_workspace, of_project) = (workspace.usage.waiting, state.usage.waiting);
                    let has_room = admits(QUEUE_FACTOR, free, of_workspace + margin, of_project + margin);
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

    /// Queues something to send. `has_failed`: an earlier attempt failed, so an unknown destination begins as poor.
    /// Returned when the tenant or the destination has no room.
    pub fn push(&mut self, tenant: Tenant, name: &str, has_failed: bool, item: T) -> Result<(), T> {
        let known = self.destinations.get(name);
        let health = match known {
            Some(destination) => destination.health,
            None if has_failed => Health::Poor,
            None => Health::New,
        };
        let longest = match health {
            Health::Poor => POOR_QUEUE.min(self.limits.queued_per_destination),
            Health::New | Health::Healthy | Health::Slow => self.limits.queued_per_destination,
        };
        let length = known.map_or(0, |destination| destination.waiting.len());
        if length >= longest || !self.admits_waiting(health.class(), tenant) {
            return Err(item);
        }
        let new = Destination { tenant, health, failures: 0, waiting: VecDeque::new(), in_flight: 0, idle_since: None };
        let name = match self.destinations.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Name::from(name),
        };
        let destination = self.destinations.entry(Arc::clone(&name)).or_insert(new);
        if destination.waiting.is_empty() && destination.in_flight == 0 {
            // The workspace may have been unknown when it was last used. Nothing is charged to it now.
            destination.tenant = tenant;
        }
        self.change(&name, |destination| destination.waiting.push_back(item));
        Ok(())
    }

    /// What is to be sent now, with the slot that it holds.
    pub fn next(&mut self) -> Option<(Grant, T)> {
        Class::ALL.into_iter().find_map(|class| self.next_of(class))
    }

    fn next_of(&mut self, class: Class) -> Option<(Grant, T)> {
        let free = self.free_slots(class);
        let state = &self.classes[class as usize];
        let (workspace, project, name) = state.ready.iter().find_map(|workspace| {
            let of_workspace = state.workspaces.get(workspace)?;
            let project = of_workspace.ready.first()?;
            let of_project = of_workspace.projects.get(project)?;
            let is_admitted = admits(class.factor(), free, of_workspace.usage.held, of_project.usage.held);
            is_admitted.then_some((*workspace, *project, of_project.ready.first()?))
        })?;
        let name = Arc::clone(name);
        let tenant = Tenant { workspace, project };
        let mut item = None;
        self.change(&name, |destination| {
            item = destination.waiting.pop_front();
            destination.in_flight += 1;
        });
        self.charge(class, tenant, |usage| usage.held += 1);
        self.served(class, tenant, &name);
        item.map(|item| (Grant { destination: name, tenant, class }, item))
    }

    /// An attempt takes long: what follows to its destination has to wait among the poor.
    pub fn mark_slow(&mut self, grant: &Grant) {
        self.change(&grant.destination, |destination| {
            if destination.health != Health::Slow {
                destination.health = Health::Poor;
            }
        });
    }

    pub fn end(&mut self, grant: &Grant, ended: Ended) {
        self.charge(grant.class, grant.tenant, |usage| usage.held -= 1);
        self.change(&grant.destination, |destination| {
            destination.in_flight -= 1;
            match ended {
                Ended::Delivered => (destination.failures, destination.health) = (0, Health::Healthy),
                Ended::DeliveredSlowly => (destination.failures, destination.health) = (0, Health::Slow),
                Ended::Failed => {
                    destination.failures = destination.failures.saturating_add(1);
                    if destination.failures >= MAX_FAILURES {
                        destination.health = Health::Poor;
                    }
                }
                Ended::NotMade => {}
            }
        });
    }

    /// Takes everything out that waits.
    pub fn drain(&mut self) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.waiting());
        let names: Vec<Name> = self.destinations.keys().cloned().collect();
        for name in names {
            self.change(&name, |destination| taken.extend(destination.waiting.drain(..)));
        }
        taken
    }

    fn free_memory(&self, class: Class) -> usize {
        let capacity = match class {
            Class::Proven => self.limits.queued,
            Class::Unproven | Class::Poor => self.limits.queued.div_ceil(2),
        };
        capacity.saturating_sub(self.classes[class as usize].usage.waiting)
    }

    fn admits_waiting(&self, class: Class, tenant: Tenant) -> bool {
        let [of_workspace, of_project] = self.usage(class, tenant);
        admits(QUEUE_FACTOR, self.free_memory(class), of_workspace.waiting, of_project.waiting)
    }

    fn free_slots(&self, class: Class) -> usize {
        let of_class = match class {
            Class::Proven => self.limits.in_flight,
            Class::Unproven => self.limits.unproven_in_flight,
            Class::Poor => self.limits.poor_in_flight,
        };
        let held = match class {
            Class::Proven => self.in_flight(),
            Class::Unproven | Class::Poor => self.classes[class as usize].usage.held,
        };
        of_class.saturating_sub(held).min(self.limits.in_flight.saturating_sub(self.in_flight()))
    }

    fn usage(&self, class: Class, tenant: Tenant) -> [Usage; 2] {
        let workspace = self.classes[class as usize].workspaces.get(&tenant.workspace);
        let project = workspace.and_then(|workspace| workspace.projects.get(&tenant.project));
        [workspace.map(|of| of.usage).unwrap_or_default(), project.map(|of| of.usage).unwrap_or_default()]
    }

    /// Changes a destination, and what follows from it: its class, what waits there, and whether it is ready or idle.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Destination<T>)) {
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
            self.remember(name);
        }
    }

    /// Keeps the health of an idle destination, in place of the one that was idle longest.
    fn remember(&mut self, name: Name) {
        self.turn += 1;
        let Some(destination) = self.destinations.get_mut(&name) else { return };
        if destination.health == Health::New && destination.failures == 0 {
            self.destinations.remove(&name);
            return;
        }
        destination.idle_since = Some(self.turn);
        let idle = &mut self.idle[idle_list(destination.health.class())];
        idle.insert(self.turn, name);
        if idle.len() > REMEMBERED
            && let Some((_, forgotten)) = idle.pop_first()
        {
            self.destinations.remove(&forgotten);
        }
    }

    fn charge(&mut self, class: Class, tenant: Tenant, change: impl Fn(&mut Usage)) {
        let state = &mut self.classes[class as usize];
        let workspace = state.workspaces.entry(tenant.workspace).or_default();
        let project = workspace.projects.entry(tenant.project).or_default();
        change(&mut state.usage);
        change(&mut workspace.usage);
        change(&mut project.usage);
        self.refresh(class, tenant);
    }

    /// Puts a destination among those that can start, or takes it out.
    fn set_ready(&mut self, class: Class, tenant: Tenant, name: &Name, in_flight: Option<usize>) {
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
        self.refresh(class, tenant);
    }

    /// All three step back behind those that hold as much.
    fn served(&mut self, class: Class, tenant: Tenant, name: &Name) {
        self.turn += 1;
        let turn = self.turn;
        let state = &mut self.classes[class as usize];
        state.ready.step_back(&tenant.workspace, turn);
        let Some(workspace) = state.workspaces.get_mut(&tenant.workspace) else { return };
        workspace.ready.step_back(&tenant.project, turn);
        if let Some(project) = workspace.projects.get_mut(&tenant.project) {
            project.ready.step_back(name, turn);
        }
    }

    /// Makes the order of a workspace and its project follow from what they hold, and forgets them when they have nothing.
    fn refresh(&mut self, class: Class, tenant: Tenant) {
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

/// Whether a workspace and one of its projects may take one more, with so much free and so much theirs already.
fn admits(factor: usize, free: usize, of_workspace: usize, of_project: usize) -> bool {
    let left = (factor * free).saturating_sub(of_workspace);
    of_project < factor.saturating_mul(left)
}

fn idle_list(class: Class) -> usize {
    usize::from(class != Class::Proven)
}

impl<T> Destination<T> {
    fn may_start(&self, limits: &Limits) -> bool {
        let slots = match self.health {
            Health::New => NEW_SLOTS.min(limits.per_destination),
            Health::Healthy | Health::Slow => limits.per_destination,
            Health::Poor => POOR_SLOTS.min(limits.per_destination),
        };
        !self.waiting.is_empty() && self.in_flight < slots
    }
}
