//! Store port for the log of a project's recent API requests.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckId,
    page::{Page, PageRequest},
    tenancy::{ClientId, ProjectId},
};
use strum::VariantArray;
use uuid::Uuid;

use super::store::StoreError;

/// A logged request. The values in `query`, `body` and `rejection` are already redacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLogEntry {
    /// UUID version 7, so that ids sort in order of arrival.
    pub id: Uuid,
    pub project: ProjectId,
    pub at: Timestamp,
    /// Request id from the response. API clients may choose it, so it may repeat.
    pub request_id: String,
    pub method: String,
    /// Path template of the route, never the actual path.
    pub route: String,
    /// The check or verification that the request created or named.
    pub check: Option<CheckId>,
    pub status: u16,
    pub rejection: Option<Rejection>,
    /// The client id in the request's credential or token, which may be invalid.
    pub client: ClientId,
    /// Whether the request had a valid secret or token of this client.
    pub authenticated: bool,
    pub duration_micros: u64,
    pub query: Option<String>,
    /// Request body. Rejected requests only.
    pub body: Option<String>,
    /// Number of similar requests since the last logged one that sampling has left out of the log.
    pub skipped: u32,
}

/// The problem reported in the response to a rejected request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub error_code: String,
    pub detail: String,
}

/// Class of HTTP statuses. Statuses below 400 count as success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum StatusClass {
    Success,
    ClientError,
    ServerError,
}

impl StatusClass {
    pub fn range(self) -> RangeInclusive<u16> {
        match self {
            StatusClass::Success => 100..=399,
            StatusClass::ClientError => 400..=499,
            StatusClass::ServerError => 500..=599,
        }
    }

    pub fn from_status(status: u16) -> Self {
        let class = StatusClass::VARIANTS.iter().copied().find(|class| class.range().contains(&status));
        class.unwrap_or(StatusClass::ServerError)
    }
}

/// Maximum numbers of logged requests that a project keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLogLimits {
    pub authenticated: u32,
    pub unauthenticated: u32,
}

/// Filter of logged requests. A field that is `None` matches all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestLogFilter {
    pub class: Option<StatusClass>,
    pub error_code: Option<String>,
    pub request_id: Option<String>,
    /// Path template of the route, as in [`RequestLogEntry::route`].
    pub route: Option<String>,
    pub client: Option<ClientId>,
}

#[async_trait]
pub trait RequestLogStore: Send + Sync {
    async fn append_requests(&self, requests: Vec<RequestLogEntry>) -> Result<(), StoreError>;

    /// Lists requests, newest first.
    async fn list_requests(
        &self,
        project: ProjectId,
        filter: &RequestLogFilter,
        page: PageRequest,
    ) -> Result<Page<RequestLogEntry>, StoreError>;

    /// Deletes the oldest requests of a project beyond its maximum numbers. Returns the number of deleted rows.
    async fn trim_requests(&self, project: ProjectId, kept: RequestLogLimits) -> Result<u64, StoreError>;

    /// Deletes a batch of requests that arrived before `before`. Returns the number of deleted rows.
    async fn delete_requests_before(&self, before: Timestamp) -> Result<u64, StoreError>;
}
