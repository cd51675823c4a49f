//! `ringtrue completion`: scripts by which shells complete what is typed.

use clap::CommandFactory;
use clap_complete::Shell as Language;

use super::{arguments::Arguments, caller::Shell, failure::Failure, printer};

pub(super) fn completion(shell: Shell) -> Result<(), Failure> {
    let language = match shell {
        Shell::Bash => Language::Bash,
        Shell::Zsh => Language::Zsh,
        Shell::Fish => Language::Fish,
    };
    let mut script = vec![];
    clap_complete::generate(language, &mut Arguments::command(), "ringtrue", &mut script);
    Ok(printer::text(&String::from_utf8_lossy(&script))?)
}
