//! `ringtrue callbacks`: sending callbacks again, by check or all since a time.

use ringtrue_domain::{lifecycle::CheckId, product::Product};
use ringtrue_engine::ports::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{
    arguments::{CallbacksAction, Group, ResendArguments},
    problem::Problem,
    progress::Progress,
    session::Session,
    since::Since,
    upstream::{WITH_CALLBACKS, ended, open_products, resend},
};
use crate::cli::{
    arguments::Output,
    desk::Desk,
    failure::Failure,
    printer::{self, Record},
};

const COLUMNS: [&str; 5] = ["check_id", "product", "result", "scheduled_at", "detail"];

pub(super) async fn run(desk: &Desk, group: Group<CallbacksAction>) -> Result<(), Failure> {
    let CallbacksAction::Resend(arguments) = group.action;
    let session = Session::open(desk, &group.identity)?;
    let among = if arguments.product.is_empty() { &WITH_CALLBACKS[..] } else { &arguments.product };
    let products = open_products(&session, among).await?;
    match arguments.since {
        Some(since) => all_since(desk, &session, &products, since, &arguments).await,
        None => named(desk, &session, &products, &arguments.checks).await,
    }
}

/// What came of a check.
struct Told {
    check_id: String,
    product: Option<Product>,
    answer: Result<Value, Problem>,
}

/// It is a failure when one of them is not sent again.
async fn named(desk: &Desk, session: &Session, products: &[Product], checks: &[CheckId]) -> Result<(), Failure> {
    let mut told = vec![];
    let mut progress = Progress::begin();
    for (done, check) in checks.iter().enumerate() {
        progress.bar(done, checks.len());
        told.push(whichever(session, products, &check.to_string()).await?);
    }
    drop(progress);
    if let [Told { answer: Err(problem), .. }] = told.as_slice() {
        return Err(Failure::Problem(problem.clone()));
    }
    let is_good = told.iter().all(|one| one.answer.is_ok());
    desk.printer.list(&COLUMNS, told.into_iter().map(record).collect())?;
    if is_good { Ok(()) } else { Err(Failure::Told) }
}

/// An id does not say of which product it is.
async fn whichever(session: &Session, products: &[Product], check: &str) -> Result<Told, Failure> {
    let mut last = None;
    for product in products {
        let answer = resend(session, *product, check).await?;
        let is_found = !matches!(&answer, Err(problem) if problem.error_code == "check_not_found");
        let told = Told { check_id: check.to_owned(), product: is_found.then_some(*product), answer };
        if is_found {
            return Ok(told);
        }
        last = Some(told);
    }
    last.ok_or_else(|| Failure::refused("there is no product to look at", "Leave --product out."))
}

async fn all_since(
    desk: &Desk,
    session: &Session,
    products: &[Product],
    since: Since,
    arguments: &ResendArguments,
) -> Result<(), Failure> {
    let since = since.instant(SystemClock.now());
    let mut checks = vec![];
    for product in products {
        checks.extend(ended(session, *product, since, &arguments.status).await?);
    }
    checks.sort_by_key(|check| check.at);
    let mut told = vec![];
    let mut without = 0;
    let mut progress = Progress::begin();
    for (done, check) in checks.iter().enumerate() {
        progress.bar(done, checks.len());
        let answer = resend(session, check.product, &check.check_id).await?;
        match &answer {
            Err(problem) if problem.error_code == "callback_missing" => without += 1,
            _ => told.push(Told { check_id: check.check_id.clone(), product: Some(check.product), answer }),
        }
    }
    drop(progress);
    let sent = told.iter().filter(|one| one.answer.is_ok()).count();
    let refused = told.len() - sent;
    desk.printer.list(&COLUMNS, told.into_iter().map(record).collect())?;
    if desk.printer.output == Output::Table {
        let all = checks.len();
        let refused = if refused > 0 { format!("; {refused} refused, with the reason above") } else { String::new() };
        printer::remark(&format!(
            "{sent} sent again, of {all} checks that have ended; {without} have no callback{refused}."
        ));
    }
    Ok(())
}

fn record(told: Told) -> Record {
    let Told { check_id, product, answer } = told;
    let (result, scheduled_at, detail) = match answer {
        Ok(scheduled) => (json!("scheduled"), scheduled.get("scheduled_at").cloned().unwrap_or_default(), Value::Null),
        Err(problem) => (json!(problem.error_code), Value::Null, json!(problem.detail)),
    };
    let values = [json!(check_id), json!(product.map(Product::as_str)), result, scheduled_at, detail];
    COLUMNS.into_iter().zip(values).collect()
}
