//! Keyed hashes, by which secrets are stored and found.

use ringtrue_domain::lifecycle::Bucket;
use serde::{Deserialize, Serialize};

/// A keyed hash of a code and its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("CodeHash(…)")]
pub struct CodeHash(pub [u8; 32]);

impl CodeHash {
    /// The bucket of the check with this code.
    pub fn bucket(self) -> Bucket {
        let [.., high, low] = self.0;
        Bucket::of([high, low])
    }
}

/// A keyed hash of a secret: OAuth `state`, redemption code, session token or link token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Debug)]
#[debug("TokenHash(…)")]
pub struct TokenHash(pub [u8; 32]);

/// Keyed hash of a browser's key and a check: identifies the browser that began the redirect of the check.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, derive_more::Debug)]
#[debug("BrowserHash(…)")]
pub struct BrowserHash(pub [u8; BrowserHash::BYTES]);

impl BrowserHash {
    pub const BYTES: usize = 16;
}
