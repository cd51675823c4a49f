//! Telling callers how their checks ended.
//!
//! A callback's body is rendered once ([`payload`]), when its check ends, and its row is written in the transaction of
//! that end. The [`Courier`] signs ([`signature`]) and posts it until a receiver answers 200 or seven attempts have
//! failed. URL, body and the log of attempts are kept sealed ([`sealing`]).

mod courier;
mod examination;
mod exchange;
mod log;
pub mod payload;
pub mod sealing;
pub mod signature;

pub use courier::{
    Courier, CourierParts, Figures, KeySource, LATENCY_BOUNDS, LEASE, Limits, UNREADABLE, WorkspaceLookup,
};
pub use examination::{Examination, ExaminationError, Paste};
pub use exchange::{Exchange, Received, Sent};
pub use log::{Attempt, CallbackLog, ResendError, Resending};
