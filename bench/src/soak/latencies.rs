//! Response times by route, measured from the scheduled arrival of a request.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::report;

/// Three digits are exact enough for percentiles, and a histogram stays small.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Responses of one route.
struct RouteLatencies {
    micros: Histogram<u64>,
    /// 503 responses.
    unavailable: u64,
    /// Requests without a response.
    lost: u64,
}

/// Records responses from `start` on.
pub struct Latencies {
    start: Instant,
    duration: Duration,
    window: Duration,
    routes: BTreeMap<&'static str, RouteLatencies>,
    first_window: Histogram<u64>,
    last_window: Histogram<u64>,
}

impl Latencies {
    /// `window` is the length of the first and the last part that are compared.
    pub fn new(start: Instant, duration: Duration, window: Duration) -> anyhow::Result<Self> {
        let [first_window, last_window] = [histogram()?, histogram()?];
        Ok(Latencies { start, duration, window, routes: BTreeMap::new(), first_window, last_window })
    }

    pub fn record_response(&mut self, route: &'static str, scheduled: Instant) -> anyhow::Result<()> {
        let micros = u64::try_from(scheduled.elapsed().as_micros())?.max(1);
        self.route(route)?.micros.record(micros)?;
        let arrival = scheduled.saturating_duration_since(self.start);
        if arrival < self.window {
            self.first_window.record(micros)?;
        } else if arrival >= self.duration.saturating_sub(self.window) {
            self.last_window.record(micros)?;
        }
        Ok(())
    }

    pub fn record_unavailable(&mut self, route: &'static str) -> anyhow::Result<()> {
        self.route(route)?.unavailable += 1;
        Ok(())
    }

    pub fn record_lost(&mut self, route: &'static str) -> anyhow::Result<()> {
        self.route(route)?.lost += 1;
        Ok(())
    }

    fn route(&mut self, route: &'static str) -> anyhow::Result<&mut RouteLatencies> {
        Ok(match self.routes.entry(route) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(RouteLatencies { micros: histogram()?, unavailable: 0, lost: 0 })
            }
        })
    }

    /// Prints a line for each route.
    pub fn report(&self) {
        report::note(
            "milliseconds from the scheduled arrival to the response; 503: database restarts; lost: node kills",
        );
        report::note(&format!(
            "{:<58} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}",
            "route", "responses", "p50", "p99", "p99.9", "max", "503", "lost"
        ));
        for (route, RouteLatencies { micros, unavailable, lost }) in &self.routes {
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| millis(micros.value_at_quantile(quantile)));
            let (count, max) = (micros.len(), millis(micros.max()));
            report::note(&format!(
                "{route:<58} {count:>9} {p50:>8.1} {p99:>8.1} {p999:>8.1} {max:>8.1} {unavailable:>6} {lost:>6}"
            ));
        }
    }

    /// Prints the p99 of all routes in the first and the last window; returns whether their ratio is at most `max`.
    pub fn report_drift(&self, max: f64) -> bool {
        let seconds = self.window.as_secs();
        let [first, last] =
            [&self.first_window, &self.last_window].map(|window| millis(window.value_at_quantile(0.99)));
        report::note(&format!("p99 of the first {seconds} s: {first:.1} ms, of the last {seconds} s: {last:.1} ms"));
        report::at_most("p99 of the last window / of the first", last / first, max)
    }
}

/// Grows with its values.
fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new(SIGNIFICANT_DIGITS)?)
}

#[expect(clippy::cast_precision_loss, reason = "less than an hour")]
fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}
