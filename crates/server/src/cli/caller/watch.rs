//! Following checks: one until it has ended, or all of a project's until we are told to stop.

use std::time::Duration;

use ringtrue_domain::product::Product;
use tokio::time::{Instant, sleep};

use super::{
    arguments::Pace,
    checks::{check, columns},
    follow::{Follower, status_of},
    progress::Progress,
    session::Session,
};
use crate::cli::{desk::Desk, failure::Failure, printer, signals::Signals};

/// So many failures in a row that may pass are borne.
const PATIENCE: u32 = 10;

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
        let mut follower = Follower::new(product, None);
        let mut bearing = Bearing::default();
        let (mut has_looked, mut is_first) = (false, true);
        loop {
            if let Some(changed) = bearing.bear(follower.look(session).await)? {
                for check in changed {
                    desk.printer.next_object(columns(product), &check, is_first)?;
                    is_first = false;
                }
                if !has_looked {
                    printer::remark("Following. To stop: Ctrl+C");
                    has_looked = true;
                }
            }
            sleep(Duration::from_secs(pace.interval)).await;
        }
    };
    tokio::select! {
        ended = following => ended,
        () = signals.stop() => Ok(()),
    }
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
