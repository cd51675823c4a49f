//! What the operator was asked: for tests, and for a page that shows it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use http::StatusCode;

use super::Endpoint;

/// A request, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub endpoint: Endpoint,
    /// `None` if the connection broke instead.
    pub status: Option<StatusCode>,
    /// The request's `x-correlator`.
    pub correlator: Option<String>,
}

#[derive(Debug)]
pub(super) struct Observer {
    room: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    last: VecDeque<Exchange>,
    requests: HashMap<Endpoint, u64>,
}

impl Observer {
    pub(super) fn new(room: usize) -> Self {
        Self { room, seen: Mutex::default() }
    }

    /// A request has come. It counts even if its client does not wait for the answer.
    pub(super) fn came(&self, endpoint: Endpoint) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner).requests.entry(endpoint).or_default() += 1;
    }

    pub(super) fn went(&self, endpoint: Endpoint, status: Option<StatusCode>, correlator: Option<String>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last.push_back(Exchange { endpoint, status, correlator });
        while seen.last.len() > self.room {
            seen.last.pop_front();
        }
    }

    pub(super) fn requests(&self, endpoint: Endpoint) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.requests.get(&endpoint).copied().unwrap_or_default()
    }

    /// The last ones, oldest first.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }
}
