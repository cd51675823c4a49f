//! Health of a connector, for the console and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ringtrue_engine::ports::{ConnectorHealth, LastError};

/// Never holds text that an operator or a device sent.
#[derive(Debug, Default)]
pub(crate) struct HealthRecorder(Mutex<ConnectorHealth>);

impl HealthRecorder {
    /// A valid message or response arrived.
    pub(crate) fn record_success(&self, at: Timestamp) {
        self.lock().last_success_at = Some(at);
    }

    pub(crate) fn record_error(&self, message: impl Into<String>, at: Timestamp) {
        self.lock().last_error = Some(LastError { message: message.into(), at });
    }

    /// An SMS concluded a check; stores the delay.
    pub(crate) fn record_conclusion(&self, received_at: Timestamp, now: Timestamp) {
        self.lock().conclusion_lag = Some(received_at.duration_until(now));
    }

    pub(crate) fn snapshot(&self) -> ConnectorHealth {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectorHealth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
