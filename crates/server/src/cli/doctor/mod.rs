//! `ringtrue doctor`: checks the configuration and everything else that a server needs, without changing anything.
//!
//! A check passes only if it has actually done what it reports, such as a write, a decryption or a connection. A check
//! is skipped if it depends on a failed check or cannot be tried without side effects. A warning reports that something
//! is missing that tenants need, but without which a server can run. Warnings do not fail the command.

mod database;
mod dns;
mod listeners;
mod operators;

use std::{borrow::Cow, fs, path::Path};

use ringtrue_client::{
    CommandError,
    printer::{self, Output, Printer, Record},
};
use ringtrue_engine::{
    keys::MasterKey,
    ports::clock::{Clock, SystemClock},
};
use ringtrue_store::max_connections;
use serde_json::json;

use self::{
    database::{check_key_and_database, count_workers},
    listeners::{check_certificates, check_listeners},
    operators::{check_peers, check_products},
};
use super::{
    arguments::{DEFAULT_DATA_DIR, DataDirArguments},
    context::CommandContext,
    dev,
    error::CliError,
};
use crate::{
    config::{Config, LoadedConfig},
    prepared,
};

const COLUMNS: [&str; 4] = ["check", "verdict", "detail", "remedy"];

/// Number of file descriptors that a server needs in addition to the connections of clients and to the database: files
/// of the database, log, listeners, connections to operators.
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
    /// A problem that does not fail the command.
    Warning {
        detail: String,
        hint: String,
    },
    /// The check was not made, for this reason.
    Skipped(String),
}

fn passed(check: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Passed(detail.into()) }
}

fn failed(check: impl Into<Cow<'static, str>>, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Failed { detail: detail.into(), hint: hint.into() } }
}

fn warning(check: impl Into<Cow<'static, str>>, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Warning { detail: detail.into(), hint: hint.into() } }
}

fn skipped(check: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Skipped(reason.into()) }
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
        printer::print_note("To check this directory's `ringtrue dev`, use `ringtrue doctor --data ringtrue-data`.");
    }
    let source = file.map_or_else(|| "defaults and environment".to_owned(), |path| path.display().to_string());
    let mut findings = run_checks(&config, source, context.master_key(&config)).await;
    // These checks do not apply to `ringtrue dev`, which has few connections and simulates the operators.
    findings.push(check_open_files(&config, count_workers(&config).await));
    findings.extend(check_products(&config));
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

/// Reports the base URL. It needs no check: loading the configuration has compared it with the region.
fn check_base_url(config: &Config) -> Finding {
    let detail = match &config.base_url {
        Some(url) => format!("{url}, region {}", config.region),
        None => format!("not set: using http.listen, on this machine only; region {}", config.region),
    };
    passed("base URL", detail)
}

/// Builds everything that a server builds from the configuration and the files that it names, to find their errors.
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

/// Checks the limit of open files. Only the hard limit can fail the check: a shell often has a low soft limit, which a
/// service manager raises.
fn check_open_files(config: &Config, workers: usize) -> Finding {
    const CHECK: &str = "open files";
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let Some((soft, hard)) = parse_open_file_limits(&limits) else {
        return skipped(CHECK, "cannot read the limit on this system");
    };
    let store = max_connections(&config.store.url, &config.store.options, workers);
    let needed = config.http.max_connections + store + RESERVED_FILE_DESCRIPTORS;
    let detail = |limit| format!("{limit} allowed, but `http.max_connections` may need {needed}");
    let hint = format!(
        "Raise the limit (`ulimit -n {needed}`, or LimitNOFILE={needed} in a systemd unit), or lower the setting."
    );
    if soft >= needed {
        passed(CHECK, format!("at most {needed} needed, {soft} allowed"))
    } else if hard >= needed {
        warning(CHECK, format!("{} in this shell", detail(soft)), format!("{hint} Ringtrue's unit raises it."))
    } else {
        failed(CHECK, detail(hard), hint)
    }
}

/// Parses the soft and the hard limit from `/proc/self/limits`.
fn parse_open_file_limits(limits: &str) -> Option<(usize, usize)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    });
    Some((numbers.next()??, numbers.next()??))
}

fn print_findings(printer: Printer, findings: &[Finding], all_passed: bool) -> Result<(), CliError> {
    if printer.output != Output::Table {
        return Ok(printer.print_list(&COLUMNS, findings.iter().map(record).collect())?);
    }
    let mut text: String = findings.iter().map(line).collect();
    let has_warnings = findings.iter().any(|finding| matches!(finding.verdict, Verdict::Warning { .. }));
    text.push_str(match (all_passed, has_warnings) {
        (true, false) => "\nAll checks passed.\n",
        (true, true) => "\nAll checks passed, with warnings: see the lines marked !.\n",
        (false, _) => "\nSome checks failed: see the lines marked ✗.\n",
    });
    Ok(printer::print_text(&text)?)
}

fn line(Finding { check, verdict }: &Finding) -> String {
    match verdict {
        Verdict::Passed(detail) => format!("✓ {check}: {detail}\n"),
        Verdict::Failed { detail, hint } => format!("✗ {check}: {detail}\n  → {hint}\n"),
        Verdict::Warning { detail, hint } => format!("! {check}: {detail}\n  → {hint}\n"),
        Verdict::Skipped(reason) => format!("- {check}: {reason}\n"),
    }
}

fn record(Finding { check, verdict }: &Finding) -> Record {
    let (verdict, detail, hint) = match verdict {
        Verdict::Passed(detail) => ("good", detail, None),
        Verdict::Failed { detail, hint } => ("bad", detail, Some(hint)),
        Verdict::Warning { detail, hint } => ("warning", detail, Some(hint)),
        Verdict::Skipped(reason) => ("skipped", reason, None),
    };
    COLUMNS.into_iter().zip([json!(check), json!(verdict), json!(detail), json!(hint)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limits_are_the_first_two_numbers() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             1                    2                    processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(parse_open_file_limits(limits), Some((1024, 524_288)));
        let unlimited = parse_open_file_limits("Max open files  1024 unlimited  files");
        assert_eq!(unlimited, Some((1024, usize::MAX)));
        assert_eq!(parse_open_file_limits("nothing"), None);
    }
}
