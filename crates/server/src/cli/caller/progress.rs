//! How far long work is, for someone who looks on: on a terminal only, and gone afterwards.

use std::io::{self, IsTerminal, Write};

#[derive(Debug)]
pub(super) struct Progress {
    is_seen: bool,
}

impl Progress {
    pub(super) fn begin() -> Self {
        Progress { is_seen: io::stderr().is_terminal() }
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
