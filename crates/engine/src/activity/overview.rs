//! Activity of a project over time, for the console's overview.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product, tenancy::ProjectId};

use crate::{
    Engine,
    ports::{ActivityFilter, ActivityPeriod, StoreError, WaitingCallbacks},
};

/// Waiting callbacks of the deployment that are scanned to count those of one project.
const MAX_SCANNED_CALLBACKS: u32 = 10_000;

/// Time span of an overview, with the length of its periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverviewSpan {
    /// In minutes.
    Hour,
    /// In quarters of an hour.
    Day,
    /// Thirty days, in days of UTC.
    Month,
}

impl OverviewSpan {
    pub const ALL: [OverviewSpan; 3] = [OverviewSpan::Hour, OverviewSpan::Day, OverviewSpan::Month];

    pub fn period(self) -> SignedDuration {
        match self {
            OverviewSpan::Hour => SignedDuration::from_mins(1),
            OverviewSpan::Day => SignedDuration::from_mins(15),
            OverviewSpan::Month => SignedDuration::from_hours(24),
        }
    }

    fn periods(self) -> i64 {
        match self {
            OverviewSpan::Hour => 60,
            OverviewSpan::Day => 96,
            OverviewSpan::Month => 30,
        }
    }

    /// Start times of the periods. The last period contains `now`.
    fn period_starts(self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        let seconds = self.period().as_secs();
        let last = now.as_second().div_euclid(seconds);
        let first = last - self.periods() + 1;
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

impl Engine {
    /// Activity of a project. Flushes the counts of this node first; those of other nodes may be some seconds behind.
    pub async fn project_overview(
        &self,
        project: ProjectId,
        filter: OverviewFilter,
    ) -> Result<ProjectOverview, StoreError> {
        self.flush_activity().await?;
        let OverviewFilter { span, product, network } = filter;
        let mut periods: Vec<_> = span
            .period_starts(self.clock().now())
            .map(|start| ActivityPeriod { start, counts: ActivityCounts::default() })
            .collect();
        let (Some(first), Some(last)) = (periods.first(), periods.last()) else {
            return Ok(ProjectOverview::default());
        };
        let from = first.start;
        let to = last.start.saturating_add(span.period()).unwrap_or(Timestamp::MAX);
        let filter = |network| ActivityFilter { from, to, period: span.period(), product, network };

        let has_network_filter = network.is_some();
        merge_periods(&mut periods, self.store().activity(project, filter(network)).await?, |counts, found| {
            *counts = found;
        });
        if has_network_filter {
            merge_periods(&mut periods, self.store().activity(project, filter(None)).await?, |counts, found| {
                counts.attempts_delivered = found.attempts_delivered;
                counts.attempts_failed = found.attempts_failed;
                counts.given_up = found.given_up;
            });
        }
        let mut total = ActivityCounts::default();
        for period in &periods {
            total += &period.counts;
        }
        let networks = self.store().active_networks(project, from, to).await?;
        let waiting = self.store().waiting_callbacks(project, product, MAX_SCANNED_CALLBACKS).await?;
        Ok(ProjectOverview { periods, total, networks, waiting })
    }
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
