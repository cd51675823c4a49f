//! `ringtrue callbacks`: resends callbacks by check id or since a time.

use ringtrue_domain::{lifecycle::CheckId, product::Product};
use ringtrue_engine::ports::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{
    api_problem::ApiProblem,
    api_session::ApiSession,
    arguments::{CallbacksAction, ResendArguments, WithProfile},
    progress::Progress,
    since::Since,
    upstream::{PRODUCTS_WITH_CALLBACKS, fetch_concluded, permitted_products, resend},
};
use crate::cli::{
    arguments::Output,
    context::CommandContext,
    error::CliError,
    printer::{self, Record},
};

const COLUMNS: [&str; 5] = ["check_id", "product", "result", "scheduled_at", "detail"];

pub(super) async fn run(context: &CommandContext, command: WithProfile<CallbacksAction>) -> Result<(), CliError> {
    let CallbacksAction::Resend(arguments) = command.action;
    let session = ApiSession::open(context, &command.profile_option)?;
    let requested = if arguments.product.is_empty() { &PRODUCTS_WITH_CALLBACKS[..] } else { &arguments.product };
    let products = permitted_products(&session, requested).await?;
    match arguments.since {
        Some(since) => resend_since(context, &session, &products, since, &arguments).await,
        None => resend_by_id(context, &session, &products, &arguments.checks).await,
    }
}

struct ResendResult {
    check_id: String,
    product: Option<Product>,
    outcome: Result<Value, ApiProblem>,
}

/// Fails if any callback cannot be resent.
async fn resend_by_id(
    context: &CommandContext,
    session: &ApiSession,
    products: &[Product],
    checks: &[CheckId],
) -> Result<(), CliError> {
    let mut results = vec![];
    let mut progress = Progress::start();
    for (done, check) in checks.iter().enumerate() {
        progress.show_bar(done, checks.len());
        results.push(resend_in_any_product(session, products, &check.to_string()).await?);
    }
    drop(progress);
    if let [ResendResult { outcome: Err(problem), .. }] = results.as_slice() {
        return Err(CliError::Api(problem.clone()));
    }
    let all_resent = results.iter().all(|one| one.outcome.is_ok());
    context.printer.print_list(&COLUMNS, results.into_iter().map(resend_record).collect())?;
    if all_resent { Ok(()) } else { Err(CliError::AlreadyReported) }
}

/// Tries every product, since a check id does not name its product.
async fn resend_in_any_product(
    session: &ApiSession,
    products: &[Product],
    check: &str,
) -> Result<ResendResult, CliError> {
    let mut last = None;
    for product in products {
        let outcome = resend(session, *product, check).await?;
        let is_found = !matches!(&outcome, Err(problem) if problem.error_code == "check_not_found");
        let result = ResendResult { check_id: check.to_owned(), product: is_found.then_some(*product), outcome };
        if is_found {
            return Ok(result);
        }
        last = Some(result);
    }
    last.ok_or_else(|| CliError::with_hint("no product selected", "Omit --product."))
}

async fn resend_since(
    context: &CommandContext,
    session: &ApiSession,
    products: &[Product],
    since: Since,
    arguments: &ResendArguments,
) -> Result<(), CliError> {
    let since = since.resolve(SystemClock.now());
    let mut checks = vec![];
    for product in products {
        checks.extend(fetch_concluded(session, *product, since, &arguments.status).await?);
    }
    checks.sort_by_key(|check| check.concluded_at);
    let mut results = vec![];
    let mut without = 0;
    let mut progress = Progress::start();
    for (done, check) in checks.iter().enumerate() {
        progress.show_bar(done, checks.len());
        let outcome = resend(session, check.product, &check.check_id).await?;
        match &outcome {
            Err(problem) if problem.error_code == "callback_missing" => without += 1,
            _ => results.push(ResendResult { check_id: check.check_id.clone(), product: Some(check.product), outcome }),
        }
    }
    drop(progress);
    let sent = results.iter().filter(|one| one.outcome.is_ok()).count();
    let refused = results.len() - sent;
    context.printer.print_list(&COLUMNS, results.into_iter().map(resend_record).collect())?;
    if context.printer.output == Output::Table {
        let all = checks.len();
        let refused = if refused > 0 { format!("; {refused} rejected, with the reason above") } else { String::new() };
        printer::print_note(&format!(
            "{sent} callbacks resent for {all} concluded checks; {without} without a callback{refused}."
        ));
    }
    Ok(())
}

fn resend_record(result: ResendResult) -> Record {
    let ResendResult { check_id, product, outcome } = result;
    let (outcome, scheduled_at, detail) = match outcome {
        Ok(scheduled) => (json!("scheduled"), scheduled.get("scheduled_at").cloned().unwrap_or_default(), Value::Null),
        Err(problem) => (json!(problem.error_code), Value::Null, json!(problem.detail)),
    };
    let values = [json!(check_id), json!(product.map(Product::as_str)), outcome, scheduled_at, detail];
    COLUMNS.into_iter().zip(values).collect()
}
