//! Tests of the courier: attempts, retries, signatures, scheduling and recovery.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod attempts;
mod callback_store;
mod recovery;
mod scheduling;
mod world;
