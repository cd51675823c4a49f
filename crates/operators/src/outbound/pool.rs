//! Connections kept for the next request to the same place.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::line::Line;

/// As many as are used at a time.
const PER_ORIGIN: usize = 256;
const IN_ALL: usize = 512;
const KEPT_FOR: Duration = Duration::from_secs(5);

/// They are kept by scheme, host and port.
#[derive(Default)]
pub struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    origins: HashMap<String, Vec<(Instant, Line)>>,
    count: usize,
    swept_at: Option<Instant>,
}

impl Pool {
    /// The connection that was used last, if any was of late. The other side may have hung up meanwhile.
    pub fn take(&self, key: &str) -> Option<Line> {
        let mut idle = self.idle();
        let kept = idle.origins.get_mut(key)?;
        let before = kept.len();
        let found = loop {
            match kept.pop() {
                Some((since, line)) if since.elapsed() < KEPT_FOR => break Some(line),
                Some(_) => {}
                None => break None,
            }
        };
        // The place itself is wanted again soon, or swept.
        idle.count -= before - kept.len();
        found
    }

    pub fn keep(&self, key: &str, line: Line) {
        if line.sender.is_closed() {
            return;
        }
        let now = Instant::now();
        let mut idle = self.idle();
        idle.sweep(now);
        if idle.count >= IN_ALL {
            return;
        }
        match idle.origins.get_mut(key) {
            Some(kept) if kept.len() >= PER_ORIGIN => return,
            Some(kept) => kept.push((now, line)),
            None => drop(idle.origins.insert(key.to_owned(), vec![(now, line)])),
        }
        idle.count += 1;
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    /// Drops what was kept too long, now and then.
    fn sweep(&mut self, now: Instant) {
        if self.swept_at.is_some_and(|at| now.duration_since(at) < KEPT_FOR) {
            return;
        }
        self.swept_at = Some(now);
        self.origins.retain(|_, kept| {
            kept.retain(|(since, _)| since.elapsed() < KEPT_FOR);
            !kept.is_empty()
        });
        self.count = self.origins.values().map(Vec::len).sum();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} connections)", self.idle().count)
    }
}
