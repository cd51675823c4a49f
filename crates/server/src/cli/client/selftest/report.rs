//! Report of the cases: line by line as text, or all at the end as JSON or CSV.

use std::io;

use serde_json::json;

use crate::cli::{
    arguments::Output,
    client::progress::Progress,
    error::CliError,
    printer::{self, Printer, Record, escape_controls},
};

const COLUMNS: [&str; 3] = ["trial", "result", "detail"];

pub(super) enum CaseOutcome {
    Passed(String),
    Failed(String),
    Skipped(&'static str),
}

pub(super) struct Report {
    printer: Printer,
    progress: Progress,
    outcomes: Vec<(&'static str, CaseOutcome)>,
}

impl Report {
    pub(super) fn start(printer: Printer) -> Self {
        Report { printer, progress: Progress::start(), outcomes: vec![] }
    }

    pub(super) fn show_running(&mut self, case: &str) {
        self.progress.show(&format!("… {case}"));
    }

    pub(super) fn record(&mut self, case: &'static str, outcome: CaseOutcome) -> io::Result<()> {
        self.progress.show("");
        if self.printer.output == Output::Table {
            let (mark, detail) = match &outcome {
                CaseOutcome::Passed(detail) => ("ok  ", detail.as_str()),
                CaseOutcome::Failed(detail) => ("FAIL", detail.as_str()),
                CaseOutcome::Skipped(detail) => ("-   ", *detail),
            };
            printer::print_text(escape_controls(&format!("{mark}  {case:<38}  {detail}")).trim_end())?;
        }
        self.outcomes.push((case, outcome));
        Ok(())
    }

    /// Fails if any case failed.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let count = |predicate: fn(&CaseOutcome) -> bool| {
            self.outcomes.iter().filter(|(_, outcome)| predicate(outcome)).count()
        };
        let failed = count(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
        let passed = count(|outcome| matches!(outcome, CaseOutcome::Passed(_)));
        if self.printer.output == Output::Table {
            printer::print_text(&match failed {
                0 => format!("\nAll cases passed: {passed} of {}.", self.outcomes.len()),
                _ => format!("\n{failed} of {} cases failed.", self.outcomes.len()),
            })?;
        } else {
            self.printer.print_list(&COLUMNS, self.outcomes.into_iter().map(case_record).collect())?;
        }
        if failed == 0 { Ok(()) } else { Err(CliError::AlreadyReported) }
    }
}

fn case_record((case, outcome): (&'static str, CaseOutcome)) -> Record {
    let (result, detail) = match outcome {
        CaseOutcome::Passed(detail) => ("works", detail),
        CaseOutcome::Failed(detail) => ("fails", detail),
        CaseOutcome::Skipped(detail) => ("not_tried", detail.to_owned()),
    };
    COLUMNS.into_iter().zip([json!(case), json!(result), json!(detail)]).collect()
}
