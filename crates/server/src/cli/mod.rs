//! The command line.
//!
//! Commands print data on standard output, as a table, JSON or CSV, and everything else on standard error. Commands for
//! administrators open the database themselves, so they work without a running server. A running server picks up their
//! changes within a second. The API client commands are in the crate [`ringtrue_client`]: they need only the URL of a
//! server.
//!
//! Secrets are never command-line arguments, which every user of the machine can read.

mod arguments;
mod completion;
mod config;
mod connectors;
mod console;
mod context;
mod database;
mod dev;
mod doctor;
mod eligibility;
mod error;
mod help;
mod new_files;
mod package_files;
mod serve;
mod transfer;
mod workspace;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::FromArgMatches;
use ringtrue_client::printer::{self, Output, Printer};

use self::{
    arguments::{Arguments, Command, ConnectorsAction, OperatorTokenAction},
    context::{CommandContext, client_context},
    error::CliError,
};
use crate::config::Environment;

/// Maximum time that background tasks get to finish after a command.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Parses the arguments and runs the command.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: Environment) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let client = client_context(&environment, Printer { output: Output::Table });
    // If a variable is not valid UTF-8, the commands that need it report the error.
    if let Ok(client) = client {
        match completion::complete(&arguments, &client) {
            Ok(false) => {}
            Ok(true) => return ExitCode::SUCCESS,
            Err(error) => return report_usage(&error),
        }
    }
    let mut command = help::command();
    let parsed = command
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        // clap also returns `--help` and `--version` as errors, with exit code 0.
        Err(error) => return report_usage(&error),
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
            if !error.is_silent() {
                printer::print_error(&error);
            }
            error.exit_code()
        }
    }
}

fn report_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

async fn run_command(context: &CommandContext, command: Command) -> Result<(), CliError> {
    match command {
        Command::Dev(arguments) => Box::pin(dev::dev(context, &arguments)).await,
        Command::Listen(arguments) => Ok(ringtrue_client::listen(&context.client_context()?, arguments).await?),
        Command::Serve => Box::pin(serve::serve(context)).await,
        Command::Migrate => database::migrate(context).await,
        Command::Distribute => database::distribute(context).await,
        Command::Config(action) => config::run(context, &action),
        Command::Workspace(action) => workspace::run(context, action).await,
        Command::Credentials(arguments) => workspace::run_credentials(context, arguments).await,
        Command::Keys(action) => database::keys(context, action).await,
        Command::Erase(arguments) => database::erase_number(context, &arguments).await,
        Command::Eligibility(action) => eligibility::run(context, action).await,
        Command::Connectors(ConnectorsAction::OperatorToken(OperatorTokenAction::Init(arguments))) => {
            connectors::init_operator_token(context, &arguments)
        }
        Command::Console(action) => console::run(context, action).await,
        Command::Doctor(arguments) => doctor::doctor(context, &arguments).await,
        Command::Restored(arguments) => database::accept_restored_database(context, &arguments).await,
        Command::Backup(arguments) => transfer::backup(context, &arguments).await,
        Command::Export(arguments) => transfer::export(context, &arguments).await,
        Command::Import(arguments) => transfer::import(context, &arguments).await,
        Command::Client(command) => Ok(ringtrue_client::run(&context.client_context()?, command).await?),
        Command::Selftest(arguments) => dev::selftest(context, &arguments).await,
        Command::Completion { shell } => completion::print_script(shell),
        Command::PackageFiles(arguments) => package_files::write(&arguments),
    }
}
