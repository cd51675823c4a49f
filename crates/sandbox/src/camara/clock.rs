//! What time it is at the operator: the machine's, unless a test says otherwise.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// In whole seconds since 1970, which is how tokens count.
    pub(super) fn now(&self) -> i64 {
        (self.0)().as_second()
    }
}

impl Default for Clock {
    #[expect(clippy::disallowed_methods, reason = "the operator is a process of its own, with the machine's clock")]
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
