//! `ringtrue config`.

use serde_json::json;

use super::{
    arguments::{ConfigAction, Output},
    desk::Desk,
    failure::Failure,
    printer::{self, Record},
};
use crate::{
    config::{Changed, DEFAULTS, Loaded, MasterKeyError},
    groundwork,
};

const NO_MASTER_KEY: &str = "There is no master key here: `ringtrue serve` needs one.";

pub(super) fn run(desk: &Desk, action: &ConfigAction) -> Result<(), Failure> {
    match action {
        ConfigAction::Check => check(desk),
        ConfigAction::Default => Ok(printer::text(DEFAULTS)?),
    }
}

fn check(desk: &Desk) -> Result<(), Failure> {
    let Loaded { config, file, changed } = desk.load()?;
    groundwork::judge(&config)?;
    match desk.master_key(&config) {
        // It may be that the server alone is given it, as systemd does.
        Err(Failure::MasterKey(MasterKeyError::Missing)) => printer::remark(NO_MASTER_KEY),
        other => drop(other?),
    }
    let from = file.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
    let differs = !changed.is_empty();
    if desk.printer.output == Output::Table {
        let rest = if differs { "What differs from the defaults:" } else { "Everything has its default." };
        printer::text(&format!("The configuration is good ({from}). {rest}"))?;
    }
    if differs || desk.printer.output != Output::Table {
        desk.printer.list(&["key", "value", "from"], changed.iter().map(record).collect())?;
    }
    Ok(())
}

fn record(changed: &Changed) -> Record {
    vec![("key", json!(changed.key)), ("value", json!(changed.value)), ("from", json!(changed.origin.to_string()))]
}
