//! Injected faults: killed nodes and a restarted database.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A node whose connections to the database broke may reject requests for so long.
const RECOVERY_TIME: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct FaultLog(Mutex<Vec<Fault>>);

#[derive(Clone, Copy)]
struct Fault {
    kind: FaultKind,
    from: Instant,
    /// `None`: not repaired yet.
    until: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    NodeKilled(usize),
    DatabaseRestart,
}

impl FaultLog {
    /// Must be called before the fault.
    pub fn begin(&self, kind: FaultKind) {
        self.0.lock().push(Fault { kind, from: Instant::now(), until: None });
    }

    /// Marks the last fault of this kind as repaired. Returns its duration.
    pub fn end(&self, kind: FaultKind) -> Duration {
        let now = Instant::now();
        let mut faults = self.0.lock();
        let Some(fault) = faults.iter_mut().rfind(|fault| fault.kind == kind) else { return Duration::ZERO };
        fault.until = Some(now);
        now - fault.from
    }

    pub fn kills(&self) -> usize {
        self.0.lock().iter().filter(|fault| matches!(fault.kind, FaultKind::NodeKilled(_))).count()
    }

    /// Whether a node was killed, or the database restarted, in this time.
    pub fn affects(&self, node: usize, from: Instant, until: Instant) -> bool {
        self.any(from, until, |kind| kind == FaultKind::DatabaseRestart || kind == FaultKind::NodeKilled(node))
    }

    pub fn affects_any(&self, from: Instant, until: Instant) -> bool {
        self.any(from, until, |_| true)
    }

    /// Whether nodes may reject requests at this time because of the database.
    pub fn is_unavailability_expected(&self, at: Instant) -> bool {
        self.any(at, at, |kind| kind == FaultKind::DatabaseRestart)
    }

    fn any(&self, from: Instant, until: Instant, is_relevant: impl Fn(FaultKind) -> bool) -> bool {
        self.0.lock().iter().any(|fault| {
            let recovery = if fault.kind == FaultKind::DatabaseRestart { RECOVERY_TIME } else { Duration::ZERO };
            let ended = fault.until.is_some_and(|ended| ended + recovery < from);
            is_relevant(fault.kind) && fault.from <= until && !ended
        })
    }
}
