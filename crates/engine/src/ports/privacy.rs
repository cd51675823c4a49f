//! Erasure of personal data.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::NumberHash};

use super::store::StoreError;

/// Numbers of erased records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureCounts {
    pub checks: u64,
    pub callbacks: u64,
    pub attempts: u64,
    /// Records that are still needed and erased later.
    pub deferred: Option<DeferredErasure>,
}

/// Erasure deferred until open checks conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredErasure {
    pub checks: u64,
    /// Latest deadline of these checks.
    pub until: Timestamp,
}

impl ErasureCounts {
    /// Details of the audit event: deferred erasures.
    pub fn audit_details(&self) -> Vec<String> {
        self.deferred.map_or_else(Vec::new, |deferred| {
            vec![format!("open_checks={}", deferred.checks), format!("open_until={:.3}", deferred.until)]
        })
    }
}

#[async_trait]
pub trait PrivacyStore: Send + Sync {
    /// Erases the data of a number: its hash and tail in concluded checks, their redirect and callback URLs, and the
    /// bodies and logs of their callbacks. Data of open checks and undelivered callbacks is still needed: its erasure
    /// is deferred. Writes the audit event in the same transaction, with the number of open checks.
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<ErasureCounts, StoreError>;

    /// Performs deferred erasures of [`erase_number`](PrivacyStore::erase_number) whose checks have concluded and whose
    /// callbacks were delivered or given up.
    async fn erase_deferred(&self, limit: u32) -> Result<ErasureCounts, StoreError>;

    /// Erases the same data of checks that discovered a number and concluded before `ended_before`.
    async fn erase_discovered_numbers(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError>;

    /// Erases the same data of checks that concluded before `ended_before`.
    async fn erase_old_checks(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError>;
}
