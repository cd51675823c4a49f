//! Errors and results that all store ports share.

use std::time::Duration;

/// Version of the control plane. Every change of the control plane increments it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControlPlaneVersion(pub i64);

/// A row that was written or altered outside Ringtrue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlteredRow {
    pub table: &'static str,
    /// Id of the row. For a membership, the ids of the account and the workspace.
    pub row: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It is unknown whether the operation took effect. A retry may succeed.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A retry would fail in the same way.
    #[error("the database rejected the statement: {0}")]
    Refused(String),
    #[error("the query was cancelled after {} ms", .0.as_millis())]
    DeadlineExceeded(Duration),
    /// The workspace has reached its limit of concurrent searches or lists on this node.
    #[error("too many concurrent searches or lists in this workspace; retry when one has finished")]
    TooManySearches,
    /// A stored row cannot be decoded.
    #[error("{table}: row {row}: {problem}")]
    CorruptRow { table: &'static str, row: String, problem: String },
    /// The MAC of a stored row is wrong, so the row grants nothing and cannot be changed.
    #[error("{}: row {} was written or altered outside Ringtrue", .0.table, .0.row)]
    Altered(AlteredRow),
}

/// What a read of all projects' rows does if one of several database servers does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Fails.
    All,
    /// Returns the rows of the other servers, and waits only briefly for this one. Fails if no server responds.
    Reachable,
}

/// The result of a lookup by id on behalf of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantLookup<T> {
    Found(T),
    /// The id exists and belongs to another tenant.
    OtherTenant,
    NotFound,
}

impl<T> TenantLookup<T> {
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> TenantLookup<U> {
        match self {
            TenantLookup::Found(thing) => TenantLookup::Found(of(thing)),
            TenantLookup::OtherTenant => TenantLookup::OtherTenant,
            TenantLookup::NotFound => TenantLookup::NotFound,
        }
    }

    pub fn found_or<E>(self, other_tenant: E, not_found: E) -> Result<T, E> {
        match self {
            TenantLookup::Found(thing) => Ok(thing),
            TenantLookup::OtherTenant => Err(other_tenant),
            TenantLookup::NotFound => Err(not_found),
        }
    }
}
