//! Progress display on a terminal, erased when done.

use std::io::{self, IsTerminal, Write};

const BAR_WIDTH: usize = 30;

#[derive(Debug)]
pub(super) struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub(super) fn start() -> Self {
        Progress { is_terminal: io::stderr().is_terminal() }
    }

    pub(super) fn show_bar(&mut self, done: usize, total: usize) {
        if self.is_terminal {
            self.show(&render_bar(done, total));
        }
    }

    /// Replaces the current text.
    pub(super) fn show(&mut self, text: &str) {
        if self.is_terminal {
            let mut err = io::stderr().lock();
            // An error on stderr cannot be reported.
            let _ = write!(err, "\r\u{1b}[K{text}").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}

fn render_bar(done: usize, total: usize) -> String {
    let filled = (done * BAR_WIDTH).checked_div(total).unwrap_or(BAR_WIDTH).min(BAR_WIDTH);
    format!("[{}{}] {done} of {total}", "#".repeat(filled), "-".repeat(BAR_WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_filled_in_proportion() {
        for (done, total, filled) in [(0, 10, 0), (5, 10, 15), (10, 10, 30), (0, 0, 30), (1, 3, 10)] {
            let bar = render_bar(done, total);
            assert_eq!(bar.matches('#').count(), filled, "{bar}");
            assert!(bar.ends_with(&format!("] {done} of {total}")), "{bar}");
        }
    }
}
