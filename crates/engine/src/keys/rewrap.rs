//! Resealing of all keys: with a new master key, and once for databases of an earlier release.
//!
//! Earlier releases did not seal a key's schedule with the key, and stored a plain SHA-256 of each client secret: write
//! access to the database sufficed to prolong a key or add a credential. The first server that starts on such a
//! database reseals the keys with their schedules and replaces the digests, in one transaction. Old seals and digests
//! are rejected from then on.

use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    region::Region,
    tenancy::{ClientId, SecretDigest},
};

use super::{
    KeyRing, KeyUnsealError, MasterKey,
    key_ring::{legacy_seal_context, seal_context, unseal_key},
};
use crate::{
    StartError,
    control_plane::RefreshError,
    ports::{Clock, ControlPlaneChanges, ControlPlaneVersion, Entropy, SealedKey, Store, StoreError},
};

/// Attempts while other nodes change the control plane.
const MAX_UPGRADE_ATTEMPTS: usize = 10;

/// Whether an earlier release sealed these keys, without their schedules, with this master key.
pub fn has_legacy_seals(stored: &[SealedKey], master: &MasterKey) -> bool {
    let opens = |key: &SealedKey| master.unseal(&legacy_seal_context(key.id, key.purpose), &key.sealed).is_some();
    !stored.is_empty() && stored.iter().all(opens)
}

/// Reseals the keys of an earlier release with their schedules, and replaces its digests of client secrets by keyed
/// ones. Does not change an upgraded database, or one of another region.
pub(crate) async fn upgrade_legacy_keys(
    region: Region,
    store: &dyn Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<(), StartError> {
    for _ in 0..MAX_UPGRADE_ATTEMPTS {
        let ControlPlaneChanges { version, keys, workspaces, credentials, .. } =
            store.changes_since(ControlPlaneVersion(0), clock.now()).await?;
        let stored = keys.unwrap_or_default();
        if !has_legacy_seals(&stored, master) {
            return Ok(());
        }
        region.check_residency(workspaces.iter().map(|workspace| workspace.data_residency))?;
        let resealed = stored
            .iter()
            .map(|key| {
                let plain = master.unseal(&legacy_seal_context(key.id, key.purpose), &key.sealed);
                let plain = plain.ok_or_else(|| KeyUnsealError::of(key))?;
                let sealed = master.seal(entropy, &seal_context(key.id, key.purpose, &key.schedule), &plain);
                Ok(SealedKey { sealed, ..key.clone() })
            })
            .collect::<Result<Vec<_>, KeyUnsealError>>()
            .map_err(RefreshError::from)?;
        let ring = KeyRing::from_sealed(&resealed, master, &KeyRing::default()).map_err(RefreshError::from)?;
        // Without a hash key, no credential could be used.
        let digests: Vec<(ClientId, SecretDigest)> = credentials
            .iter()
            .filter_map(|credential| {
                let keyed = ring.credential_digest(credential, &credential.secret_digest.0)?;
                Some((credential.client_id.clone(), keyed))
            })
            .collect();
        if store
            .reseal_keys(version, &resealed, &digests, &new_reseal_audit_event(Actor::System, clock, entropy))
            .await?
        {
            tracing::info!(keys = resealed.len(), credentials = digests.len(), "keys and credential digests upgraded");
            return Ok(());
        }
    }
    Err(StoreError::Unavailable(
        "key upgrade failed: other nodes kept changing the control plane; restart to retry".to_owned(),
    )
    .into())
}

#[derive(Debug, thiserror::Error)]
pub enum RewrapError {
    #[error(transparent)]
    Key(#[from] KeyUnsealError),
    #[error("the control plane changed during the rewrap; nothing was written. Try again")]
    ConcurrentChange,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reseals all keys with another master key, in one transaction. Returns their number.
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
    if store.reseal_keys(version, &resealed, &[], &new_reseal_audit_event(Actor::Operator, clock, entropy)).await? {
        Ok(resealed.len())
    } else {
        Err(RewrapError::ConcurrentChange)
    }
}

fn new_reseal_audit_event(actor: Actor, clock: &dyn Clock, entropy: &dyn Entropy) -> AuditEvent {
    let at = clock.now();
    AuditEvent {
        id: uuid_v7(at, entropy.bytes()),
        workspace: None,
        at,
        actor,
        action: Action::KeysResealed,
        target: "all".to_owned(),
        changes: vec![],
        request_id: None,
    }
}
