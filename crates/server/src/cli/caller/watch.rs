//! Following checks: one until it has ended, or all of a project's until we are told to stop.

use std::{collections::HashMap, time::Duration};

use ringtrue_domain::product::{Product, Scope};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    arguments::Pace,
    checks::{check, columns, path},
    list::page,
    progress::Progress,
    session::Session,
};
use crate::cli::{desk::Desk, failure::Failure, printer, signals::Signals};

/// So many failures in a row that may pass are borne.
const PATIENCE: u32 = 10;
/// How many of the newest checks are looked at.
const LOOKED_AT: u32 = 100;

/// Prints what changes until the check has ended. It is a failure when it has not completed.
pub(super) async fn one(desk: &Desk, session: &Session, product: Product, id: &str, pace: Pace) -> Result<(), Failure> {
    let began = Instant::now();
    let mut progress = Progress::begin();
    let mut bearing = Bearing::default();
    let mut status = None;
    loop {
        if let Some(check) = bearing.bear(check(session, product, id).await)? {
            let now = status_of(&check);
            if status.as_ref() != Some(&now) {
                progress.say("");
                desk.printer.next_object(columns(product), &check, status.is_none())?;
            }
            match now.as_str() {
                "COMPLETED" => return Ok(()),
                "ACCEPTED" | "PENDING" => status = Some(now),
                _ => return Err(Failure::Told),
            }
        }
        progress.say(&format!("{} for {} s", status.as_deref().unwrap_or("waiting"), began.elapsed().as_secs()));
        sleep(Duration::from_secs(pace.interval)).await;
    }
}

/// Prints every check that is created or changes from now on.
pub(super) async fn all(desk: &Desk, session: &Session, product: Product, pace: Pace) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|problem| Failure::Failed(problem.into()))?;
    let following = async {
        let mut seen: Option<HashMap<String, String>> = None;
        let mut bearing = Bearing::default();
        let mut is_first = true;
        loop {
            let newest = page(session, Scope::Product(product), path(product), None, LOOKED_AT, 1).await;
            if let Some(newest) = bearing.bear(newest)? {
                let states: HashMap<String, String> =
                    newest.content.iter().map(|check| (id_of(check), status_of(check))).collect();
                if let Some(seen) = &seen {
                    // Oldest first, as they happened.
                    for check in newest.content.iter().rev() {
                        if seen.get(&id_of(check)) != Some(&status_of(check)) {
                            desk.printer.next_object(columns(product), check, is_first)?;
                            is_first = false;
                        }
                    }
                } else {
                    printer::remark("Following. To stop: Ctrl+C");
                }
                seen = Some(states);
            }
            sleep(Duration::from_secs(pace.interval)).await;
        }
    };
    tokio::select! {
        ended = following => ended,
        () = signals.stop() => Ok(()),
    }
}

fn status_of(check: &Value) -> String {
    check.get("status").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn id_of(check: &Value) -> String {
    check.get("check_id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What may pass is waited for, within reason.
#[derive(Default)]
struct Bearing {
    failures: u32,
}

impl Bearing {
    fn bear<T>(&mut self, answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => {
                self.failures = 0;
                Ok(Some(answer))
            }
            Err(failure) if failure.may_pass() && self.failures < PATIENCE => {
                self.failures += 1;
                if self.failures == 1 {
                    printer::failure(&failure);
                    printer::remark("Trying on.");
                }
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}
