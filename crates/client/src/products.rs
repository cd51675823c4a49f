//! The commands `ringtrue verification`, `reverse-sms`, `secure-sna`, `discovery`, `sim-swap` and `eligibility`.

use clap::Subcommand;
use ringtrue_domain::{
    lifecycle::CheckId,
    product::{Product, Scope},
    verification::Method,
};
use serde_json::{Map, Value, json};

use crate::{
    api::{ApiSession, check_columns, checks_path, id_field},
    argument_values::PrivateArgument,
    arguments::{
        CallbackArguments, DeviceArguments, DiscoveryAction, EligibilityAction, NewCheck, PollInterval, ProfileOption,
        ReadAction, RedeemArguments, ReverseSmsAction, SecureSnaAction, SimSwapAction, VerificationAction,
        VerificationOptions, WithProfile,
    },
    context::ClientContext,
    error::CommandError,
    printer::Output,
    trigger::{PendingAction, PendingActions, SMS_LINK_FIELDS, add_sms_links},
    watch,
};

const NEXT_STEP_COLUMNS: [&str; 5] = ["url", "next_method", "device_url", "receiver_phone_number", "expected_sms_body"];
const ELIGIBILITY_COLUMNS: [&str; 6] =
    ["network_id", "network_name", "network_aliases", "country_code", "dialing_code", "products"];

/// An action on the checks of a product. The arguments of all product commands are converted to this type.
pub(crate) enum CheckAction {
    Create(CreateCheck),
    Redeem(RedeemArguments),
    /// Gives up the current step of a verification. With a method, only if the step uses this method.
    GiveUpStep(CheckId, Option<Method>),
    /// Cancels a verification.
    Cancel(CheckId),
    Read(ReadAction),
}

#[derive(Default)]
pub(crate) struct CreateCheck {
    new: NewCheck,
    number: Option<PrivateArgument>,
    callback: CallbackArguments,
    device: DeviceArguments,
    period: Option<u32>,
    verification: VerificationOptions,
}

impl From<ReverseSmsAction> for CheckAction {
    fn from(action: ReverseSmsAction) -> Self {
        match action {
            ReverseSmsAction::Create { number, new, callback } => {
                CheckAction::Create(CreateCheck { new, number: Some(number), callback, ..CreateCheck::default() })
            }
            ReverseSmsAction::Read(action) => CheckAction::Read(action),
        }
    }
}

impl From<SecureSnaAction> for CheckAction {
    fn from(action: SecureSnaAction) -> Self {
        match action {
            SecureSnaAction::Create { number, new, callback, device } => {
                let number = Some(number);
                CheckAction::Create(CreateCheck { new, number, callback, device, ..CreateCheck::default() })
            }
            SecureSnaAction::Redeem(arguments) => CheckAction::Redeem(arguments),
            SecureSnaAction::Read(action) => CheckAction::Read(action),
        }
    }
}

impl From<DiscoveryAction> for CheckAction {
    fn from(action: DiscoveryAction) -> Self {
        match action {
            DiscoveryAction::Create { new, callback, device } => {
                CheckAction::Create(CreateCheck { new, callback, device, ..CreateCheck::default() })
            }
            DiscoveryAction::Redeem(arguments) => CheckAction::Redeem(arguments),
            DiscoveryAction::Read(action) => CheckAction::Read(action),
        }
    }
}

impl From<SimSwapAction> for CheckAction {
    fn from(action: SimSwapAction) -> Self {
        match action {
            SimSwapAction::Create { number, new, period } => {
                CheckAction::Create(CreateCheck { new, number: Some(number), period, ..CreateCheck::default() })
            }
            SimSwapAction::Read(action) => CheckAction::Read(action),
        }
    }
}

impl From<VerificationAction> for CheckAction {
    fn from(action: VerificationAction) -> Self {
        match action {
            VerificationAction::Create { number, new, callback, device, verification } => {
                let number = Some(number);
                CheckAction::Create(CreateCheck { new, number, callback, device, period: None, verification })
            }
            VerificationAction::Next { verification, method } => CheckAction::GiveUpStep(verification, method),
            VerificationAction::Cancel { verification } => CheckAction::Cancel(verification),
            VerificationAction::Redeem(arguments) => CheckAction::Redeem(arguments),
            VerificationAction::Read(action) => CheckAction::Read(action),
        }
    }
}

impl VerificationOptions {
    /// Returns the members of the create request. Absent options are `null`.
    pub(crate) fn members(&self) -> [(&'static str, Value); 4] {
        let methods: Vec<_> = self.methods.iter().map(Method::into_str).collect();
        let methods = if methods.is_empty() { Value::Null } else { json!(methods) };
        [
            ("methods", methods),
            ("sim_swap_period", json!(self.sim_swap_period)),
            ("country", json!(self.country)),
            ("locale", json!(self.locale)),
        ]
    }
}

/// For tables and CSV, moves the fields of `next_step` into the verification itself. Its `url` becomes `device_url`.
/// The list of steps becomes one text.
pub(crate) fn flatten_next_step(mut verification: Value, output: Output) -> Value {
    let members = verification.as_object_mut().filter(|_| output != Output::Json);
    let Some(members) = members else { return verification };
    if let Some(Value::Object(step)) = members.remove("next_step") {
        members.extend(step.into_iter().map(|(name, value)| match name.as_str() {
            "method" => ("next_method".to_owned(), value),
            "url" => ("device_url".to_owned(), value),
            _ => (name, value),
        }));
    }
    if let Some(Value::Array(steps)) = members.remove("steps") {
        members.insert("steps".to_owned(), json!(steps.iter().map(describe_step).collect::<Vec<_>>().join("; ")));
    }
    verification
}

/// Describes a step by its method, status and error.
fn describe_step(step: &Value) -> String {
    let texts = ["method", "status", "error_code"].map(|name| step.get(name).and_then(Value::as_str));
    texts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

pub(crate) async fn run(
    context: &ClientContext,
    product: Product,
    WithProfile { profile_option, action }: WithProfile<impl Subcommand + Into<CheckAction>>,
) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &profile_option)?;
    let columns = check_columns(product);
    match action.into() {
        CheckAction::Create(request) => create(context, &session, product, &profile_option, request).await,
        CheckAction::Redeem(RedeemArguments { check, code }) => {
            let check = session.redeem_code(product, &check.to_string(), &code.read()?).await?;
            Ok(context.printer.print_object(columns, &check)?)
        }
        CheckAction::GiveUpStep(verification, method) => {
            let method = method.map(|method| method.into_str());
            let verification = session.give_up_step(&verification.to_string(), method).await?;
            print_check(context, product, verification)
        }
        CheckAction::Cancel(verification) => {
            print_check(context, product, session.cancel(&verification.to_string()).await?)
        }
        CheckAction::Read(ReadAction::Get { check }) => {
            print_check(context, product, session.fetch_check(product, &check.to_string()).await?)
        }
        CheckAction::Read(ReadAction::List(arguments)) => {
            session.print_list(Scope::Product(product), checks_path(product), columns, &arguments).await
        }
        CheckAction::Read(ReadAction::Watch { check: Some(check), interval }) => {
            watch::watch_check(&session, product, &check.to_string(), interval).await.map(drop)
        }
        CheckAction::Read(ReadAction::Watch { check: None, interval }) => {
            watch::watch_all(&session, product, interval).await
        }
    }
}

fn print_check(context: &ClientContext, product: Product, check: Value) -> Result<(), CommandError> {
    let check = flatten_next_step(check, context.printer.output);
    let columns = match product {
        Product::Verification => [check_columns(product), &["steps", "expires_at"], &NEXT_STEP_COLUMNS].concat(),
        _ => check_columns(product).to_vec(),
    };
    Ok(context.printer.print_object(&columns, &check)?)
}

async fn create(
    context: &ClientContext,
    session: &ApiSession,
    product: Product,
    profile_option: &ProfileOption,
    request: CreateCheck,
) -> Result<(), CommandError> {
    let CreateCheck { new, number, callback, device, period, verification } = request;
    let number = number.as_ref().map(PrivateArgument::read).transpose()?;
    let members = [
        ("phone_number", json!(number)),
        ("reference_id", json!(new.reference_id)),
        ("callback_url", json!(callback.callback_url)),
        ("device_ip", json!(device.device_ip)),
        ("redirect_url", json!(device.redirect_url)),
        ("period", json!(period)),
    ];
    let set = members.into_iter().chain(verification.members()).filter(|(_, value)| !value.is_null());
    let body = Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
    let (scope, key) = (Scope::Product(product), new.idempotency_key.as_deref());
    let created = session.post(scope, checks_path(product), Some(&body), key).await?;
    let action = PendingAction::from_created(product, number.as_deref(), &created);
    if let Some(action) = &action {
        PendingActions::open(context, profile_option)?.add(action.clone())?;
    }
    let output = add_sms_links(flatten_next_step(created, context.printer.output));
    let invitation = ["receiver_phone_number", "expected_sms_body", "url", "ttl"];
    let columns = match product {
        Product::Verification => {
            [check_columns(product), &NEXT_STEP_COLUMNS, &["ttl", "expires_at"], &SMS_LINK_FIELDS].concat()
        }
        _ => [check_columns(product), &invitation, &SMS_LINK_FIELDS].concat(),
    };
    // `--watch` prints one line for each state, beginning with the created check.
    if new.watch && context.printer.output != Output::Table {
        context.printer.print_stream_item(&columns, &output, true)?;
    } else {
        context.printer.print_object(&columns, &output)?;
    }
    if let Some(action) = &action {
        action.print_instructions(context.printer, profile_option, new.watch);
    }
    match id_field(&output) {
        Some(id) if new.watch => watch::watch_check(session, product, id, PollInterval { seconds: 1 }).await.map(drop),
        _ => Ok(()),
    }
}

/// Prints the products that can verify a number or an IP address.
pub async fn eligibility(context: &ClientContext, action: EligibilityAction) -> Result<(), CommandError> {
    let (profile_option, kind, subject) = match action {
        EligibilityAction::Number { number, profile_option } => (profile_option, "phone-numbers", number.read()?),
        EligibilityAction::Ip { ip, profile_option } => (profile_option, "device-ips", ip),
    };
    let session = ApiSession::open(context, &profile_option)?;
    let scope = Scope::Product(Product::Eligibility);
    let mut response = session.get(scope, &["v1", "eligibility", kind, &subject], &[]).await?;
    if context.printer.output != Output::Json {
        response = flatten_eligibility(&response);
    }
    Ok(context.printer.print_object(&ELIGIBILITY_COLUMNS, &response)?)
}

/// Merges the network fields and the product ids into one object.
fn flatten_eligibility(response: &Value) -> Value {
    let mut flat = response.get("network").cloned().unwrap_or_default();
    let products = response.get("products").and_then(Value::as_array).into_iter().flatten();
    let products: Vec<&Value> = products.filter_map(|product| product.get("product_id")).collect();
    if let Some(members) = flat.as_object_mut() {
        members.insert("products".to_owned(), json!(products));
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_products_are_merged() {
        let response =
            json!({"network": {"network_id": "23410"}, "products": [{"product_id": "sim_swap", "product_name": "S"}]});
        assert_eq!(flatten_eligibility(&response), json!({"network_id": "23410", "products": ["sim_swap"]}));
    }
}
