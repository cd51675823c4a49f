//! The CAMARA connector against a scripted operator on real sockets, and the client that it asks by.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod breaker;
mod client;
mod configuration;
mod documents;
mod failures;
mod id_tokens;
mod keys;
mod logs;
mod operator;
mod requests;
mod sandbox;
mod sim_swap;
mod sim_swap_failures;
mod sim_swap_sandbox;
mod world;
