//! Access to the machine: clock, random numbers and Unix signals.

use std::io;

use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Returns the current time, rounded down to milliseconds.
#[expect(clippy::disallowed_methods, reason = "the only place of this crate that reads the clock")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Returns random bytes from the system.
///
/// # Panics
///
/// If the system provides no random bytes.
#[expect(clippy::expect_used, reason = "there is no substitute for randomness")]
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// Handlers for SIGTERM, SIGINT and SIGHUP.
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
