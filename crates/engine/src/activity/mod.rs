//! Statistics of checks and callbacks, for the project overview and metrics.
//!
//! Events of a check are counted in the minute of the check's creation, which yields a funnel for any period. Callback
//! attempts are counted in the minute in which they end, and for no network.
//!
//! [`ActivityRecorder`] counts in memory. [`Engine::flush_activity`] adds the counts to the store every few seconds and
//! at shutdown. A crash loses the counts since the last flush.
//!
//! [`Engine::flush_activity`]: crate::Engine::flush_activity

mod flush;
mod overview;
mod recorder;
mod totals;

pub use overview::{OverviewFilter, OverviewSpan, ProjectOverview};
pub use recorder::{ActivityKey, ActivityRecorder};
pub use totals::ProductTotals;
