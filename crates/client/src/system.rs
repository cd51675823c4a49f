//! The machine: clock, randomness, Unix signals and terminal.

use std::io::{self, IsTerminal, Write};

use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};

const BAR_WIDTH: usize = 30;

/// The current time, in milliseconds.
#[expect(clippy::disallowed_methods, reason = "the only place of this crate that reads the clock")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// # Panics
/// If the system has no randomness.
#[expect(clippy::expect_used, reason = "there is no substitute for randomness")]
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalAction {
    Stop,
    Reload,
}

impl Signals {
    /// Installs the handlers, which replace the default action of these signals.
    pub fn listen() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub async fn next_action(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    /// Waits for SIGTERM or SIGINT.
    pub async fn wait_for_stop(&mut self) {
        while self.next_action().await == SignalAction::Reload {}
    }
}

/// Progress display on standard error if that is a terminal, erased when done.
#[derive(Debug)]
pub(crate) struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn start() -> Self {
        Progress { is_terminal: io::stderr().is_terminal() }
    }

    pub(crate) fn show_bar(&mut self, done: usize, total: usize) {
        if self.is_terminal {
            self.show(&render_bar(done, total));
        }
    }

    /// Replaces the current text.
    pub(crate) fn show(&mut self, text: &str) {
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
