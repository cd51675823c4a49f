//! `ringtrue keys`.

use std::path::Path;

use jiff::Timestamp;
use ringtrue_engine::{
    keys::{self, KeySummary, Rotation},
    ports::{KeyPurpose, SystemEntropy},
};
use serde_json::{Value, json};

use super::{
    arguments::KeysAction,
    desk::{Desk, database_clock, open_keys, open_store},
    failure::Failure,
    printer::{self, Record},
};
use crate::{config::read_master_key, http::time};

const COLUMNS: [&str; 7] = ["key_id", "purpose", "state", "published_at", "active_from", "retires_at", "gone_at"];

pub(super) async fn run(desk: &Desk, action: KeysAction) -> Result<(), Failure> {
    match action {
        KeysAction::List => list(desk).await,
        KeysAction::Rotate { purpose, emergency } => rotate(desk, purpose, emergency).await,
        KeysAction::Rewrap { new_master_key_file } => rewrap(desk, &new_master_key_file).await,
    }
}

async fn list(desk: &Desk) -> Result<(), Failure> {
    let store = open_store(&desk.config()?).await?;
    let keys = keys::key_summaries(&*store, &database_clock(&*store).await?).await?;
    Ok(desk.printer.list(&COLUMNS, keys.iter().map(record).collect())?)
}

async fn rotate(desk: &Desk, purpose: KeyPurpose, emergency: bool) -> Result<(), Failure> {
    let config = desk.config()?;
    let master = desk.master_key(&config)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &master).await?;
    let rotation = Rotation::by_operator(purpose, emergency);
    let clock = database_clock(&*store).await?;
    let successor = keys::rotate(rotation, &*store, &master, &clock, &SystemEntropy::default()).await?;
    Ok(desk.printer.record(record(&successor))?)
}

async fn rewrap(desk: &Desk, new_master_key_file: &Path) -> Result<(), Failure> {
    let config = desk.config()?;
    let old = desk.master_key(&config)?;
    let new = read_master_key(new_master_key_file)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &old).await?;
    let clock = database_clock(&*store).await?;
    let keys = keys::rewrap(&old, &new, &*store, &clock, &SystemEntropy::default()).await?;
    desk.printer.record(vec![("keys", json!(keys))])?;
    printer::remark(
        "The keys are sealed with the new master key. Put it in place of the old one, and restart every server; until \
         then a server that runs goes on, but cannot rotate keys.",
    );
    Ok(())
}

fn record(key: &KeySummary) -> Record {
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
