//! `ringtrue trigger`: what the user of a check does, done by a simulated phone.

use http::{HeaderMap, HeaderValue, Method, header::ACCEPT, header::LOCATION};
use ringtrue_domain::{
    product::{Product, Scope},
    web_url::RESULT_PARAMETERS,
};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    arguments::TriggerArguments,
    checks::{check, columns, command, redeemed},
    fault::{Fault, faults},
    memory::{Memory, Task},
    problem::Problem,
    session::Session,
};
use crate::cli::{arguments::Output, desk::Desk, failure::Failure, printer, typed::typed};

/// More than the way of any device has.
const MOST_HOPS: usize = 10;
/// What a device has at the end of its way.
const END: [&str; 5] = RESULT_PARAMETERS;

pub(super) async fn trigger(desk: &Desk, arguments: TriggerArguments) -> Result<(), Failure> {
    let session = Session::open(desk, &arguments.identity)?;
    let memory = Memory::open(desk, &arguments.identity)?;
    let errand = memory.recall(arguments.check)?;
    let product = errand.product().unwrap_or(Product::ReverseSms);
    let sim = arguments.sim.map(|sim| typed(&sim.0)).transpose()?;
    match &errand.task {
        Task::Text { .. } if arguments.redeem => {
            Err(Failure::refused("there is no code to redeem at the end of Reverse SMS", "Leave --redeem out."))
        }
        Task::Text { to, body } => {
            let from = sim.or_else(|| errand.number.clone()).unwrap_or_default();
            text(&session, &from, to, body, &arguments.fault).await?;
            let check = check(&session, product, &errand.check_id).await?;
            desk.printer.object(columns(product), &check)?;
            let has_failed = ["ERROR", "EXPIRED"].iter().any(|status| check["status"] == *status);
            if has_failed { Err(Failure::Told) } else { Ok(()) }
        }
        Task::Open { .. } if !arguments.fault.is_empty() => Err(Failure::refused(
            "--fault is for SMS, and this check has none",
            "Take a --sim whose last digits say what happens: …99 fails, …95 comes too late, …98 never answers.",
        )),
        Task::Open { url } => {
            let end = open(&session, url, sim.as_deref()).await?;
            match end.get("code").and_then(Value::as_str) {
                Some(code) if arguments.redeem => {
                    let check = redeemed(&session, product, &errand.check_id, code).await?;
                    Ok(desk.printer.object(columns(product), &check)?)
                }
                code => {
                    desk.printer.object(&END, &end)?;
                    if let Some(code) = code
                        && desk.printer.output == Output::Table
                    {
                        let redeem = format!("ringtrue {} redeem {} {code}", command(product), errand.check_id);
                        printer::remark(&format!("\nTo redeem the code: {redeem}"));
                    }
                    if end.get("error").is_some() { Err(Failure::Told) } else { Ok(()) }
                }
            }
        }
    }
}

/// Has a simulated phone send an SMS.
pub(super) async fn text(
    session: &Session,
    from: &str,
    to: &str,
    body: &str,
    befalling: &[Fault],
) -> Result<(), Failure> {
    let mut sms = json!({"from": from, "to": to, "body": body});
    if let Some(members) = sms.as_object_mut().filter(|_| !befalling.is_empty()) {
        members.insert("faults".to_owned(), faults(befalling));
    }
    let scope = Scope::Product(Product::ReverseSms);
    session.post(scope, &["v1", "sandbox", "inbound-sms"], &sms).await.map(drop)
}

/// Opens the URL of a check as a device does, and gives what it has at the end of its way.
pub(super) async fn open(session: &Session, url: &str, sim: Option<&str>) -> Result<Value, Failure> {
    let nowhere = |problem: url::ParseError| Failure::Failed(problem.into());
    let mut url: Url = url.parse().map_err(nowhere)?;
    if let Some(sim) = sim {
        url.query_pairs_mut().append_pair("sim", sim);
    }
    let home = session.server.base_url.origin();
    for _ in 0..MOST_HOPS {
        // It belongs to someone else, whom the phone would tell by it how it went.
        if url.origin() != home {
            return Ok(members_of(&url));
        }
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let answer = session.server.send(Method::GET, &url, headers, vec![]).await?;
        match answer.headers.get(LOCATION).and_then(|location| location.to_str().ok()) {
            Some(location) if (300..400).contains(&answer.status) => url = url.join(location).map_err(nowhere)?,
            _ => {
                let end =
                    serde_json::from_slice::<Value>(&answer.body).ok().filter(|end| end.get("check_id").is_some());
                return end.ok_or_else(|| Failure::Problem(Problem::of(&answer, &session.server.base_url)));
            }
        }
    }
    Err(Failure::refused("the phone is sent from place to place without an end", "Tell the operator of the server."))
}

fn members_of(url: &Url) -> Value {
    let pairs = url.query_pairs().filter(|(name, _)| END.contains(&&**name));
    Value::Object(pairs.map(|(name, value)| (name.into_owned(), json!(value))).collect::<Map<_, _>>())
}
