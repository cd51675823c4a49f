//! `ringtrue doctor`: checks everything that a server needs, without changing anything.
//!
//! Checks that depend on a failed check are reported as skipped.

mod database;
mod machine;

use serde_json::json;

use super::{
    arguments::Output,
    context::CommandContext,
    error::CliError,
    printer::{self, Printer, Record},
};
use crate::config::{Config, LoadedConfig};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed(String),
    Failed {
        detail: String,
        hint: String,
    },
    /// The reason.
    Skipped(String),
}

fn passed(check: &'static str, detail: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Passed(detail.into()) }
}

fn failed(check: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Failed { detail: detail.into(), hint: hint.into() } }
}

fn skipped(check: &'static str, reason: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Skipped(reason.into()) }
}

pub(super) async fn doctor(context: &CommandContext) -> Result<(), CliError> {
    let findings = match context.load() {
        Err(error) => vec![failed(
            "configuration",
            error.to_string(),
            "Correct it; `ringtrue config default` documents every key.",
        )],
        Ok(loaded) => run_checks(context, loaded).await,
    };
    let all_passed = !findings.iter().any(|finding| matches!(finding.verdict, Verdict::Failed { .. }));
    print_findings(context.printer, &findings, all_passed)?;
    if all_passed { Ok(()) } else { Err(CliError::AlreadyReported) }
}

async fn run_checks(context: &CommandContext, LoadedConfig { config, file, .. }: LoadedConfig) -> Vec<Finding> {
    let source = file.map_or_else(|| "defaults and environment".to_owned(), |path| path.display().to_string());
    let mut findings = vec![passed("configuration", source), check_base_url(&config)];
    findings.extend(database::check(context, &config).await);
    findings.push(machine::check_tls(&config));
    findings.extend(machine::check_addresses(&config));
    findings.push(machine::check_open_files(&config));
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

fn print_findings(printer: Printer, findings: &[Finding], all_passed: bool) -> Result<(), CliError> {
    if printer.output != Output::Table {
        return Ok(printer.print_list(&[], findings.iter().map(record).collect())?);
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
    vec![("check", json!(check)), ("verdict", json!(verdict)), ("detail", json!(detail)), ("remedy", json!(hint))]
}
