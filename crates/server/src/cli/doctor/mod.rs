//! `ringtrue config` and `ringtrue doctor`: check the configuration, and everything else that a server needs, without
//! changing anything.
//!
//! A check passes only if what it reports was tried: the write, the key, the connection. Checks that depend on a failed
//! check, and what cannot be tried without side effects, are reported as skipped.

mod database;
mod listeners;
mod operators;

use std::{borrow::Cow, fs, path::Path};

use ringtrue_client::{
    CommandError,
    printer::{self, Output, Printer, Record},
};
use ringtrue_engine::{
    keys::MasterKey,
    ports::{Clock, SystemClock},
};
use serde_json::json;

use self::{
    database::check_key_and_database,
    listeners::{check_certificates, check_listeners},
    operators::check_peers,
};
use super::{
    arguments::{ConfigAction, DEFAULT_DATA_DIR, DataDirArguments},
    context::CommandContext,
    dev,
    error::CliError,
};
use crate::{
    config::{ChangedSetting, Config, DEFAULTS, LoadedConfig, MasterKeyError},
    prepared,
};

const NO_MASTER_KEY_NOTE: &str = "No master key configured: `ringtrue serve` requires one.";

const COLUMNS: [&str; 4] = ["check", "verdict", "detail", "remedy"];

/// File descriptors beyond connections: database, log, listeners.
const RESERVED_FILE_DESCRIPTORS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    check: Cow<'static, str>,
    verdict: Verdict,
}

impl Finding {
    fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Failed { .. })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed(String),
    Failed {
        detail: String,
        hint: String,
    },
    /// The reason.
    Skipped(String),
}

fn passed(check: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Passed(detail.into()) }
}

fn failed(check: impl Into<Cow<'static, str>>, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Failed { detail: detail.into(), hint: hint.into() } }
}

fn skipped(check: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Skipped(reason.into()) }
}

pub(super) fn config(context: &CommandContext, action: &ConfigAction) -> Result<(), CliError> {
    match action {
        ConfigAction::Check => check_config(context),
        ConfigAction::Default => Ok(printer::print_text(DEFAULTS)?),
    }
}

fn check_config(context: &CommandContext) -> Result<(), CliError> {
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
        context.printer.print_list(&["key", "value", "from"], changed.iter().map(setting_record).collect())?;
    }
    Ok(())
}

fn setting_record(changed: &ChangedSetting) -> Record {
    vec![("key", json!(changed.key)), ("value", json!(changed.value)), ("from", json!(changed.origin.to_string()))]
}

pub(super) async fn doctor(context: &CommandContext, arguments: &DataDirArguments) -> Result<(), CliError> {
    let findings = match &arguments.data {
        Some(data) => {
            let dev::DevDeployment { config, master, .. } = dev::open_data_dir(context, data)?;
            run_checks(&config, format!("`ringtrue dev` in {}", data.display()), Ok(master)).await
        }
        None => check_configured(context).await,
    };
    let all_passed = !findings.iter().any(Finding::is_failure);
    print_findings(context.printer, &findings, all_passed)?;
    if all_passed { Ok(()) } else { Err(CommandError::AlreadyReported.into()) }
}

async fn check_configured(context: &CommandContext) -> Vec<Finding> {
    let LoadedConfig { config, file, .. } = match context.load() {
        Ok(loaded) => loaded,
        Err(error) => {
            let hint = "Correct it; `ringtrue config default` documents every key.";
            return vec![failed("configuration", error.to_string(), hint)];
        }
    };
    if file.is_none() && Path::new(DEFAULT_DATA_DIR).is_dir() {
        printer::print_note("For the `ringtrue dev` of this directory, use `ringtrue doctor --data ringtrue-data`.");
    }
    let source = file.map_or_else(|| "defaults and environment".to_owned(), |path| path.display().to_string());
    let mut findings = run_checks(&config, source, context.master_key(&config)).await;
    // Not of `ringtrue dev`, which has few connections.
    findings.push(check_open_files(&config));
    findings
}

async fn run_checks(config: &Config, source: String, master: Result<MasterKey, CliError>) -> Vec<Finding> {
    let mut findings = vec![passed("configuration", source), check_base_url(config)];
    findings.extend(check_key_and_database(config, master).await);
    let certificates = check_certificates(config, SystemClock.now());
    findings.push(check_files(config, &certificates));
    findings.extend(certificates);
    findings.extend(check_listeners(config).await);
    findings.extend(check_peers(config).await);
    findings
}

/// Loading the configuration has already checked that the URL matches the region.
fn check_base_url(config: &Config) -> Finding {
    let detail = match &config.base_url {
        Some(url) => format!("{url}, region {}", config.region),
        None => format!("not set: using http.listen, on this machine only; region {}", config.region),
    };
    passed("base URL", detail)
}

/// Builds what a server builds from the configuration and the files that it references.
fn check_files(config: &Config, certificates: &[Finding]) -> Finding {
    const CHECK: &str = "files";
    if certificates.iter().any(Finding::is_failure) {
        return skipped(CHECK, "a certificate is invalid");
    }
    match prepared::validate(config) {
        Ok(()) => passed(CHECK, "connectors, number sources and address tables are valid"),
        Err(error) => failed(CHECK, error.to_string(), "Correct the setting, or the file that it names."),
    }
}

fn check_open_files(config: &Config) -> Finding {
    const CHECK: &str = "open files";
    let Some(limit) = fs::read_to_string("/proc/self/limits").ok().as_deref().and_then(parse_soft_limit) else {
        return skipped(CHECK, "cannot read the limit on this system");
    };
    let options = config.store.options;
    let needed = config.http.max_connections + options.connections.max(options.readers) + RESERVED_FILE_DESCRIPTORS;
    if limit >= needed {
        passed(CHECK, format!("at most {needed} needed, {limit} allowed"))
    } else {
        failed(
            CHECK,
            format!("{limit} allowed, but `http.max_connections` may need {needed}"),
            format!(
                "Raise the limit (`ulimit -n {needed}`, or LimitNOFILE={needed} in a systemd unit), or lower the setting."
            ),
        )
    }
}

/// Parses the soft limit from `/proc/self/limits`.
fn parse_soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

fn print_findings(printer: Printer, findings: &[Finding], all_passed: bool) -> Result<(), CliError> {
    if printer.output != Output::Table {
        return Ok(printer.print_list(&COLUMNS, findings.iter().map(record).collect())?);
    }
    let mut text: String = findings.iter().map(line).collect();
    text.push_str(if all_passed {
        "\nAll checks passed.\n"
    } else {
        "\nSome checks failed: see the lines marked ✗.\n"
    });
    Ok(printer::print_text(&text)?)
}

fn line(Finding { check, verdict }: &Finding) -> String {
    match verdict {
        Verdict::Passed(detail) => format!("✓ {check}: {detail}\n"),
        Verdict::Failed { detail, hint } => format!("✗ {check}: {detail}\n  → {hint}\n"),
        Verdict::Skipped(reason) => format!("- {check}: {reason}\n"),
    }
}

fn record(Finding { check, verdict }: &Finding) -> Record {
    let (verdict, detail, hint) = match verdict {
        Verdict::Passed(detail) => ("good", detail, None),
        Verdict::Failed { detail, hint } => ("bad", detail, Some(hint)),
        Verdict::Skipped(reason) => ("skipped", reason, None),
    };
    COLUMNS.into_iter().zip([json!(check), json!(verdict), json!(detail), json!(hint)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_is_the_first_number() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             1                    2                    processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(parse_soft_limit(limits), Some(1024));
        assert_eq!(parse_soft_limit("Max open files  unlimited  unlimited  files"), Some(usize::MAX));
        assert_eq!(parse_soft_limit("nothing"), None);
    }
}
