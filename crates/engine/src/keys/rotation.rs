//! Generates and rotates keys.

use jiff::{SignedDuration, Timestamp};
use ringtrue_callback_signature::CallbackSigner;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    key_schedule::{KeySchedule, KeyState, RotationPolicy, schedule_immediate_rotation},
    sign_in::IdTokenAlgorithm,
};
use strum::VariantArray as _;
use zeroize::Zeroizing;

use super::{
    KeyUnsealError, MasterKey,
    id_token_signer::IdTokenSigner,
    key_ring::{seal_context, unseal_key},
    master_key::SealingKey,
};
use crate::{
    ports::{
        clock::Clock,
        entropy::Entropy,
        keys::{KeyId, KeyPurpose, KeyStore, SealedKey},
        store::StoreError,
    },
    tokens::TOKEN_LIFETIME_SECONDS,
};

/// Returns how long a new key of this purpose is announced before its first use, and how long an old key is kept. A
/// hash key is never rotated.
pub fn rotation_policy(purpose: KeyPurpose) -> RotationPolicy {
    match purpose {
        // Nodes load a new key within one second. Ten seconds also allow for clock skew.
        KeyPurpose::Token => RotationPolicy {
            announce: SignedDuration::from_secs(10),
            keep: SignedDuration::from_secs(TOKEN_LIFETIME_SECONDS + 60),
        },
        // Callback receivers and OpenID clients cache the JWKS for up to a day.
        KeyPurpose::Callback | KeyPurpose::SandboxCallback | KeyPurpose::IdToken | KeyPurpose::IdTokenEc => {
            RotationPolicy { announce: SignedDuration::from_hours(24), keep: SignedDuration::from_hours(24) }
        }
        // Link keys derive the tokens in links, invitations and forms. Eight days is longer than sessions and
        // invitations last.
        KeyPurpose::Link => {
            RotationPolicy { announce: SignedDuration::from_secs(10), keep: SignedDuration::from_hours(8 * 24) }
        }
        // Seal keys are kept for longer than the data that they seal: phone numbers and callbacks are kept for at most
        // 365 days.
        KeyPurpose::Seal | KeyPurpose::Hash => {
            RotationPolicy { announce: SignedDuration::from_secs(10), keep: SignedDuration::from_hours(24 * 400) }
        }
    }
}

/// Generates a key for every purpose that has none. Every node calls this at startup. If several nodes add a key at the
/// same time, the store keeps the first one.
pub async fn create_missing_keys(
    store: &dyn KeyStore,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<(), StoreError> {
    let existing = store.list_keys().await?;
    for &purpose in KeyPurpose::VARIANTS {
        if existing.iter().any(|key| key.purpose == purpose) {
            continue;
        }
        let now = clock.now();
        let key = generate_key(purpose, KeySchedule::new_unannounced(now), master, now, entropy);
        let audit = new_key_audit_event(Action::KeyCreated, &key, Actor::System, now, entropy);
        store.add_first_key(&key, &audit).await?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error("the newest {0} key is not active yet; wait until it is, or rotate immediately with --emergency")]
    RotationPending(KeyPurpose),
    #[error("the {0} key was just rotated by another request")]
    ConcurrentChange(KeyPurpose),
    #[error("a {0} key cannot be rotated: stored hashes would no longer match")]
    NotRotatable(KeyPurpose),
    #[error("there is no {0} key yet; start the server once to create it")]
    NoKey(KeyPurpose),
    #[error(transparent)]
    Unseal(#[from] KeyUnsealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request to rotate the key of a purpose.
#[derive(Clone, Debug)]
pub struct KeyRotation {
    pub purpose: KeyPurpose,
    pub emergency: bool,
    pub actor: Actor,
    pub request_id: Option<String>,
}

impl KeyRotation {
    /// Creates a request from the command line of the server.
    pub fn by_command_line(purpose: KeyPurpose, emergency: bool) -> Self {
        KeyRotation { purpose, emergency, actor: Actor::Operator, request_id: None }
    }
}

/// Generates a successor of the newest key of a purpose. It becomes active after the announcement time of the
/// [`rotation_policy`]. In an emergency, it is active immediately, and the other keys of the purpose become invalid
/// immediately. Only old seal keys are kept, because sealed data would be lost without them.
pub async fn rotate_key(
    rotation: KeyRotation,
    store: &dyn KeyStore,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<KeySummary, RotateError> {
    let KeyRotation { purpose, emergency, actor, request_id } = rotation;
    if !KeyPurpose::ROTATABLE.contains(&purpose) {
        return Err(RotateError::NotRotatable(purpose));
    }
    let now = clock.now();
    let mut keys = store.list_keys().await?;
    keys.retain(|key| key.purpose == purpose);
    // The keys are sorted by creation, so the last one is the newest. After an emergency rotation, an older key may
    // have a later activation time.
    let newest = keys.last().ok_or(RotateError::NoKey(purpose))?;
    if !emergency && newest.schedule.state(now) == KeyState::Next {
        return Err(RotateError::RotationPending(purpose));
    }

    let (schedule, retired) = match (emergency, purpose) {
        (false, _) => {
            let (successor, retired) = rotation_policy(purpose).schedule_rotation(newest.schedule, now);
            (successor, vec![(newest, retired)])
        }
        // Old seal keys are retired but kept: without them, sealed data would be lost.
        (true, KeyPurpose::Seal) => {
            let gone_at = Some(now + rotation_policy(purpose).keep);
            let in_use = keys.iter().filter(|key| matches!(key.schedule.state(now), KeyState::Active | KeyState::Next));
            let retired = in_use.map(|key| (key, KeySchedule { retires_at: Some(now), gone_at, ..key.schedule }));
            (KeySchedule::new_unannounced(now), retired.collect())
        }
        (
            true,
            KeyPurpose::Token
            | KeyPurpose::Callback
            | KeyPurpose::SandboxCallback
            | KeyPurpose::IdToken
            | KeyPurpose::IdTokenEc
            | KeyPurpose::Link
            | KeyPurpose::Hash,
        ) => {
            let retired = keys.iter().map(|key| (key, schedule_immediate_rotation(key.schedule, now).1)).collect();
            (KeySchedule::new_unannounced(now), retired)
        }
    };
    // The schedule is part of the authenticated context, so keys with a new schedule have to be sealed again.
    let retired = retired
        .into_iter()
        .map(|(key, schedule)| {
            let plain = unseal_key(key, master)?;
            let sealed = master.seal(entropy, &seal_context(key.id, purpose, &schedule), &plain);
            Ok(SealedKey { id: key.id, purpose, schedule, sealed })
        })
        .collect::<Result<Vec<_>, KeyUnsealError>>()?;
    let successor = generate_key(purpose, schedule, master, now, entropy);
    let audit = AuditEvent { request_id, ..new_key_audit_event(Action::KeyRotated, &successor, actor, now, entropy) };
    if store.rotate_key(newest.id, &successor, &retired, &audit).await? {
        Ok(KeySummary::of(&successor, now))
    } else {
        Err(RotateError::ConcurrentChange(purpose))
    }
}

/// A key without its secret material, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySummary {
    pub id: KeyId,
    pub purpose: KeyPurpose,
    pub state: KeyState,
    pub schedule: KeySchedule,
}

impl KeySummary {
    fn of(key: &SealedKey, now: Timestamp) -> Self {
        KeySummary { id: key.id, purpose: key.purpose, state: key.schedule.state(now), schedule: key.schedule }
    }
}

/// Lists all keys, sorted by purpose and by the time from which they are active.
pub async fn list_key_summaries(store: &dyn KeyStore, clock: &dyn Clock) -> Result<Vec<KeySummary>, StoreError> {
    let now = clock.now();
    let mut summaries: Vec<_> = store.list_keys().await?.iter().map(|key| KeySummary::of(key, now)).collect();
    summaries.sort_by_key(|key| (key.purpose, key.schedule.active_from));
    Ok(summaries)
}

pub(super) fn generate_key(
    purpose: KeyPurpose,
    schedule: KeySchedule,
    master: &MasterKey,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> SealedKey {
    let id = KeyId(uuid_v7(now, entropy.bytes()));
    let plain = match purpose {
        KeyPurpose::Token | KeyPurpose::Seal | KeyPurpose::Link | KeyPurpose::Hash => {
            Zeroizing::new(entropy.bytes::<{ SealingKey::LENGTH }>().to_vec())
        }
        KeyPurpose::Callback | KeyPurpose::SandboxCallback => CallbackSigner::generate_pkcs8(),
        KeyPurpose::IdToken => IdTokenSigner::generate_pkcs8(IdTokenAlgorithm::Rs256),
        KeyPurpose::IdTokenEc => IdTokenSigner::generate_pkcs8(IdTokenAlgorithm::Es256),
    };
    let sealed = master.seal(entropy, &seal_context(id, purpose, &schedule), &plain);
    SealedKey { id, purpose, schedule, sealed }
}

pub(super) fn new_key_audit_event(
    action: Action,
    key: &SealedKey,
    actor: Actor,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> AuditEvent {
    AuditEvent {
        id: uuid_v7(now, entropy.bytes()),
        workspace: None,
        at: now,
        actor,
        action,
        target: key.id.0.to_string(),
        changes: vec![key.purpose.to_string()],
        request_id: None,
    }
}
