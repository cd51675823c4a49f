//! Delivering callbacks: how often, when, signed how, and who waits for whom.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attempts;
mod patience;
mod shelf;
mod trouble;
mod world;
