//! What is typed about a person: as it stands on the command line, or read from standard input.

use std::io::{self, Read};

use super::failure::Failure;

/// In place of a value: it is read from standard input, and stays out of the history of the shell.
const FROM_INPUT: &str = "-";
/// Longer than any number or address, and than what may stand around it.
const MOST_INPUT: u64 = 64;

pub(super) fn typed(argument: &str) -> Result<String, Failure> {
    if argument != FROM_INPUT {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    io::stdin().lock().take(MOST_INPUT).read_to_string(&mut text).map_err(|problem| {
        Failure::refused(
            format!("standard input cannot be read: {problem}"),
            "Such as: ringtrue erase --number - < file",
        )
    })?;
    Ok(text.trim().to_owned())
}
