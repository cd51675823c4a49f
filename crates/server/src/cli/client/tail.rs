//! `ringtrue tail`: streams new and changed checks.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    api_session::ApiSession,
    arguments::{PRODUCTS_WITH_CHECKS, TailArguments},
    check_follower::CheckFollower,
    upstream::permitted_products,
};
use crate::cli::{context::CommandContext, error::CliError, printer, signals::Signals};

const COLUMNS: [&str; 10] = [
    "product",
    "check_id",
    "status",
    "match",
    "no_sim_change",
    "network_id",
    "error_code",
    "reference_id",
    "created_at",
    "updated_at",
];
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

pub(super) async fn tail(context: &CommandContext, arguments: TailArguments) -> Result<(), CliError> {
    let mut signals = Signals::listen().map_err(|error| CliError::Other(error.into()))?;
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let requested = if arguments.product.is_empty() { &PRODUCTS_WITH_CHECKS[..] } else { &arguments.product };
    let following = async {
        let products = permitted_products(&session, requested).await?;
        let mut followers: Vec<CheckFollower> =
            products.into_iter().map(|product| CheckFollower::new(product, arguments.search.clone())).collect();
        let mut line = LinePrinter { context, is_first: true };
        // Fails immediately on an invalid search or credential.
        poll_all(&session, &mut followers, &mut line).await?;
        printer::print_note("Watching for changes. To stop: Ctrl+C");
        let interval = Duration::from_secs(arguments.interval.seconds);
        let mut delay = interval;
        loop {
            sleep(delay).await;
            match poll_all(&session, &mut followers, &mut line).await {
                Ok(()) if delay > interval => {
                    printer::print_note("The server is reachable again. No change was missed.");
                    delay = interval;
                }
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    if delay == interval {
                        printer::print_error(&error);
                        printer::print_note("Retrying.");
                    }
                    let longer = (delay * 2).min(MAX_RETRY_DELAY.max(interval));
                    delay = error.retry_after().map_or(longer, |wait| wait.clamp(longer, MAX_RETRY_DELAY.max(longer)));
                }
                Err(error) => return Err(error),
            }
        }
    };
    tokio::select! {
        result = following => result,
        () = signals.wait_for_stop() => Ok(()),
    }
}

async fn poll_all(
    session: &ApiSession,
    followers: &mut [CheckFollower],
    line: &mut LinePrinter<'_>,
) -> Result<(), CliError> {
    for follower in followers {
        let product = follower.product;
        for mut check in follower.poll(session).await? {
            if let Some(members) = check.as_object_mut() {
                members.insert("product".to_owned(), json!(product.as_str()));
            }
            line.print(&check)?;
        }
    }
    Ok(())
}

struct LinePrinter<'a> {
    context: &'a CommandContext,
    is_first: bool,
}

impl LinePrinter<'_> {
    fn print(&mut self, check: &Value) -> Result<(), CliError> {
        self.context.printer.print_stream_item(&COLUMNS, check, self.is_first)?;
        self.is_first = false;
        Ok(())
    }
}
