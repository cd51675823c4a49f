//! Replaces the hash key after it was disclosed.
//!
//! The values behind stored hashes are not stored, so their hashes cannot be computed with the new key. Therefore these
//! are no longer found: numbers of earlier checks, codes of open checks, linked identities, sessions and links. Rows
//! whose MAC was computed with the old key are kept and get a new MAC.

use std::sync::Arc;

use ringtrue_domain::{
    audit::{Action, Actor},
    key_schedule::KeySchedule,
};

use super::{
    KeyRing, KeyUnsealError, MasterKey,
    rotation::{generate_key, new_key_audit_event},
};
use crate::ports::{
    clock::Clock,
    combined::Store,
    entropy::Entropy,
    keys::{HashKeyReset, KeyPurpose},
    store::StoreError,
};

#[derive(Debug, thiserror::Error)]
pub enum ResetHashKeyError {
    #[error("there is no hash key yet; start the server once to create it")]
    NoKey,
    #[error(transparent)]
    Unseal(#[from] KeyUnsealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Replaces the hash key in one transaction. No server may run meanwhile, because it would use the old key until its
/// next refresh.
pub async fn reset_hash_key(
    store: &dyn Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<HashKeyReset, ResetHashKeyError> {
    let stored = store.list_keys().await?;
    if !stored.iter().any(|key| key.purpose == KeyPurpose::Hash) {
        return Err(ResetHashKeyError::NoKey);
    }
    let current = KeyRing::from_sealed(&stored, master, &KeyRing::default())?;
    store.set_row_signer(Arc::new(current));
    let now = clock.now();
    let key = generate_key(KeyPurpose::Hash, KeySchedule::new_unannounced(now), master, now, entropy);
    let new = Arc::new(KeyRing::from_sealed(std::slice::from_ref(&key), master, &KeyRing::default())?);
    let audit = new_key_audit_event(Action::KeyRotated, &key, Actor::Operator, now, entropy);
    let reset = store.reset_hash_key(&key, new.clone(), &audit).await?;
    store.set_row_signer(new);
    Ok(reset)
}
