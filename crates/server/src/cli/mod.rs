//! The command line.
//!
//! A command reads the configuration, does one thing and says what it did: data on standard output, as a table or as
//! JSON, and everything else on standard error. Commands that touch the database open it themselves, so they work
//! whether or not a server runs; one that does notices a change within a second. Those for callers are in [`caller`]:
//! they know a server by its address only.
//!
//! Secrets never come from the command line, where every user of the machine can read them.

mod arguments;
mod caller;
mod completion;
mod config;
mod console;
mod credentials;
mod desk;
mod dev;
mod doctor;
mod eligibility;
mod erase;
mod failure;
mod keys;
mod listen;
mod migrate;
mod printer;
mod restored;
mod serve;
mod signals;
mod typed;
mod workspace;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Parser;

use self::{
    arguments::{Arguments, Command},
    desk::Desk,
    failure::Failure,
    printer::Printer,
};
use crate::config::Environment;

/// How long tasks may go on after a command has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Runs the command that the arguments ask for.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: Environment) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // Help and the version come this way too, and are no failure.
        Err(other) => {
            let _ = other.print();
            return u8::try_from(other.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let desk = Desk { config_file: arguments.config, environment, printer: Printer { output: arguments.output } };
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|problem| Failure::Failed(anyhow::Error::new(problem).context("the runtime does not start")))
        .and_then(|runtime| {
            let ended = runtime.block_on(execute(&desk, arguments.command));
            runtime.shutdown_timeout(LAST_WORDS);
            ended
        });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            printer::failure(&failure);
            failure.exit_code()
        }
    }
}

async fn execute(desk: &Desk, command: Command) -> Result<(), Failure> {
    match command {
        Command::Dev(arguments) => dev::dev(desk, &arguments).await,
        Command::Listen(arguments) => listen::listen(desk, arguments).await,
        Command::Serve => serve::serve(desk).await,
        Command::Migrate => migrate::migrate(desk).await,
        Command::Config(action) => config::run(desk, &action),
        Command::Workspace(action) => workspace::run(desk, action).await,
        Command::Credentials(arguments) => credentials::run(desk, arguments).await,
        Command::Keys(action) => keys::run(desk, action).await,
        Command::Erase(arguments) => erase::erase(desk, &arguments).await,
        Command::Eligibility(action) => eligibility::run(desk, action).await,
        Command::Console(action) => console::run(desk, action).await,
        Command::Doctor => doctor::doctor(desk).await,
        Command::Restored(arguments) => restored::restored(desk, &arguments).await,
        Command::Caller(command) => caller::run(desk, command).await,
        Command::Completion { shell } => completion::completion(shell),
    }
}
