//! Timer for `enquire_link`.
//!
//! Any received octet counts as activity. After an idle interval `enquire_link` is due; without activity until the
//! response timeout the session ends.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct EnquireLinkTimer {
    interval: Option<Duration>,
    response_timeout: Duration,
    last_received: Instant,
    sent_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnquireLinkAction {
    None,
    /// `enquire_link` is due. The timer assumes that it is sent now.
    Send,
    TimedOut,
}

impl EnquireLinkTimer {
    pub(super) fn new(interval: Option<Duration>, response_timeout: Duration, now: Instant) -> Self {
        Self { interval, response_timeout, last_received: now, sent_at: None }
    }

    pub(super) fn record_activity(&mut self, now: Instant) {
        self.last_received = now;
        self.sent_at = None;
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let interval = self.interval?;
        Some(self.sent_at.map_or(self.last_received + interval, |sent_at| sent_at + self.response_timeout))
    }

    pub(super) fn poll(&mut self, now: Instant) -> EnquireLinkAction {
        match (self.next_deadline(), self.sent_at) {
            (Some(deadline), Some(_)) if deadline <= now => EnquireLinkAction::TimedOut,
            (Some(deadline), None) if deadline <= now => {
                self.sent_at = Some(now);
                EnquireLinkAction::Send
            }
            _ => EnquireLinkAction::None,
        }
    }

    /// Extends the deadline by the time in which reading was paused.
    pub(super) fn extend_deadline(&mut self, by: Duration) {
        self.last_received += by;
        self.sent_at = self.sent_at.map(|sent_at| sent_at + by);
    }
}
