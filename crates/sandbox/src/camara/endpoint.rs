//! HTTP endpoints of the simulated operator, the faults that they simulate, and the record of their requests.

use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use derive_setters::Setters;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use strum::{EnumString, IntoStaticStr, VariantArray};
use tokio::sync::Notify;

/// HTTP endpoints of the operator, with their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
pub enum Endpoint {
    #[strum(serialize = "/.well-known/openid-configuration")]
    Discovery,
    #[strum(serialize = "/jwks")]
    Jwks,
    #[strum(serialize = "/authorize")]
    Authorize,
    #[strum(serialize = "/token")]
    Token,
    #[strum(serialize = "/bc-authorize")]
    BackchannelAuthorize,
    #[strum(serialize = "/number-verification/v2/verify")]
    VerifyNumber,
    #[strum(serialize = "/number-verification/v2/device-phone-number")]
    DevicePhoneNumber,
    #[strum(serialize = "/sim-swap/v2/check")]
    CheckSimSwap,
    #[strum(serialize = "/sim-swap/v2/retrieve-date")]
    RetrieveSimSwapDate,
}

impl Endpoint {
    pub fn path(self) -> &'static str {
        self.into()
    }

    pub(super) fn method(self) -> Method {
        match self {
            Self::Discovery | Self::Jwks | Self::Authorize | Self::DevicePhoneNumber => Method::GET,
            Self::Token
            | Self::BackchannelAuthorize
            | Self::VerifyNumber
            | Self::CheckSimSwap
            | Self::RetrieveSimSwapDate => Method::POST,
        }
    }

    /// Whether this is a CAMARA API and not an OAuth endpoint.
    pub(super) fn is_api(self) -> bool {
        matches!(self, Self::VerifyNumber | Self::DevicePhoneNumber | Self::CheckSimSwap | Self::RetrieveSimSwapDate)
    }
}

/// Faults that an endpoint simulates in a response. All can be combined; the default has none.
#[expect(clippy::struct_excessive_bools, reason = "independent faults")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Setters)]
#[setters(strip_option)]
pub struct EndpointFault {
    /// Delays the processing of the request.
    pub(super) delayed_by: Duration,
    /// Responds with this status and a matching error, without processing the request.
    pub(super) status: Option<StatusCode>,
    /// Adds a `Retry-After` header, in seconds.
    pub(super) retry_after: Option<u32>,
    /// Replaces the body by garbage of the same length.
    #[setters(bool)]
    pub(super) garbled: bool,
    /// Pads the body with white space to this length in octets.
    pub(super) padded_to: usize,
    /// Closes the connection without processing the request.
    #[setters(bool)]
    pub(super) connection_dropped: bool,
    /// Processes the request and closes the connection before the response.
    #[setters(bool)]
    pub(super) response_lost: bool,
    /// Uses a wrong issuer in discovery, redirects and ID tokens.
    #[setters(bool)]
    pub(super) wrong_issuer: bool,
    /// Uses a wrong nonce in ID tokens.
    #[setters(bool)]
    pub(super) wrong_nonce: bool,
    /// Signs ID tokens with a different key.
    #[setters(bool)]
    pub(super) invalid_signature: bool,
}

impl EndpointFault {
    pub fn new() -> Self {
        Self::default()
    }
}

/// Active faults by endpoint, with the number of responses that they still affect.
#[derive(Debug, Default)]
pub(super) struct FaultTable(Mutex<HashMap<Endpoint, (EndpointFault, Option<u32>)>>);

impl FaultTable {
    /// Replaces the fault of an endpoint for the next `times` responses. `None`: until it is cleared.
    pub(super) fn set(&self, endpoint: Endpoint, fault: EndpointFault, times: Option<u32>) {
        self.0.lock().insert(endpoint, (fault, times));
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Returns the fault for the next response, and decrements the number of responses that it still affects.
    pub(super) fn take_next(&self, endpoint: Endpoint) -> EndpointFault {
        let mut faults = self.0.lock();
        match faults.get_mut(&endpoint) {
            None | Some((_, Some(0))) => EndpointFault::default(),
            Some((fault, times)) => {
                *times = times.map(|remaining| remaining - 1);
                fault.clone()
            }
        }
    }
}

/// A request that the simulated operator has handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    pub endpoint: Endpoint,
    /// `None` if a simulated fault closed the connection.
    pub status: Option<StatusCode>,
    /// `x-correlator` of the request.
    pub correlator: Option<String>,
}

/// Counts and recent requests of the simulated operator, for tests.
#[derive(Debug)]
pub(super) struct RequestObserver {
    capacity: usize,
    recent: Mutex<VecDeque<RecordedRequest>>,
    /// Number of requests by endpoint.
    requests: [AtomicU64; Endpoint::VARIANTS.len()],
    request_received: Notify,
}

impl RequestObserver {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, recent: Mutex::default(), requests: Default::default(), request_received: Notify::new() }
    }

    /// Counts a request, even if its client disconnects before the response.
    pub(super) fn record_request(&self, endpoint: Endpoint) {
        self.requests[endpoint as usize].fetch_add(1, Ordering::Relaxed);
        self.request_received.notify_waiters();
    }

    pub(super) fn record_response(&self, endpoint: Endpoint, status: Option<StatusCode>, correlator: Option<String>) {
        let mut recent = self.recent.lock();
        recent.push_back(RecordedRequest { endpoint, status, correlator });
        while recent.len() > self.capacity {
            recent.pop_front();
        }
    }

    pub(super) fn request_count(&self, endpoint: Endpoint) -> u64 {
        self.requests[endpoint as usize].load(Ordering::Relaxed)
    }

    pub(super) async fn wait_for_requests(&self, endpoint: Endpoint, count: u64) {
        loop {
            let next = self.request_received.notified();
            if self.request_count(endpoint) >= count {
                return;
            }
            next.await;
        }
    }

    /// Returns the recent requests, oldest first.
    pub(super) fn recorded_requests(&self) -> Vec<RecordedRequest> {
        self.recent.lock().iter().cloned().collect()
    }
}
