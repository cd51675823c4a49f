//! Cryptographic keys of a deployment: generation, encryption in the database, and rotation.
//!
//! The database stores all keys sealed (encrypted and authenticated) with the master key, so the keys in a copy of the
//! database cannot be used without the master key. The schedule of a key determines whether it is active; see
//! [`ringtrue_domain::key_schedule`].

mod hash_key_reset;
mod id_token_signer;
mod key_ring;
mod master_key;
mod rewrap;
mod rotation;

pub use hash_key_reset::{ResetHashKeyError, reset_hash_key};
pub use id_token_signer::IdTokenSigner;
pub use key_ring::{KeyRing, KeyUnsealError};
pub use master_key::{InvalidMasterKey, MasterKey};
pub use rewrap::{RewrapError, rewrap_keys};
pub use rotation::{
    KeyRotation, KeySummary, RotateError, create_missing_keys, list_key_summaries, rotate_key, rotation_policy,
};
