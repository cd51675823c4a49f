//! Replaces the master key: encrypts all keys of the deployment with a new one.

use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
};

use super::{
    KeyUnsealError, MasterKey,
    key_ring::{seal_context, unseal_key},
};
use crate::ports::{
    clock::Clock,
    combined::Store,
    control_plane::ControlPlaneChanges,
    entropy::Entropy,
    keys::SealedKey,
    store::{ControlPlaneVersion, StoreError},
};

#[derive(Debug, thiserror::Error)]
pub enum RewrapError {
    #[error(transparent)]
    Key(#[from] KeyUnsealError),
    #[error("the control plane changed during the rewrap; nothing was written. Try again")]
    ConcurrentChange,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Decrypts all keys with the old master key and encrypts them with the new one, in one transaction. Returns the number
/// of keys.
pub async fn rewrap_keys(
    old: &MasterKey,
    new: &MasterKey,
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<usize, RewrapError> {
    let ControlPlaneChanges { version, keys, .. } = store.changes_since(ControlPlaneVersion(0), clock.now()).await?;
    let stored = keys.unwrap_or_default();
    let resealed = stored
        .iter()
        .map(|key| {
            let plain = unseal_key(key, old)?;
            let sealed = new.seal(entropy, &seal_context(key.id, key.purpose, &key.schedule), &plain);
            Ok(SealedKey { sealed, ..key.clone() })
        })
        .collect::<Result<Vec<_>, KeyUnsealError>>()?;
    if store.reseal_keys(version, &resealed, &new_reseal_audit_event(clock, entropy)).await? {
        Ok(resealed.len())
    } else {
        Err(RewrapError::ConcurrentChange)
    }
}

fn new_reseal_audit_event(clock: &dyn Clock, entropy: &dyn Entropy) -> AuditEvent {
    let at = clock.now();
    AuditEvent {
        id: uuid_v7(at, entropy.bytes()),
        workspace: None,
        at,
        actor: Actor::Operator,
        action: Action::KeysResealed,
        target: "all".to_owned(),
        changes: vec![],
        request_id: None,
    }
}
