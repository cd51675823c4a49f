//! Who is sent to next, so that no receiver waits for another.
//!
//! Each destination has a queue of its own and a number of slots that follows from its standing: many for one that
//! answers, a few for one that is new, two for one that fails. Slow and failing destinations share room and slots of
//! their own, so however many of them there are, the others find theirs free.
//!
//! An attempt that takes long lowers the standing of its destination while it is still under way. A success raises it
//! again: a slow one to many slots among the slow, a quick one to good standing.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// How much is held in memory and sent at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts under way, in all. Each needs a connection.
    pub in_flight: usize,
    /// How many of them may go to destinations of poor standing.
    pub poor_in_flight: usize,
    /// Attempts under way to one destination of good standing.
    pub per_destination: usize,
    /// Callbacks that wait for destinations of good standing; as many again may wait for the others.
    pub queued: usize,
    /// Callbacks that wait for one destination.
    pub queued_per_destination: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            in_flight: 1_024,
            poor_in_flight: 256,
            per_destination: 64,
            queued: 16_384,
            queued_per_destination: 4_096,
        }
    }
}

const NEW_SLOTS: usize = 8;
const POOR_SLOTS: usize = 2;
/// What a destination of poor standing needs no more of: the lease of what waits longer runs out anyway.
const POOR_QUEUE: usize = 256;
/// So many failures in a row make a standing poor.
const FAILURES: u32 = 3;
/// So many destinations of poor standing are remembered while nothing is sent to them.
const REMEMBERED: usize = 4_096;

/// How an attempt ended, as far as standing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    /// Well, after a long time.
    Slowly,
    Badly,
    /// It was not made.
    NotAtAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    New,
    Good,
    /// It answers, and takes its time.
    Slow,
    Poor,
}

struct Destination<T> {
    standing: Standing,
    failures: u32,
    waiting: VecDeque<T>,
    in_flight: usize,
    /// Whether it stands in one of the lines.
    in_line: bool,
}

#[derive(Clone, Copy, Default)]
struct Usage {
    waiting: usize,
    in_flight: usize,
}

type Name = Arc<str>;

pub struct Lanes<T> {
    limits: Limits,
    destinations: HashMap<Name, Destination<T>>,
    /// Destinations with something to send and a free slot, in turn: those of good standing, and those of poor.
    lines: [VecDeque<Name>; 2],
    usage: [Usage; 2],
    idle_poor: usize,
}

fn lane(standing: Standing) -> usize {
    usize::from(matches!(standing, Standing::Slow | Standing::Poor))
}

impl<T> Lanes<T> {
    pub fn new(limits: Limits) -> Self {
        Lanes {
            limits,
            destinations: HashMap::new(),
            lines: Default::default(),
            usage: Default::default(),
            idle_poor: 0,
        }
    }

    /// How many more callbacks there is room for, whoever they are for.
    pub fn room(&self) -> usize {
        self.limits.queued.saturating_sub(self.usage[0].waiting)
    }

    pub fn waiting(&self) -> usize {
        self.usage.iter().map(|usage| usage.waiting).sum()
    }

    pub fn in_flight(&self) -> usize {
        self.usage.iter().map(|usage| usage.in_flight).sum()
    }

    /// Takes something to send. `has_failed`: an earlier attempt at it failed, which a new destination must live down.
    /// Given back when there is no room.
    pub fn push(&mut self, name: &str, has_failed: bool, item: T) -> Result<(), T> {
        let (name, destination) = match self.destinations.get_key_value(name) {
            Some((name, _)) => {
                let name = Arc::clone(name);
                let destination = self.destinations.get_mut(&name);
                (name, destination)
            }
            None => (Name::from(name), None),
        };
        let standing = match &destination {
            Some(destination) => destination.standing,
            None if has_failed => Standing::Poor,
            None => Standing::New,
        };
        let longest = match standing {
            Standing::Poor => POOR_QUEUE.min(self.limits.queued_per_destination),
            Standing::New | Standing::Good | Standing::Slow => self.limits.queued_per_destination,
        };
        let length = destination.as_ref().map_or(0, |destination| destination.waiting.len());
        if self.usage[lane(standing)].waiting >= self.limits.queued || length >= longest {
            return Err(item);
        }
        if let Some(destination) = destination {
            if lane(standing) == 1 && destination.is_idle() {
                self.idle_poor -= 1;
            }
            destination.waiting.push_back(item);
        } else {
            let waiting = VecDeque::from([item]);
            let new = Destination { standing, failures: 0, waiting, in_flight: 0, in_line: false };
            self.destinations.insert(Arc::clone(&name), new);
        }
        self.usage[lane(standing)].waiting += 1;
        self.line_up(&name);
        Ok(())
    }

    /// What is to be sent now. Each is to be [`end`](Lanes::end)ed.
    pub fn next(&mut self) -> Option<(Name, T)> {
        loop {
            let is_free = |lane: usize| {
                let poor_is_full = self.usage[1].in_flight >= self.limits.poor_in_flight;
                self.in_flight() < self.limits.in_flight && !(lane == 1 && poor_is_full)
            };
            let turn = (0..self.lines.len()).find(|&lane| is_free(lane) && !self.lines[lane].is_empty())?;
            let name = self.lines[turn].pop_front()?;
            let Some(destination) = self.destinations.get_mut(&name) else { continue };
            destination.in_line = false;
            if lane(destination.standing) != turn || !destination.may_start(&self.limits) {
                // Its standing has changed while it stood in line.
                self.line_up(&name);
                continue;
            }
            let Some(item) = destination.waiting.pop_front() else { continue };
            destination.in_flight += 1;
            self.usage[turn].waiting -= 1;
            self.usage[turn].in_flight += 1;
            self.line_up(&name);
            return Some((name, item));
        }
    }

    /// An attempt is taking long.
    pub fn drags(&mut self, name: &str) {
        let is_known_for_it = self.destinations.get(name).is_some_and(|known| known.standing == Standing::Slow);
        if !is_known_for_it {
            self.set_standing(name, Standing::Poor);
        }
    }

    pub fn end(&mut self, name: &str, ended: Ended) {
        let Some(destination) = self.destinations.get_mut(name) else { return };
        destination.in_flight -= 1;
        self.usage[lane(destination.standing)].in_flight -= 1;
        match ended {
            Ended::Well => {
                destination.failures = 0;
                self.set_standing(name, Standing::Good);
            }
            Ended::Slowly => {
                destination.failures = 0;
                self.set_standing(name, Standing::Slow);
            }
            Ended::Badly => {
                destination.failures = destination.failures.saturating_add(1);
                if destination.failures >= FAILURES {
                    self.set_standing(name, Standing::Poor);
                }
            }
            Ended::NotAtAll => {}
        }
        self.forget_if_idle(name);
        self.line_up(name);
    }

    /// Takes everything out that waits.
    pub fn drain(&mut self) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.waiting());
        for destination in self.destinations.values_mut() {
            taken.extend(destination.waiting.drain(..));
        }
        for usage in &mut self.usage {
            usage.waiting = 0;
        }
        taken
    }

    fn set_standing(&mut self, name: &str, standing: Standing) {
        let Some(destination) = self.destinations.get_mut(name) else { return };
        let (from, to) = (lane(destination.standing), lane(standing));
        destination.standing = standing;
        if from != to {
            let (waiting, in_flight) = (destination.waiting.len(), destination.in_flight);
            self.usage[from].waiting -= waiting;
            self.usage[from].in_flight -= in_flight;
            self.usage[to].waiting += waiting;
            self.usage[to].in_flight += in_flight;
        }
    }

    fn forget_if_idle(&mut self, name: &str) {
        let Some(destination) = self.destinations.get(name) else { return };
        if !destination.is_idle() {
            return;
        }
        let is_worth_remembering = lane(destination.standing) == 1;
        if is_worth_remembering && self.idle_poor < REMEMBERED {
            self.idle_poor += 1;
        } else {
            self.destinations.remove(name);
        }
    }

    fn line_up(&mut self, name: &str) {
        let Some((name, _)) = self.destinations.get_key_value(name) else { return };
        let name = Arc::clone(name);
        let Some(destination) = self.destinations.get_mut(&name) else { return };
        if !destination.in_line && destination.may_start(&self.limits) {
            destination.in_line = true;
            self.lines[lane(destination.standing)].push_back(name);
        }
    }
}

impl<T> Destination<T> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == 0
    }

    fn may_start(&self, limits: &Limits) -> bool {
        let slots = match self.standing {
            Standing::New => NEW_SLOTS.min(limits.per_destination),
            Standing::Good | Standing::Slow => limits.per_destination,
            Standing::Poor => POOR_SLOTS.min(limits.per_destination),
        };
        !self.waiting.is_empty() && self.in_flight < slots
    }
}
