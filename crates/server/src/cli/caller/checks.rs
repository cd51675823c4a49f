//! `ringtrue reverse-sms`, `secure-sna`, `discovery` and `sim-swap`.

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Map, Value, json};

use super::{
    arguments::{
        CallbackArguments, DeviceArguments, DiscoveryAction, Group, Identity, NewCheck, Number, Pace, ReadAction,
        RedeemArguments, ReverseSmsAction, SecureSnaAction, SimSwapAction,
    },
    instructions,
    list::list,
    memory::{Errand, Memory},
    session::Session,
    watch,
};
use crate::cli::{arguments::Output, desk::Desk, failure::Failure, typed::typed};

/// Where the checks of a product are.
pub(super) fn path(product: Product) -> &'static [&'static str] {
    match product {
        Product::ReverseSms => &["v1", "number-verification", "reverse-sms-checks"],
        Product::SecureSna => &["v1", "number-verification", "secure-sna-checks"],
        Product::Discovery => &["v1", "number-verification", "discovery-checks"],
        Product::SimSwap => &["v1", "sim-swap-checks"],
        // It has no checks.
        Product::Eligibility => &["v1", "eligibility"],
    }
}

/// What tables show of them.
pub(super) fn columns(product: Product) -> &'static [&'static str] {
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

/// The command's name.
pub(super) fn command(product: Product) -> &'static str {
    match product {
        Product::ReverseSms => "reverse-sms",
        Product::SecureSna => "secure-sna",
        Product::Discovery => "discovery",
        Product::SimSwap => "sim-swap",
        Product::Eligibility => "eligibility",
    }
}

/// A check that is to be created.
struct Wanted {
    product: Product,
    number: Option<Number>,
    new: NewCheck,
    callback: Option<CallbackArguments>,
    device: Option<DeviceArguments>,
    period: Option<u32>,
}

pub(super) async fn reverse_sms(desk: &Desk, group: Group<ReverseSmsAction>) -> Result<(), Failure> {
    let product = Product::ReverseSms;
    match group.action {
        ReverseSmsAction::Create { number, new, callback } => {
            let (number, callback) = (Some(number), Some(callback));
            create(desk, &group.identity, Wanted { product, number, new, callback, device: None, period: None }).await
        }
        ReverseSmsAction::Read(action) => read(desk, &group.identity, product, action).await,
    }
}

pub(super) async fn secure_sna(desk: &Desk, group: Group<SecureSnaAction>) -> Result<(), Failure> {
    let product = Product::SecureSna;
    match group.action {
        SecureSnaAction::Create { number, new, callback, device } => {
            let (number, callback, device) = (Some(number), Some(callback), Some(device));
            create(desk, &group.identity, Wanted { product, number, new, callback, device, period: None }).await
        }
        SecureSnaAction::Redeem(arguments) => redeem(desk, &group.identity, product, &arguments).await,
        SecureSnaAction::Read(action) => read(desk, &group.identity, product, action).await,
    }
}

pub(super) async fn discovery(desk: &Desk, group: Group<DiscoveryAction>) -> Result<(), Failure> {
    let product = Product::Discovery;
    match group.action {
        DiscoveryAction::Create { new, callback, device } => {
            let (callback, device) = (Some(callback), Some(device));
            create(desk, &group.identity, Wanted { product, number: None, new, callback, device, period: None }).await
        }
        DiscoveryAction::Redeem(arguments) => redeem(desk, &group.identity, product, &arguments).await,
        DiscoveryAction::Read(action) => read(desk, &group.identity, product, action).await,
    }
}

pub(super) async fn sim_swap(desk: &Desk, group: Group<SimSwapAction>) -> Result<(), Failure> {
    let product = Product::SimSwap;
    match group.action {
        SimSwapAction::Create { number, new, period } => {
            let number = Some(number);
            create(desk, &group.identity, Wanted { product, number, new, callback: None, device: None, period }).await
        }
        SimSwapAction::Read(action) => read(desk, &group.identity, product, action).await,
    }
}

async fn create(desk: &Desk, identity: &Identity, wanted: Wanted) -> Result<(), Failure> {
    let session = Session::open(desk, identity)?;
    let Wanted { product, number, new, callback, device, period } = wanted;
    let number = number.map(|number| typed(&number.0)).transpose()?;
    let device = device.unwrap_or(DeviceArguments { device_ip: None, redirect_url: None });
    let members = [
        ("phone_number", json!(number)),
        ("reference_id", json!(new.reference_id)),
        ("callback_url", json!(callback.and_then(|callback| callback.callback_url))),
        ("device_ip", json!(device.device_ip)),
        ("redirect_url", json!(device.redirect_url)),
        ("period", json!(period)),
    ];
    let given = members.into_iter().filter(|(_, value)| !value.is_null());
    let body = Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
    let scope = Scope::Product(product);
    let created = session.create(scope, path(product), &body, new.idempotency_key.as_deref()).await?;
    let errand = Errand::of(product, number.as_deref(), &created);
    if let Some(errand) = &errand {
        Memory::open(desk, identity)?.remember(errand.clone())?;
    }
    let shown = instructions::with_links(created.clone());
    let columns =
        [columns(product), &["receiver_phone_number", "expected_sms_body", "url", "ttl"], &instructions::LINKS];
    let columns = columns.concat();
    // One line for each thing is to follow, where it is watched by a program.
    if new.watch && desk.printer.output != Output::Table {
        desk.printer.next_object(&columns, &shown, true)?;
    } else {
        desk.printer.object(&columns, &shown)?;
    }
    if let Some(errand) = &errand {
        instructions::tell(desk.printer, errand, identity, new.watch);
    }
    match created.get("check_id").and_then(Value::as_str) {
        Some(id) if new.watch => watch::one(desk, &session, product, id, Pace { interval: 1 }).await,
        _ => Ok(()),
    }
}

async fn redeem(
    desk: &Desk,
    identity: &Identity,
    product: Product,
    arguments: &RedeemArguments,
) -> Result<(), Failure> {
    let session = Session::open(desk, identity)?;
    let code = typed(&arguments.code.0)?;
    let check = redeemed(&session, product, &arguments.check.to_string(), &code).await?;
    Ok(desk.printer.object(columns(product), &check)?)
}

/// The check as it has ended.
pub(super) async fn redeemed(session: &Session, product: Product, check: &str, code: &str) -> Result<Value, Failure> {
    let path = [path(product), &[check]].concat();
    session.post(Scope::Product(product), &path, &json!({"code": code})).await
}

pub(super) async fn check(session: &Session, product: Product, id: &str) -> Result<Value, Failure> {
    session.get(Scope::Product(product), &[path(product), &[id]].concat(), &[]).await
}

async fn read(desk: &Desk, identity: &Identity, product: Product, action: ReadAction) -> Result<(), Failure> {
    let session = Session::open(desk, identity)?;
    match action {
        ReadAction::Get { check: id } => {
            let check = check(&session, product, &id.to_string()).await?;
            Ok(desk.printer.object(columns(product), &check)?)
        }
        ReadAction::List(arguments) => {
            list(desk, &session, Scope::Product(product), path(product), columns(product), &arguments).await
        }
        ReadAction::Watch { check: Some(id), pace } => watch::one(desk, &session, product, &id.to_string(), pace).await,
        ReadAction::Watch { check: None, pace } => watch::all(desk, &session, product, pace).await,
    }
}
