//! Synchronous products (SIM Swap and Eligibility) on a real store, with scripted operators and lookup sources.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod eligibility;
mod explanations;
mod live;
mod sim_swap;
mod sources;
mod world;
