//! SMS codes of open checks.

use quick_cache::sync::Cache;
use ringtrue_domain::reverse_sms::ReverseSmsCheck;

use crate::ports::hashes::CodeHash;

/// Capacity of the cache of open checks, about 10 MiB.
const MAX_CACHED_CHECKS: usize = 20_000;

/// Cache of open checks created by this node, by code hash, which saves most inbound SMS a store query.
///
/// Entries may be stale, because other nodes conclude checks too. An entry is only used to try to conclude the check;
/// the store rejects that if it is already concluded, and the caller then falls back to a store query.
pub(crate) struct PendingCodeCache(Cache<CodeHash, ReverseSmsCheck>);

impl Default for PendingCodeCache {
    fn default() -> Self {
        PendingCodeCache(Cache::new(MAX_CACHED_CHECKS))
    }
}

impl PendingCodeCache {
    pub(crate) fn insert(&self, code: CodeHash, check: ReverseSmsCheck) {
        self.0.insert(code, check);
    }

    /// Removes and returns the check that waits for a code.
    pub(crate) fn take(&self, code: CodeHash) -> Option<ReverseSmsCheck> {
        self.0.remove(&code).map(|(_, check)| check)
    }
}
