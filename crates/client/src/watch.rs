//! The commands `watch` and `ringtrue tail`, which print new and changed checks.
//!
//! Each poll reads the newest page of checks. It reads further pages until one contains a known check, so its cost does
//! not depend on the total number of checks. Open checks that are no longer on these pages are read one by one.

use std::{collections::HashMap, time::Duration};

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    api::{ApiSession, check_columns, checks_path, id_field, text_field},
    arguments::{PollInterval, TailArguments},
    context::ClientContext,
    error::CommandError,
    printer,
    progress::Progress,
    system::Signals,
};

const PAGE_SIZE: u32 = 100;
/// Maximum number of pages that a poll reads, even after a long pause.
const MAX_PAGES: u32 = 50;
/// Maximum number of open checks beyond the newest pages that a poll reads one by one.
const MAX_SINGLE_READS: usize = 50;
const MAX_CONSECUTIVE_ERRORS: u32 = 10;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
pub(crate) const WATCHING_NOTE: &str = "Watching for changes. To stop: Ctrl+C";
const TAIL_COLUMNS: [&str; 10] = [
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

/// Polls the checks of a product for changes.
#[derive(Debug)]
struct CheckFollower {
    product: Product,
    search: Option<String>,
    /// The last known status of each check, by id. `None`: there was no poll yet.
    seen: Option<HashMap<String, String>>,
}

impl CheckFollower {
    fn new(product: Product, search: Option<String>) -> Self {
        CheckFollower { product, search, seen: None }
    }

    /// Returns new and changed checks, oldest first. The first poll returns nothing: it only records the statuses with
    /// which later polls compare.
    async fn poll(&mut self, session: &ApiSession) -> Result<Vec<Value>, CommandError> {
        let newest = self.fetch_newest(session).await?;
        let mut statuses: HashMap<String, String> =
            newest.iter().map(|check| (id_of(check).to_owned(), status_of(check).to_owned())).collect();
        let Some(seen) = &self.seen else {
            self.seen = Some(statuses);
            return Ok(vec![]);
        };
        let mut changed = vec![];
        let beyond_pages = seen.iter().filter(|(id, status)| is_open(status) && !statuses.contains_key(*id));
        let mut statuses_beyond_pages = vec![];
        for (index, (id, status)) in beyond_pages.enumerate() {
            if index >= MAX_SINGLE_READS {
                statuses_beyond_pages.push((id.clone(), status.clone()));
                continue;
            }
            match session.fetch_check(self.product, id).await {
                Ok(check) => {
                    statuses_beyond_pages.push((id.clone(), status_of(&check).to_owned()));
                    if status_of(&check) != status {
                        changed.push(check);
                    }
                }
                // The check was deleted.
                Err(CommandError::Api(problem)) if problem.status == 404 => {}
                Err(other) => return Err(other),
            }
        }
        let is_changed = |check: &Value| seen.get(id_of(check)).is_none_or(|status| status != status_of(check));
        changed.extend(newest.into_iter().rev().filter(is_changed));
        statuses.extend(statuses_beyond_pages);
        self.seen = Some(statuses);
        Ok(changed)
    }

    async fn fetch_newest(&self, session: &ApiSession) -> Result<Vec<Value>, CommandError> {
        let (scope, path, search) = (Scope::Product(self.product), checks_path(self.product), self.search.as_deref());
        let mut newest: Vec<Value> = vec![];
        for number in 1..=MAX_PAGES {
            let next = session.fetch_page(scope, path, search, PAGE_SIZE, number).await?;
            let is_full = u32::try_from(next.content.len()) == Ok(PAGE_SIZE);
            let contains_known =
                |seen: &HashMap<String, String>| next.content.iter().any(|check| seen.contains_key(id_of(check)));
            let is_enough = !is_full || self.seen.as_ref().is_none_or(contains_known);
            // Drops repeated checks: if new checks arrive meanwhile, they shift others to the next page.
            for check in next.content {
                if newest.iter().rev().take(PAGE_SIZE as usize).all(|earlier| id_of(earlier) != id_of(&check)) {
                    newest.push(check);
                }
            }
            if is_enough {
                break;
            }
        }
        Ok(newest)
    }
}

/// Counts consecutive transient errors.
#[derive(Default)]
pub(crate) struct TransientErrors {
    count: u32,
}

impl TransientErrors {
    pub(crate) fn retry_if_transient<T>(&mut self, result: Result<T, CommandError>) -> Result<Option<T>, CommandError> {
        match result {
            Ok(result) => {
                self.count = 0;
                Ok(Some(result))
            }
            Err(error) if error.is_transient() && self.count < MAX_CONSECUTIVE_ERRORS => {
                self.count += 1;
                if self.count == 1 {
                    print_retry(&error);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Prints the status changes of a check until it concludes, and returns it. Fails unless the check completes.
pub(crate) async fn watch_check(
    session: &ApiSession,
    product: Product,
    id: &str,
    interval: PollInterval,
) -> Result<Value, CommandError> {
    let began = Instant::now();
    let mut progress = Progress::start();
    let mut transient_errors = TransientErrors::default();
    let mut status: Option<String> = None;
    loop {
        if let Some(check) = transient_errors.retry_if_transient(session.fetch_check(product, id).await)? {
            if status.as_deref() != Some(status_of(&check)) {
                let is_first = status.is_none();
                progress.suspend(|| session.printer.print_stream_item(check_columns(product), &check, is_first))?;
            }
            match status_of(&check) {
                "COMPLETED" => return Ok(check),
                open if is_open(open) => status = Some(open.to_owned()),
                _ => return Err(CommandError::AlreadyReported),
            }
        }
        progress.show(&format!("{} for {} s", status.as_deref().unwrap_or("waiting"), began.elapsed().as_secs()));
        sleep(Duration::from_secs(interval.seconds)).await;
    }
}

/// Prints every new or changed check of a product.
pub(crate) async fn watch_all(
    session: &ApiSession,
    product: Product,
    interval: PollInterval,
) -> Result<(), CommandError> {
    run_until_stopped(async {
        let mut follower = CheckFollower::new(product, None);
        let mut transient_errors = TransientErrors::default();
        let (mut is_baseline_read, mut is_first) = (false, true);
        loop {
            if let Some(changed) = transient_errors.retry_if_transient(follower.poll(session).await)? {
                for check in changed {
                    session.printer.print_stream_item(check_columns(product), &check, is_first)?;
                    is_first = false;
                }
                if !is_baseline_read {
                    printer::print_note(WATCHING_NOTE);
                    is_baseline_read = true;
                }
            }
            sleep(Duration::from_secs(interval.seconds)).await;
        }
    })
    .await
}

/// Prints every new or changed check of several products.
pub(crate) async fn tail(context: &ClientContext, arguments: TailArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?.with_background_reads();
    let requested = if arguments.product.is_empty() { Product::WITH_CHECKS } else { &arguments.product };
    run_until_stopped(async {
        let products = session.permitted_products(requested).await?;
        let mut followers: Vec<CheckFollower> =
            products.into_iter().map(|product| CheckFollower::new(product, arguments.search.clone())).collect();
        let mut is_first = true;
        // The first poll does not retry, so that an invalid search or credential fails immediately.
        poll_all(&session, &mut followers, &mut is_first).await?;
        printer::print_note(WATCHING_NOTE);
        let interval = Duration::from_secs(arguments.interval.seconds);
        let mut delay = interval;
        loop {
            sleep(delay).await;
            match poll_all(&session, &mut followers, &mut is_first).await {
                Ok(()) if delay > interval => {
                    printer::print_note("The server is reachable again. No change was missed.");
                    delay = interval;
                }
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    if delay == interval {
                        print_retry(&error);
                    }
                    let longer = (delay * 2).min(MAX_RETRY_DELAY.max(interval));
                    delay = error.retry_after().map_or(longer, |wait| wait.clamp(longer, MAX_RETRY_DELAY.max(longer)));
                }
                Err(error) => return Err(error),
            }
        }
    })
    .await
}

async fn poll_all(
    session: &ApiSession,
    followers: &mut [CheckFollower],
    is_first: &mut bool,
) -> Result<(), CommandError> {
    for follower in followers {
        let product = json!(follower.product.into_str());
        for mut check in follower.poll(session).await? {
            // Puts ids of verifications in the same column as check ids.
            let id = json!(id_of(&check));
            if let Some(members) = check.as_object_mut() {
                members.insert("product".to_owned(), product.clone());
                members.insert("check_id".to_owned(), id);
            }
            session.printer.print_stream_item(&TAIL_COLUMNS, &check, *is_first)?;
            *is_first = false;
        }
    }
    Ok(())
}

pub(crate) async fn run_until_stopped(
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    let mut signals = Signals::listen().map_err(CommandError::other)?;
    tokio::select! {
        result = work => result,
        () = signals.wait_for_stop() => Ok(()),
    }
}

fn print_retry(error: &CommandError) {
    printer::print_error(error);
    printer::print_note("Retrying.");
}

fn status_of(check: &Value) -> &str {
    text_field(check, "status").unwrap_or_default()
}

fn id_of(check: &Value) -> &str {
    id_field(check).unwrap_or_default()
}

pub(crate) fn is_open(status: &str) -> bool {
    matches!(status, "ACCEPTED" | "PENDING")
}
