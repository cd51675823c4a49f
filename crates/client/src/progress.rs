//! Shows the progress of long work on standard error. A terminal shows a bar or a spinner, which is erased at the end.
//! Other outputs get lines.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::printer;

const TICK_INTERVAL: Duration = Duration::from_millis(120);
const LINE_INTERVAL: Duration = Duration::from_secs(1);
const SPINNER: &str = "{spinner} {msg} {elapsed}";
const BAR: &str = "[{bar:30}] {pos} of {len} {msg} {eta}";

#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    last_line_at: Instant,
}

impl Progress {
    /// Starts without output, which appears with the first [`show`](Self::show) or [`show_bar`](Self::show_bar).
    pub fn start() -> Self {
        // `indicatif` hides the bar if standard error is not a terminal.
        Progress { bar: ProgressBar::new_spinner().with_style(style("{msg}")), last_line_at: Instant::now() }
    }

    /// Starts with a spinner that shows the elapsed time, for work whose size is unknown.
    pub fn with_spinner(text: &'static str) -> Self {
        let progress = Progress::start();
        progress.bar.set_style(style(SPINNER));
        progress.bar.set_message(text);
        progress.bar.enable_steady_tick(TICK_INTERVAL);
        progress
    }

    /// Shows a text in place of the current text or bar.
    pub fn show(&mut self, text: &str) {
        self.bar.set_style(style("{msg}"));
        self.bar.set_message(text.to_owned());
        self.bar.tick();
    }

    /// Shows a bar in place of the current text or bar. `text` names what is counted, or the current part of the work.
    pub fn show_bar(&mut self, done: u64, total: u64, text: &str) {
        if self.bar.length() != Some(total) {
            self.bar.set_style(style(BAR).progress_chars("#-"));
            self.bar.set_length(total);
        }
        self.bar.set_message(text.to_owned());
        self.bar.set_position(done);
    }

    /// Prints a line, at most one per second, if standard error is not a terminal.
    pub fn print_occasionally(&mut self, line: impl FnOnce() -> String) {
        if self.bar.is_hidden() && self.last_line_at.elapsed() >= LINE_INTERVAL {
            self.last_line_at = Instant::now();
            printer::print_note(&line());
        }
    }

    /// Prints a line, if standard error is not a terminal.
    pub fn print_line_unless_terminal(&self, line: &str) {
        if self.bar.is_hidden() {
            printer::print_note(line);
        }
    }

    /// Hides the progress while `print` writes to the terminal.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Parses a template. The fallback is never used, because the templates are constants and a test parses them.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [SPINNER, BAR, "{msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn bar_has_the_position_and_total() {
        let mut progress = Progress::start();
        progress.show_bar(3, 10, "callbacks");
        assert_eq!((progress.bar.position(), progress.bar.length()), (3, Some(10)));
        assert_eq!(progress.bar.message(), "callbacks");
        progress.show_bar(10, 10, "callbacks");
        assert_eq!(progress.bar.position(), 10);
    }
}
