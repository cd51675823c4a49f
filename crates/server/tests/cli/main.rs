//! End-to-end tests of the command line with the real binary, each in its own directory.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod client;
mod commands;
mod config;
mod connectors;
mod database;
mod dev;
mod doctor;
mod eligibility;
mod listen;
mod process;
mod serve;
mod setup;
mod traces;
