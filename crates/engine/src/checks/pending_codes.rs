//! Caches the open Reverse SMS checks of this node by their SMS code.

use quick_cache::sync::Cache;
use ringtrue_domain::reverse_sms::ReverseSmsCheck;

use crate::ports::hashes::CodeHash;

/// Capacity of the cache, in checks. About 10 MiB.
const MAX_CACHED_CHECKS: usize = 20_000;

/// Caches the open checks that this node created, by the hash of their code. For most inbound SMS, this saves the query
/// for the check.
///
/// An entry may be stale, because other nodes conclude checks too. The caller uses an entry only to try to conclude its
/// check. If the check is already concluded, the store rejects the attempt, and the caller then looks the code up in
/// the store.
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

    /// Removes and returns the check that waits for an SMS with this code.
    pub(crate) fn take(&self, code: CodeHash) -> Option<ReverseSmsCheck> {
        self.0.remove(&code).map(|(_, check)| check)
    }
}
