//! Making keys, and relieving them by new ones.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
    key_schedule::{KeySchedule, KeyState, RotationPolicy, rotate_at_once},
};
use zeroize::Zeroizing;

use super::{
    CallbackSigner, MasterKey, UnopenedKey,
    master::SealingKey,
    ring::{context, open_sealed},
};
use crate::{
    ports::{Clock, Entropy, KeyId, KeyPurpose, SealedKey, Store, StoreError},
    tokens::TOKEN_LIFETIME,
};

/// How each kind of key changes hands. A hash key never does; it has the same as a seal key, whose data it serves.
pub fn policy(purpose: KeyPurpose) -> RotationPolicy {
    match purpose {
        // Nodes notice a new key within a second; ten leave room for clocks that differ.
        KeyPurpose::Token => RotationPolicy {
            announce: SignedDuration::from_secs(10),
            keep: SignedDuration::from_secs(TOKEN_LIFETIME + 60),
        },
        // Receivers cache the JWKS; the contract gives them a day on both sides.
        KeyPurpose::Callback | KeyPurpose::SandboxCallback => {
            RotationPolicy { announce: SignedDuration::from_hours(24), keep: SignedDuration::from_hours(24) }
        }
        // What it sealed must stay readable longer than any retention time.
        KeyPurpose::Seal | KeyPurpose::Hash => {
            RotationPolicy { announce: SignedDuration::from_secs(10), keep: SignedDuration::from_hours(24 * 400) }
        }
    }
}

/// Makes the keys that are missing. Called by every node at its start; one of them wins.
pub async fn ensure_keys(
    store: &dyn Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<(), StoreError> {
    let existing = store.all_keys().await?;
    for purpose in KeyPurpose::ALL {
        if existing.iter().any(|key| key.purpose == purpose) {
            continue;
        }
        let now = clock.now();
        let key = generate(purpose, KeySchedule::active_at_once(now), master, now, entropy);
        let audit = audit(Action::KeyCreated, &key, Actor::System, now, entropy);
        store.add_first_key(&key, &audit).await?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error("the newest {0} key is not in use yet: wait for it, or rotate at once with --emergency")]
    UnderWay(KeyPurpose),
    #[error("someone else has just rotated the {0} key")]
    Overtaken(KeyPurpose),
    #[error("a {0} key cannot be relieved: what it has hashed would never be found again")]
    Fixed(KeyPurpose),
    #[error("there is no {0} key yet: start the service once")]
    NoKey(KeyPurpose),
    #[error(transparent)]
    Unopened(#[from] UnopenedKey),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which key is to be relieved, how, and by whom.
#[derive(Clone, Debug)]
pub struct Rotation {
    pub purpose: KeyPurpose,
    pub emergency: bool,
    pub actor: Actor,
    pub request_id: Option<String>,
}

impl Rotation {
    /// At the command line.
    pub fn by_operator(purpose: KeyPurpose, emergency: bool) -> Self {
        Rotation { purpose, emergency, actor: Actor::Operator, request_id: None }
    }
}

/// Makes a successor of the newest key. In an emergency it is used, and the others are gone, from now on.
pub async fn rotate(
    rotation: Rotation,
    store: &dyn Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<KeySummary, RotateError> {
    let Rotation { purpose, emergency, actor, request_id } = rotation;
    if !KeyPurpose::ROTATING.contains(&purpose) {
        return Err(RotateError::Fixed(purpose));
    }
    let now = clock.now();
    let mut keys = store.all_keys().await?;
    keys.retain(|key| key.purpose == purpose);
    // In the order in which they were made, which is not that of their use after an emergency.
    let newest = keys.last().ok_or(RotateError::NoKey(purpose))?;
    if !emergency && newest.schedule.state(now) == KeyState::Next {
        return Err(RotateError::UnderWay(purpose));
    }

    let (schedule, relieved) = match (emergency, purpose) {
        (false, _) => {
            let (successor, relieved) = policy(purpose).rotate(newest.schedule, now);
            (successor, vec![(newest, relieved)])
        }
        // Without its seal key, what was sealed is lost: the old ones only stop being used.
        (true, KeyPurpose::Seal) => {
            let gone_at = Some(now + policy(purpose).keep);
            let in_use = keys.iter().filter(|key| matches!(key.schedule.state(now), KeyState::Active | KeyState::Next));
            let stopped = in_use.map(|key| (key, KeySchedule { retires_at: Some(now), gone_at, ..key.schedule }));
            (KeySchedule::active_at_once(now), stopped.collect())
        }
        (true, KeyPurpose::Token | KeyPurpose::Callback | KeyPurpose::SandboxCallback | KeyPurpose::Hash) => {
            let relieved = keys.iter().map(|key| (key, rotate_at_once(key.schedule, now).1)).collect();
            (KeySchedule::active_at_once(now), relieved)
        }
    };
    // A key is sealed with its schedule.
    let relieved = relieved
        .into_iter()
        .map(|(key, schedule)| {
            let plain = open_sealed(key, master)?;
            let sealed = master.seal(entropy, &context(key.id, purpose, &schedule), &plain);
            Ok(SealedKey { id: key.id, purpose, schedule, sealed })
        })
        .collect::<Result<Vec<_>, UnopenedKey>>()?;
    let successor = generate(purpose, schedule, master, now, entropy);
    let audit = AuditEvent { request_id, ..audit(Action::KeyRotated, &successor, actor, now, entropy) };
    if store.rotate_key(newest.id, &successor, &relieved, &audit).await? {
        Ok(KeySummary::of(&successor, now))
    } else {
        Err(RotateError::Overtaken(purpose))
    }
}

/// A key as people see it: never its material.
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

/// All keys, by purpose and then by age.
pub async fn key_summaries(store: &dyn Store, clock: &dyn Clock) -> Result<Vec<KeySummary>, StoreError> {
    let now = clock.now();
    let mut summaries: Vec<_> = store.all_keys().await?.iter().map(|key| KeySummary::of(key, now)).collect();
    summaries.sort_by_key(|key| (key.purpose, key.schedule.active_from));
    Ok(summaries)
}

fn generate(
    purpose: KeyPurpose,
    schedule: KeySchedule,
    master: &MasterKey,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> SealedKey {
    let id = KeyId(time_ordered(now, entropy.bytes()));
    let plain = match purpose {
        KeyPurpose::Token | KeyPurpose::Seal | KeyPurpose::Hash => {
            Zeroizing::new(entropy.bytes::<{ SealingKey::LENGTH }>().to_vec())
        }
        KeyPurpose::Callback | KeyPurpose::SandboxCallback => CallbackSigner::generate(),
    };
    let sealed = master.seal(entropy, &context(id, purpose, &schedule), &plain);
    SealedKey { id, purpose, schedule, sealed }
}

fn audit(action: Action, key: &SealedKey, actor: Actor, now: Timestamp, entropy: &dyn Entropy) -> AuditEvent {
    AuditEvent {
        id: time_ordered(now, entropy.bytes()),
        workspace: None,
        at: now,
        actor,
        action,
        target: key.id.0.to_string(),
        changes: vec![key.purpose.to_string()],
        request_id: None,
    }
}
