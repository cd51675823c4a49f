//! `ringtrue trigger`: performs the user action of a check with a simulated phone.

use http::{HeaderMap, HeaderValue, Method, header::ACCEPT, header::LOCATION};
use ringtrue_domain::{
    product::{Product, Scope},
    web_url::RESULT_PARAMETERS,
};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    api_problem::ApiProblem,
    api_session::ApiSession,
    arguments::TriggerArguments,
    checks::{check_columns, command_name, fetch_check, redeem_code},
    pending_actions::{PendingActions, UserAction},
    sms_fault::{SmsFault, render_faults},
};
use crate::cli::{
    arguments::Output, context::CommandContext, error::CliError, printer, stdin_argument::argument_or_stdin,
};

/// More than any redirect chain of a device has.
const MAX_REDIRECTS: usize = 10;
const RESULT_FIELDS: [&str; 5] = RESULT_PARAMETERS;

pub(super) async fn trigger(context: &CommandContext, arguments: TriggerArguments) -> Result<(), CliError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let actions = PendingActions::open(context, &arguments.profile_option)?;
    let action = actions.find(arguments.check)?;
    let product = action.product().unwrap_or(Product::ReverseSms);
    let sim = arguments.sim.map(|sim| argument_or_stdin(&sim.0)).transpose()?;
    match &action.task {
        UserAction::Text { .. } if arguments.redeem => {
            Err(CliError::with_hint("Reverse SMS checks have no code to redeem", "Omit --redeem."))
        }
        UserAction::Text { to, body } => {
            let from = sim.or_else(|| action.number.clone()).unwrap_or_default();
            send_sms(&session, &from, to, body, &arguments.fault).await?;
            let check = fetch_check(&session, product, &action.check_id).await?;
            context.printer.print_object(check_columns(product), &check)?;
            let has_failed = ["ERROR", "EXPIRED"].iter().any(|status| check["status"] == *status);
            if has_failed { Err(CliError::AlreadyReported) } else { Ok(()) }
        }
        UserAction::Open { .. } if !arguments.fault.is_empty() => Err(CliError::with_hint(
            "--fault applies to SMS, which this check does not use",
            "Use a --sim whose last digits select the outcome: …99 fails, …95 is too late, …98 never responds.",
        )),
        UserAction::Open { url } => {
            let result = open_check_url(&session, url, sim.as_deref()).await?;
            match result.get("code").and_then(Value::as_str) {
                Some(code) if arguments.redeem => {
                    let check = redeem_code(&session, product, &action.check_id, code).await?;
                    Ok(context.printer.print_object(check_columns(product), &check)?)
                }
                code => {
                    context.printer.print_object(&RESULT_FIELDS, &result)?;
                    if let Some(code) = code
                        && context.printer.output == Output::Table
                    {
                        let redeem = format!("ringtrue {} redeem {} {code}", command_name(product), action.check_id);
                        printer::print_note(&format!("\nTo redeem the code: {redeem}"));
                    }
                    if result.get("error").is_some() { Err(CliError::AlreadyReported) } else { Ok(()) }
                }
            }
        }
    }
}

/// Sends an SMS from a simulated phone.
pub(super) async fn send_sms(
    session: &ApiSession,
    from: &str,
    to: &str,
    body: &str,
    faults: &[SmsFault],
) -> Result<(), CliError> {
    let mut sms = json!({"from": from, "to": to, "body": body});
    if let Some(members) = sms.as_object_mut().filter(|_| !faults.is_empty()) {
        members.insert("faults".to_owned(), render_faults(faults));
    }
    let scope = Scope::Product(Product::ReverseSms);
    session.post(scope, &["v1", "sandbox", "inbound-sms"], &sms).await.map(drop)
}

/// Follows the URL of a check as a device does, and returns the result parameters.
pub(super) async fn open_check_url(session: &ApiSession, url: &str, sim: Option<&str>) -> Result<Value, CliError> {
    let invalid_url = |error: url::ParseError| CliError::Other(error.into());
    let mut url: Url = url.parse().map_err(invalid_url)?;
    if let Some(sim) = sim {
        url.query_pairs_mut().append_pair("sim", sim);
    }
    let server_origin = session.client.base_url.origin();
    for _ in 0..MAX_REDIRECTS {
        // The application's redirect URL: its query carries the result.
        if url.origin() != server_origin {
            return Ok(result_fields(&url));
        }
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let response = session.client.send(Method::GET, &url, headers, vec![]).await?;
        match response.headers.get(LOCATION).and_then(|location| location.to_str().ok()) {
            Some(location) if (300..400).contains(&response.status) => url = url.join(location).map_err(invalid_url)?,
            _ => {
                let result = serde_json::from_slice::<Value>(&response.body)
                    .ok()
                    .filter(|result| result.get("check_id").is_some());
                return result
                    .ok_or_else(|| CliError::Api(ApiProblem::from_response(&response, &session.client.base_url)));
            }
        }
    }
    Err(CliError::with_hint("too many redirects", "Report this to the operator of the server."))
}

fn result_fields(url: &Url) -> Value {
    let pairs = url.query_pairs().filter(|(name, _)| RESULT_FIELDS.contains(&&**name));
    Value::Object(pairs.map(|(name, value)| (name.into_owned(), json!(value))).collect::<Map<_, _>>())
}
