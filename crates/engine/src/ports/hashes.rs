//! Keyed hashes, under which secrets are stored and found.

use ringtrue_domain::lifecycle::ShardBucket;
use serde::{Deserialize, Serialize};

/// A keyed hash of an SMS code and its receiver number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("CodeHash(…)")]
pub struct CodeHash(pub [u8; 32]);

impl CodeHash {
    /// Returns the bucket (database shard) in which the check with this code is stored.
    pub fn bucket(self) -> ShardBucket {
        let [.., high, low] = self.0;
        ShardBucket::of([high, low])
    }
}

/// A keyed hash of a secret: OAuth `state`, redemption code, session token or link token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Debug)]
#[debug("TokenHash(…)")]
pub struct TokenHash(pub [u8; 32]);

/// Identifies the browser that began a check's redirect: keyed hash of the check and the key in the browser's cookie.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, derive_more::Debug)]
#[debug("BrowserHash(…)")]
pub struct BrowserHash(pub [u8; BrowserHash::BYTES]);

impl BrowserHash {
    pub const BYTES: usize = 16;
}
