//! `ringtrue migrate`.

use ringtrue_engine::ports::{Clock, SystemClock};
use serde_json::json;

use super::{arguments::Output, desk::Desk, failure::Failure, printer};

pub(super) async fn migrate(desk: &Desk) -> Result<(), Failure> {
    let url = desk.config()?.store.url;
    let applied = ringtrue_store::migrate(&url, SystemClock.now())
        .await
        .map_err(|problem| Failure::Migrate { url: url.to_string(), problem })?;
    match (desk.printer.output, applied.as_slice()) {
        (Output::Table, []) => printer::text(&format!("{url} is up to date."))?,
        (Output::Table, names) => {
            printer::text(&format!("{url} is up to date now. Applied: {}.", names.join(", ")))?;
        }
        (_, names) => desk.printer.record(vec![("applied", json!(names))])?,
    }
    Ok(())
}
