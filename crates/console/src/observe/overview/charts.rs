//! Charts of the overview, by time.

use jiff::Timestamp;
use ringtrue_domain::activity::ActivityCounts;
use ringtrue_engine::{activity::OverviewPeriods, ports::activity::PeriodActivity};

use crate::{
    observe::overview::{View, outcomes::matched_name},
    page::chart::{Chart, Plot, Series, Unit},
};

/// Draws the number of checks or verifications by creation time and outcome.
pub fn checks_chart(view: View, span: OverviewPeriods, periods: &[PeriodActivity]) -> Chart {
    let series = [
        series(matched_name(view), "match", periods, |counts| Some(counts.matched)),
        series("No match", "no-match", periods, |counts| Some(counts.unmatched())),
        series("Expired", "expired", periods, |counts| Some(counts.expired)),
        series("Failed", "failed", periods, |counts| Some(counts.failed)),
        series("Open", "open", periods, |counts| Some(counts.open_checks())),
    ];
    plot(view.title(), span, periods, series.into(), Unit::Count).into_bar_chart()
}

/// Draws percentiles of the time that checks took to complete.
pub fn latency_chart(span: OverviewPeriods, periods: &[PeriodActivity]) -> Chart {
    let series = [
        series("p99", "third", periods, |counts| counts.latency_percentile(99)),
        series("p95", "second", periods, |counts| counts.latency_percentile(95)),
        series("p50", "first", periods, |counts| counts.latency_percentile(50)),
    ];
    plot("Time to completion", span, periods, series.into(), Unit::Millis).into_line_chart()
}

/// Draws the number of callback attempts by the time at which they ended.
pub fn callback_attempts_chart(span: OverviewPeriods, periods: &[PeriodActivity]) -> Chart {
    let series = [
        series("Delivered", "match", periods, |counts| Some(counts.attempts_delivered)),
        series("Failed", "failed", periods, |counts| Some(counts.attempts_failed)),
    ];
    plot("Callback attempts", span, periods, series.into(), Unit::Count).into_bar_chart()
}

fn series(
    name: &'static str,
    css_class: &'static str,
    periods: &[PeriodActivity],
    value_of: impl Fn(&ActivityCounts) -> Option<i64>,
) -> Series {
    let value = |period: &PeriodActivity| value_of(&period.counts).map(|value| value.max(0));
    Series { name, css_class, values: periods.iter().map(value).collect() }
}

fn plot(subject: &str, span: OverviewPeriods, periods: &[PeriodActivity], series: Vec<Series>, unit: Unit) -> Plot {
    let (period, per, format) = match span.length.as_mins() {
        ..=1 => ("Minute", "minute", "%H:%M"),
        2..60 => ("15 minutes from", "15 minutes", "%H:%M"),
        60 => ("Hour", "hour", "%b %-d, %H:%M"),
        _ => ("Day", "day", "%b %-d"),
    };
    let label = |start: Timestamp| start.strftime(format).to_string();
    Plot {
        title: format!("{subject} per {per}"),
        period,
        labels: periods.iter().map(|period| label(period.start)).collect(),
        series,
        unit,
    }
}
