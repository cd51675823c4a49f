//! Arguments with personal data, which can be read from standard input instead of the command line.

use std::io::{self, Read};

use super::error::CliError;

/// Argument that selects standard input, which keeps the value out of the shell history.
const STDIN_MARKER: &str = "-";
const MAX_INPUT_BYTES: u64 = 64;

pub(super) fn argument_or_stdin(argument: &str) -> Result<String, CliError> {
    if argument != STDIN_MARKER {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut text).map_err(|error| {
        CliError::with_hint(format!("cannot read standard input: {error}"), "Example: ringtrue erase --number - < file")
    })?;
    Ok(text.trim().to_owned())
}
