//! What is said of each trial: line by line to people, all together to programs.

use std::io;

use serde_json::json;

use crate::cli::{
    arguments::Output,
    caller::progress::Progress,
    failure::Failure,
    printer::{self, Printer, Record, harmless},
};

const COLUMNS: [&str; 3] = ["trial", "result", "detail"];

/// What came of a trial.
pub(super) enum Outcome {
    Works(String),
    Fails(String),
    /// For a reason that is nobody's fault.
    NotTried(&'static str),
}

pub(super) struct Report {
    printer: Printer,
    progress: Progress,
    lines: Vec<(&'static str, Outcome)>,
}

impl Report {
    pub(super) fn begin(printer: Printer) -> Self {
        Report { printer, progress: Progress::begin(), lines: vec![] }
    }

    /// Someone may look on meanwhile.
    pub(super) fn trying(&mut self, trial: &str) {
        self.progress.say(&format!("… {trial}"));
    }

    pub(super) fn tell(&mut self, trial: &'static str, outcome: Outcome) -> io::Result<()> {
        self.progress.say("");
        if self.printer.output == Output::Table {
            let (mark, detail) = match &outcome {
                Outcome::Works(detail) => ("ok  ", detail.as_str()),
                Outcome::Fails(detail) => ("FAIL", detail.as_str()),
                Outcome::NotTried(detail) => ("-   ", *detail),
            };
            printer::text(harmless(&format!("{mark}  {trial:<38}  {detail}")).trim_end())?;
        }
        self.lines.push((trial, outcome));
        Ok(())
    }

    /// It is a failure when something failed.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let count = |wanted: fn(&Outcome) -> bool| self.lines.iter().filter(|(_, outcome)| wanted(outcome)).count();
        let failed = count(|outcome| matches!(outcome, Outcome::Fails(_)));
        let working = count(|outcome| matches!(outcome, Outcome::Works(_)));
        if self.printer.output == Output::Table {
            printer::text(&match failed {
                0 => format!("\nEverything that was tried works: {working} of {}.", self.lines.len()),
                _ => format!("\n{failed} of {} failed.", self.lines.len()),
            })?;
        } else {
            self.printer.list(&COLUMNS, self.lines.into_iter().map(record).collect())?;
        }
        if failed == 0 { Ok(()) } else { Err(Failure::Told) }
    }
}

fn record((trial, outcome): (&'static str, Outcome)) -> Record {
    let (result, detail) = match outcome {
        Outcome::Works(detail) => ("works", detail),
        Outcome::Fails(detail) => ("fails", detail),
        Outcome::NotTried(detail) => ("not_tried", detail.to_owned()),
    };
    COLUMNS.into_iter().zip([json!(trial), json!(result), json!(detail)]).collect()
}
