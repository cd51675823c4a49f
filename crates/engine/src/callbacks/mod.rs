//! What users can do with callbacks: list them, read their attempts, resend them, send a test callback, stream them to
//! a development machine, and debug a signature.
//!
//! The [`courier`](crate::courier) delivers the callbacks.

mod failing_receivers;
mod list;
mod log;
mod signature_debugger;
mod statistics;
mod stream;
mod test_callback;

pub use failing_receivers::FailingReceiver;
pub(crate) use list::BulkResendBudget;
pub use list::{
    BulkResendResult, CallbackFilter, CallbackSummaries, CallbackSummary, MAX_BULK_RESENDS, MAX_LISTED_CALLBACKS,
    ResendBatch,
};
pub use log::{Attempt, Callbacks, LoggedCallback, ResendError, ScheduledResend};
pub use signature_debugger::{PastedCallback, SignatureDebugError, SignatureDebugReport};
pub use statistics::{DeliveryPeriod, DeliveryStatistics, MAX_COUNTED_ATTEMPTS};
pub(crate) use stream::OpenStreams;
pub use stream::{
    CallbackStream, MAX_LISTENERS, MAX_RESUME_AGE, StreamedCallback, StreamedCallbacks, TooManyListeners,
};
pub(crate) use test_callback::RunningTests;
pub use test_callback::TestCallbackError;
