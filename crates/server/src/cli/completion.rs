//! `ringtrue completion`: shell completion scripts.

use clap::CommandFactory;
use clap_complete::Shell as ShellGenerator;

use super::{arguments::Arguments, client::Shell, error::CliError, printer};

pub(super) fn completion(shell: Shell) -> Result<(), CliError> {
    let generator = match shell {
        Shell::Bash => ShellGenerator::Bash,
        Shell::Zsh => ShellGenerator::Zsh,
        Shell::Fish => ShellGenerator::Fish,
    };
    let mut script = vec![];
    clap_complete::generate(generator, &mut Arguments::command(), "ringtrue", &mut script);
    Ok(printer::print_text(&String::from_utf8_lossy(&script))?)
}
