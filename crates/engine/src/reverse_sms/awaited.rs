//! Checks that this node has made and that may still wait for their SMS, by code. Most SMS need not ask for their check.
//!
//! What is kept here may be out of date: other nodes end checks, too. It is good for trying to end a check, which the store
//! refuses if the check has ended. Then, and if nothing is found here, the store is asked.

use std::fmt;

use quick_cache::sync::Cache;
use ringtrue_domain::reverse_sms::ReverseSmsCheck;

use crate::ports::CodeHash;

/// More than these may be waiting: then the store is asked for some of them.
const REMEMBERED: usize = 20_000;

pub(crate) struct Awaited(Cache<CodeHash, ReverseSmsCheck>);

impl Default for Awaited {
    fn default() -> Self {
        Awaited(Cache::new(REMEMBERED))
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Awaited({})", self.0.len())
    }
}

impl Awaited {
    pub(crate) fn remember(&self, code: CodeHash, check: ReverseSmsCheck) {
        self.0.insert(code, check);
    }

    /// The check that waits for a code. It is forgotten: who cannot end it must ask the store.
    pub(crate) fn take(&self, code: CodeHash) -> Option<ReverseSmsCheck> {
        self.0.remove(&code).map(|(_, check)| check)
    }
}
