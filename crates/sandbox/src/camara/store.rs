//! Grants, codes and tokens, and the in-memory store for used codes and tokens, CIBA requests and SIM swaps.

use std::num::NonZeroUsize;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    error::Unspecified,
    rand,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use lru::LruCache;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{client::Scopes, sim::PhoneNumber};

/// How the user was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum AuthenticationMethod {
    /// By the mobile network of the device.
    Network,
    /// By an operator token of the SIM.
    Sim,
    /// Not authenticated: the client has named the number.
    Named,
}

/// The user of a token.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Subject {
    pub number: PhoneNumber,
    pub authentication: AuthenticationMethod,
}

/// What a client may do with a token. A grant without a subject is "two-legged": it has no user.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Grant {
    pub client_id: String,
    pub scopes: Scopes,
    pub subject: Option<Subject>,
}

/// Content of an authorization code.
#[derive(Deserialize, Serialize)]
pub(super) struct AuthorizationCode {
    pub grant: Grant,
    pub redirect_uri: String,
    pub code_challenge: Option<String>,
    pub nonce: Option<String>,
    pub until: i64,
}

/// Content of an access token.
#[derive(Deserialize, Serialize)]
pub(super) struct AccessToken {
    pub grant: Grant,
    pub until: i64,
}

/// Content of an operator token.
#[derive(Deserialize, Serialize)]
pub(super) struct OperatorToken {
    /// Number of the SIM.
    pub number: PhoneNumber,
    pub until: i64,
}

/// A pending CIBA request.
pub(super) struct BackchannelRequest {
    pub grant: Grant,
    /// Earliest time of the next poll; `None` before the first poll.
    pub next_poll_at: Option<i64>,
    pub interval: i64,
    pub expires_at: i64,
}

/// In-memory store of the simulated operator. `Debug` hides numbers, codes and tokens.
#[derive(derive_more::Debug)]
#[debug("OperatorStore")]
pub(super) struct OperatorStore {
    /// Redeemed codes with their access tokens.
    pub used_codes: ExpiringMap<Fingerprint>,
    /// Used single-use tokens, used operator tokens and revoked tokens.
    pub used_tokens: ExpiringMap<()>,
    pub backchannel_requests: ExpiringMap<BackchannelRequest>,
    /// `jti` values of used client assertions, by client, to reject replays.
    pub used_jtis: ExpiringMap<()>,
    /// Unix times of SIM swaps by number.
    pub sim_swaps: ExpiringMap<i64>,
}

impl OperatorStore {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            used_codes: ExpiringMap::new(capacity),
            used_tokens: ExpiringMap::new(capacity),
            backchannel_requests: ExpiringMap::new(capacity),
            used_jtis: ExpiringMap::new(capacity),
            sim_swaps: ExpiringMap::new(capacity),
        }
    }
}

/// Digest of a code, token or identifier, stored instead of the longer text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 32]);

impl From<&str> for Fingerprint {
    fn from(text: &str) -> Self {
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        Fingerprint(fingerprint)
    }
}

/// Map with expiring entries and bounded size. When full, the oldest entry is evicted.
pub(super) struct ExpiringMap<V>(LruCache<Fingerprint, (i64, V)>);

impl<V> ExpiringMap<V> {
    pub(super) fn new(capacity: usize) -> Self {
        // `LruCache::new` would allocate the whole capacity.
        let mut entries = LruCache::unbounded();
        entries.resize(NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN));
        Self(entries)
    }

    /// Inserts an entry, and removes the oldest entries that have expired.
    pub(super) fn insert(&mut self, now: i64, key: impl Into<Fingerprint>, expires_at: i64, value: V) {
        while self.0.peek_lru().is_some_and(|(_, (expires_at, _))| *expires_at <= now) {
            self.0.pop_lru();
        }
        self.0.put(key.into(), (expires_at, value));
    }

    pub(super) fn get_mut(&mut self, now: i64, key: &str) -> Option<&mut V> {
        self.0.peek_mut(&key.into()).filter(|(expires_at, _)| *expires_at > now).map(|(_, value)| value)
    }

    pub(super) fn contains(&self, now: i64, key: &str) -> bool {
        self.0.peek(&key.into()).is_some_and(|(expires_at, _)| *expires_at > now)
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.pop(&key.into());
    }
}

/// Kind of encrypted content. The encryption authenticates the kind (as associated data), so that a code cannot be used
/// as a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealedKind {
    Code,
    AccessToken,
    OperatorToken,
}

impl SealedKind {
    fn associated_data(self) -> Aad<&'static [u8]> {
        Aad::from(match self {
            SealedKind::Code => b"authorization code",
            SealedKind::AccessToken => b"access token".as_slice(),
            SealedKind::OperatorToken => b"operator token".as_slice(),
        })
    }
}

/// Encrypts (seals) codes and tokens, which contain all of their data. Every operator with the same key can open them,
/// so that a flow may begin at one operator and end at another. Unused codes and tokens need no storage.
#[derive(derive_more::Debug)]
#[debug("Sealer")]
pub(super) struct Sealer(LessSafeKey);

impl Sealer {
    pub(super) fn new(key: &[u8; 32]) -> Result<Self, Unspecified> {
        UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map(Sealer)
    }

    /// Encrypts content. Uses a random nonce, so that equal contents yield different results.
    pub(super) fn seal(&self, kind: SealedKind, content: &impl Serialize) -> Result<String, Unspecified> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut octets = serde_json::to_vec(content).map_err(|_| Unspecified)?;
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), kind.associated_data(), &mut octets)?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &octets].concat()))
    }

    pub(super) fn open<T: DeserializeOwned>(&self, kind: SealedKind, sealed: &str) -> Option<T> {
        let mut octets = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, octets) = octets.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let content = self.0.open_in_place(nonce, kind.associated_data(), octets).ok()?;
        serde_json::from_slice(content).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_expires() {
        let mut map = ExpiringMap::new(2);
        map.insert(0, "key", 5, 'a');
        assert_eq!(map.get_mut(4, "key"), Some(&mut 'a'));
        assert_eq!(map.get_mut(5, "key"), None);
        assert!(map.contains(4, "key") && !map.contains(5, "key"));
        map.insert(4, "key", 9, 'b');
        map.insert(4, "other", 9, 'c');
        assert_eq!(map.get_mut(8, "key"), Some(&mut 'b'));
        map.insert(4, "third", 9, 'd');
        assert!(!map.contains(8, "key"), "the capacity is two");
        map.insert(9, "fourth", 12, 'e');
        assert_eq!(map.0.len(), 1, "expired entries are removed");
    }

    #[test]
    fn opens_only_with_the_same_key_and_kind() {
        let [ours, same, other] = [[1; 32], [1; 32], [2; 32]].map(|key| Sealer::new(&key).unwrap());
        let sealed = ours.seal(SealedKind::Code, &"content").unwrap();
        assert_eq!(same.open::<String>(SealedKind::Code, &sealed).as_deref(), Some("content"));
        assert_ne!(ours.seal(SealedKind::Code, &"content").unwrap(), sealed);
        assert_eq!(same.open::<String>(SealedKind::AccessToken, &sealed), None);
        assert_eq!(other.open::<String>(SealedKind::Code, &sealed), None);
        for invalid in ["", "AAAA", "?", &sealed[1..]] {
            assert_eq!(ours.open::<String>(SealedKind::Code, invalid), None, "{invalid}");
        }
    }
}
