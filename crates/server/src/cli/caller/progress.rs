//! How far long work is, for someone who looks on: on a terminal only, and gone afterwards.

use std::io::{self, IsTerminal, Write};

/// Of a bar, in characters.
const WIDTH: usize = 30;

#[derive(Debug)]
pub(super) struct Progress {
    is_seen: bool,
}

impl Progress {
    pub(super) fn begin() -> Self {
        Progress { is_seen: io::stderr().is_terminal() }
    }

    /// How much of it is done, in place of what was said before.
    pub(super) fn bar(&mut self, done: usize, total: usize) {
        if self.is_seen {
            self.say(&bar(done, total));
        }
    }

    /// In place of what was said before.
    pub(super) fn say(&mut self, text: &str) {
        if self.is_seen {
            let mut err = io::stderr().lock();
            // Nobody can be told that nobody can be told.
            let _ = write!(err, "\r\u{1b}[K{text}").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.say("");
    }
}

fn bar(done: usize, total: usize) -> String {
    let filled = (done * WIDTH).checked_div(total).unwrap_or(WIDTH).min(WIDTH);
    format!("[{}{}] {done} of {total}", "#".repeat(filled), "-".repeat(WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill() {
        for (done, total, filled) in [(0, 10, 0), (5, 10, 15), (10, 10, 30), (0, 0, 30), (1, 3, 10)] {
            let bar = bar(done, total);
            assert_eq!(bar.matches('#').count(), filled, "{bar}");
            assert!(bar.ends_with(&format!("] {done} of {total}")), "{bar}");
        }
    }
}
