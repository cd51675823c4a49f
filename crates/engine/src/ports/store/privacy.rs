//! Forgetting people: by request, and by time.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::NumberHash};

use super::StoreError;

/// What was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub checks: u64,
    pub callbacks: u64,
    pub attempts: u64,
    /// What was not yet, since it is still needed.
    pub left: Option<StillOpen>,
}

/// Checks that are still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillOpen {
    pub checks: u64,
    /// When the last of them ends at the latest.
    pub until: Timestamp,
}

impl Erased {
    /// What the audit log tells besides: that there is more to come, and when.
    pub fn to_be_continued(&self) -> Vec<String> {
        self.left.map_or_else(Vec::new, |left| {
            vec![format!("open_checks={}", left.checks), format!("open_until={:.3}", left.until)]
        })
    }
}

#[async_trait]
pub trait PrivacyStore: Send + Sync {
    /// Erases what is kept of a number: its hash and last digits in ended checks, where they sent devices and callbacks,
    /// the bodies and logs of their callbacks. A callback that waits is left what it needs to be sent. Checks that are
    /// still open keep their hash until they end: they would otherwise end without a verdict. What is left is remembered.
    /// Writes the audit event in the same transaction, with what is open.
    async fn erase_number(&self, number: NumberHash, audit: &AuditEvent) -> Result<Erased, StoreError>;

    /// Erases what [`erase_number`](PrivacyStore::erase_number) has left and is needed no more: of checks that have ended
    /// since, and of callbacks that have come or were given up. A bounded number at a time.
    async fn erase_left(&self, limit: u32) -> Result<Erased, StoreError>;

    /// Erases the same of checks that have found a number out and ended before `ended_before`, a bounded number at a
    /// time.
    async fn erase_discovered(&self, ended_before: Timestamp, limit: u32) -> Result<Erased, StoreError>;

    /// Erases the same of checks that ended before `ended_before`, a bounded number at a time.
    async fn erase_old(&self, ended_before: Timestamp, limit: u32) -> Result<Erased, StoreError>;
}
