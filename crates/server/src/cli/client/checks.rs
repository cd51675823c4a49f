//! `ringtrue reverse-sms`, `secure-sna`, `discovery` and `sim-swap`.

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Map, Value, json};

use super::{
    api_session::ApiSession,
    arguments::{
        CallbackArguments, DeviceArguments, DiscoveryAction, NewCheck, Number, PollInterval, ProfileOption, ReadAction,
        RedeemArguments, ReverseSmsAction, SecureSnaAction, SimSwapAction, WithProfile,
    },
    instructions,
    list::print_list,
    pending_actions::{PendingAction, PendingActions},
    watch,
};
use crate::cli::{arguments::Output, context::CommandContext, error::CliError, stdin_argument::argument_or_stdin};

/// API path of the checks of a product.
pub(super) fn checks_path(product: Product) -> &'static [&'static str] {
    match product {
        Product::ReverseSms => &["v1", "number-verification", "reverse-sms-checks"],
        Product::SecureSna => &["v1", "number-verification", "secure-sna-checks"],
        Product::Discovery => &["v1", "number-verification", "discovery-checks"],
        Product::SimSwap => &["v1", "sim-swap-checks"],
        // Has no checks.
        Product::Eligibility => &["v1", "eligibility"],
    }
}

/// Columns of tables and CSV.
pub(super) fn check_columns(product: Product) -> &'static [&'static str] {
    match product {
        Product::ReverseSms => {
            &["check_id", "status", "match", "error_code", "reference_id", "created_at", "updated_at"]
        }
        Product::SecureSna => {
            &["check_id", "status", "match", "network_id", "error_code", "reference_id", "created_at", "updated_at"]
        }
        Product::Discovery => &[
            "check_id",
            "status",
            "phone_number",
            "network_id",
            "error_code",
            "reference_id",
            "created_at",
            "updated_at",
        ],
        Product::SimSwap | Product::Eligibility => &[
            "check_id",
            "status",
            "no_sim_change",
            "no_sim_change_period",
            "sim_change_within",
            "network_id",
            "error_code",
            "reference_id",
            "created_at",
        ],
    }
}

pub(super) fn command_name(product: Product) -> &'static str {
    match product {
        Product::ReverseSms => "reverse-sms",
        Product::SecureSna => "secure-sna",
        Product::Discovery => "discovery",
        Product::SimSwap => "sim-swap",
        Product::Eligibility => "eligibility",
    }
}

struct CreateRequest {
    product: Product,
    number: Option<Number>,
    new: NewCheck,
    callback: Option<CallbackArguments>,
    device: Option<DeviceArguments>,
    period: Option<u32>,
}

pub(super) async fn reverse_sms(
    context: &CommandContext,
    command: WithProfile<ReverseSmsAction>,
) -> Result<(), CliError> {
    let product = Product::ReverseSms;
    match command.action {
        ReverseSmsAction::Create { number, new, callback } => {
            let (number, callback) = (Some(number), Some(callback));
            create(
                context,
                &command.profile_option,
                CreateRequest { product, number, new, callback, device: None, period: None },
            )
            .await
        }
        ReverseSmsAction::Read(action) => run_read_action(context, &command.profile_option, product, action).await,
    }
}

pub(super) async fn secure_sna(
    context: &CommandContext,
    command: WithProfile<SecureSnaAction>,
) -> Result<(), CliError> {
    let product = Product::SecureSna;
    match command.action {
        SecureSnaAction::Create { number, new, callback, device } => {
            let (number, callback, device) = (Some(number), Some(callback), Some(device));
            create(
                context,
                &command.profile_option,
                CreateRequest { product, number, new, callback, device, period: None },
            )
            .await
        }
        SecureSnaAction::Redeem(arguments) => redeem(context, &command.profile_option, product, &arguments).await,
        SecureSnaAction::Read(action) => run_read_action(context, &command.profile_option, product, action).await,
    }
}

pub(super) async fn discovery(context: &CommandContext, command: WithProfile<DiscoveryAction>) -> Result<(), CliError> {
    let product = Product::Discovery;
    match command.action {
        DiscoveryAction::Create { new, callback, device } => {
            let (callback, device) = (Some(callback), Some(device));
            create(
                context,
                &command.profile_option,
                CreateRequest { product, number: None, new, callback, device, period: None },
            )
            .await
        }
        DiscoveryAction::Redeem(arguments) => redeem(context, &command.profile_option, product, &arguments).await,
        DiscoveryAction::Read(action) => run_read_action(context, &command.profile_option, product, action).await,
    }
}

pub(super) async fn sim_swap(context: &CommandContext, command: WithProfile<SimSwapAction>) -> Result<(), CliError> {
    let product = Product::SimSwap;
    match command.action {
        SimSwapAction::Create { number, new, period } => {
            let number = Some(number);
            create(
                context,
                &command.profile_option,
                CreateRequest { product, number, new, callback: None, device: None, period },
            )
            .await
        }
        SimSwapAction::Read(action) => run_read_action(context, &command.profile_option, product, action).await,
    }
}

async fn create(
    context: &CommandContext,
    profile_option: &ProfileOption,
    request: CreateRequest,
) -> Result<(), CliError> {
    let session = ApiSession::open(context, profile_option)?;
    let CreateRequest { product, number, new, callback, device, period } = request;
    let number = number.map(|number| argument_or_stdin(&number.0)).transpose()?;
    let device = device.unwrap_or(DeviceArguments { device_ip: None, redirect_url: None });
    let members = [
        ("phone_number", json!(number)),
        ("reference_id", json!(new.reference_id)),
        ("callback_url", json!(callback.and_then(|callback| callback.callback_url))),
        ("device_ip", json!(device.device_ip)),
        ("redirect_url", json!(device.redirect_url)),
        ("period", json!(period)),
    ];
    let set = members.into_iter().filter(|(_, value)| !value.is_null());
    let body = Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
    let scope = Scope::Product(product);
    let created = session.create(scope, checks_path(product), &body, new.idempotency_key.as_deref()).await?;
    let action = PendingAction::from_created(product, number.as_deref(), &created);
    if let Some(action) = &action {
        PendingActions::open(context, profile_option)?.add(action.clone())?;
    }
    let output = instructions::add_sms_links(created.clone());
    let columns = [
        check_columns(product),
        &["receiver_phone_number", "expected_sms_body", "url", "ttl"],
        &instructions::SMS_LINK_FIELDS,
    ];
    let columns = columns.concat();
    // `--watch` streams one line per state.
    if new.watch && context.printer.output != Output::Table {
        context.printer.print_stream_item(&columns, &output, true)?;
    } else {
        context.printer.print_object(&columns, &output)?;
    }
    if let Some(action) = &action {
        instructions::print_instructions(context.printer, action, profile_option, new.watch);
    }
    match created.get("check_id").and_then(Value::as_str) {
        Some(id) if new.watch => watch::watch_check(context, &session, product, id, PollInterval { seconds: 1 }).await,
        _ => Ok(()),
    }
}

async fn redeem(
    context: &CommandContext,
    profile_option: &ProfileOption,
    product: Product,
    arguments: &RedeemArguments,
) -> Result<(), CliError> {
    let session = ApiSession::open(context, profile_option)?;
    let code = argument_or_stdin(&arguments.code.0)?;
    let check = redeem_code(&session, product, &arguments.check.to_string(), &code).await?;
    Ok(context.printer.print_object(check_columns(product), &check)?)
}

/// Returns the concluded check.
pub(super) async fn redeem_code(
    session: &ApiSession,
    product: Product,
    check: &str,
    code: &str,
) -> Result<Value, CliError> {
    let path = [checks_path(product), &[check]].concat();
    session.post(Scope::Product(product), &path, &json!({"code": code})).await
}

pub(super) async fn fetch_check(session: &ApiSession, product: Product, id: &str) -> Result<Value, CliError> {
    session.get(Scope::Product(product), &[checks_path(product), &[id]].concat(), &[]).await
}

async fn run_read_action(
    context: &CommandContext,
    profile_option: &ProfileOption,
    product: Product,
    action: ReadAction,
) -> Result<(), CliError> {
    let session = ApiSession::open(context, profile_option)?;
    match action {
        ReadAction::Get { check: id } => {
            let check = fetch_check(&session, product, &id.to_string()).await?;
            Ok(context.printer.print_object(check_columns(product), &check)?)
        }
        ReadAction::List(arguments) => {
            print_list(
                context,
                &session,
                Scope::Product(product),
                checks_path(product),
                check_columns(product),
                &arguments,
            )
            .await
        }
        ReadAction::Watch { check: Some(id), interval } => {
            watch::watch_check(context, &session, product, &id.to_string(), interval).await
        }
        ReadAction::Watch { check: None, interval } => watch::watch_all(context, &session, product, interval).await,
    }
}
