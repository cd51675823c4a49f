//! `ringtrue restored`: invalidates the sessions, tokens and callbacks that a restored backup has revived.

use serde_json::json;

use super::{
    arguments::RestoredArguments,
    context::{CommandContext, open_store},
    error::CliError,
    printer,
};
use crate::http::time;

pub(super) async fn restored(context: &CommandContext, arguments: &RestoredArguments) -> Result<(), CliError> {
    let config = context.config()?;
    if arguments.reset_clock {
        open_store(&config).await?.reset_latest_time().await?;
    }
    let restored =
        context.with_engine_for(&config, async |engine| Ok(engine.accept_restored_database().await?)).await?;
    context.printer.print_record(vec![
        ("restored_at", json!(time::format(restored.event.at))),
        ("audit_event_id", json!(restored.event.id.to_string())),
        ("callbacks_given_up", json!(restored.callbacks)),
        ("checks_expired", json!(restored.checks)),
        ("sessions_ended", json!(restored.sessions)),
    ])?;
    printer::print_note(
        "All access tokens, console sessions and links are revoked. Credentials, members and settings are those of the \
         backup: repeat any deletions and changes made since.",
    );
    Ok(())
}
