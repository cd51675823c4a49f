//! `ringtrue config`: creates, checks and prints the configuration.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
    path::Path,
};

use ringtrue_client::printer::{self, Output, Record};
use ringtrue_engine::{keys::MasterKey, ports::entropy::SystemEntropy};
use ringtrue_web::development::shell_quote;
use serde_json::json;

use super::{
    arguments::{ConfigAction, DEFAULT_CONFIG_DIR, InitArguments},
    context::CommandContext,
    error::CliError,
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
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| io_error("create", dir, &error))?;
    // The configuration refers to the key by its absolute path, because servers run in another directory.
    let dir = dir.canonicalize().map_err(|error| io_error("open", dir, &error))?;
    let (config_path, key_path) = (dir.join(CONFIG_FILE), dir.join(MASTER_KEY_FILE));
    for path in [&config_path, &key_path] {
        if path.try_exists().map_err(|error| io_error("read", path, &error))? {
            return Err(CliError::with_hint(
                format!("{} already exists", path.display()),
                "Nothing was changed. Edit the file, or use another directory.",
            ));
        }
    }
    let key = MasterKey::generate(&SystemEntropy::default());
    write_new_file(&key_path, format_args!("{}\n", key.as_str()))?;
    let text = INITIAL_CONFIG.replace(DEFAULT_CONFIG_DIR, &dir.display().to_string());
    write_new_file(&config_path, format_args!("{text}"))?;
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

/// Creates a file with mode 0600 and gives it to the owner of its directory. Root can thus prepare the files of a
/// service that runs as another user.
fn write_new_file(path: &Path, content: std::fmt::Arguments<'_>) -> Result<(), CliError> {
    let write = || {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
        inherit_owner(&file, path.parent().unwrap_or(Path::new(".")))?;
        file.write_fmt(content)?;
        file.sync_all()
    };
    write().map_err(|error: io::Error| io_error("write", path, &error))
}

fn inherit_owner(file: &File, dir: &Path) -> io::Result<()> {
    let (dir, own) = (fs::metadata(dir)?, file.metadata()?);
    if (dir.uid(), dir.gid()) == (own.uid(), own.gid()) {
        return Ok(());
    }
    match fchown(file, Some(dir.uid()), Some(dir.gid())) {
        // Only root may change the owner of a file. If another user runs `config init`, the file stays theirs.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::with_hint(
        format!("cannot {action} {}: {error}", path.display()),
        "Use a directory that you can write to: ringtrue config init DIR.",
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
