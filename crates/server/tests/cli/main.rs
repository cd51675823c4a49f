//! End-to-end tests of the command line with the real binary, each in its own directory.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod client;
mod commands;
mod config;
mod dev;
mod doctor;
mod eligibility;
mod erase;
mod listen;
mod process;
mod restored;
mod serve;
mod setup;
mod traces;
