//! Use cases around sent callbacks: their log, resends, test callbacks, and the signature debugger.
//!
//! The [`courier`](crate::courier) delivers callbacks.

mod failures;
mod log;
mod signature_debugger;
mod test_callback;

pub(crate) use failures::BulkResendBudget;
pub use failures::{BulkResend, CallbackFailure, FailureFilter, MAX_BULK_RESENDS, MAX_LISTED_FAILURES, ResendBatch};
pub use log::{Attempt, CallbackLog, Callbacks, ResendError, ScheduledResend};
pub use signature_debugger::{PastedCallback, SignatureDebugError, SignatureDebugReport};
pub(crate) use test_callback::RunningTests;
pub use test_callback::TestCallbackError;
