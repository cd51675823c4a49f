//! Making up for what was missed: checks that ended while nobody listened have their callbacks sent again.
//!
//! The server is asked now and then which checks have ended. Those whose callbacks have not come are sent again, unless
//! they are still being tried, and come by themselves. Each is handled once: the ledger knows them.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::report::say;
use crate::cli::{
    caller::{Ended, Ledger, Upstream},
    failure::Failure,
    printer::Printer,
};

const BETWEEN_LOOKS: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longer than a callback is tried.
const PATIENCE: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct CatchingUp {
    upstream: Arc<Upstream>,
    ledger: Arc<Ledger>,
    printer: Printer,
    /// By check: when its callback was sent again.
    asked: HashMap<String, Instant>,
}

/// What is known of the callback of a check that has ended.
enum Standing {
    /// It has come, or never will.
    Done,
    /// It is on its way.
    Expected,
    /// It is on its way because we asked for it.
    Asked,
}

impl CatchingUp {
    pub(super) fn new(upstream: Arc<Upstream>, ledger: Arc<Ledger>, printer: Printer) -> Self {
        CatchingUp { upstream, ledger, printer, asked: HashMap::new() }
    }

    /// Looks now, and again and again. It ends when trying on makes no sense.
    pub(super) async fn run(mut self) -> Result<Infallible, Failure> {
        let mut pause = Duration::ZERO;
        loop {
            match self.look().await {
                Ok(()) => {
                    if !pause.is_zero() {
                        say(self.printer, "The server answers again.")?;
                    }
                    pause = Duration::ZERO;
                    sleep(BETWEEN_LOOKS).await;
                }
                Err(failure) if failure.may_pass() => {
                    if pause.is_zero() {
                        say(self.printer, &format!("What was missed cannot be found out yet: {failure}\nTrying on."))?;
                    }
                    pause = (pause * 2).clamp(Duration::from_secs(1), LONGEST_PAUSE);
                    sleep(failure.retry_after().unwrap_or(pause).min(LONGEST_PAUSE)).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn look(&mut self) -> Result<(), Failure> {
        let mut newest = None;
        let mut oldest_expected: Option<Timestamp> = None;
        let mut asked = 0_u64;
        for check in self.upstream.ended_since(self.ledger.since()).await? {
            newest = newest.max(Some(check.at));
            let standing = self.standing(&check).await?;
            if matches!(standing, Standing::Asked) {
                asked += 1;
            }
            if !matches!(standing, Standing::Done) {
                // They come oldest first.
                oldest_expected = oldest_expected.or(Some(check.at));
            }
        }
        if asked > 0 {
            let what = if asked == 1 { "1 callback was".to_owned() } else { format!("{asked} callbacks were") };
            say(self.printer, &format!("{what} missed, and will be sent again."))?;
        }
        match oldest_expected.or(newest) {
            Some(cursor) => self.ledger.advance(cursor),
            None => Ok(()),
        }
    }

    async fn standing(&mut self, check: &Ended) -> Result<Standing, Failure> {
        let id = &check.check_id;
        if self.ledger.has(id) {
            self.asked.remove(id);
            return Ok(Standing::Done);
        }
        match self.asked.get(id) {
            Some(at) if at.elapsed() < PATIENCE => return Ok(Standing::Expected),
            Some(_) => {
                say(
                    self.printer,
                    &format!("The callback of {id} was sent again and did not come. Does it go elsewhere?"),
                )?;
                self.asked.remove(id);
                self.ledger.settle(id, check.at)?;
                return Ok(Standing::Done);
            }
            None => {}
        }
        match self.upstream.resend(check).await? {
            Ok(_) => {
                self.asked.insert(id.clone(), Instant::now());
                Ok(Standing::Asked)
            }
            Err(problem) => match problem.error_code.as_str() {
                "callback_in_progress" => Ok(Standing::Expected),
                "limit_reached" => {
                    say(self.printer, &format!("The callback of {id} did not come: {}", problem.detail))?;
                    self.ledger.settle(id, check.at)?;
                    Ok(Standing::Done)
                }
                "callback_missing" | "callback_erased" | "check_not_found" => {
                    self.ledger.settle(id, check.at)?;
                    Ok(Standing::Done)
                }
                _ => Err(Failure::Problem(problem)),
            },
        }
    }
}
