//! The command `ringtrue callbacks`, which resends callbacks by check id or since a time.

use std::{collections::HashSet, time::Duration};

use clap::ValueEnum;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckId,
    product::{Product, Scope},
    timestamp,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    api::{ApiSession, checks_path, id_field, text_field},
    argument_values::FinalStatus,
    arguments::{CallbacksAction, WithProfile},
    context::ClientContext,
    error::{ApiProblem, CommandError},
    printer::{self, Output, Record},
    progress::Progress,
    system::{now, random_bytes},
};

const COLUMNS: [&str; 5] = ["check_id", "product", "result", "scheduled_at", "detail"];
/// Label of the progress bar.
const PROGRESS_LABEL: &str = "callbacks";
const MAX_ATTEMPTS: u32 = 4;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConcludedCheck {
    pub product: Product,
    pub check_id: String,
    pub concluded_at: Timestamp,
}

/// Result of a resend request for one check.
#[derive(Clone, Debug)]
pub(crate) enum ResendOutcome {
    Scheduled(Value),
    /// The server rejected the resend for this check. Resends for other checks may still succeed.
    Rejected(ApiProblem),
}

struct ResendResult {
    check_id: String,
    product: Option<Product>,
    outcome: ResendOutcome,
}

impl ResendResult {
    fn is_scheduled(&self) -> bool {
        matches!(self.outcome, ResendOutcome::Scheduled(_))
    }
}

pub(crate) async fn run(context: &ClientContext, command: WithProfile<CallbacksAction>) -> Result<(), CommandError> {
    let CallbacksAction::Resend(arguments) = command.action;
    let session = ApiSession::open(context, &command.profile_option)?;
    let requested = if arguments.product.is_empty() { Product::WITH_CALLBACKS } else { &arguments.product };
    let products = session.permitted_products(requested).await?;
    match arguments.since {
        Some(since) => resend_since(&session, &products, since.resolve(now()), &arguments.status).await,
        None => resend_by_id(&session, &products, &arguments.checks).await,
    }
}

/// Resends the callbacks of these checks. Fails if any callback cannot be resent.
async fn resend_by_id(session: &ApiSession, products: &[Product], checks: &[CheckId]) -> Result<(), CommandError> {
    let mut results = vec![];
    let mut progress = Progress::start();
    for (done, check) in (0..).zip(checks) {
        progress.show_bar(done, checks.len() as u64, PROGRESS_LABEL);
        results.push(resend_in_any_product(session, products, &check.to_string()).await?);
    }
    drop(progress);
    if let [ResendResult { outcome: ResendOutcome::Rejected(problem), .. }] = results.as_slice() {
        return Err(CommandError::Api(problem.clone()));
    }
    let all_resent = results.iter().all(ResendResult::is_scheduled);
    session.printer.print_list(&COLUMNS, results.into_iter().map(resend_record).collect())?;
    if all_resent { Ok(()) } else { Err(CommandError::AlreadyReported) }
}

/// Requests a resend from each product until one has the check, because a check id does not tell its product.
async fn resend_in_any_product(
    session: &ApiSession,
    products: &[Product],
    check: &str,
) -> Result<ResendResult, CommandError> {
    let mut last = None;
    for product in products {
        let outcome = resend(session, *product, check).await?;
        let is_found = !matches!(&outcome, ResendOutcome::Rejected(problem) if problem.error_code == "check_not_found");
        let result = ResendResult { check_id: check.to_owned(), product: is_found.then_some(*product), outcome };
        if is_found {
            return Ok(result);
        }
        last = Some(result);
    }
    last.ok_or_else(|| CommandError::usage("no product selected", "Omit --product."))
}

async fn resend_since(
    session: &ApiSession,
    products: &[Product],
    since: Timestamp,
    statuses: &[FinalStatus],
) -> Result<(), CommandError> {
    let checks = fetch_concluded(session, products, since, statuses).await?;
    let mut results = vec![];
    let mut without = 0;
    let mut progress = Progress::start();
    for (done, check) in (0..).zip(&checks) {
        progress.show_bar(done, checks.len() as u64, PROGRESS_LABEL);
        progress.print_occasionally(|| format!("{done} of {} {PROGRESS_LABEL}", checks.len()));
        let outcome = resend(session, check.product, &check.check_id).await?;
        match &outcome {
            ResendOutcome::Rejected(problem) if problem.error_code == "callback_missing" => without += 1,
            _ => results.push(ResendResult { check_id: check.check_id.clone(), product: Some(check.product), outcome }),
        }
    }
    drop(progress);
    let sent = results.iter().filter(|result| result.is_scheduled()).count();
    let refused = results.len() - sent;
    session.printer.print_list(&COLUMNS, results.into_iter().map(resend_record).collect())?;
    if session.printer.output == Output::Table {
        let all = checks.len();
        let refused = if refused > 0 { format!("; {refused} rejected, with the reason above") } else { String::new() };
        printer::print_note(&format!(
            "Callbacks resent: {sent}, for {all} concluded checks; {without} without a callback{refused}."
        ));
    }
    Ok(())
}

fn resend_record(ResendResult { check_id, product, outcome }: ResendResult) -> Record {
    let (outcome, scheduled_at, detail) = match outcome {
        ResendOutcome::Scheduled(body) => {
            (json!("scheduled"), body.get("scheduled_at").cloned().unwrap_or_default(), Value::Null)
        }
        ResendOutcome::Rejected(problem) => (json!(problem.error_code), Value::Null, json!(problem.detail)),
    };
    let values = [json!(check_id), json!(product.map(|product| product.into_str())), outcome, scheduled_at, detail];
    COLUMNS.into_iter().zip(values).collect()
}

/// Lists the checks of `products` that have concluded since a time, oldest first. An empty list of statuses means all.
pub(crate) async fn fetch_concluded(
    session: &ApiSession,
    products: &[Product],
    since: Timestamp,
    statuses: &[FinalStatus],
) -> Result<Vec<ConcludedCheck>, CommandError> {
    let statuses = if statuses.is_empty() { FinalStatus::value_variants() } else { statuses };
    let statuses: Vec<&str> = statuses.iter().map(FinalStatus::into_str).collect();
    let search = format!("status=in=({});updated_at=ge={}", statuses.join(","), timestamp::format(since));
    let mut concluded = vec![];
    for product in products.iter().copied() {
        let found = session.fetch_all_pages(Scope::Product(product), checks_path(product), Some(&search)).await?;
        // Drops repeated checks: if new checks arrive meanwhile, they shift others to the next page.
        let mut known = HashSet::new();
        let checks = found.iter().filter_map(|check| {
            let check_id = id_field(check)?.to_owned();
            Some(ConcludedCheck {
                product,
                check_id,
                concluded_at: timestamp::parse(text_field(check, "updated_at")?)?,
            })
        });
        concluded.extend(checks.filter(|check| known.insert(check.check_id.clone())));
    }
    concluded.sort_by_key(|check| check.concluded_at);
    Ok(concluded)
}

/// Requests one resend. Repeats the request with the same idempotency key after a temporary error.
pub(crate) async fn resend(session: &ApiSession, product: Product, check: &str) -> Result<ResendOutcome, CommandError> {
    let key = format!("{:032x}", u128::from_be_bytes(random_bytes()));
    let path = [checks_path(product), &[check, "callback-resends"]].concat();
    let mut delay = Duration::from_secs(1);
    let mut attempt = 1;
    loop {
        match session.post(Scope::Product(product), &path, None, Some(&key)).await {
            Ok(body) => return Ok(ResendOutcome::Scheduled(body)),
            Err(CommandError::Api(problem)) if matches!(problem.status, 403 | 404 | 409 | 410) => {
                return Ok(ResendOutcome::Rejected(problem));
            }
            Err(error) if error.is_transient() && attempt < MAX_ATTEMPTS => {
                sleep(error.retry_after().unwrap_or(delay).min(MAX_RETRY_DELAY)).await;
                delay *= 2;
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
