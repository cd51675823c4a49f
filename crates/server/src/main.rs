//! `ringtrue`: phone number verification on your own machines.

use std::process::ExitCode;

use ringtrue_server::{cli, config::Environment};

// It takes the place of `malloc` for everybody in the process, SQLite included, and Rust's own allocator asks that. The
// crate's allocator would ask for each block with its alignment, which costs more: mimalloc then rarely takes the short way.
#[cfg(feature = "mimalloc")]
use mimalloc as _;

fn main() -> ExitCode {
    // There may be more than one provider in the tree; whoever asks for "the" provider gets this one.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return ExitCode::FAILURE;
    }
    cli::run(std::env::args_os(), Environment::of_process())
}
