//! Statistics of checks and callbacks, for the project overview and metrics.
//!
//! Events of a check are counted in the minute of the check's creation, which yields a funnel for any period. Callback
//! attempts are counted in the minute in which they end, and for no network.
//!
//! [`ActivityRecorder`] counts in memory. [`Activity::flush`] adds the counts to the store every few seconds and at
//! shutdown. A crash loses the counts since the last flush.

mod recorder;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product, tenancy::ProjectId};

pub use recorder::{ActivityKey, ActivityRecorder, ProductTotals};

use crate::ports::{ActivityCount, ActivityFilter, ActivityPeriod, ActivityStore, Clock, StoreError, WaitingCallbacks};

/// A crash loses at most the counts of this interval.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
const MAX_BATCH_COUNTERS: usize = 200;
/// Two days, so that the last day can be shown in quarters of an hour.
const MINUTE_RETENTION: SignedDuration = SignedDuration::from_hours(48);
const HOUR_RETENTION: SignedDuration = SignedDuration::from_hours(40 * 24);

/// Waiting callbacks of the deployment that are scanned to count those of one project.
const MAX_SCANNED_CALLBACKS: u32 = 10_000;

/// Time span of an overview, with the length of its periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverviewSpan {
    /// 60 periods of one minute.
    Hour,
    /// 96 periods of 15 minutes.
    Day,
    /// 30 periods of one UTC day.
    Month,
}

impl OverviewSpan {
    pub const ALL: [OverviewSpan; 3] = [OverviewSpan::Hour, OverviewSpan::Day, OverviewSpan::Month];

    pub fn period_length(self) -> SignedDuration {
        match self {
            OverviewSpan::Hour => SignedDuration::from_mins(1),
            OverviewSpan::Day => SignedDuration::from_mins(15),
            OverviewSpan::Month => SignedDuration::from_hours(24),
        }
    }

    fn period_count(self) -> i64 {
        match self {
            OverviewSpan::Hour => 60,
            OverviewSpan::Day => 96,
            OverviewSpan::Month => 30,
        }
    }

    /// Start times of the periods. The last period contains `now`.
    fn period_starts(self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        let seconds = self.period_length().as_secs();
        let last = now.as_second().div_euclid(seconds);
        let first = last - self.period_count() + 1;
        (first..=last).map(move |number| Timestamp::from_second(number * seconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

#[derive(Clone, Debug)]
pub struct OverviewFilter {
    pub span: OverviewSpan,
    pub product: Option<Product>,
    /// Applies to checks only; callbacks have no network.
    pub network: Option<NetworkId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectOverview {
    /// Consecutive, without gaps.
    pub periods: Vec<ActivityPeriod>,
    /// Sum of all periods.
    pub total: ActivityCounts,
    /// Networks with activity in the span.
    pub networks: Vec<NetworkId>,
    /// Waiting callbacks at present, regardless of the span.
    pub waiting: WaitingCallbacks,
}

/// Stores the counts of this node, and reports those of a project.
#[derive(derive_more::Debug)]
#[debug("Activity")]
pub struct Activity {
    pub(crate) recorder: Arc<ActivityRecorder>,
    pub(crate) store: Arc<dyn ActivityStore>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Activity {
    /// Counters of this node.
    pub fn recorder(&self) -> &ActivityRecorder {
        &self.recorder
    }

    /// Adds the counts of this node to the stored ones, and keeps them for the next flush if that fails. They count
    /// twice if only the response of the store was lost.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let activity = &self.recorder;
        let _guard = activity.flushing.lock().await;
        let counts = activity.drain();
        for (number, batch) in counts.chunks(MAX_BATCH_COUNTERS).enumerate() {
            let stored = self.store.add_activity(batch.iter().map(ActivityCount::from).collect()).await;
            if let Err(error) = stored {
                activity.add_back(&counts[number * MAX_BATCH_COUNTERS..]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Flushes periodically until the future is dropped.
    pub async fn run_flush(&self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            if let Err(error) = self.flush().await {
                tracing::debug!(%error, "activity flush failed; retrying");
            }
        }
    }

    /// Sums old minutes into hours and deletes old hours, a bounded number in each transaction. Returns the number of
    /// rows removed.
    pub async fn roll_up(&self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let mut removed = 0;
        loop {
            match self.store.roll_up_activity(start_of_hour(subtract_clamped(now, MINUTE_RETENTION))).await? {
                0 => break,
                minutes => removed += minutes,
            }
        }
        loop {
            match self.store.delete_activity_before(start_of_hour(subtract_clamped(now, HOUR_RETENTION))).await? {
                0 => return Ok(removed),
                rows => removed += rows,
            }
        }
    }

    /// Activity of a project. Flushes the counts of this node first; those of other nodes may be some seconds behind.
    pub async fn project_overview(
        &self,
        project: ProjectId,
        filter: OverviewFilter,
    ) -> Result<ProjectOverview, StoreError> {
        self.flush().await?;
        let OverviewFilter { span, product, network } = filter;
        let mut periods: Vec<_> = span
            .period_starts(self.clock.now())
            .map(|start| ActivityPeriod { start, counts: ActivityCounts::default() })
            .collect();
        let (Some(first), Some(last)) = (periods.first(), periods.last()) else {
            return Ok(ProjectOverview::default());
        };
        let from = first.start;
        let to = last.start.saturating_add(span.period_length()).unwrap_or(Timestamp::MAX);
        let filter = |network| ActivityFilter { from, to, period: span.period_length(), product, network };

        let has_network_filter = network.is_some();
        merge_periods(&mut periods, self.store.activity(project, filter(network)).await?, |counts, found| {
            *counts = found;
        });
        if has_network_filter {
            merge_periods(&mut periods, self.store.activity(project, filter(None)).await?, |counts, found| {
                counts.attempts_delivered = found.attempts_delivered;
                counts.attempts_failed = found.attempts_failed;
                counts.given_up = found.given_up;
            });
        }
        let mut total = ActivityCounts::default();
        for period in &periods {
            total += &period.counts;
        }
        let networks = self.store.active_networks(project, from, to).await?;
        let waiting = self.store.waiting_callbacks(project, product, MAX_SCANNED_CALLBACKS).await?;
        Ok(ProjectOverview { periods, total, networks, waiting })
    }
}

fn subtract_clamped(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Rounds down to the hour, so that only whole hours are rolled up.
fn start_of_hour(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(3_600) * 3_600).unwrap_or(at)
}

/// Merges found counts into their periods. Both are sorted by start.
fn merge_periods(
    periods: &mut [ActivityPeriod],
    found: Vec<ActivityPeriod>,
    merge: impl Fn(&mut ActivityCounts, ActivityCounts),
) {
    for ActivityPeriod { start, counts } in found {
        if let Ok(index) = periods.binary_search_by_key(&start, |period| period.start) {
            merge(&mut periods[index].counts, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_ends_with_the_current_period() {
        for (span, count, first, last) in [
            (OverviewSpan::Hour, 60, "2026-11-15T12:35:00Z", "2026-11-15T13:34:00Z"),
            (OverviewSpan::Day, 96, "2026-11-14T13:45:00Z", "2026-11-15T13:30:00Z"),
            (OverviewSpan::Month, 30, "2026-10-17T00:00:00Z", "2026-11-15T00:00:00Z"),
        ] {
            let period_starts: Vec<_> = span.period_starts("2026-11-15T13:34:56.789Z".parse().unwrap()).collect();
            assert_eq!(period_starts.len(), count, "{span:?}");
            assert_eq!(period_starts.first().unwrap().to_string(), first, "{span:?}");
            assert_eq!(period_starts.last().unwrap().to_string(), last, "{span:?}");
        }
    }
}
