//! The keys of a deployment: made, sealed by the master key, opened, rotated.
//!
//! Keys are rows that only the master key opens, so a copy of the database alone signs nothing and reads nothing.
//! When a key is used follows from its schedule; see `domain::key_schedule`.

mod callback;
mod master;
mod rewrap;
mod ring;
mod rotation;

pub use callback::CallbackSigner;
pub use master::{MasterKey, NotAMasterKey};
pub(crate) use rewrap::upgrade;
pub use rewrap::{RewrapError, are_without_schedules, rewrap};
pub use ring::{KeyRing, PublicKey, UnopenedKey};
pub use rotation::{KeySummary, RotateError, Rotation, ensure_keys, key_summaries, policy, rotate};
