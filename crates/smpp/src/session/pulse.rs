//! Whether the peer is alive.
//!
//! Whatever it sends is a sign of life. After a silence it is asked, and after a silence on that it is given up.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Pulse {
    interval: Option<Duration>,
    patience: Duration,
    heard: Instant,
    asked: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Diagnosis {
    Fine,
    /// Ask now; it is remembered that this was said.
    Ask,
    Dead,
}

impl Pulse {
    pub(super) fn new(interval: Option<Duration>, patience: Duration, now: Instant) -> Self {
        Self { interval, patience, heard: now, asked: None }
    }

    pub(super) fn beat(&mut self, now: Instant) {
        self.heard = now;
        self.asked = None;
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        let interval = self.interval?;
        Some(self.asked.map_or(self.heard + interval, |asked| asked + self.patience))
    }

    pub(super) fn look(&mut self, now: Instant) -> Diagnosis {
        match (self.due(), self.asked) {
            (Some(due), Some(_)) if due <= now => Diagnosis::Dead,
            (Some(due), None) if due <= now => {
                self.asked = Some(now);
                Diagnosis::Ask
            }
            _ => Diagnosis::Fine,
        }
    }

    /// Gives the peer the time back in which nobody listened.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.heard += by;
        self.asked = self.asked.map(|asked| asked + by);
    }
}
