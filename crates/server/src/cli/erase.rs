//! `ringtrue erase`: forgetting a number.

use std::io::{self, Read};

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use serde_json::json;

use super::{arguments::EraseArguments, desk::Desk, failure::Failure};
use crate::http::time;

/// In place of a number: it is read from standard input, and stays out of the history of the shell.
const FROM_INPUT: &str = "-";
/// Longer than any number, and than what may stand around it.
const MOST_INPUT: u64 = 64;

pub(super) async fn erase(desk: &Desk, arguments: &EraseArguments) -> Result<(), Failure> {
    let typed = if arguments.number == FROM_INPUT { from_input()? } else { arguments.number.clone() };
    // The number itself is not repeated: it may be a real one with a slip in it.
    let number = Msisdn::parse(&typed, Mode::Sandbox).map_err(|problem| {
        Failure::refused(
            format!("this is not a number in E.164 form: {problem}"),
            "Write it with its country code and nothing else, such as +447700900123.",
        )
    })?;
    let (erased, event) = desk.with_engine(async |engine| Ok(engine.erase_number(&number).await?)).await?;
    Ok(desk.printer.record(vec![
        ("erased_at", json!(time::format(event.at))),
        ("audit_event_id", json!(event.id.to_string())),
        ("number", json!(format!("…{}", number.tail()))),
        ("checks", json!(erased.checks)),
        ("callbacks", json!(erased.callbacks)),
        ("attempts", json!(erased.attempts)),
    ])?)
}

fn from_input() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().lock().take(MOST_INPUT).read_to_string(&mut text).map_err(|problem| {
        Failure::refused(
            format!("the number cannot be read from standard input: {problem}"),
            "Such as: ringtrue erase --number - < file",
        )
    })?;
    Ok(text.trim().to_owned())
}
