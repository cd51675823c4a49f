//! Replay of missed callbacks.
//!
//! Polls the server for concluded checks and requests a resend of every callback that the journal does not contain,
//! unless the server is still retrying it. The journal ensures that each callback is handled once.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::report::print_status;
use crate::cli::{
    client::{ConcludedCheck, ListenJournal, Upstream},
    error::CliError,
    printer::Printer,
};

const POLL_INTERVAL: Duration = Duration::from_secs(30);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Longer than the server retries a callback.
const RESEND_TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct MissedCallbackReplay {
    upstream: Arc<Upstream>,
    journal: Arc<ListenJournal>,
    printer: Printer,
    /// Time of the resend request, by check id.
    resend_requested_at: HashMap<String, Instant>,
}

/// State of the callback of a concluded check.
enum CallbackState {
    /// Received, or not expected any more.
    Settled,
    /// Delivery is in progress.
    InProgress,
    /// A resend was just requested.
    ResendRequested,
}

impl MissedCallbackReplay {
    pub(super) fn new(upstream: Arc<Upstream>, journal: Arc<ListenJournal>, printer: Printer) -> Self {
        MissedCallbackReplay { upstream, journal, printer, resend_requested_at: HashMap::new() }
    }

    /// Polls until a permanent error.
    pub(super) async fn run(mut self) -> Result<Infallible, CliError> {
        let mut delay = Duration::ZERO;
        loop {
            match self.poll().await {
                Ok(()) => {
                    if !delay.is_zero() {
                        print_status(self.printer, "The server is reachable again.")?;
                    }
                    delay = Duration::ZERO;
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) if error.is_transient() => {
                    if delay.is_zero() {
                        print_status(self.printer, &format!("Cannot query missed callbacks: {error}\nRetrying."))?;
                    }
                    delay = (delay * 2).clamp(Duration::from_secs(1), MAX_RETRY_DELAY);
                    sleep(error.retry_after().unwrap_or(delay).min(MAX_RETRY_DELAY)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn poll(&mut self) -> Result<(), CliError> {
        let mut newest = None;
        let mut oldest_unsettled: Option<Timestamp> = None;
        let mut requested = 0_u64;
        for check in self.upstream.concluded_since(self.journal.replay_start()).await? {
            newest = newest.max(Some(check.concluded_at));
            let state = self.callback_state(&check).await?;
            if matches!(state, CallbackState::ResendRequested) {
                requested += 1;
            }
            if !matches!(state, CallbackState::Settled) {
                // The list is sorted, oldest first.
                oldest_unsettled = oldest_unsettled.or(Some(check.concluded_at));
            }
        }
        if requested > 0 {
            let missed =
                if requested == 1 { "1 missed callback".to_owned() } else { format!("{requested} missed callbacks") };
            print_status(self.printer, &format!("Requested a resend of {missed}."))?;
        }
        match oldest_unsettled.or(newest) {
            Some(cursor) => self.journal.advance_cursor(cursor),
            None => Ok(()),
        }
    }

    async fn callback_state(&mut self, check: &ConcludedCheck) -> Result<CallbackState, CliError> {
        let id = &check.check_id;
        if self.journal.contains_check(id) {
            self.resend_requested_at.remove(id);
            return Ok(CallbackState::Settled);
        }
        match self.resend_requested_at.get(id) {
            Some(at) if at.elapsed() < RESEND_TIMEOUT => return Ok(CallbackState::InProgress),
            Some(_) => {
                print_status(
                    self.printer,
                    &format!("The callback of {id} was resent but did not arrive. Check its callback URL."),
                )?;
                self.resend_requested_at.remove(id);
                self.journal.record_without_callback(id, check.concluded_at)?;
                return Ok(CallbackState::Settled);
            }
            None => {}
        }
        match self.upstream.resend(check).await? {
            Ok(_) => {
                self.resend_requested_at.insert(id.clone(), Instant::now());
                Ok(CallbackState::ResendRequested)
            }
            Err(problem) => match problem.error_code.as_str() {
                "callback_in_progress" => Ok(CallbackState::InProgress),
                "limit_reached" => {
                    print_status(self.printer, &format!("The callback of {id} did not arrive: {}", problem.detail))?;
                    self.journal.record_without_callback(id, check.concluded_at)?;
                    Ok(CallbackState::Settled)
                }
                "callback_missing" | "callback_erased" | "check_not_found" => {
                    self.journal.record_without_callback(id, check.concluded_at)?;
                    Ok(CallbackState::Settled)
                }
                _ => Err(CliError::Api(problem)),
            },
        }
    }
}
