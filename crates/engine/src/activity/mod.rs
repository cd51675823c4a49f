//! Counting what happens, for people who look after a project.
//!
//! What happens to a check is counted in the minute in which the check was created, so that of the checks of any while
//! one can say how many have come how far. Attempts at callbacks are counted in the minute in which they end, and for
//! no network: receivers are the project's own.
//!
//! [`Activity`] counts in memory. Every few seconds the sums are added to the store's ([`Engine::flush_activity`]), and
//! a stop does so once more. A crash loses what was counted since: these are statistics, and checks are not made of
//! them.
//!
//! [`Engine::flush_activity`]: crate::Engine::flush_activity

mod flushing;
mod overview;
mod recorder;
mod totals;

pub use overview::{Overview, OverviewFilter, Span};
pub use recorder::{Activity, Place};
pub use totals::Total;
