//! `ringtrue keys`.

use std::path::Path;

use jiff::Timestamp;
use ringtrue_engine::{
    keys::{self, KeyRotation, KeySummary},
    ports::{KeyPurpose, SystemEntropy},
};
use serde_json::{Value, json};

use super::{
    arguments::KeysAction,
    context::{CommandContext, database_clock, open_keys, open_store},
    error::CliError,
    printer::{self, Record},
};
use crate::{config::read_master_key, http::time};

const COLUMNS: [&str; 7] = ["key_id", "purpose", "state", "published_at", "active_from", "retires_at", "gone_at"];

pub(super) async fn run(context: &CommandContext, action: KeysAction) -> Result<(), CliError> {
    match action {
        KeysAction::List => list(context).await,
        KeysAction::Rotate { purpose, emergency } => rotate(context, purpose, emergency).await,
        KeysAction::Rewrap { new_master_key_file } => rewrap(context, &new_master_key_file).await,
    }
}

async fn list(context: &CommandContext) -> Result<(), CliError> {
    let store = open_store(&context.config()?).await?;
    let keys = keys::list_key_summaries(&*store, &database_clock(&*store).await?).await?;
    Ok(context.printer.print_list(&COLUMNS, keys.iter().map(key_record).collect())?)
}

async fn rotate(context: &CommandContext, purpose: KeyPurpose, emergency: bool) -> Result<(), CliError> {
    let config = context.config()?;
    let master = context.master_key(&config)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &master).await?;
    let rotation = KeyRotation::by_operator(purpose, emergency);
    let clock = database_clock(&*store).await?;
    let successor = keys::rotate_key(rotation, &*store, &master, &clock, &SystemEntropy::default()).await?;
    Ok(context.printer.print_record(key_record(&successor))?)
}

async fn rewrap(context: &CommandContext, new_master_key_file: &Path) -> Result<(), CliError> {
    let config = context.config()?;
    let old = context.master_key(&config)?;
    let new = read_master_key(new_master_key_file)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &old).await?;
    let clock = database_clock(&*store).await?;
    let keys = keys::rewrap_keys(&old, &new, &*store, &clock, &SystemEntropy::default()).await?;
    context.printer.print_record(vec![("keys", json!(keys))])?;
    printer::print_note(
        "The keys are sealed with the new master key. Replace the old one and restart every server; until then, \
         running servers keep working but cannot rotate keys.",
    );
    Ok(())
}

fn key_record(key: &KeySummary) -> Record {
    let instant = |at: Timestamp| json!(time::format(at));
    let instant_or_null = |at: Option<Timestamp>| at.map_or(Value::Null, instant);
    let values = [
        json!(key.id.0.to_string()),
        json!(key.purpose.as_str()),
        json!(key.state.as_str()),
        instant(key.schedule.published_at),
        instant(key.schedule.active_from),
        instant_or_null(key.schedule.retires_at),
        instant_or_null(key.schedule.gone_at),
    ];
    COLUMNS.into_iter().zip(values).collect()
}
