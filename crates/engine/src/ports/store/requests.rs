//! The log of requests: what callers asked for lately, and what they were answered.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    page::{Page, PageRequest},
    tenancy::{ClientId, ProjectId},
};
use uuid::Uuid;

use super::StoreError;

/// A request of a project, without anything that is nobody's business: values are masked before one is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// In the order of arrival.
    pub id: Uuid,
    pub project: ProjectId,
    pub at: Timestamp,
    /// As it was answered. Callers may give one of their own, and the same one twice.
    pub request_id: String,
    pub method: String,
    /// The template of a path, never the path.
    pub route: String,
    pub status: u16,
    pub rejection: Option<Rejection>,
    /// The client that sent it, or that it names.
    pub client: ClientId,
    /// Whether the sender has proved to be that client, by its secret or by a token that is good.
    pub authenticated: bool,
    /// How long the answer took.
    pub micros: u64,
    pub query: Option<String>,
    /// Of requests that were rejected.
    pub body: Option<String>,
    /// How many of the same kind came before this one, since the last that was kept, and were not.
    pub skipped: u32,
}

/// Why a request was not served, as its caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub error_code: String,
    pub detail: String,
}

/// What an answer's status says, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    Served,
    CallersFault,
    OurFault,
}

impl StatusClass {
    pub const ALL: [StatusClass; 3] = [StatusClass::Served, StatusClass::CallersFault, StatusClass::OurFault];

    pub fn range(self) -> RangeInclusive<u16> {
        match self {
            StatusClass::Served => 100..=399,
            StatusClass::CallersFault => 400..=499,
            StatusClass::OurFault => 500..=599,
        }
    }

    pub fn of(status: u16) -> Self {
        StatusClass::ALL.into_iter().find(|class| class.range().contains(&status)).unwrap_or(StatusClass::OurFault)
    }
}

/// How many requests of a project are kept, those of each kind by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRequests {
    pub authenticated: u32,
    pub unauthenticated: u32,
}

/// Which requests are wanted. `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    pub class: Option<StatusClass>,
    pub error_code: Option<String>,
    pub request_id: Option<String>,
}

#[async_trait]
pub trait RequestStore: Send + Sync {
    /// All of them or none.
    async fn keep_requests(&self, requests: Vec<RequestRecord>) -> Result<(), StoreError>;

    /// Newest first.
    async fn requests(
        &self,
        project: ProjectId,
        filter: &RequestFilter,
        page: PageRequest,
    ) -> Result<Page<RequestRecord>, StoreError>;

    /// Deletes all but the newest requests of a project, of each kind as many as are kept. Gives how many were deleted.
    async fn trim_requests(&self, project: ProjectId, kept: KeptRequests) -> Result<u64, StoreError>;

    /// Forgets requests that came before an instant, a bounded number at a time. Gives how many went.
    async fn forget_requests(&self, before: Timestamp) -> Result<u64, StoreError>;
}
