//! Rate limits across all nodes.
//!
//! Fixed windows of a second (a minute for failed logins), each counted in one atomic word. No call waits for another
//! machine: nodes exchange the calls of the last windows, and divide a limit that all of them together exceed
//! ([`shares`]).

mod class;
mod limiter;
pub mod shares;

pub use class::{DefaultRateLimits, RateLimitClass};
pub use limiter::{LimitSubject, PageVisitorKey, RateLimitState, RateLimiter, ip_bucket};
