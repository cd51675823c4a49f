//! Rate limits that hold across all nodes.
//!
//! Requests are counted in fixed windows of one second (one minute for failed logins). The counter of a window is one
//! atomic word. No request waits for another node: nodes exchange their request counts of the last windows in the
//! background. They divide a limit among themselves only if the requests to all nodes together exceed it ([`shares`]).

mod class;
mod limiter;
pub mod shares;

pub use class::{DefaultRateLimits, RateLimitClass};
pub use limiter::{LimitSubject, PageVisitorKey, RateLimitState, RateLimiter, ip_bucket};
