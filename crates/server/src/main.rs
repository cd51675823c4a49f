//! `ringtrue`: phone number verification on your own machines.

use std::process::ExitCode;

use ringtrue_server::{cli, config::Environment};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Several rustls providers may be compiled in; select the process default.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return ExitCode::FAILURE;
    }
    cli::run(std::env::args_os(), Environment::from_process())
}
