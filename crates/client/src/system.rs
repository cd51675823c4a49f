//! The machine: clock, randomness and Unix signals.

use std::io;

use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
