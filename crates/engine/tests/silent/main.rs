//! Silent checks from creation to redemption: an engine on a real database, with scripted operators and a manual clock.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

mod activity;
mod callbacks;
mod creation;
mod failures;
mod operators;
mod redemption;
mod redirects;
mod state;
mod verifications;
mod world;
