//! The binary's parts: configuration, command line, listeners, HTTP API, pages, telemetry, and the wiring of it all.

pub mod cli;
pub mod config;
mod connectors;
pub mod console;
mod groundwork;
mod handsets;
pub mod http;
mod listener;
mod number_sources;
pub mod pages;
mod sandbox_operator;
mod state_file;
pub mod telemetry;
pub mod wiring;
