//! Reads a client secret from the environment, standard input or a prompt without echo.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::profile::Secret;
use crate::{
    cli::{context::CommandContext, error::CliError, signals::Signals},
    config::CLIENT_SECRET_VARIABLE,
};

const MAX_INPUT_BYTES: u64 = 1_024;

pub(super) async fn read_client_secret(context: &CommandContext, client_id: &str) -> Result<Secret, CliError> {
    if let Some(secret) = context.environment.var(CLIENT_SECRET_VARIABLE)?.filter(|secret| !secret.is_empty()) {
        return Ok(Secret::new(secret.to_owned()));
    }
    let prompt = format!("Client secret of {client_id}: ");
    let input = if io::stdin().is_terminal() { prompt_without_echo(prompt).await? } else { read_stdin()? };
    let secret = input.trim();
    if secret.is_empty() {
        return Err(CliError::with_hint(
            "no client secret given",
            format!("Enter it at the prompt, pipe it in, or set {CLIENT_SECRET_VARIABLE}."),
        ));
    }
    Ok(Secret::new(secret.to_owned()))
}

fn read_stdin() -> Result<String, CliError> {
    let mut text = String::new();
    io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut text).map_err(|error| stdin_error(&error))?;
    Ok(text)
}

/// Prompts on the terminal. An interrupt restores the echo.
async fn prompt_without_echo(prompt: String) -> Result<String, CliError> {
    let mut signals = Signals::listen().map_err(|error| stdin_error(&error))?;
    let echo_off = EchoOff::start().map_err(|error| stdin_error(&error))?;
    let input = tokio::task::spawn_blocking(move || {
        let mut err = io::stderr().lock();
        err.write_all(prompt.as_bytes())?;
        err.flush()?;
        let mut line = String::new();
        io::stdin().lock().take(MAX_INPUT_BYTES).read_line(&mut line)?;
        Ok(line)
    });
    let read = tokio::select! {
        read = input => read.map_err(io::Error::other).and_then(|read| read).map_err(|error| stdin_error(&error)),
        () = signals.wait_for_stop() => Err(CliError::with_hint("interrupted", "No changes were made.")),
    };
    drop(echo_off);
    read
}

/// Turns terminal echo off until dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn start() -> io::Result<Self> {
        let original = tcgetattr(io::stdin())?;
        let mut echo_off = original.clone();
        echo_off.local_modes.remove(LocalModes::ECHO);
        echo_off.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &echo_off)?;
        Ok(EchoOff(original))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // The terminal may be closed.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

fn stdin_error(error: &io::Error) -> CliError {
    CliError::with_hint(
        format!("cannot read standard input: {error}"),
        format!("Pipe the secret in, or set {CLIENT_SECRET_VARIABLE}."),
    )
}
