//! The CAMARA connector and its HTTP client against a scripted operator on real sockets.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod breaker;
mod client;
mod configuration;
mod documents;
mod errors;
mod fake_operator;
mod fixture;
mod id_tokens;
mod keys;
mod logs;
mod operator_tokens;
mod requests;
mod sandbox;
mod sim_swap;
mod sim_swap_errors;
mod sim_swap_sandbox;
mod wallet;
