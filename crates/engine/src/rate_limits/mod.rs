//! Rate limits that hold across all nodes.
//!
//! Requests are counted in fixed windows of one second (one minute for failed logins). The counter of a window is one
//! atomic word. No request waits for another machine: nodes exchange their request counts of the last windows. They
//! divide a limit only if the requests to all nodes together exceed it ([`shares`]).

mod class;
mod limiter;
pub mod shares;

pub use class::{DefaultRateLimits, RateLimitClass};
pub use limiter::{LimitSubject, PageVisitorKey, RateLimitState, RateLimiter, ip_bucket};
