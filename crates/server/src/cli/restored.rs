//! `ringtrue restored`: putting right what a restore from a backup has revived.

use serde_json::json;

use super::{
    arguments::RestoredArguments,
    desk::{Desk, open_store},
    failure::Failure,
    printer,
};
use crate::http::time;

pub(super) async fn restored(desk: &Desk, arguments: &RestoredArguments) -> Result<(), Failure> {
    let config = desk.config()?;
    if arguments.reset_clock {
        open_store(&config).await?.reset_latest_time().await?;
    }
    let restored = desk.with_engine_of(&config, async |engine| Ok(engine.accept_restored_database().await?)).await?;
    desk.printer.record(vec![
        ("restored_at", json!(time::format(restored.event.at))),
        ("audit_event_id", json!(restored.event.id.to_string())),
        ("callbacks_given_up", json!(restored.callbacks)),
        ("checks_expired", json!(restored.checks)),
        ("sessions_ended", json!(restored.sessions)),
    ])?;
    printer::remark(
        "All access tokens, console sessions and links are void. Credentials, members and settings are those of the \
         backup: repeat what was deleted or changed since.",
    );
    Ok(())
}
