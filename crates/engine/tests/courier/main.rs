//! Courier: attempts, retries, signatures, scheduling and recovery.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attempts;
mod callback_store;
mod recovery;
mod scheduling;
mod world;
