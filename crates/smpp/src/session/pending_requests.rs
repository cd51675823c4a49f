//! Our requests without a response, oldest first.
//!
//! All have the same timeout, so the oldest expires first. Peers respond mostly in order, so a linear search from the
//! front is fast.

use std::{collections::VecDeque, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::RequestError;
use crate::pdu::{CommandId, Response};

#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) sequence: u32,
    pub(super) command: CommandId,
    pub(super) deadline: Instant,
    pub(super) response_sender: oneshot::Sender<Result<Response, RequestError>>,
}

impl PendingRequest {
    /// Passes the result to the caller, which may have dropped its future.
    pub(super) fn complete(self, result: Result<Response, RequestError>) {
        let _ = self.response_sender.send(result);
    }
}

#[derive(Debug, Default)]
pub(super) struct PendingRequests(VecDeque<PendingRequest>);

impl PendingRequests {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, request: PendingRequest) {
        self.0.push_back(request);
    }

    pub(super) fn take(&mut self, sequence: u32) -> Option<PendingRequest> {
        let index = self.0.iter().position(|request| request.sequence == sequence)?;
        self.0.remove(index)
    }

    pub(super) fn take_expired(&mut self, now: Instant) -> Option<PendingRequest> {
        self.0.pop_front_if(|request| request.deadline <= now)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.front().map(|request| request.deadline)
    }

    /// Extends all deadlines by the time in which reading was paused.
    pub(super) fn extend_deadlines(&mut self, by: Duration) {
        for request in &mut self.0 {
            request.deadline += by;
        }
    }

    /// Drops all requests; their callers get [`RequestError::Closed`].
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
