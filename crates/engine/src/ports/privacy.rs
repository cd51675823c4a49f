//! Store port for the erasure of personal data.

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
    /// Open checks, whose data is erased after they are concluded. `None`: there are none.
    pub deferred: Option<DeferredErasure>,
}

/// Open checks of a number that is erased. Their data is still needed, and is erased after they are concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredErasure {
    pub checks: u64,
    /// Latest deadline of the open checks.
    pub until: Timestamp,
}

impl ErasureCounts {
    /// Details for the audit event: the number of deferred checks, and until when their erasure may be deferred.
    pub fn audit_details(&self) -> Vec<String> {
        self.deferred.map_or_else(Vec::new, |deferred| {
            vec![format!("open_checks={}", deferred.checks), format!("open_until={:.3}", deferred.until)]
        })
    }
}

#[async_trait]
pub trait PrivacyStore: Send + Sync {
    /// Erases the data of a number: the hash and last digits of the number in concluded checks, the redirect and
    /// callback URLs of these checks, and the bodies and logs of their callbacks. Defers the erasure of open checks and
    /// undelivered callbacks, whose data is still needed. Writes the audit event in the same transaction, with the
    /// number of open checks.
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<ErasureCounts, StoreError>;

    /// Erases the data that [`erase_number`](PrivacyStore::erase_number) has deferred, of checks that are concluded and
    /// whose callbacks are delivered or given up.
    async fn erase_deferred(&self, limit: u32) -> Result<ErasureCounts, StoreError>;

    /// Erases the same data as [`erase_number`](PrivacyStore::erase_number), for checks that discovered a number and
    /// were concluded before `ended_before`.
    async fn erase_discovered_numbers(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError>;

    /// Erases the same data as [`erase_number`](PrivacyStore::erase_number), for all checks that were concluded before
    /// `ended_before`.
    async fn erase_old_checks(&self, ended_before: Timestamp, limit: u32) -> Result<ErasureCounts, StoreError>;
}
