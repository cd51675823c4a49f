//! What can be wrong with an answer. Everything can be combined; nothing is wrong by default.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::StatusCode;

use super::Endpoint;

/// The faults of an answer.
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own, and all combine")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    pub(super) late: Duration,
    pub(super) status: Option<StatusCode>,
    pub(super) retry_after: Option<u32>,
    pub(super) garbled: bool,
    pub(super) padded_to: usize,
    pub(super) dropped: bool,
    pub(super) lost: bool,
    pub(super) wrong_issuer: bool,
    pub(super) wrong_nonce: bool,
    pub(super) badly_signed: bool,
}

impl Fault {
    pub fn new() -> Self {
        Self::default()
    }

    /// The request is looked at only after a while.
    #[must_use]
    pub fn late(self, late: Duration) -> Self {
        Self { late, ..self }
    }

    /// The request is not looked at, and answered with this status and an error that goes with it.
    #[must_use]
    pub fn status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The answer says in its head that one may come again after so many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The answer's body is of as many octets, and not one of them makes sense.
    #[must_use]
    pub fn garbled(self) -> Self {
        Self { garbled: true, ..self }
    }

    /// The answer's body is the right one, followed by white space until it has so many octets.
    #[must_use]
    pub fn padded_to(self, octets: usize) -> Self {
        Self { padded_to: octets, ..self }
    }

    /// The connection breaks before the request was looked at.
    #[must_use]
    pub fn dropped(self) -> Self {
        Self { dropped: true, ..self }
    }

    /// What was asked is done, and the connection breaks before the answer.
    #[must_use]
    pub fn lost(self) -> Self {
        Self { lost: true, ..self }
    }

    /// Discovery, redirects and ID tokens name another issuer. Of no effect elsewhere.
    #[must_use]
    pub fn wrong_issuer(self) -> Self {
        Self { wrong_issuer: true, ..self }
    }

    /// ID tokens hold another nonce. Of no effect but at the token endpoint.
    #[must_use]
    pub fn wrong_nonce(self) -> Self {
        Self { wrong_nonce: true, ..self }
    }

    /// ID tokens have the signature of another key. Of no effect but at the token endpoint.
    #[must_use]
    pub fn badly_signed(self) -> Self {
        Self { badly_signed: true, ..self }
    }
}

/// The faults that are to come, by endpoint.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<HashMap<Endpoint, (Fault, Option<u32>)>>);

impl Faults {
    /// Takes the place of what was set there before. Without a number of times, it stays.
    pub(super) fn set(&self, endpoint: Endpoint, fault: Fault, times: Option<u32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint, (fault, times));
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is wrong with the answer to the request that has just come.
    pub(super) fn next(&self, endpoint: Endpoint) -> Fault {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match faults.get_mut(&endpoint) {
            None | Some((_, Some(0))) => Fault::default(),
            Some((fault, times)) => {
                *times = times.map(|left| left - 1);
                fault.clone()
            }
        }
    }
}
