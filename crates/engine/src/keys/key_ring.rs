//! Holds the decrypted keys of the deployment in memory.

use std::{collections::HashMap, fmt, sync::Arc};

use aws_lc_rs::hmac;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;
use ringtrue_callback_signature::{CallbackPublicKey, CallbackSigner};
use ringtrue_domain::{
    key_schedule::{KeySchedule, KeyState},
    sign_in::IdTokenAlgorithm,
    tenancy::Mode,
};
use strum::VariantArray as _;
use zeroize::Zeroizing;

use super::{MasterKey, id_token_signer::IdTokenSigner, master_key::SealingKey};
use crate::ports::{
    entropy::Entropy,
    keys::{KeyId, KeyPurpose, SealedKey},
    row_mac::{RowFields, RowMac, RowSigner},
    store::StoreError,
};

/// All keys of the deployment, decrypted, with their schedules.
#[derive(Default)]
pub struct KeyRing {
    keys: Vec<(KeyId, KeySchedule, Arc<KeyMaterial>)>,
}

enum KeyMaterial {
    Token { header: String, key: Box<hmac::Key> },
    Callback(CallbackSigner),
    IdToken(Arc<IdTokenSigner>),
    Seal(SealingKey),
    Link(Box<hmac::Key>),
    Hash(Box<hmac::Key>),
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the master key cannot unseal the {purpose} key {id}: this database was set up with another master key, or the key's \
     row was altered outside Ringtrue"
)]
pub struct KeyUnsealError {
    pub purpose: KeyPurpose,
    pub id: uuid::Uuid,
}

impl KeyUnsealError {
    pub(super) fn of(key: &SealedKey) -> Self {
        KeyUnsealError { purpose: key.purpose, id: key.id.0 }
    }
}

impl KeyRing {
    /// Unseals the stored keys with the master key. Reuses keys of `previous` whose schedule is unchanged, because
    /// parsing RSA keys is slow.
    pub fn from_sealed(stored: &[SealedKey], master: &MasterKey, previous: &KeyRing) -> Result<Self, KeyUnsealError> {
        let known: HashMap<KeyId, (&KeySchedule, &Arc<KeyMaterial>)> =
            previous.keys.iter().map(|(id, schedule, material)| (*id, (schedule, material))).collect();
        let keys = stored
            .iter()
            .map(|key| {
                let material = match known.get(&key.id) {
                    Some((schedule, material)) if **schedule == key.schedule => Arc::clone(material),
                    _ => Arc::new(unseal_material(key, master)?),
                };
                Ok((key.id, key.schedule, material))
            })
            .collect::<Result<_, _>>()?;
        Ok(KeyRing { keys })
    }

    /// Returns the encoded JWT header and the key for signing new access tokens.
    pub(crate) fn token_signer(&self, now: Timestamp) -> Option<(&str, &hmac::Key)> {
        self.active_key(now, |material| match material {
            KeyMaterial::Token { header, key } => Some((header.as_str(), &**key)),
            _ => None,
        })
        .map(|(_, signer)| signer)
    }

    /// Returns the key that verifies access tokens with this encoded JWT header. Keys that become active soon are valid
    /// already, because the clock of the node that issued the token may be ahead.
    pub(crate) fn token_verifier(&self, token_header: &str, now: Timestamp) -> Option<&hmac::Key> {
        self.keys_in_state(now, |state| state != KeyState::Gone).find_map(|(_, material)| match material {
            KeyMaterial::Token { header, key } if header == token_header => Some(&**key),
            _ => None,
        })
    }

    /// Returns the public keys of callbacks to publish in the JWKS.
    pub fn published_callback_keys(&self, now: Timestamp) -> Vec<&CallbackPublicKey> {
        self.keys_in_state(now, |state| state != KeyState::Gone)
            .filter_map(|(_, material)| match material {
                KeyMaterial::Callback(signer) => Some(signer.public()),
                _ => None,
            })
            .collect()
    }

    /// Returns the public keys of all callback keys, including those that are no longer published.
    pub fn callback_keys(&self) -> impl Iterator<Item = (KeyId, KeySchedule, &CallbackPublicKey)> {
        self.keys.iter().filter_map(|(id, schedule, material)| match &**material {
            KeyMaterial::Callback(signer) => Some((*id, *schedule, signer.public())),
            _ => None,
        })
    }

    /// Returns the active key for signing callbacks of checks in this mode.
    pub fn callback_signer(&self, mode: Mode, now: Timestamp) -> Option<CallbackSigner> {
        self.active_key(now, |material| match material {
            KeyMaterial::Callback(signer) if signer.public().mode == mode => Some(signer.clone()),
            _ => None,
        })
        .map(|(_, signer)| signer)
    }

    /// Returns the id and the `kid` of each ID token key, including keys that the JWKS no longer contains.
    pub fn id_token_kids(&self) -> impl Iterator<Item = (KeyId, &str)> {
        self.keys.iter().filter_map(|(id, _, material)| match &**material {
            KeyMaterial::IdToken(signer) => Some((*id, signer.jwk().get("kid")?.as_str()?)),
            _ => None,
        })
    }

    /// Returns the public keys of ID tokens to publish in the JWKS.
    pub fn published_id_token_keys(&self, now: Timestamp) -> Vec<&serde_json::Value> {
        self.keys_in_state(now, |state| state != KeyState::Gone)
            .filter_map(|(_, material)| match material {
                KeyMaterial::IdToken(signer) => Some(signer.jwk()),
                _ => None,
            })
            .collect()
    }

    /// Returns the active key for signing ID tokens with this algorithm.
    pub(crate) fn id_token_signer(&self, algorithm: IdTokenAlgorithm, now: Timestamp) -> Option<Arc<IdTokenSigner>> {
        self.active_key(now, |material| match material {
            KeyMaterial::IdToken(signer) if signer.algorithm() == algorithm => Some(Arc::clone(signer)),
            _ => None,
        })
        .map(|(_, signer)| signer)
    }

    /// Seals data with the active seal key, and prepends the id of the key. `None`: there is no active seal key.
    pub(crate) fn seal(&self, entropy: &dyn Entropy, context: &[u8], plain: &[u8], now: Timestamp) -> Option<Vec<u8>> {
        let (id, key) = self.active_key(now, |material| match material {
            KeyMaterial::Seal(key) => Some(key),
            _ => None,
        })?;
        Some([id.0.as_bytes(), key.seal(entropy, context, plain).as_slice()].concat())
    }

    pub(crate) fn active_seal_key(&self, now: Timestamp) -> Option<KeyId> {
        self.active_key(now, |material| matches!(material, KeyMaterial::Seal(_)).then_some(())).map(|(id, ())| id)
    }

    pub(crate) fn unseal(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (id, sealed) = sealed.split_first_chunk::<16>()?;
        self.keys.iter().find(|(key, ..)| key.0.as_bytes() == id).and_then(|(_, _, material)| match &**material {
            KeyMaterial::Seal(key) => key.unseal(context, sealed).map(|plain| plain.to_vec()),
            _ => None,
        })
    }

    /// Computes the HMAC of the parts with the hash key. `None`: there is no hash key.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> Option<[u8; 32]> {
        let key = self.keys.iter().find_map(|(_, _, material)| match &**material {
            KeyMaterial::Hash(key) => Some(key),
            _ => None,
        })?;
        hmac_of_parts(key, parts)
    }

    /// Computes the HMAC of the parts with the active link key. `None`: there is no active link key.
    pub(crate) fn derive_link_token(&self, parts: &[&[u8]], now: Timestamp) -> Option<[u8; 32]> {
        let (_, key) = self.active_key(now, |material| match material {
            KeyMaterial::Link(key) => Some(key),
            _ => None,
        })?;
        hmac_of_parts(key, parts)
    }

    /// Returns all valid tokens for the parts: one from each link key that is not gone. Keys that become active soon
    /// are valid already, because the clock of the node that derived the token may be ahead.
    pub(crate) fn valid_link_tokens(&self, parts: &[&[u8]], now: Timestamp) -> impl Iterator<Item = [u8; 32]> {
        self.keys_in_state(now, |state| state != KeyState::Gone).filter_map(move |(_, material)| match material {
            KeyMaterial::Link(key) => hmac_of_parts(key, parts),
            _ => None,
        })
    }

    /// Returns whether every purpose has an active key.
    pub fn has_all_active_keys(&self, now: Timestamp) -> bool {
        KeyPurpose::VARIANTS.iter().all(|&purpose| {
            self.keys_in_state(now, |state| state == KeyState::Active)
                .any(|(_, material)| material.purpose() == purpose)
        })
    }

    /// Returns the active key of a kind. If none is active yet, because the clock was set back, returns the key that
    /// becomes active first.
    fn active_key<'a, K>(&'a self, now: Timestamp, kind: impl Fn(&'a KeyMaterial) -> Option<K>) -> Option<(KeyId, K)> {
        let rank = |schedule: &KeySchedule| match schedule.state(now) {
            KeyState::Active => Some((0, schedule.active_from)),
            KeyState::Next => Some((1, schedule.active_from)),
            KeyState::Retiring | KeyState::Gone => None,
        };
        self.keys
            .iter()
            .filter_map(|(id, schedule, material)| Some((rank(schedule)?, *id, kind(material)?)))
            .min_by_key(|(rank, ..)| *rank)
            .map(|(_, id, key)| (id, key))
    }

    fn keys_in_state(
        &self,
        now: Timestamp,
        filter: impl Fn(KeyState) -> bool,
    ) -> impl Iterator<Item = (KeyId, &KeyMaterial)> {
        self.keys
            .iter()
            .filter(move |(_, schedule, _)| filter(schedule.state(now)))
            .map(|(id, _, material)| (*id, &**material))
    }
}

/// Signs database rows with the hash key.
impl RowSigner for KeyRing {
    fn sign(&self, fields: &RowFields) -> Result<RowMac, StoreError> {
        let mac = self.hash(&fields.parts());
        mac.map(RowMac).ok_or_else(|| StoreError::Refused("no active hash key".to_owned()))
    }
}

impl KeyMaterial {
    fn purpose(&self) -> KeyPurpose {
        match self {
            KeyMaterial::Token { .. } => KeyPurpose::Token,
            KeyMaterial::Callback(signer) => match signer.public().mode {
                Mode::Live => KeyPurpose::Callback,
                Mode::Sandbox => KeyPurpose::SandboxCallback,
            },
            KeyMaterial::IdToken(signer) => match signer.algorithm() {
                IdTokenAlgorithm::Rs256 => KeyPurpose::IdToken,
                IdTokenAlgorithm::Es256 => KeyPurpose::IdTokenEc,
            },
            KeyMaterial::Seal(_) => KeyPurpose::Seal,
            KeyMaterial::Link(_) => KeyPurpose::Link,
            KeyMaterial::Hash(_) => KeyPurpose::Hash,
        }
    }
}

fn hmac_of_parts(key: &hmac::Key, parts: &[&[u8]]) -> Option<[u8; 32]> {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    context.sign().as_ref().try_into().ok()
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRing({} keys)", self.keys.len())
    }
}

/// Returns the authenticated context of a sealed key. It contains id, purpose and schedule, so that a key cannot be
/// unsealed after one of them was altered in the database.
pub(super) fn seal_context(id: KeyId, purpose: KeyPurpose, schedule: &KeySchedule) -> Vec<u8> {
    let KeySchedule { published_at, active_from, retires_at, gone_at } = schedule;
    let millis = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.as_millisecond().to_string());
    let instants = [Some(*published_at), Some(*active_from), *retires_at, *gone_at].map(millis);
    format!("{purpose}:{}:{}", id.0, instants.join(":")).into_bytes()
}

pub(super) fn unseal_key(key: &SealedKey, master: &MasterKey) -> Result<Zeroizing<Vec<u8>>, KeyUnsealError> {
    let context = seal_context(key.id, key.purpose, &key.schedule);
    master.unseal(&context, &key.sealed).ok_or_else(|| KeyUnsealError::of(key))
}

fn unseal_material(key: &SealedKey, master: &MasterKey) -> Result<KeyMaterial, KeyUnsealError> {
    let unopened = || KeyUnsealError::of(key);
    let plain = unseal_key(key, master)?;
    match key.purpose {
        KeyPurpose::Token => Ok(KeyMaterial::Token {
            header: BASE64_URL_SAFE_NO_PAD
                .encode(format!(r#"{{"alg":"HS256","typ":"at+jwt","kid":"{}"}}"#, key.id.0.simple())),
            key: Box::new(hmac::Key::new(hmac::HMAC_SHA256, &plain)),
        }),
        KeyPurpose::Callback => callback_material(Mode::Live, &plain).ok_or_else(unopened),
        KeyPurpose::SandboxCallback => callback_material(Mode::Sandbox, &plain).ok_or_else(unopened),
        KeyPurpose::IdToken => id_token_material(IdTokenAlgorithm::Rs256, &plain).ok_or_else(unopened),
        KeyPurpose::IdTokenEc => id_token_material(IdTokenAlgorithm::Es256, &plain).ok_or_else(unopened),
        KeyPurpose::Link => Ok(KeyMaterial::Link(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &plain)))),
        KeyPurpose::Hash => Ok(KeyMaterial::Hash(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &plain)))),
        KeyPurpose::Seal => {
            let bytes = plain.as_slice().try_into().map_err(|_| unopened())?;
            Ok(KeyMaterial::Seal(SealingKey::new(bytes)))
        }
    }
}

fn callback_material(mode: Mode, pkcs8: &[u8]) -> Option<KeyMaterial> {
    CallbackSigner::from_pkcs8(mode, pkcs8).map(KeyMaterial::Callback)
}

fn id_token_material(algorithm: IdTokenAlgorithm, pkcs8: &[u8]) -> Option<KeyMaterial> {
    IdTokenSigner::from_pkcs8(algorithm, pkcs8).map(|signer| KeyMaterial::IdToken(Arc::new(signer)))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use uuid::Uuid;

    use super::*;
    use crate::ports::entropy::SystemEntropy;

    #[test]
    fn key_with_altered_schedule_is_rejected() {
        let entropy = SystemEntropy::default();
        let master = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
        let (id, purpose) = (KeyId(Uuid::from_u128(1)), KeyPurpose::Token);
        let now = Timestamp::UNIX_EPOCH;
        let later = now + SignedDuration::from_hours(1);
        let schedule = KeySchedule { published_at: now, active_from: now, retires_at: Some(now), gone_at: Some(later) };
        let sealed = master.seal(&entropy, &seal_context(id, purpose, &schedule), &[7; 32]);
        let stored = SealedKey { id, purpose, schedule, sealed };
        let ring = KeyRing::from_sealed(std::slice::from_ref(&stored), &master, &KeyRing::default()).unwrap();
        for altered in [
            KeySchedule { published_at: later, ..schedule },
            KeySchedule { active_from: later, ..schedule },
            KeySchedule { retires_at: None, ..schedule },
            KeySchedule { gone_at: None, ..schedule },
            KeySchedule { gone_at: Some(later + SignedDuration::from_millis(1)), ..schedule },
        ] {
            let altered = [SealedKey { schedule: altered, ..stored.clone() }];
            for previous in [&KeyRing::default(), &ring] {
                assert!(KeyRing::from_sealed(&altered, &master, previous).is_err(), "{altered:?}");
            }
        }
    }
}
