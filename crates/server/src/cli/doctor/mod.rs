//! `ringtrue doctor`: looks at everything that a server needs, one thing after the other.
//!
//! Nothing is changed. What cannot be looked at because something before it failed is skipped, and said to be.

mod database;
mod machine;

use serde_json::json;

use super::{
    arguments::Output,
    desk::Desk,
    failure::Failure,
    printer::{self, Printer, Record},
};
use crate::config::{Config, Loaded};

/// What was looked at, and how it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good(String),
    Bad {
        found: String,
        remedy: String,
    },
    /// Not looked at, and why.
    Skipped(String),
}

fn good(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Good(found.into()) }
}

fn bad(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Bad { found: found.into(), remedy: remedy.into() } }
}

fn skipped(check: &'static str, why: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Skipped(why.into()) }
}

pub(super) async fn doctor(desk: &Desk) -> Result<(), Failure> {
    let findings = match desk.load() {
        Err(failure) => vec![bad(
            "configuration",
            failure.to_string(),
            "Mend it; `ringtrue config default` tells what each key means.",
        )],
        Ok(loaded) => examine(desk, loaded).await,
    };
    let is_well = !findings.iter().any(|finding| matches!(finding.verdict, Verdict::Bad { .. }));
    print(desk.printer, &findings, is_well)?;
    if is_well { Ok(()) } else { Err(Failure::Told) }
}

async fn examine(desk: &Desk, Loaded { config, file, .. }: Loaded) -> Vec<Finding> {
    let place = file.map_or_else(|| "defaults and environment".to_owned(), |path| path.display().to_string());
    let mut findings = vec![good("configuration", place), base_url(&config)];
    findings.extend(database::examine(desk, &config).await);
    findings.push(machine::tls(&config));
    findings.extend(machine::addresses(&config));
    findings.push(machine::open_files(&config));
    findings
}

/// That it fits the region is part of a configuration that could be read.
fn base_url(config: &Config) -> Finding {
    let found = match &config.base_url {
        Some(url) => format!("{url}, region {}", config.region),
        None => format!("not set: http.listen is used, on this machine only; region {}", config.region),
    };
    good("base URL", found)
}

fn print(printer: Printer, findings: &[Finding], is_well: bool) -> Result<(), Failure> {
    if printer.output != Output::Table {
        return Ok(printer.list(&[], findings.iter().map(record).collect())?);
    }
    let mut text: String = findings.iter().map(line).collect();
    text.push_str(if is_well { "\nAll is well.\n" } else { "\nSomething is wrong: see the lines with ✗.\n" });
    Ok(printer::text(&text)?)
}

fn line(Finding { check, verdict }: &Finding) -> String {
    match verdict {
        Verdict::Good(found) => format!("✓ {check}: {found}\n"),
        Verdict::Bad { found, remedy } => format!("✗ {check}: {found}\n  → {remedy}\n"),
        Verdict::Skipped(why) => format!("- {check}: {why}\n"),
    }
}

fn record(Finding { check, verdict }: &Finding) -> Record {
    let (verdict, detail, remedy) = match verdict {
        Verdict::Good(found) => ("good", found, None),
        Verdict::Bad { found, remedy } => ("bad", found, Some(remedy)),
        Verdict::Skipped(why) => ("skipped", why, None),
    };
    vec![("check", json!(check)), ("verdict", json!(verdict)), ("detail", json!(detail)), ("remedy", json!(remedy))]
}
