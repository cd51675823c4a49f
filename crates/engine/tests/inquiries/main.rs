//! Synchronous products (SIM Swap and Eligibility) on a real store, with scripted operators and look-up sources.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod eligibility;
mod explanations;
mod live;
mod sim_swap;
mod sources;
mod world;
