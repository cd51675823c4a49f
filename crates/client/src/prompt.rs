//! Prompts on the terminal.

use std::{
    fmt::Display,
    io::{self, Write},
    str::FromStr,
};

use crate::{error::CommandError, printer};

const MAX_PROMPTS: u32 = 3;

/// Asks for a value until it is valid. An empty line selects the default, if there is one.
pub(crate) async fn prompt_line<T>(question: &str, default: Option<&str>) -> Result<T, CommandError>
where
    T: FromStr<Err: Display>,
{
    let prompt = match default {
        Some(default) => format!("{question} [{default}]: "),
        None => format!("{question}: "),
    };
    for _ in 0..MAX_PROMPTS {
        let line = read_line(prompt.clone()).await.map_err(|error| {
            CommandError::failed(format!("cannot read standard input: {error}"), "No changes were made.")
        })?;
        let Some(line) = line else { break };
        let text = match line.trim() {
            "" => default.unwrap_or_default(),
            text => text,
        };
        if text.is_empty() {
            continue;
        }
        match text.parse() {
            Ok(value) => return Ok(value),
            Err(error) => printer::print_note(&format!("  {error}")),
        }
    }
    Err(CommandError::failed(format!("no valid answer to: {question}"), "No changes were made."))
}

/// Prints a prompt and reads a line. `None`: the input has ended.
async fn read_line(prompt: String) -> io::Result<Option<String>> {
    let read = move || {
        let mut err = io::stderr().lock();
        write!(err, "{prompt}")?;
        err.flush()?;
        let mut line = String::new();
        let length = io::stdin().read_line(&mut line)?;
        Ok((length > 0).then_some(line))
    };
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}
