//! Clock of the simulated operator: the system clock, or one set by a test.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Unix time in seconds.
    pub(super) fn now(&self) -> i64 {
        (self.0)().as_second()
    }
}

impl Default for Clock {
    #[expect(clippy::disallowed_methods, reason = "the simulated operator uses the system clock")]
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
