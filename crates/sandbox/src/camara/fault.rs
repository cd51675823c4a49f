//! Faults of responses.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::StatusCode;

use super::Endpoint;

/// Faults of a response. All can be combined; the default has none.
#[expect(clippy::struct_excessive_bools, reason = "independent faults")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFault {
    pub(super) delay: Duration,
    pub(super) status: Option<StatusCode>,
    pub(super) retry_after: Option<u32>,
    pub(super) garbled: bool,
    pub(super) padded_to: usize,
    pub(super) connection_dropped: bool,
    pub(super) response_lost: bool,
    pub(super) wrong_issuer: bool,
    pub(super) wrong_nonce: bool,
    pub(super) invalid_signature: bool,
}

impl EndpointFault {
    pub fn new() -> Self {
        Self::default()
    }

    /// Delays the processing of the request.
    #[must_use]
    pub fn delayed_by(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Responds with this status and a matching error, without processing the request.
    #[must_use]
    pub fn status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Adds a `Retry-After` header, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Replaces the body by garbage of the same length.
    #[must_use]
    pub fn garbled(self) -> Self {
        Self { garbled: true, ..self }
    }

    /// Pads the body with white space to this length.
    #[must_use]
    pub fn padded_to(self, octets: usize) -> Self {
        Self { padded_to: octets, ..self }
    }

    /// Closes the connection without processing the request.
    #[must_use]
    pub fn connection_dropped(self) -> Self {
        Self { connection_dropped: true, ..self }
    }

    /// Processes the request and closes the connection before the response.
    #[must_use]
    pub fn response_lost(self) -> Self {
        Self { response_lost: true, ..self }
    }

    /// Uses a wrong issuer in discovery, redirects and ID tokens.
    #[must_use]
    pub fn wrong_issuer(self) -> Self {
        Self { wrong_issuer: true, ..self }
    }

    /// Uses a wrong nonce in ID tokens.
    #[must_use]
    pub fn wrong_nonce(self) -> Self {
        Self { wrong_nonce: true, ..self }
    }

    /// Signs ID tokens with a different key.
    #[must_use]
    pub fn invalid_signature(self) -> Self {
        Self { invalid_signature: true, ..self }
    }
}

/// Active faults by endpoint, with the number of remaining responses.
#[derive(Debug, Default)]
pub(super) struct FaultTable(Mutex<HashMap<Endpoint, (EndpointFault, Option<u32>)>>);

impl FaultTable {
    /// Replaces the fault of an endpoint. `None`: until cleared.
    pub(super) fn set(&self, endpoint: Endpoint, fault: EndpointFault, times: Option<u32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint, (fault, times));
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The fault of the next response; counts it down.
    pub(super) fn take_next(&self, endpoint: Endpoint) -> EndpointFault {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match faults.get_mut(&endpoint) {
            None | Some((_, Some(0))) => EndpointFault::default(),
            Some((fault, times)) => {
                *times = times.map(|remaining| remaining - 1);
                fault.clone()
            }
        }
    }
}
