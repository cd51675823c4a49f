//! Counts checks and callback attempts, for the project overview and for metrics.
//!
//! All events of a check count in the minute in which the check was created, so that the counts of any period form a
//! funnel: created, seen (the end-user has acted), completed. Callback attempts count in the minute in which they end,
//! and belong to no network.
//!
//! [`ActivityRecorder`] counts in memory. [`Activity::flush`] adds the counts to the store every few seconds and at
//! shutdown. A crash loses the counts since the last flush.

mod recorder;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, tenancy::ProjectId, verification::funnel::Funnel};

pub use recorder::{ActivityKey, ActivityRecorder, ProductTotals};

use crate::ports::{
    activity::{
        ActivityDelta, ActivityFilter, ActivityScope, ActivityStore, CompletionDuration, FunnelDelta, NetworkActivity,
        PeriodActivity, WaitingCallbacks,
    },
    clock::Clock,
    store::StoreError,
};

/// Time between two flushes of this node's counts to the store. A crash loses the counts since the last flush.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
const MAX_BATCH_COUNTERS: usize = 200;
/// How long counts are kept per minute before they are summed into hours. Two days, so that the last day can be shown
/// in periods of 15 minutes.
const MINUTE_RETENTION: SignedDuration = SignedDuration::from_hours(48);
const HOUR_RETENTION: SignedDuration = SignedDuration::from_hours(40 * 24);

/// Maximum number of waiting callbacks, of all projects, that a query scans to count those of one project.
const MAX_SCANNED_CALLBACKS: u32 = 10_000;

/// Percentiles are exact for fewer checks than this, and estimated otherwise. Reading the completion times of more
/// checks would slow the database down.
const MAX_EXACT_CHECKS: u32 = 20_000;

/// Time span that a project overview shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverviewSpan {
    /// 60 periods of one minute.
    Hour,
    /// 96 periods of 15 minutes.
    Day,
    /// 168 periods of one hour.
    Week,
    /// 30 periods of one UTC day.
    Month,
    /// The periods between `from` (inclusive) and `to` (exclusive). The length of a period depends on the length and
    /// the age of the span.
    Custom { from: Timestamp, to: Timestamp },
}

/// Consecutive periods of equal length, from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverviewPeriods {
    /// Start of the first period.
    pub from: Timestamp,
    /// End of the last period.
    pub to: Timestamp,
    pub length: SignedDuration,
}

impl OverviewSpan {
    /// The spans that end with the current period.
    pub const CURRENT: [OverviewSpan; 4] =
        [OverviewSpan::Hour, OverviewSpan::Day, OverviewSpan::Week, OverviewSpan::Month];

    /// Divides the span into periods. The last period of a span that ends now is the current, incomplete one.
    pub fn periods(self, now: Timestamp) -> OverviewPeriods {
        let (minute, quarter) = (SignedDuration::from_mins(1), SignedDuration::from_mins(15));
        let (hour, day) = (SignedDuration::from_hours(1), SignedDuration::from_hours(24));
        match self {
            OverviewSpan::Hour => OverviewPeriods::ending_at(now, minute, 60),
            OverviewSpan::Day => OverviewPeriods::ending_at(now, quarter, 96),
            OverviewSpan::Week => OverviewPeriods::ending_at(now, hour, 7 * 24),
            OverviewSpan::Month => OverviewPeriods::ending_at(now, day, 30),
            OverviewSpan::Custom { from, to } => {
                let from = from.max(start_of_hour(subtract_clamped(now, HOUR_RETENTION))).min(now);
                // `to` is exclusive. If it were limited to exactly `now`, a period that has just started could be left
                // out.
                let to = to.min(now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now));
                let asked = to.duration_since(from);
                // Counts per minute exist only from this time on. Earlier ones are rolled up into hours.
                let has_minutes = start_of_hour(subtract_clamped(now, MINUTE_RETENTION)) <= from;
                let length = match asked {
                    _ if has_minutes && asked <= SignedDuration::from_hours(2) => minute,
                    _ if has_minutes && asked <= SignedDuration::from_hours(26) => quarter,
                    _ if asked <= SignedDuration::from_hours(8 * 24) => hour,
                    _ => day,
                };
                OverviewPeriods::overlapping(from, to, length)
            }
        }
    }
}

impl OverviewPeriods {
    /// Returns the last `count` periods, up to the one that contains `now`.
    fn ending_at(now: Timestamp, length: SignedDuration, count: i64) -> Self {
        let last = now.as_second().div_euclid(length.as_secs());
        OverviewPeriods { from: period_start(last - count + 1, length), to: period_start(last + 1, length), length }
    }

    /// Returns the periods that overlap the time from `from` (inclusive) to `to` (exclusive). At least one.
    fn overlapping(from: Timestamp, to: Timestamp, length: SignedDuration) -> Self {
        let first = from.as_second().div_euclid(length.as_secs());
        let last = (to.as_second() - 1).div_euclid(length.as_secs()).max(first);
        OverviewPeriods { from: period_start(first, length), to: period_start(last + 1, length), length }
    }

    fn starts(self) -> impl Iterator<Item = Timestamp> {
        let number = |at: Timestamp| at.as_second().div_euclid(self.length.as_secs());
        (number(self.from)..number(self.to)).map(move |number| period_start(number, self.length))
    }
}

/// Returns the start of a period. Periods are numbered from 0, which starts at the Unix epoch.
fn period_start(number: i64, length: SignedDuration) -> Timestamp {
    Timestamp::from_second(number.saturating_mul(length.as_secs())).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[derive(Clone, Debug)]
pub struct OverviewFilter {
    pub span: OverviewSpan,
    pub scope: ActivityScope,
    /// Filters the counts of checks. Callback attempts are counted without a network and are always included.
    pub network: Option<NetworkId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectOverview {
    pub span: OverviewPeriods,
    /// All periods of the span, including those without activity.
    pub periods: Vec<PeriodActivity>,
    /// Sum of all periods.
    pub total: ActivityCounts,
    /// `None`: no check of the span has completed.
    pub completion: Option<CompletionPercentiles>,
    /// Counts by product and network of the checks that match the filter. For verifications, also of their steps.
    pub by_network: Vec<NetworkActivity>,
    /// How far verifications of all networks got. `None`: the overview is not about verifications.
    pub funnel: Option<Funnel>,
    /// Networks with activity in the span, regardless of the filter.
    pub networks: Vec<NetworkId>,
    /// Callbacks that wait for an attempt at present, regardless of the span.
    pub waiting: WaitingCallbacks,
}

/// Percentiles of the time from creation to completion, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionPercentiles {
    pub p50: i64,
    pub p95: i64,
    pub p99: i64,
    /// `true`: computed from the completion time of each check. `false`: estimated from the latency histogram, because
    /// there are too many checks or some are deleted.
    pub is_exact: bool,
}

impl CompletionPercentiles {
    fn exact(durations: &[CompletionDuration]) -> Option<Self> {
        let percentile = |percent| exact_percentile(durations, percent);
        Some(CompletionPercentiles { p50: percentile(50)?, p95: percentile(95)?, p99: percentile(99)?, is_exact: true })
    }

    fn estimated(counts: &ActivityCounts) -> Option<Self> {
        let percentile = |percent| counts.latency_percentile(percent);
        Some(CompletionPercentiles {
            p50: percentile(50)?,
            p95: percentile(95)?,
            p99: percentile(99)?,
            is_exact: false,
        })
    }
}

/// Returns the shortest time within which at least `percent` of the checks completed. `durations` must be sorted.
fn exact_percentile(durations: &[CompletionDuration], percent: i64) -> Option<i64> {
    let total: i64 = durations.iter().map(|duration| duration.count).sum();
    let rank = (total * percent + 99) / 100;
    let mut counted = 0;
    durations.iter().find_map(|duration| {
        counted += duration.count;
        (rank <= counted).then_some(duration.millis)
    })
}

/// Stores the counts of this node, and reads the counts of a project from all nodes.
#[derive(derive_more::Debug)]
#[debug("Activity")]
pub struct Activity {
    pub(crate) recorder: Arc<ActivityRecorder>,
    pub(crate) store: Arc<dyn ActivityStore>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Activity {
    /// Returns the in-memory counters of this node.
    pub fn recorder(&self) -> &ActivityRecorder {
        &self.recorder
    }

    /// Adds the counts of this node to the stored ones. If that fails, keeps them for the next flush. If the store has
    /// written them and only its response was lost, they are counted twice.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let activity = &self.recorder;
        let _guard = activity.flushing.lock().await;
        let counts = activity.drain();
        for (number, batch) in counts.chunks(MAX_BATCH_COUNTERS).enumerate() {
            let stored = self.store.add_activity(batch.iter().map(ActivityDelta::from).collect()).await;
            if let Err(error) = stored {
                activity.add_back(&counts[number * MAX_BATCH_COUNTERS..]);
                return Err(error);
            }
        }
        let counts = activity.drain_funnel();
        for (number, batch) in counts.chunks(MAX_BATCH_COUNTERS).enumerate() {
            let stored = self.store.add_funnel(batch.iter().map(FunnelDelta::from).collect()).await;
            if let Err(error) = stored {
                activity.add_funnel_back(&counts[number * MAX_BATCH_COUNTERS..]);
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

    /// Sums old counts per minute into counts per hour, and deletes old counts per hour. Each transaction handles a
    /// bounded number of rows. Returns the number of rows removed.
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

    /// Reads the activity of a project. Flushes the counts of this node first. Counts of other nodes may be missing for
    /// a few seconds.
    pub async fn project_overview(
        &self,
        project: ProjectId,
        filter: OverviewFilter,
    ) -> Result<ProjectOverview, StoreError> {
        self.flush().await?;
        let OverviewFilter { span, scope, network } = filter;
        let span = span.periods(self.clock.now());
        let OverviewPeriods { from, to, length } = span;
        let mut periods: Vec<_> =
            span.starts().map(|start| PeriodActivity { start, counts: ActivityCounts::default() }).collect();
        let filter = |network| ActivityFilter { from, to, period: length, scope, network };

        merge_periods(&mut periods, self.store.activity(project, filter(network.clone())).await?, |counts, found| {
            *counts = found;
        });
        if network.is_some() {
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
        let mut by_network = self.store.activity_by_network(project, from, to).await?;
        let mut networks: Vec<_> = by_network.iter().filter_map(|row| row.network.clone()).collect();
        networks.sort_unstable();
        networks.dedup();
        let is_counted = |row: &NetworkActivity| scope.includes(row.product, row.is_step);
        let scanned: i64 = by_network.iter().filter(|row| is_counted(row)).map(|row| row.counts.created).sum();
        let is_shown_step = |row: &NetworkActivity| scope == ActivityScope::Verifications && row.is_step;
        by_network.retain(|row| is_counted(row) || is_shown_step(row));
        by_network.retain(|row| network.is_none() || network == row.network);
        let completion = self.completion_percentiles(project, filter(network), &total, scanned).await?;
        let funnel = match scope {
            ActivityScope::Verifications => Some(self.store.funnel(project, from, to).await?),
            ActivityScope::All | ActivityScope::Checks(_) => None,
        };
        let waiting = self.store.waiting_callbacks(project, scope, MAX_SCANNED_CALLBACKS).await?;
        Ok(ProjectOverview { span, periods, total, completion, by_network, funnel, networks, waiting })
    }

    /// Computes exact percentiles if the span has few checks and all of them are still stored. Otherwise estimates them
    /// from `total`. `scanned`: the number of checks that the query has to read. It reads checks of all networks, and
    /// filters by network afterwards.
    async fn completion_percentiles(
        &self,
        project: ProjectId,
        filter: ActivityFilter,
        total: &ActivityCounts,
        scanned: i64,
    ) -> Result<Option<CompletionPercentiles>, StoreError> {
        let expected = match filter.scope {
            ActivityScope::Verifications => total.matched,
            ActivityScope::All | ActivityScope::Checks(_) => total.completed,
        };
        if scanned < i64::from(MAX_EXACT_CHECKS)
            && let Some(times) = self.store.completion_durations(project, filter, MAX_EXACT_CHECKS).await?
            && expected <= times.iter().map(|time| time.count).sum::<i64>()
        {
            return Ok(CompletionPercentiles::exact(&times));
        }
        Ok(CompletionPercentiles::estimated(total))
    }
}

fn subtract_clamped(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Rounds down to the hour, so that only whole hours are rolled up.
fn start_of_hour(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(3_600) * 3_600).unwrap_or(at)
}

/// Merges the counts that the store found into `periods`, which must be sorted by start.
fn merge_periods(
    periods: &mut [PeriodActivity],
    found: Vec<PeriodActivity>,
    merge: impl Fn(&mut ActivityCounts, ActivityCounts),
) {
    for PeriodActivity { start, counts } in found {
        if let Ok(index) = periods.binary_search_by_key(&start, |period| period.start) {
            merge(&mut periods[index].counts, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods(span: OverviewSpan) -> OverviewPeriods {
        span.periods("2026-11-15T13:34:56.789Z".parse().unwrap())
    }

    #[test]
    fn span_ends_with_the_current_period() {
        for (span, count, first, last) in [
            (OverviewSpan::Hour, 60, "2026-11-15T12:35:00Z", "2026-11-15T13:34:00Z"),
            (OverviewSpan::Day, 96, "2026-11-14T13:45:00Z", "2026-11-15T13:30:00Z"),
            (OverviewSpan::Week, 168, "2026-11-08T14:00:00Z", "2026-11-15T13:00:00Z"),
            (OverviewSpan::Month, 30, "2026-10-17T00:00:00Z", "2026-11-15T00:00:00Z"),
        ] {
            let period_starts: Vec<_> = periods(span).starts().collect();
            assert_eq!(period_starts.len(), count, "{span:?}");
            assert_eq!(period_starts.first().unwrap().to_string(), first, "{span:?}");
            assert_eq!(period_starts.last().unwrap().to_string(), last, "{span:?}");
        }
    }

    #[test]
    fn custom_span_has_the_finest_periods_that_are_stored() {
        for (from, to, minutes, first, end) in [
            ("15T12:00:30", "15T13:00", 1, "15T12:00", "15T13:00"),
            ("15T00:05", "15T13:00", 15, "15T00:00", "15T13:00"),
            ("13T14:00", "15T13:00", 60, "13T14:00", "15T13:00"),
            // Counts of three days ago exist only per hour.
            ("12T12:10", "12T12:20", 60, "12T12:00", "12T13:00"),
            ("01T12:00", "15T12:00", 24 * 60, "01T00:00", "16T00:00"),
            // A span that reaches into the future ends with the current period.
            ("15T13:00", "20T00:00", 1, "15T13:00", "15T13:35"),
            ("20T00:00", "21T00:00", 1, "15T13:34", "15T13:35"),
        ] {
            let at = |text: &str| -> Timestamp {
                let seconds = if text.len() == "15T12:00".len() { ":00" } else { "" };
                format!("2026-11-{text}{seconds}Z").parse().unwrap()
            };
            let found = periods(OverviewSpan::Custom { from: at(from), to: at(to) });
            let length = SignedDuration::from_mins(minutes);
            assert_eq!(found, OverviewPeriods { from: at(first), to: at(end), length }, "{from} to {to}");
        }
        let all_time = OverviewSpan::Custom { from: Timestamp::UNIX_EPOCH, to: Timestamp::MAX };
        assert!(periods(all_time).starts().count() <= 42, "only as far as counts are kept");
    }

    #[test]
    fn exact_percentiles_are_times_of_checks() {
        let times = |all: &[(i64, i64)]| -> Vec<_> {
            all.iter().map(|(millis, count)| CompletionDuration { millis: *millis, count: *count }).collect()
        };
        let of = |all: &[(i64, i64)]| {
            CompletionPercentiles::exact(&times(all)).map(|exact| (exact.p50, exact.p95, exact.p99))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(1_234, 1)]), Some((1_234, 1_234, 1_234)));
        assert_eq!(of(&[(10, 50), (20, 45), (30, 4), (40, 1)]), Some((10, 20, 30)));
        assert_eq!(of(&[(10, 49), (20, 46), (30, 3), (40, 2)]), Some((20, 20, 40)));
    }
}
