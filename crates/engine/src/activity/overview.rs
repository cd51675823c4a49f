//! What a project has been doing, as its overview shows it.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{activity::Counts, network::NetworkId, product::Product, tenancy::ProjectId};

use crate::{
    Engine,
    ports::{ActivityFilter, ActivityPeriod, StoreError, WaitingCallbacks},
};

/// How many waiting callbacks of the deployment are looked at for one project's.
const LOOKED_AT: u32 = 10_000;

/// How far an overview reaches back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// By minutes.
    Hour,
    /// By quarters of an hour.
    Day,
    /// Thirty days, by days of UTC.
    Month,
}

impl Span {
    pub const ALL: [Span; 3] = [Span::Hour, Span::Day, Span::Month];

    /// How long a period is.
    pub fn period(self) -> SignedDuration {
        match self {
            Span::Hour => SignedDuration::from_mins(1),
            Span::Day => SignedDuration::from_mins(15),
            Span::Month => SignedDuration::from_hours(24),
        }
    }

    fn periods(self) -> i64 {
        match self {
            Span::Hour => 60,
            Span::Day => 96,
            Span::Month => 30,
        }
    }

    /// When its periods begin. The last one is under way.
    fn starts(self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        let seconds = self.period().as_secs();
        let last = now.as_second().div_euclid(seconds);
        let first = last - self.periods() + 1;
        (first..=last).map(move |number| Timestamp::from_second(number * seconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

#[derive(Clone, Debug)]
pub struct OverviewFilter {
    pub span: Span,
    pub product: Option<Product>,
    /// Holds for checks. Callbacks are of all networks.
    pub network: Option<NetworkId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// One after the other, with nothing left out.
    pub periods: Vec<ActivityPeriod>,
    /// All periods together.
    pub total: Counts,
    /// The networks to choose from.
    pub networks: Vec<NetworkId>,
    /// Now, whatever the span.
    pub waiting: WaitingCallbacks,
}

impl Engine {
    /// What a project has been doing. What this node has counted is stored first, so that nobody misses what they have
    /// just done; what other nodes have counted may be some seconds behind.
    pub async fn overview(&self, project: ProjectId, filter: OverviewFilter) -> Result<Overview, StoreError> {
        self.flush_activity().await?;
        let OverviewFilter { span, product, network } = filter;
        let mut periods: Vec<_> =
            span.starts(self.clock().now()).map(|start| ActivityPeriod { start, counts: Counts::default() }).collect();
        let (Some(first), Some(last)) = (periods.first(), periods.last()) else { return Ok(Overview::default()) };
        let from = first.start;
        let to = last.start.saturating_add(span.period()).unwrap_or(Timestamp::MAX);
        let of = |network| ActivityFilter { from, to, period: span.period(), product, network };

        let is_of_one_network = network.is_some();
        fill(&mut periods, self.store().activity(project, of(network)).await?, |own, found| *own = found);
        if is_of_one_network {
            fill(&mut periods, self.store().activity(project, of(None)).await?, |own, found| {
                own.attempts_delivered = found.attempts_delivered;
                own.attempts_failed = found.attempts_failed;
                own.given_up = found.given_up;
            });
        }
        let mut total = Counts::default();
        for period in &periods {
            total += &period.counts;
        }
        let networks = self.store().active_networks(project, from, to).await?;
        let waiting = self.store().waiting_callbacks(project, product, LOOKED_AT).await?;
        Ok(Overview { periods, total, networks, waiting })
    }
}

/// Puts what was found into its periods. Both are in order.
fn fill(periods: &mut [ActivityPeriod], found: Vec<ActivityPeriod>, put: impl Fn(&mut Counts, Counts)) {
    for ActivityPeriod { start, counts } in found {
        if let Ok(place) = periods.binary_search_by_key(&start, |period| period.start) {
            put(&mut periods[place].counts, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_with_the_period_that_is_under_way() {
        for (span, count, first, last) in [
            (Span::Hour, 60, "2026-11-15T12:35:00Z", "2026-11-15T13:34:00Z"),
            (Span::Day, 96, "2026-11-14T13:45:00Z", "2026-11-15T13:30:00Z"),
            (Span::Month, 30, "2026-10-17T00:00:00Z", "2026-11-15T00:00:00Z"),
        ] {
            let starts: Vec<_> = span.starts("2026-11-15T13:34:56.789Z".parse().unwrap()).collect();
            assert_eq!(starts.len(), count, "{span:?}");
            assert_eq!(starts.first().unwrap().to_string(), first, "{span:?}");
            assert_eq!(starts.last().unwrap().to_string(), last, "{span:?}");
        }
    }
}
