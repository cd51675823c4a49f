//! What the operator was asked: for tests, and for a page that shows it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use http::StatusCode;
use tokio::sync::watch;

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
    last: Mutex<VecDeque<Exchange>>,
    requests: watch::Sender<HashMap<Endpoint, u64>>,
}

impl Observer {
    pub(super) fn new(room: usize) -> Self {
        Self { room, last: Mutex::default(), requests: watch::Sender::default() }
    }

    /// A request has come. It counts even if its client does not wait for the answer.
    pub(super) fn came(&self, endpoint: Endpoint) {
        self.requests.send_modify(|requests| *requests.entry(endpoint).or_default() += 1);
    }

    pub(super) fn went(&self, endpoint: Endpoint, status: Option<StatusCode>, correlator: Option<String>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back(Exchange { endpoint, status, correlator });
        while last.len() > self.room {
            last.pop_front();
        }
    }

    pub(super) fn requests(&self, endpoint: Endpoint) -> u64 {
        self.requests.borrow().get(&endpoint).copied().unwrap_or_default()
    }

    pub(super) async fn wait_for_requests(&self, endpoint: Endpoint, count: u64) {
        let enough = |requests: &HashMap<_, u64>| requests.get(&endpoint).is_some_and(|found| *found >= count);
        // It lives as long as this does.
        let _ = self.requests.subscribe().wait_for(enough).await;
    }

    /// The last ones, oldest first.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
