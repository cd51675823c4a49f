//! `ringtrue config`.

use serde_json::json;

use super::{
    arguments::{ConfigAction, Output},
    context::CommandContext,
    error::CliError,
    printer::{self, Record},
};
use crate::{
    config::{ChangedSetting, DEFAULTS, LoadedConfig, MasterKeyError},
    prepared,
};

const NO_MASTER_KEY_NOTE: &str = "No master key configured: `ringtrue serve` requires one.";

pub(super) fn run(context: &CommandContext, action: &ConfigAction) -> Result<(), CliError> {
    match action {
        ConfigAction::Check => check(context),
        ConfigAction::Default => Ok(printer::print_text(DEFAULTS)?),
    }
}

fn check(context: &CommandContext) -> Result<(), CliError> {
    let LoadedConfig { config, file, changed } = context.load()?;
    prepared::validate(&config)?;
    match context.master_key(&config) {
        // systemd may pass the key to the server process only.
        Err(CliError::MasterKey(MasterKeyError::Missing)) => printer::print_note(NO_MASTER_KEY_NOTE),
        other => drop(other?),
    }
    let source = file.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
    let has_changes = !changed.is_empty();
    if context.printer.output == Output::Table {
        let rest =
            if has_changes { "Settings that differ from the defaults:" } else { "All settings have their defaults." };
        printer::print_text(&format!("The configuration is valid ({source}). {rest}"))?;
    }
    if has_changes || context.printer.output != Output::Table {
        context.printer.print_list(&["key", "value", "from"], changed.iter().map(record).collect())?;
    }
    Ok(())
}

fn record(changed: &ChangedSetting) -> Record {
    vec![("key", json!(changed.key)), ("value", json!(changed.value)), ("from", json!(changed.origin.to_string()))]
}
