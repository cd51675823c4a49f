//! `ringtrue erase`: erases the stored data of a phone number.

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use serde_json::json;

use super::{
    arguments::EraseArguments, context::CommandContext, error::CliError, printer, stdin_argument::argument_or_stdin,
};
use crate::http::time;

pub(super) async fn erase(context: &CommandContext, arguments: &EraseArguments) -> Result<(), CliError> {
    // The error must not echo the number: it may be a mistyped real one.
    let number = Msisdn::parse(&argument_or_stdin(&arguments.number)?, Mode::Sandbox).map_err(|error| {
        CliError::with_hint(
            format!("not a number in E.164 format: {error}"),
            "Use the country code and digits only, such as +447700900123.",
        )
    })?;
    let (erased, event) = context.with_engine(async |engine| Ok(engine.erase_number(&number).await?)).await?;
    context.printer.print_record(vec![
        ("erased_at", json!(time::format(event.at))),
        ("audit_event_id", json!(event.id.to_string())),
        ("number", json!(format!("…{}", number.tail()))),
        ("checks", json!(erased.checks)),
        ("callbacks", json!(erased.callbacks)),
        ("attempts", json!(erased.attempts)),
        ("open_checks", json!(erased.deferred.map_or(0, |left| left.checks))),
        ("open_until", json!(erased.deferred.map(|left| time::format(left.until)))),
    ])?;
    if let Some(left) = erased.deferred {
        let (number, until) = (left.checks, time::format(left.until));
        printer::print_note(&format!(
            "Open checks of this number: {number}. The last one concludes by {until}; a running server erases each \
             check within about a minute of its conclusion."
        ));
    }
    Ok(())
}
