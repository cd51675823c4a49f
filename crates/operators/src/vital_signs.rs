//! What a connector remembers of itself, for whoever runs the deployment.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ringtrue_engine::ports::{Mishap, Signs};

/// Shared by all that happens in a connector. Nothing that an operator or a device wrote goes in here.
#[derive(Debug, Default)]
pub(crate) struct VitalSigns(Mutex<Signs>);

impl VitalSigns {
    /// A message or an answer made sense.
    pub(crate) fn heard(&self, at: Timestamp) {
        self.held().heard_at = Some(at);
    }

    pub(crate) fn failed(&self, what: impl Into<String>, at: Timestamp) {
        self.held().mishap = Some(Mishap { what: what.into(), at });
    }

    /// An SMS has ended a check.
    pub(crate) fn concluded(&self, arrived: Timestamp, now: Timestamp) {
        self.held().lag = Some(arrived.duration_until(now));
    }

    pub(crate) fn read(&self) -> Signs {
        self.held().clone()
    }

    fn held(&self) -> MutexGuard<'_, Signs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
