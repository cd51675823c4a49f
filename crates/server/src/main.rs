//! `ringtrue`: phone number verification on your own machines.

use std::process::ExitCode;

use ringtrue_server::{cli, config::Environment};

// Linking the crate replaces `malloc` for the whole process, including SQLite and Rust's system allocator. The crate's
// own `GlobalAlloc` passes an alignment with every allocation, which misses mimalloc's fast path.
#[cfg(feature = "mimalloc")]
use mimalloc as _;

fn main() -> ExitCode {
    // Several rustls providers may be compiled in; select the process default.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return ExitCode::FAILURE;
    }
    cli::run(std::env::args_os(), Environment::from_process())
}
