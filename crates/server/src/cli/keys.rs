//! `ringtrue keys`.

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
    printer::Record,
};
use crate::http::time;

const COLUMNS: [&str; 7] = ["key_id", "purpose", "state", "published_at", "active_from", "retires_at", "gone_at"];

pub(super) async fn run(desk: &Desk, action: KeysAction) -> Result<(), Failure> {
    match action {
        KeysAction::List => list(desk).await,
        KeysAction::Rotate { purpose, emergency } => rotate(desk, purpose, emergency).await,
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
