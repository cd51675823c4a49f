//! Callbacks: notifications about concluded checks.
//!
//! The body is rendered once ([`payload`]), when the check is concluded, and stored in the same transaction. The
//! [`Courier`] signs it ([`ringtrue_callback_signature`]) and posts it until the receiver responds with 200, or seven attempts have
//! failed. URL, body and attempt log are stored sealed ([`sealing`]).

mod courier;
mod list;
mod log;
mod outbox;
pub mod payload;
pub mod sealing;
mod signature_debugger;
mod test_callback;

pub use courier::{
    Courier, CourierDependencies, CourierLimits, CourierMetrics, KeySource, LATENCY_BOUNDS_MILLIS, LEASE_DURATION,
    ProjectLookup, UNREADABLE_FAILURE,
};
pub(crate) use list::BulkResendBudget;
pub use list::{BulkResend, CallbackFilter, CallbackSummary, MAX_BULK_RESENDS, MAX_LISTED_CALLBACKS, ResendBatch};
pub use log::{Attempt, CallbackLog, Callbacks, Exchange, ReceivedResponse, ResendError, ScheduledResend, SentRequest};
pub(crate) use outbox::Outbox;
pub use signature_debugger::{PastedCallback, SignatureDebugError, SignatureDebugReport};
pub(crate) use test_callback::RunningTests;
pub use test_callback::{TestCallbackError, TestCallbackResult};
