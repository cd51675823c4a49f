//! `ringtrue erase`: forgetting a number.

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use serde_json::json;

use super::{arguments::EraseArguments, desk::Desk, failure::Failure, printer, typed::typed};
use crate::http::time;

pub(super) async fn erase(desk: &Desk, arguments: &EraseArguments) -> Result<(), Failure> {
    // The number itself is not repeated: it may be a real one with a slip in it.
    let number = Msisdn::parse(&typed(&arguments.number)?, Mode::Sandbox).map_err(|problem| {
        Failure::refused(
            format!("this is not a number in E.164 form: {problem}"),
            "Write it with its country code and nothing else, such as +447700900123.",
        )
    })?;
    let (erased, event) = desk.with_engine(async |engine| Ok(engine.erase_number(&number).await?)).await?;
    desk.printer.record(vec![
        ("erased_at", json!(time::format(event.at))),
        ("audit_event_id", json!(event.id.to_string())),
        ("number", json!(format!("…{}", number.tail()))),
        ("checks", json!(erased.checks)),
        ("callbacks", json!(erased.callbacks)),
        ("attempts", json!(erased.attempts)),
        ("open_checks", json!(erased.left.map_or(0, |left| left.checks))),
        ("open_until", json!(erased.left.map(|left| time::format(left.until)))),
    ])?;
    if let Some(left) = erased.left {
        let (number, until) = (left.checks, time::format(left.until));
        printer::remark(&format!(
            "Checks of this number that are still open: {number}. The last ends by {until}; a running server erases each \
             within about a minute of its end."
        ));
    }
    Ok(())
}
