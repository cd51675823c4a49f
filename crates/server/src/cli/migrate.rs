//! `ringtrue migrate`.

use ringtrue_engine::ports::{Clock, SystemClock};
use serde_json::json;

use super::{arguments::Output, context::CommandContext, error::CliError, printer};

pub(super) async fn migrate(context: &CommandContext) -> Result<(), CliError> {
    let url = context.config()?.store.url;
    let applied = ringtrue_store::migrate(&url, SystemClock.now())
        .await
        .map_err(|error| CliError::Migrate { url: url.to_string(), error })?;
    match (context.printer.output, applied.as_slice()) {
        (Output::Table, []) => printer::print_text(&format!("{url} is up to date."))?,
        (Output::Table, names) => {
            printer::print_text(&format!("{url} is now up to date. Applied: {}.", names.join(", ")))?;
        }
        (_, names) => context.printer.print_record(vec![("applied", json!(names))])?,
    }
    Ok(())
}
