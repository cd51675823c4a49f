//! SIM Swap and Eligibility: questions that are answered while the caller waits, over a real store and with operators
//! and sources that do as they are told.

#![expect(clippy::unwrap_used, reason = "what should not be, ends the test")]

mod eligibility;
mod explanations;
mod live;
mod sim_swap;
mod sources;
mod world;
