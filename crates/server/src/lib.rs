//! Server crate: configuration, command line, listeners, HTTP API, pages, telemetry and wiring.

pub mod cli;
pub mod config;
mod connectors;
pub mod console;
pub mod development;
mod handsets;
pub mod http;
mod identity_provider;
mod listener;
mod number_sources;
pub mod pages;
mod prepared;
mod sandbox_operator;
mod state_file;
pub mod telemetry;
mod verification_methods;
pub mod wiring;
