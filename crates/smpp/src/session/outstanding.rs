//! Our requests that have no response yet, oldest first.
//!
//! All have the same patience, so the oldest is the next to run out. The window is small and peers respond mostly in
//! order: a search from the front finds its entry at once.

use std::{collections::VecDeque, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::RequestError;
use crate::pdu::{CommandId, Response};

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) sequence: u32,
    pub(super) command: CommandId,
    pub(super) deadline: Instant,
    pub(super) caller: oneshot::Sender<Result<Response, RequestError>>,
}

impl Waiting {
    /// Tells the caller, who may have gone.
    pub(super) fn settle(self, result: Result<Response, RequestError>) {
        let _ = self.caller.send(result);
    }
}

#[derive(Debug, Default)]
pub(super) struct Outstanding(VecDeque<Waiting>);

impl Outstanding {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.push_back(waiting);
    }

    pub(super) fn take(&mut self, sequence: u32) -> Option<Waiting> {
        let at = self.0.iter().position(|waiting| waiting.sequence == sequence)?;
        self.0.remove(at)
    }

    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<Waiting> {
        self.0.pop_front_if(|waiting| waiting.deadline <= now)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.0.front().map(|waiting| waiting.deadline)
    }

    /// Gives the peer the time back in which nobody listened.
    pub(super) fn postpone(&mut self, by: Duration) {
        for waiting in &mut self.0 {
            waiting.deadline += by;
        }
    }

    /// Forgets them all; their callers learn that the session has ended.
    pub(super) fn abandon(&mut self) {
        self.0.clear();
    }
}
