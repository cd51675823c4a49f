//! The command line, as its users meet it: the real binary, in a folder of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails where it stands")]

mod caller;
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
