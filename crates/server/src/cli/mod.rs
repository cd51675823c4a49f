//! The command line.
//!
//! Commands print data on standard output, as a table, JSON or CSV, and everything else on standard error. Operator
//! commands open the database themselves, so they work without a running server; a running server picks up their
//! changes within a second. The API client commands are in [`client`]: they need only the URL of a server.
//!
//! Secrets are never command-line arguments, which every user of the machine can read.

mod arguments;
mod client;
mod completion;
mod config;
mod console;
mod context;
mod credentials;
mod dev;
mod doctor;
mod eligibility;
mod erase;
mod error;
mod keys;
mod listen;
mod migrate;
mod printer;
mod restored;
mod serve;
mod signals;
mod stdin_argument;
mod workspace;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Parser;

use self::{
    arguments::{Arguments, Command},
    context::CommandContext,
    error::CliError,
    printer::Printer,
};
use crate::config::Environment;

/// Time that background tasks get to finish after a command.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Parses the arguments and runs the command.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: Environment) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // `--help` and `--version` are also reported as errors, with exit code 0.
        Err(error) => {
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let context =
        CommandContext { config_file: arguments.config, environment, printer: Printer { output: arguments.output } };
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Other(anyhow::Error::new(error).context("cannot start the async runtime")))
        .and_then(|runtime| {
            let result = runtime.block_on(run_command(&context, arguments.command));
            runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer::print_error(&error);
            error.exit_code()
        }
    }
}

async fn run_command(context: &CommandContext, command: Command) -> Result<(), CliError> {
    match command {
        Command::Dev(arguments) => dev::dev(context, &arguments).await,
        Command::Listen(arguments) => listen::listen(context, arguments).await,
        Command::Serve => serve::serve(context).await,
        Command::Migrate => migrate::migrate(context).await,
        Command::Config(action) => config::run(context, &action),
        Command::Workspace(action) => workspace::run(context, action).await,
        Command::Credentials(arguments) => credentials::run(context, arguments).await,
        Command::Keys(action) => keys::run(context, action).await,
        Command::Erase(arguments) => erase::erase(context, &arguments).await,
        Command::Eligibility(action) => eligibility::run(context, action).await,
        Command::Console(action) => console::run(context, action).await,
        Command::Doctor => doctor::doctor(context).await,
        Command::Restored(arguments) => restored::restored(context, &arguments).await,
        Command::Client(command) => client::run(context, command).await,
        Command::Completion { shell } => completion::completion(shell),
    }
}
