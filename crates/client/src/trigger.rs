//! `ringtrue trigger`: does with a simulated phone what the user of a check must do. The command that creates a check
//! saves and prints this action.

use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, LOCATION},
};
use ringtrue_domain::{
    lifecycle::CheckId,
    phone::Msisdn,
    product::{Product, Scope},
    reverse_sms::{Platform, sms_link},
    tenancy::Mode,
    web_url::RESULT_PARAMETERS,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use crate::{
    api::{ApiSession, check_columns, id_field, text_field},
    argument_values::{PrivateArgument, ProfileName, SmsFault, render_faults},
    arguments::{ProfileOption, TriggerArguments},
    context::{ClientContext, ConfigDir},
    error::CommandError,
    printer::{self, Output, Printer},
    profile::{file_name, resolve_profile},
    system::now,
};

const MAX_PENDING_ACTIONS: usize = 50;
/// Maximum number of redirects to follow. Exceeds the length of every redirect chain.
const MAX_REDIRECTS: usize = 10;
/// Path of the simulated operator on the server.
const SANDBOX_OPERATOR_PATH: &str = "/v1/sandbox/operator/authorize";
const RESULT_FIELDS: [&str; 6] = RESULT_PARAMETERS;
/// Fields added to the response: links that open the SMS app. Android and iOS need different link formats.
pub(crate) const SMS_LINK_FIELDS: [&str; 2] = ["android_link", "ios_link"];

/// The action that the user of a check must take. It is saved, because the server returns it only on creation. `Debug`
/// is masked, because it contains numbers and codes.
#[derive(Clone, derive_more::Debug, Serialize, Deserialize)]
#[debug("PendingAction({product} {check_id})")]
pub(crate) struct PendingAction {
    check_id: String,
    product: String,
    /// The claimed number. `None`: a Discovery check, which has no claimed number.
    number: Option<String>,
    task: UserAction,
    /// When the check expires, in seconds since 1970.
    expires_at: i64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UserAction {
    Text { to: String, body: String },
    Open { url: String },
}

impl UserAction {
    /// Reads the action from a created check, or from the next step of a verification. `None`: the user does not have
    /// to act.
    fn from_instructions(instructions: &Value) -> Option<Self> {
        let text = |name: &str| text_field(instructions, name).map(str::to_owned);
        match (text("receiver_phone_number"), text("expected_sms_body"), text("url")) {
            (Some(to), Some(body), _) => Some(UserAction::Text { to, body }),
            (_, _, Some(url)) => Some(UserAction::Open { url }),
            _ => None,
        }
    }
}

impl PendingAction {
    /// Reads the action from the response to a create request. `None`: the user does not have to act.
    pub(crate) fn from_created(product: Product, number: Option<&str>, created: &Value) -> Option<Self> {
        let ttl = created.get("ttl").and_then(Value::as_i64).unwrap_or(0);
        Some(PendingAction {
            check_id: id_field(created)?.to_owned(),
            product: product.into_str().to_owned(),
            number: number.map(str::to_owned),
            task: UserAction::from_instructions(created.get("next_step").unwrap_or(created))?,
            expires_at: now().as_second() + ttl,
        })
    }

    fn product(&self) -> Option<Product> {
        self.product.parse().ok()
    }

    /// Prints the instructions for the user, if the output is a table.
    pub(crate) fn print_instructions(&self, printer: Printer, profile_option: &ProfileOption, is_watched: bool) {
        if printer.output != Output::Table {
            return;
        }
        // Adds the profile, so that the printed commands can be pasted.
        let profile = profile_option.profile.as_ref().map_or_else(String::new, |name| format!(" --profile {name}"));
        let id = format!("{}{profile}", self.check_id);
        let instruction = match &self.task {
            UserAction::Text { to, body } => format!("The user must text `{body}` to {to} from the claimed number."),
            UserAction::Open { .. } => "The user's phone must open the URL over mobile data.".to_owned(),
        };
        let watch = match self.product() {
            Some(product) if !is_watched => {
                format!("\nTo watch the check: ringtrue {} watch {id}", product.facts().command)
            }
            _ => String::new(),
        };
        printer::print_note(&format!("\n{instruction}\nIn the sandbox, run: ringtrue trigger {id}{watch}"));
    }
}

/// The saved actions of a profile, oldest first.
#[derive(Debug)]
pub(crate) struct PendingActions {
    dir: ConfigDir,
    file: String,
    actions: Vec<PendingAction>,
}

impl PendingActions {
    pub(crate) fn open(context: &ClientContext, profile_option: &ProfileOption) -> Result<Self, CommandError> {
        let (dir, file) = (open_dir(context)?, file_name(&resolve_profile(context, profile_option)?));
        let actions = dir.read_json(&file)?.unwrap_or_default();
        Ok(PendingActions { dir, file, actions })
    }

    pub(crate) fn add(mut self, action: PendingAction) -> Result<(), CommandError> {
        let now = now().as_second();
        self.actions.retain(|earlier| earlier.expires_at > now && earlier.check_id != action.check_id);
        self.actions.push(action);
        let excess = self.actions.len().saturating_sub(MAX_PENDING_ACTIONS);
        self.actions.drain(..excess);
        self.dir.write_json(&self.file, &self.actions)
    }

    /// Finds the action of a check, or the most recent action if no check is given.
    fn find(&self, check: Option<CheckId>) -> Result<&PendingAction, CommandError> {
        let check_id = check.map(|check| check.to_string());
        let found = self.actions.iter().rev().find(|action| check_id.as_ref().is_none_or(|id| *id == action.check_id));
        found.ok_or_else(|| {
            let message = match check {
                Some(_) => "this check was not created with this profile, or has expired",
                None => "no recent check in this profile",
            };
            CommandError::failed(message, "Create one, for example: ringtrue reverse-sms create +990123456700")
        })
    }

    pub(crate) fn delete_all(context: &ClientContext, name: &ProfileName) -> Result<(), CommandError> {
        open_dir(context)?.remove(&file_name(name)).map(drop)
    }
}

fn open_dir(context: &ClientContext) -> Result<ConfigDir, CommandError> {
    ConfigDir::open(context, "errands")
}

pub(crate) fn add_sms_links(mut created: Value) -> Value {
    let text = |name: &str| text_field(&created, name).map(str::to_owned);
    if let (Some(to), Some(body)) = (text("receiver_phone_number"), text("expected_sms_body"))
        // Sandbox mode accepts both simulated and real numbers.
        && let Ok(to) = Msisdn::parse(&to, Mode::Sandbox)
    {
        for (name, platform) in SMS_LINK_FIELDS.into_iter().zip([Platform::Android, Platform::Ios]) {
            created[name] = json!(sms_link(&to, &body, platform));
        }
    }
    created
}

pub(crate) async fn trigger(context: &ClientContext, arguments: TriggerArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let actions = PendingActions::open(context, &arguments.profile_option)?;
    let action = actions.find(arguments.check)?;
    let product = action.product().unwrap_or(Product::ReverseSms);
    let sim = arguments.sim.as_ref().map(PrivateArgument::read).transpose()?;
    // A verification may be at another step than the saved one.
    let next_task = match product {
        Product::Verification => Some(fetch_current_action(&session, &action.check_id).await?),
        _ => None,
    };
    match next_task.as_ref().unwrap_or(&action.task) {
        UserAction::Text { .. } if arguments.redeem => {
            Err(CommandError::usage("Reverse SMS checks have no code to redeem", "Omit --redeem."))
        }
        UserAction::Text { to, body } => {
            let from = sim.or_else(|| action.number.clone()).unwrap_or_default();
            send_sms(&session, &from, to, body, &arguments.fault).await?;
            let check = session.fetch_check(product, &action.check_id).await?;
            context.printer.print_object(check_columns(product), &check)?;
            let has_failed = ["ERROR", "EXPIRED"].iter().any(|status| check["status"] == *status);
            if has_failed { Err(CommandError::AlreadyReported) } else { Ok(()) }
        }
        UserAction::Open { .. } if !arguments.fault.is_empty() => Err(CommandError::usage(
            "--fault applies to SMS, which this check does not use",
            "Use a --sim whose last digits select the outcome: …99 fails, …95 is too late, …98 never responds.",
        )),
        UserAction::Open { url } => {
            let result = open_check_url(&session, url, sim.as_deref()).await?;
            match text_field(&result, "code") {
                Some(code) if arguments.redeem => {
                    let check = session.redeem_code(product, &action.check_id, code).await?;
                    Ok(context.printer.print_object(check_columns(product), &check)?)
                }
                code => {
                    context.printer.print_object(&RESULT_FIELDS, &result)?;
                    if let Some(code) = code
                        && context.printer.output == Output::Table
                    {
                        let redeem = format!("ringtrue {} redeem {} {code}", product.facts().command, action.check_id);
                        printer::print_note(&format!("\nTo redeem the code: {redeem}"));
                    }
                    if result.get("error").is_some() { Err(CommandError::AlreadyReported) } else { Ok(()) }
                }
            }
        }
    }
}

/// Fetches what the current step of a verification requires.
async fn fetch_current_action(session: &ApiSession, verification: &str) -> Result<UserAction, CommandError> {
    let verification = session.fetch_check(Product::Verification, verification).await?;
    verification.get("next_step").and_then(UserAction::from_instructions).ok_or_else(|| {
        let status = text_field(&verification, "status").unwrap_or_default();
        CommandError::failed(
            format!("this verification requires no action of the user: its status is {status}"),
            "Create one, for example: ringtrue verification create +990123456700",
        )
    })
}

/// Sends an SMS from a simulated phone.
pub(crate) async fn send_sms(
    session: &ApiSession,
    from: &str,
    to: &str,
    body: &str,
    faults: &[SmsFault],
) -> Result<(), CommandError> {
    let mut sms = json!({"from": from, "to": to, "body": body});
    if !faults.is_empty() {
        sms["faults"] = render_faults(faults);
    }
    let scope = Scope::Product(Product::ReverseSms);
    session.post(scope, &["v1", "sandbox", "inbound-sms"], Some(&sms), None).await.map(drop)
}

/// Follows the URL of a check through all redirects, as a device does. Returns the result of the check, which is in the
/// parameters of the final redirect. Fails with [`CommandError::OperatorSilent`] if the operator does not answer.
pub(crate) async fn open_check_url(session: &ApiSession, url: &str, sim: Option<&str>) -> Result<Value, CommandError> {
    let mut url: Url = url.parse().map_err(CommandError::other)?;
    if let Some(sim) = sim {
        url.query_pairs_mut().append_pair("sim", sim);
    }
    let server_origin = session.base_url().origin();
    for _ in 0..MAX_REDIRECTS {
        // The redirect has reached the application's URL, whose query has the result.
        if url.origin() != server_origin {
            return Ok(result_fields(&url));
        }
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let is_operator = url.path() == SANDBOX_OPERATOR_PATH;
        let response = match session.send(Method::GET, &url, headers, vec![]).await {
            Err(error) if is_operator && error.is_transient() => return Err(CommandError::OperatorSilent),
            Ok(response) if is_operator && response.status >= 500 => return Err(CommandError::OperatorSilent),
            response => response?,
        };
        match response.headers.get(LOCATION).and_then(|location| location.to_str().ok()) {
            Some(location) if (300..400).contains(&response.status) => {
                url = url.join(location).map_err(CommandError::other)?;
            }
            _ => {
                let result = serde_json::from_slice::<Value>(&response.body).ok();
                let result = result.filter(|result| result.get("check_id").is_some());
                return result.ok_or_else(|| session.problem(&response));
            }
        }
    }
    Err(CommandError::failed("too many redirects", "Report this to the server's operator."))
}

fn result_fields(url: &Url) -> Value {
    let pairs = url.query_pairs().filter(|(name, _)| RESULT_FIELDS.contains(&&**name));
    Value::Object(pairs.map(|(name, value)| (name.into_owned(), json!(value))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sms_links_are_added_for_android_and_ios() {
        let created = json!({"receiver_phone_number": "+99000000001", "expected_sms_body": "VERIFY 7K3QX9M20D"});
        let output = add_sms_links(created);
        assert_eq!(output["android_link"], "sms:+99000000001?body=VERIFY%207K3QX9M20D");
        assert_eq!(output["ios_link"], "sms:+99000000001&body=VERIFY%207K3QX9M20D");
        assert_eq!(add_sms_links(json!({"url": "x"})), json!({"url": "x"}));
    }
}
