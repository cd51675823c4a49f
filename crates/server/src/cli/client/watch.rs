//! Watches one check until it concludes, or all checks of a product until interrupted.

use std::time::Duration;

use ringtrue_domain::product::Product;
use tokio::time::{Instant, sleep};

use super::{
    api_session::ApiSession,
    arguments::PollInterval,
    check_follower::{CheckFollower, status_of},
    checks::{check_columns, fetch_check},
    progress::Progress,
};
use crate::cli::{context::CommandContext, error::CliError, printer, signals::Signals};

const MAX_CONSECUTIVE_ERRORS: u32 = 10;

/// Prints status changes until the check concludes. Fails unless it completes.
pub(super) async fn watch_check(
    context: &CommandContext,
    session: &ApiSession,
    product: Product,
    id: &str,
    interval: PollInterval,
) -> Result<(), CliError> {
    let began = Instant::now();
    let mut progress = Progress::start();
    let mut transient_errors = TransientErrors::default();
    let mut status = None;
    loop {
        if let Some(check) = transient_errors.tolerate(fetch_check(session, product, id).await)? {
            let now = status_of(&check);
            if status.as_ref() != Some(&now) {
                progress.show("");
                context.printer.print_stream_item(check_columns(product), &check, status.is_none())?;
            }
            match now.as_str() {
                "COMPLETED" => return Ok(()),
                "ACCEPTED" | "PENDING" => status = Some(now),
                _ => return Err(CliError::AlreadyReported),
            }
        }
        progress.show(&format!("{} for {} s", status.as_deref().unwrap_or("waiting"), began.elapsed().as_secs()));
        sleep(Duration::from_secs(interval.seconds)).await;
    }
}

/// Prints every new or changed check.
pub(super) async fn watch_all(
    context: &CommandContext,
    session: &ApiSession,
    product: Product,
    interval: PollInterval,
) -> Result<(), CliError> {
    let mut signals = Signals::listen().map_err(|error| CliError::Other(error.into()))?;
    let following = async {
        let mut follower = CheckFollower::new(product, None);
        let mut transient_errors = TransientErrors::default();
        let (mut is_baseline_read, mut is_first) = (false, true);
        loop {
            if let Some(changed) = transient_errors.tolerate(follower.poll(session).await)? {
                for check in changed {
                    context.printer.print_stream_item(check_columns(product), &check, is_first)?;
                    is_first = false;
                }
                if !is_baseline_read {
                    printer::print_note("Watching for changes. To stop: Ctrl+C");
                    is_baseline_read = true;
                }
            }
            sleep(Duration::from_secs(interval.seconds)).await;
        }
    };
    tokio::select! {
        result = following => result,
        () = signals.wait_for_stop() => Ok(()),
    }
}

/// Counts consecutive transient errors.
#[derive(Default)]
struct TransientErrors {
    count: u32,
}

impl TransientErrors {
    fn tolerate<T>(&mut self, result: Result<T, CliError>) -> Result<Option<T>, CliError> {
        match result {
            Ok(result) => {
                self.count = 0;
                Ok(Some(result))
            }
            Err(error) if error.is_transient() && self.count < MAX_CONSECUTIVE_ERRORS => {
                self.count += 1;
                if self.count == 1 {
                    printer::print_error(&error);
                    printer::print_note("Retrying.");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
