//! The keys, opened and ready for use.

use std::{collections::HashMap, fmt, sync::Arc};

use aws_lc_rs::hmac;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;
use ringtrue_domain::{
    key_schedule::{KeySchedule, KeyState},
    tenancy::{Credential, Mode, SecretDigest},
};
use zeroize::Zeroizing;

use super::{CallbackSigner, MasterKey, master::SealingKey};
use crate::ports::{Entropy, KeyId, KeyPurpose, SealedKey};

/// All keys of the deployment, opened.
#[derive(Default)]
pub struct KeyRing {
    keys: Vec<(KeyId, KeySchedule, Arc<Material>)>,
}

enum Material {
    Token { header: String, key: Box<hmac::Key> },
    Callback(CallbackSigner),
    Seal(SealingKey),
    Hash(Box<hmac::Key>),
}

/// The public half of a callback key, as the JWKS shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// RFC 7638 thumbprint.
    pub kid: String,
    /// The checks whose callbacks it signs.
    pub mode: Mode,
    /// Modulus and exponent, base64url.
    pub n: String,
    pub e: String,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the master key does not open the {purpose} key {id}: it is not the one that this database was set up with, or the \
     key was changed by other means than Ringtrue"
)]
pub struct UnopenedKey {
    pub purpose: KeyPurpose,
    pub id: uuid::Uuid,
}

impl UnopenedKey {
    pub(super) fn of(key: &SealedKey) -> Self {
        UnopenedKey { purpose: key.purpose, id: key.id.0 }
    }
}

impl KeyRing {
    /// Opens the stored keys. What `previous` has open already, with the same schedule, is taken from it: opening an RSA
    /// key takes a while.
    pub fn open(stored: &[SealedKey], master: &MasterKey, previous: &KeyRing) -> Result<Self, UnopenedKey> {
        let known: HashMap<KeyId, (&KeySchedule, &Arc<Material>)> =
            previous.keys.iter().map(|(id, schedule, material)| (*id, (schedule, material))).collect();
        let keys = stored
            .iter()
            .map(|key| {
                let material = match known.get(&key.id) {
                    Some((schedule, material)) if **schedule == key.schedule => Arc::clone(material),
                    _ => Arc::new(open_one(key, master)?),
                };
                Ok((key.id, key.schedule, material))
            })
            .collect::<Result<_, _>>()?;
        Ok(KeyRing { keys })
    }

    /// The first part of every token made with the key in use, and that key.
    pub(crate) fn token_signer(&self, now: Timestamp) -> Option<(&str, &hmac::Key)> {
        self.in_use(now, |material| match material {
            Material::Token { header, key } => Some((header.as_str(), &**key)),
            Material::Callback(_) | Material::Seal(_) | Material::Hash(_) => None,
        })
        .map(|(_, signer)| signer)
    }

    /// The key that made a token with this first part. A key about to be used counts: another node may be ahead.
    pub(crate) fn token_verifier(&self, token_header: &str, now: Timestamp) -> Option<&hmac::Key> {
        self.in_state(now, |state| state != KeyState::Gone).find_map(|(_, material)| match material {
            Material::Token { header, key } if header == token_header => Some(&**key),
            _ => None,
        })
    }

    /// The callback keys that receivers must know, by the state that they are in.
    pub fn published(&self, now: Timestamp) -> Vec<&PublicKey> {
        self.in_state(now, |state| state != KeyState::Gone)
            .filter_map(|(_, material)| match material {
                Material::Callback(signer) => Some(signer.public()),
                Material::Token { .. } | Material::Seal(_) | Material::Hash(_) => None,
            })
            .collect()
    }

    /// Every callback key that there ever was, with when it is used.
    pub fn callback_keys(&self) -> impl Iterator<Item = (KeyId, KeySchedule, &PublicKey)> {
        self.keys.iter().filter_map(|(id, schedule, material)| match &**material {
            Material::Callback(signer) => Some((*id, *schedule, signer.public())),
            Material::Token { .. } | Material::Seal(_) | Material::Hash(_) => None,
        })
    }

    /// The key that callbacks of checks of this mode are signed with now. `None`: there is none.
    pub fn callback_signer(&self, mode: Mode, now: Timestamp) -> Option<CallbackSigner> {
        self.in_use(now, |material| match material {
            Material::Callback(signer) if signer.public().mode == mode => Some(signer.clone()),
            _ => None,
        })
        .map(|(_, signer)| signer)
    }

    /// Seals with the seal key in use, whose id goes in front. `None`: there is none.
    pub(crate) fn seal(&self, entropy: &dyn Entropy, context: &[u8], plain: &[u8], now: Timestamp) -> Option<Vec<u8>> {
        let (id, key) = self.in_use(now, |material| match material {
            Material::Seal(key) => Some(key),
            Material::Token { .. } | Material::Callback(_) | Material::Hash(_) => None,
        })?;
        Some([id.0.as_bytes(), key.seal(entropy, context, plain).as_slice()].concat())
    }

    pub(crate) fn unseal(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (id, sealed) = sealed.split_first_chunk::<16>()?;
        self.keys.iter().find(|(key, ..)| key.0.as_bytes() == id).and_then(|(_, _, material)| match &**material {
            Material::Seal(key) => key.open(context, sealed).map(|plain| plain.to_vec()),
            Material::Token { .. } | Material::Callback(_) | Material::Hash(_) => None,
        })
    }

    /// A keyed hash of these parts, each told apart from its neighbours. `None`: there is no hash key.
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> Option<[u8; 32]> {
        let key = self.keys.iter().find_map(|(_, _, material)| match &**material {
            Material::Hash(key) => Some(key),
            Material::Token { .. } | Material::Callback(_) | Material::Seal(_) => None,
        })?;
        let mut context = hmac::Context::with_key(key);
        for part in parts {
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(part);
        }
        context.sign().as_ref().try_into().ok()
    }

    /// The digest that a credential is stored with, of the SHA-256 of its secret. It covers what the credential opens, so
    /// that a row written or changed in the database by other means is not accepted. `None`: there is no hash key.
    pub(crate) fn credential_digest(&self, credential: &Credential, secret_hash: &[u8; 32]) -> Option<SecretDigest> {
        let Credential { client_id, owner, scopes, created_at, expires_at, .. } = credential;
        let (workspace, project) = (owner.workspace(), owner.project());
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
        let millis = |at: Timestamp| at.as_millisecond().to_be_bytes();
        let parts: [&[u8]; 8] = [
            b"credential",
            client_id.as_str().as_bytes(),
            workspace.0.as_bytes(),
            project.as_ref().map_or(&[][..], |project| &project.0.as_bytes()[..]),
            &scopes.join(" ").into_bytes(),
            &millis(*created_at),
            &expires_at.map(millis).map_or_else(Vec::new, Vec::from),
            secret_hash,
        ];
        self.hash(&parts).map(SecretDigest)
    }

    /// Whether every purpose has a key in use.
    pub fn is_complete(&self, now: Timestamp) -> bool {
        KeyPurpose::ALL.into_iter().all(|purpose| {
            self.in_state(now, |state| state == KeyState::Active).any(|(_, material)| material.purpose() == purpose)
        })
    }

    /// The active key of a kind; when a clock that was set back leaves none, the one that becomes active first.
    fn in_use<'a, K>(&'a self, now: Timestamp, kind: impl Fn(&'a Material) -> Option<K>) -> Option<(KeyId, K)> {
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

    fn in_state(&self, now: Timestamp, wanted: impl Fn(KeyState) -> bool) -> impl Iterator<Item = (KeyId, &Material)> {
        self.keys
            .iter()
            .filter(move |(_, schedule, _)| wanted(schedule.state(now)))
            .map(|(id, _, material)| (*id, &**material))
    }
}

impl Material {
    fn purpose(&self) -> KeyPurpose {
        match self {
            Material::Token { .. } => KeyPurpose::Token,
            Material::Callback(signer) => match signer.public().mode {
                Mode::Live => KeyPurpose::Callback,
                Mode::Sandbox => KeyPurpose::SandboxCallback,
            },
            Material::Seal(_) => KeyPurpose::Seal,
            Material::Hash(_) => KeyPurpose::Hash,
        }
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRing({} keys)", self.keys.len())
    }
}

/// What a key is bound to when it is sealed: a key of one purpose cannot be passed off as one of another, and none can
/// be given another schedule.
pub(super) fn context(id: KeyId, purpose: KeyPurpose, schedule: &KeySchedule) -> Vec<u8> {
    let KeySchedule { published_at, active_from, retires_at, gone_at } = schedule;
    let millis = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.as_millisecond().to_string());
    let instants = [Some(*published_at), Some(*active_from), *retires_at, *gone_at].map(millis);
    format!("{purpose}:{}:{}", id.0, instants.join(":")).into_bytes()
}

/// What earlier releases bound a key to.
pub(super) fn context_without_schedule(id: KeyId, purpose: KeyPurpose) -> Vec<u8> {
    format!("{purpose}:{}", id.0).into_bytes()
}

pub(super) fn open_sealed(key: &SealedKey, master: &MasterKey) -> Result<Zeroizing<Vec<u8>>, UnopenedKey> {
    let context = context(key.id, key.purpose, &key.schedule);
    master.open(&context, &key.sealed).ok_or_else(|| UnopenedKey::of(key))
}

fn open_one(key: &SealedKey, master: &MasterKey) -> Result<Material, UnopenedKey> {
    let unopened = || UnopenedKey::of(key);
    let plain = open_sealed(key, master)?;
    match key.purpose {
        KeyPurpose::Token => Ok(Material::Token {
            header: BASE64_URL_SAFE_NO_PAD
                .encode(format!(r#"{{"alg":"HS256","typ":"at+jwt","kid":"{}"}}"#, key.id.0.simple())),
            key: Box::new(hmac::Key::new(hmac::HMAC_SHA256, &plain)),
        }),
        KeyPurpose::Callback => callback(Mode::Live, &plain).ok_or_else(unopened),
        KeyPurpose::SandboxCallback => callback(Mode::Sandbox, &plain).ok_or_else(unopened),
        KeyPurpose::Hash => Ok(Material::Hash(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &plain)))),
        KeyPurpose::Seal => {
            let bytes = plain.as_slice().try_into().map_err(|_| unopened())?;
            Ok(Material::Seal(SealingKey::new(bytes)))
        }
    }
}

fn callback(mode: Mode, pkcs8: &[u8]) -> Option<Material> {
    CallbackSigner::for_mode(mode, pkcs8).map(Material::Callback)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use uuid::Uuid;

    use super::*;
    use crate::ports::SystemEntropy;

    #[test]
    fn a_key_with_another_schedule_is_refused() {
        let entropy = SystemEntropy::default();
        let master = MasterKey::from_base64(&MasterKey::generate(&entropy)).unwrap();
        let (id, purpose) = (KeyId(Uuid::from_u128(1)), KeyPurpose::Token);
        let now = Timestamp::UNIX_EPOCH;
        let later = now + SignedDuration::from_hours(1);
        let schedule = KeySchedule { published_at: now, active_from: now, retires_at: Some(now), gone_at: Some(later) };
        let sealed = master.seal(&entropy, &context(id, purpose, &schedule), &[7; 32]);
        let stored = SealedKey { id, purpose, schedule, sealed };
        let ring = KeyRing::open(std::slice::from_ref(&stored), &master, &KeyRing::default()).unwrap();
        for altered in [
            KeySchedule { published_at: later, ..schedule },
            KeySchedule { active_from: later, ..schedule },
            KeySchedule { retires_at: None, ..schedule },
            KeySchedule { gone_at: None, ..schedule },
            KeySchedule { gone_at: Some(later + SignedDuration::from_millis(1)), ..schedule },
        ] {
            let altered = [SealedKey { schedule: altered, ..stored.clone() }];
            for previous in [&KeyRing::default(), &ring] {
                assert!(KeyRing::open(&altered, &master, previous).is_err(), "{altered:?}");
            }
        }
    }
}
