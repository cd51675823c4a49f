//! Statistics on attempts to deliver callbacks: response times and results by period.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::tenancy::ProjectId;

use super::{CallbackSummary, Callbacks};
use crate::ports::{callbacks::AttemptSummary, store::StoreError};

/// Maximum number of attempts that the statistics count. Attempts of the newest checks come first.
pub const MAX_COUNTED_ATTEMPTS: u32 = 5_000;
/// Maximum number of periods. Older attempts are left out.
const MAX_PERIODS: usize = 60;
/// Lengths of a period, in minutes. The shortest one that needs at most [`MAX_PERIODS`] periods is used.
const PERIOD_MINUTES: [i64; 7] = [1, 5, 15, 60, 6 * 60, 24 * 60, 7 * 24 * 60];

/// Attempts by the period in which they started. Periods without attempts are included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryStatistics {
    pub period: SignedDuration,
    pub periods: Vec<DeliveryPeriod>,
    /// Whether older attempts were left out.
    pub is_truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPeriod {
    pub start: Timestamp,
    /// Median duration of the attempts, in milliseconds. `None`: there were no attempts.
    pub p50: Option<i64>,
    pub p95: Option<i64>,
    pub delivered: i64,
    /// Attempts with another status than 200.
    pub rejected: i64,
    /// Attempts without a response, such as timeouts.
    pub unanswered: i64,
}

impl Callbacks {
    /// Counts the delivery attempts of the given callbacks. `None`: none was attempted.
    pub async fn delivery_statistics(
        &self,
        project: ProjectId,
        callbacks: impl Iterator<Item = &CallbackSummary>,
    ) -> Result<Option<DeliveryStatistics>, StoreError> {
        let checks: Vec<_> =
            callbacks.filter(|callback| callback.attempts > 0).map(|callback| callback.check).collect();
        if checks.is_empty() {
            return Ok(None);
        }
        let attempts = self.store.list_attempts(project, checks, MAX_COUNTED_ATTEMPTS).await?;
        Ok(summarize_attempts(&attempts))
    }
}

fn summarize_attempts(attempts: &[AttemptSummary]) -> Option<DeliveryStatistics> {
    let started = || attempts.iter().map(|attempt| attempt.started_at.as_second().div_euclid(60));
    let (first, last) = (started().min()?, started().max()?);
    let max_periods = i64::try_from(MAX_PERIODS).unwrap_or(i64::MAX);
    let count = |minutes: i64| last.div_euclid(minutes) - first.div_euclid(minutes) + 1;
    let longest = PERIOD_MINUTES[PERIOD_MINUTES.len() - 1];
    let minutes = PERIOD_MINUTES.into_iter().find(|minutes| count(*minutes) <= max_periods).unwrap_or(longest);
    let first_period = first.div_euclid(minutes).max(last.div_euclid(minutes) - max_periods + 1);
    let periods = first_period..=last.div_euclid(minutes);
    let mut by_period = vec![vec![]; periods.clone().count()];
    for attempt in attempts {
        let period = attempt.started_at.as_second().div_euclid(60 * minutes) - first_period;
        if let Some(of_period) = usize::try_from(period).ok().and_then(|period| by_period.get_mut(period)) {
            of_period.push(attempt);
        }
    }
    let counted: usize = by_period.iter().map(Vec::len).sum();
    let is_limit_reached = u32::try_from(attempts.len()).is_ok_and(|count| count >= MAX_COUNTED_ATTEMPTS);
    Some(DeliveryStatistics {
        period: SignedDuration::from_mins(minutes),
        periods: periods
            .zip(by_period)
            .filter_map(|(period, attempts)| {
                let start = Timestamp::from_second(period * minutes * 60).ok()?;
                Some(count_period(start, &attempts))
            })
            .collect(),
        is_truncated: is_limit_reached || counted < attempts.len(),
    })
}

fn count_period(start: Timestamp, attempts: &[&AttemptSummary]) -> DeliveryPeriod {
    let millis = |attempt: &&AttemptSummary| {
        attempt.ended_at.as_millisecond().saturating_sub(attempt.started_at.as_millisecond())
    };
    let mut durations: Vec<i64> = attempts.iter().map(millis).collect();
    durations.sort_unstable();
    // The nearest rank.
    let percentile =
        |percent: usize| durations.get((durations.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    let count = |is_counted: fn(&AttemptSummary) -> bool| {
        i64::try_from(attempts.iter().filter(|attempt| is_counted(attempt)).count()).unwrap_or(i64::MAX)
    };
    DeliveryPeriod {
        start,
        p50: percentile(50),
        p95: percentile(95),
        delivered: count(|attempt| attempt.status == Some(200)),
        rejected: count(|attempt| attempt.status.is_some_and(|status| status != 200)),
        unanswered: count(|attempt| attempt.status.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::lifecycle::CheckId;
    use uuid::Uuid;

    use super::*;

    fn attempt(started_at: i64, millis: i64, status: Option<u16>) -> AttemptSummary {
        let started_at = Timestamp::from_second(started_at).unwrap();
        AttemptSummary {
            check: CheckId(Uuid::nil()),
            started_at,
            ended_at: started_at + SignedDuration::from_millis(millis),
            status,
            failure: None,
        }
    }

    #[test]
    fn attempts_are_counted_by_period() {
        let attempts = [
            attempt(6_000, 10, Some(200)),
            attempt(6_059, 30, Some(200)),
            attempt(6_030, 20, Some(503)),
            attempt(6_120, 5_000, None),
        ];
        let statistics = summarize_attempts(&attempts).unwrap();
        let shown: Vec<_> = statistics
            .periods
            .iter()
            .map(|it| (it.start.as_second(), it.p50, it.p95, it.delivered, it.rejected, it.unanswered))
            .collect();
        let expected = [
            (6_000, Some(20), Some(30), 2, 1, 0),
            (6_060, None, None, 0, 0, 0),
            (6_120, Some(5_000), Some(5_000), 0, 0, 1),
        ];
        assert_eq!(shown, expected);
        assert_eq!((statistics.period, statistics.is_truncated), (SignedDuration::from_mins(1), false));
        assert_eq!(summarize_attempts(&[]), None);
    }

    #[test]
    fn period_grows_with_the_time_between_attempts() {
        const DAY: i64 = 86_400;
        for (seconds, minutes, count, is_truncated) in [
            (59, 1, 1, false),
            (3_599, 1, 60, false),
            (3_600, 5, 13, false),
            (DAY, 60, 25, false),
            (7 * DAY, 6 * 60, 29, false),
            (365 * DAY, 7 * 24 * 60, 53, false),
            (3_650 * DAY, 7 * 24 * 60, 60, true),
        ] {
            let statistics = summarize_attempts(&[attempt(0, 1, None), attempt(seconds, 1, None)]).unwrap();
            let shown = (statistics.period.as_mins(), statistics.periods.len(), statistics.is_truncated);
            assert_eq!(shown, (minutes, count, is_truncated), "{seconds}");
        }
    }
}
