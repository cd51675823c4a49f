//! The command `ringtrue verify`, which runs a verification from its creation to its end, with a simulated phone in the
//! sandbox.

use std::time::Duration;

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::{
    api::{ApiSession, check_columns, checks_path, id_field, text_field},
    argument_values::PrivateArgument,
    arguments::{PollInterval, VerifyArguments},
    context::ClientContext,
    error::CommandError,
    printer,
    trigger::{open_check_url, send_sms},
    watch::{self, is_open},
};

const PRODUCT: Product = Product::Verification;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Prefix of simulated numbers. It belongs to no country.
const SIMULATED_PREFIX: &str = "+990";

/// Creates a verification and follows it to its end. Fails unless the number is verified.
pub(crate) async fn verify(context: &ClientContext, arguments: VerifyArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let number = arguments.number.read()?;
    let sim = match &arguments.sim {
        Some(sim) => Some(PrivateArgument::read(sim)?),
        None => Some(number.clone()).filter(|number| number.starts_with(SIMULATED_PREFIX)),
    };
    let members = [
        ("phone_number", json!(number)),
        ("reference_id", json!(arguments.reference_id)),
        ("callback_url", json!(arguments.callback.callback_url)),
        ("device_ip", json!(arguments.device.device_ip)),
        ("redirect_url", json!(arguments.device.redirect_url)),
    ];
    let set = members.into_iter().chain(arguments.options.members()).filter(|(_, value)| !value.is_null());
    let body = Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
    let created = session.post(Scope::Product(PRODUCT), checks_path(PRODUCT), Some(&body), None).await?;
    let Some(sim) = sim else {
        let url = text_field(&created, "url").unwrap_or_default();
        printer::print_note(&format!("Open this page on the user's phone: {url}"));
        let id = id_field(&created).unwrap_or_default();
        let concluded = watch::watch_check(&session, PRODUCT, id, PollInterval { seconds: 1 }).await?;
        return require_match(&concluded);
    };
    let given_up: &[&str] = if arguments.no_mobile_data { &["secure_sna"] } else { &[] };
    let (mut is_first, mut failures) = (true, 0);
    let phone = SimulatedPhone { sim: &sim, given_up };
    let concluded = phone
        .follow_verification(&session, created, async |verification: &Value| {
            session.printer.print_stream_item(check_columns(PRODUCT), verification, is_first)?;
            is_first = false;
            print_failures(verification, &mut failures);
            print_next_step(verification, given_up);
            Ok(())
        })
        .await?;
    printer::print_note(describe_end(&concluded));
    require_match(&concluded)
}

fn require_match(concluded: &Value) -> Result<(), CommandError> {
    let is_match = concluded.get("match").and_then(Value::as_bool).unwrap_or_default();
    if is_match { Ok(()) } else { Err(CommandError::AlreadyReported) }
}

fn describe_end(verification: &Value) -> &'static str {
    match (text_field(verification, "status"), verification.get("match").and_then(Value::as_bool)) {
        (Some("COMPLETED"), Some(true)) => "The number is verified.",
        (Some("COMPLETED"), _) => "No match: the phone has another number.",
        (Some("EXPIRED"), _) => "The verification has expired.",
        _ if text_field(verification, "error_code") == Some("cancelled") => "The verification was cancelled.",
        _ => "The verification failed: no method led to a result.",
    }
}

/// Prints the failed steps, except the first `printed` ones, which an earlier call has printed.
fn print_failures(verification: &Value, printed: &mut usize) {
    let steps = verification.get("steps").and_then(Value::as_array).into_iter().flatten();
    for failed in steps.filter(|step| step.get("error_code").is_some()).skip(*printed) {
        let text = |name| text_field(failed, name).unwrap_or_default();
        printer::print_note(&format!("{} failed: {}", text("method"), text("error_code")));
        *printed += 1;
    }
}

/// Prints what the phone does next.
fn print_next_step(verification: &Value, given_up: &[&str]) {
    match verification.get("next_step").and_then(|step| text_field(step, "method")) {
        Some(method) if given_up.contains(&method) => printer::print_note(&format!("The phone skips {method}.")),
        Some("secure_sna") => printer::print_note("The phone opens the URL."),
        Some("reverse_sms") => printer::print_note("The phone sends the SMS."),
        _ => {}
    }
}

/// A simulated phone that acts as each step requires.
pub(crate) struct SimulatedPhone<'a> {
    pub sim: &'a str,
    /// Methods whose steps the phone gives up.
    pub given_up: &'a [&'a str],
}

impl SimulatedPhone<'_> {
    /// Acts until the verification concludes, and returns the verification. Reports the created verification and every
    /// change.
    pub(crate) async fn follow_verification(
        &self,
        session: &ApiSession,
        created: Value,
        mut report: impl AsyncFnMut(&Value) -> Result<(), CommandError>,
    ) -> Result<Value, CommandError> {
        let id = id_field(&created).unwrap_or_default().to_owned();
        report(&created).await?;
        let mut current = created;
        let mut last_step: Option<Value> = None;
        loop {
            let next_step = current.get("next_step").cloned();
            match &next_step {
                // The phone acts once for each step. If the step is still open then, it ends at its deadline.
                Some(step) if last_step != next_step => self.act(session, &id, step).await?,
                _ => sleep(POLL_INTERVAL).await,
            }
            last_step = next_step;
            let verification = session.fetch_check(PRODUCT, &id).await?;
            let has_changed = ["status", "next_step"].iter().any(|name| verification.get(name) != current.get(name));
            current = verification;
            if has_changed {
                report(&current).await?;
            }
            if !text_field(&current, "status").is_some_and(is_open) {
                return Ok(current);
            }
        }
    }

    async fn act(&self, session: &ApiSession, id: &str, step: &Value) -> Result<(), CommandError> {
        let text = |name| text_field(step, name).unwrap_or_default();
        match text("method") {
            given_up if self.given_up.contains(&given_up) => session.give_up_step(id, Some(given_up)).await.map(drop),
            "secure_sna" => match open_check_url(session, text("url"), Some(self.sim)).await {
                Ok(result) => match text_field(&result, "code") {
                    Some(code) => session.redeem_code(PRODUCT, id, code).await.map(drop),
                    // The step has failed, and the verification has moved on to the next one.
                    None => Ok(()),
                },
                Err(CommandError::OperatorSilent) => {
                    printer::print_note("The operator did not answer. The phone goes on to the next method.");
                    session.give_up_step(id, Some("secure_sna")).await.map(drop)
                }
                Err(error) if error.is_transient() => Ok(()),
                Err(error) => Err(error),
            },
            "reverse_sms" => {
                send_sms(session, self.sim, text("receiver_phone_number"), text("expected_sms_body"), &[]).await
            }
            _ => Ok(()),
        }
    }
}
