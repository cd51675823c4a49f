//! `ringtrue config`: creates, checks and prints the configuration.

use std::path::Path;

use ringtrue_client::printer::{self, Output, Record};
use ringtrue_engine::{keys::MasterKey, ports::entropy::SystemEntropy};
use ringtrue_web::development::shell_quote;
use serde_json::json;

use super::{
    arguments::{ConfigAction, DEFAULT_CONFIG_DIR, InitArguments},
    context::CommandContext,
    error::CliError,
    new_files,
};
use crate::{
    config::{ChangedSetting, DEFAULTS, LoadedConfig, MasterKeyError},
    prepared,
};

const CONFIG_FILE: &str = "ringtrue.toml";
const MASTER_KEY_FILE: &str = "master.key";
/// Configuration file that `config init` writes. It contains [`DEFAULT_CONFIG_DIR`], which is replaced by the chosen
/// directory.
const INITIAL_CONFIG: &str = include_str!("initial.toml");

const NO_MASTER_KEY_NOTE: &str = "No master key configured: `ringtrue serve` requires one.";

pub(super) fn run(context: &CommandContext, action: &ConfigAction) -> Result<(), CliError> {
    match action {
        ConfigAction::Init(arguments) => init(context, arguments),
        ConfigAction::Check => check(context),
        ConfigAction::Default => Ok(printer::print_text(DEFAULTS)?),
    }
}

/// Writes the configuration and the master key of a new deployment.
fn init(context: &CommandContext, InitArguments { dir }: &InitArguments) -> Result<(), CliError> {
    // The configuration refers to the key by its absolute path, because servers run in another directory.
    let dir = new_files::create_dir(dir)?;
    let [config_path, key_path] = new_files::new_paths(&dir, [CONFIG_FILE, MASTER_KEY_FILE])?;
    let key = MasterKey::generate(&SystemEntropy::default());
    new_files::write(&key_path, format_args!("{}\n", key.as_str()))?;
    let text = INITIAL_CONFIG.replace(DEFAULT_CONFIG_DIR, &dir.display().to_string());
    new_files::write(&config_path, format_args!("{text}"))?;
    if context.printer.output != Output::Table {
        let record = vec![("config_file", json!(config_path)), ("master_key_file", json!(key_path))];
        return Ok(context.printer.print_record(record)?);
    }
    Ok(printer::print_text(&render_next_steps(&dir, &config_path, &key_path))?)
}

fn render_next_steps(dir: &Path, config_path: &Path, key_path: &Path) -> String {
    let option = if dir == Path::new(DEFAULT_CONFIG_DIR) {
        String::new()
    } else {
        format!(" --config {}", shell_quote(&config_path.display().to_string()))
    };
    format!(
        "Wrote {} and {}.\n\
         Keep a copy of the key in a safe place: nobody can decrypt the database without it.\n\
         \n\
         Set `base_url` and your operators in the configuration. Then, as the user of the service:\n  \
           ringtrue migrate{option}   # creates the database\n  \
           ringtrue doctor{option}    # checks the configuration and everything it needs\n  \
           ringtrue serve{option}     # starts the server\n",
        config_path.display(),
        key_path.display()
    )
}

fn check(context: &CommandContext) -> Result<(), CliError> {
    let LoadedConfig { config, file, changed } = context.load()?;
    prepared::validate(&config)?;
    match context.master_key(&config) {
        // Not an error: systemd may pass the key to the server process only.
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
        context.printer.print_list(&["key", "value", "from"], changed.iter().map(setting_record).collect())?;
    }
    Ok(())
}

fn setting_record(changed: &ChangedSetting) -> Record {
    vec![("key", json!(changed.key)), ("value", json!(changed.value)), ("from", json!(changed.origin.to_string()))]
}
