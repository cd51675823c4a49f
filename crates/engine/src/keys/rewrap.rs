//! Sealing all keys again: for a new master key, and once for databases of an earlier release.
//!
//! Earlier releases left the schedules out of what a key is sealed with, and kept a plain SHA-256 of each client secret:
//! somebody who can write to the database could have prolonged a key or added a credential. The first server that starts
//! on such a database seals its keys with their schedules and replaces the digests, all in one transaction. From then on
//! neither the old seals nor the old digests are accepted.

use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
    region::Region,
    tenancy::{ClientId, SecretDigest},
};

use super::{
    KeyRing, MasterKey, UnopenedKey,
    ring::{context, context_without_schedule, open_sealed},
};
use crate::{
    StartError,
    control_plane::RefreshError,
    ports::{Changes, Clock, Entropy, SealedKey, Store, StoreError, Version},
};

/// How often the control plane may change under our hands.
const TRIES: usize = 10;

/// Whether an earlier release sealed these keys with this master key.
pub fn are_without_schedules(stored: &[SealedKey], master: &MasterKey) -> bool {
    let opens = |key: &SealedKey| master.open(&context_without_schedule(key.id, key.purpose), &key.sealed).is_some();
    !stored.is_empty() && stored.iter().all(opens)
}

/// Seals the keys of an earlier release with their schedules, and replaces its digests of client secrets by keyed ones.
/// Does nothing to a database that has been through this, and to one of another region.
pub(crate) async fn upgrade(
    region: Region,
    store: &dyn Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<(), StartError> {
    for _ in 0..TRIES {
        let Changes { version, keys, workspaces, credentials, .. } =
            store.changes_since(Version(0), clock.now()).await?;
        let stored = keys.unwrap_or_default();
        if !are_without_schedules(&stored, master) {
            return Ok(());
        }
        region.holds_only_its_own(workspaces.iter().map(|workspace| workspace.data_residency))?;
        let resealed = stored
            .iter()
            .map(|key| {
                let plain = master.open(&context_without_schedule(key.id, key.purpose), &key.sealed);
                let plain = plain.ok_or_else(|| UnopenedKey::of(key))?;
                let sealed = master.seal(entropy, &context(key.id, key.purpose, &key.schedule), &plain);
                Ok(SealedKey { sealed, ..key.clone() })
            })
            .collect::<Result<Vec<_>, UnopenedKey>>()
            .map_err(RefreshError::from)?;
        let ring = KeyRing::open(&resealed, master, &KeyRing::default()).map_err(RefreshError::from)?;
        // Without a hash key there were no credentials that could be used.
        let digests: Vec<(ClientId, SecretDigest)> = credentials
            .iter()
            .filter_map(|credential| {
                let keyed = ring.credential_digest(credential, &credential.secret_digest.0)?;
                Some((credential.client_id.clone(), keyed))
            })
            .collect();
        if store.reseal(version, &resealed, &digests, &resealed_event(Actor::System, clock, entropy)).await? {
            tracing::info!(keys = resealed.len(), credentials = digests.len(), "keys and credentials sealed again");
            return Ok(());
        }
    }
    Err(StoreError::Unavailable("the keys could not be sealed again: the database changes too often".to_owned()).into())
}

#[derive(Debug, thiserror::Error)]
pub enum RewrapError {
    #[error(transparent)]
    Key(#[from] UnopenedKey),
    #[error("the database has changed meanwhile, and nothing was sealed again")]
    Overtaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Seals all keys with another master key, in one transaction. Gives how many there are.
pub async fn rewrap(
    old: &MasterKey,
    new: &MasterKey,
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<usize, RewrapError> {
    let Changes { version, keys, .. } = store.changes_since(Version(0), clock.now()).await?;
    let stored = keys.unwrap_or_default();
    let resealed = stored
        .iter()
        .map(|key| {
            let plain = open_sealed(key, old)?;
            let sealed = new.seal(entropy, &context(key.id, key.purpose, &key.schedule), &plain);
            Ok(SealedKey { sealed, ..key.clone() })
        })
        .collect::<Result<Vec<_>, UnopenedKey>>()?;
    if store.reseal(version, &resealed, &[], &resealed_event(Actor::Operator, clock, entropy)).await? {
        Ok(resealed.len())
    } else {
        Err(RewrapError::Overtaken)
    }
}

fn resealed_event(actor: Actor, clock: &dyn Clock, entropy: &dyn Entropy) -> AuditEvent {
    let at = clock.now();
    AuditEvent {
        id: time_ordered(at, entropy.bytes()),
        workspace: None,
        at,
        actor,
        action: Action::KeysResealed,
        target: "all".to_owned(),
        changes: vec![],
        request_id: None,
    }
}
