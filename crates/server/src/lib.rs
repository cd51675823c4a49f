//! The binary: configuration, commands, listeners, connectors, telemetry and wiring.

mod certificates;
pub mod cli;
pub mod config;
mod connectors;
mod generation_file;
mod identity_provider;
mod leaf_certificate;
mod listener;
mod number_sources;
mod prepared;
mod sandbox_operator;
pub mod telemetry;
pub mod wiring;
