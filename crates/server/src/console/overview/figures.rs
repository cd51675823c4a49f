//! What counts say: figures, stages, charts.

use jiff::Timestamp;
use ringtrue_domain::activity::Counts;
use ringtrue_engine::{
    activity::Span,
    ports::{ActivityPeriod, WaitingCallbacks},
};

use crate::console::chart::{Chart, Plot, Series, Svg, Unit, share};

/// A number with its name.
#[derive(Debug)]
pub struct Figure {
    pub name: &'static str,
    pub value: String,
    /// What it is of a whole.
    pub more: String,
}

/// How far checks have come.
#[derive(Debug)]
pub struct Stage {
    pub name: &'static str,
    pub count: String,
    pub percent: String,
    pub bar: Svg,
}

fn figure(name: &'static str, value: i64) -> Figure {
    Figure { name, value: Unit::Count.show(value.max(0)), more: String::new() }
}

fn percent(part: i64, whole: i64) -> String {
    if whole > 0 { format!("{} %", part.max(0) * 100 / whole) } else { "–".to_owned() }
}

pub fn of_checks(total: &Counts) -> Vec<Figure> {
    let latency = |name, percent| Figure {
        name,
        value: total.latency_of(percent).map_or_else(|| "–".to_owned(), |millis| Unit::Millis.show(millis)),
        more: String::new(),
    };
    vec![
        figure("Checks", total.created),
        Figure { more: percent(total.completed, total.created), ..figure("Completed", total.completed) },
        latency("Half completed within", 50),
        latency("95 % completed within", 95),
    ]
}

/// From creation to a match: each stage is part of the one before.
pub fn stages(total: &Counts) -> Vec<Stage> {
    let stages = [
        ("Created", total.created),
        ("User texted, or device came", total.seen),
        ("Completed", total.completed),
        ("Number confirmed or found", total.matched),
    ];
    let stage = |(name, count): (&'static str, i64)| Stage {
        name,
        count: Unit::Count.show(count.max(0)),
        percent: percent(count, total.created),
        bar: share(count.max(0) * 1_000 / total.created.max(1)),
    };
    stages.map(stage).into()
}

/// What has become of the others.
pub fn lost(total: &Counts) -> Vec<Figure> {
    let of_all = |name, count| Figure { more: percent(count, total.created), ..figure(name, count) };
    vec![of_all("Still open", total.open()), of_all("Expired", total.expired), of_all("Failed", total.failed)]
}

pub fn of_callbacks(total: &Counts, waiting: WaitingCallbacks) -> Vec<Figure> {
    let now = Unit::Count.show(i64::try_from(waiting.count).unwrap_or(i64::MAX));
    let now = if waiting.is_cut { format!("at least {now}") } else { now };
    vec![
        figure("Delivered", total.attempts_delivered),
        figure("Failed attempts", total.attempts_failed),
        figure("Given up", total.given_up),
        Figure { name: "Waiting now", value: now, more: String::new() },
    ]
}

/// Checks by when they were created and what has become of them.
pub fn checks(span: Span, periods: &[ActivityPeriod]) -> Chart {
    let series = [
        series("Completed", "good", periods, |counts| Some(counts.completed)),
        series("Open", "open", periods, |counts| Some(counts.open())),
        series("Expired", "late", periods, |counts| Some(counts.expired)),
        series("Failed", "bad", periods, |counts| Some(counts.failed)),
    ];
    plot("Checks", span, periods, series.into(), Unit::Count).bars()
}

/// How long completed checks took.
pub fn latency(span: Span, periods: &[ActivityPeriod]) -> Chart {
    let series = [
        series("95 % within", "late", periods, |counts| counts.latency_of(95)),
        series("Half within", "good", periods, |counts| counts.latency_of(50)),
    ];
    plot("Time to completion", span, periods, series.into(), Unit::Millis).lines()
}

/// Attempts at callbacks by when they ended.
pub fn attempts(span: Span, periods: &[ActivityPeriod]) -> Chart {
    let series = [
        series("Delivered", "good", periods, |counts| Some(counts.attempts_delivered)),
        series("Failed", "bad", periods, |counts| Some(counts.attempts_failed)),
    ];
    plot("Attempts at callbacks", span, periods, series.into(), Unit::Count).bars()
}

fn series(
    name: &'static str,
    tone: &'static str,
    periods: &[ActivityPeriod],
    of: impl Fn(&Counts) -> Option<i64>,
) -> Series {
    let value = |period: &ActivityPeriod| of(&period.counts).map(|value| value.max(0));
    Series { name, tone, values: periods.iter().map(value).collect() }
}

fn plot(subject: &str, span: Span, periods: &[ActivityPeriod], series: Vec<Series>, unit: Unit) -> Plot {
    let (period, per, format) = match span {
        Span::Hour => ("Minute", "minute", "%H:%M"),
        Span::Day => ("Quarter of an hour from", "quarter of an hour", "%H:%M"),
        Span::Month => ("Day", "day", "%b %-d"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_a_part_of_what_was_created() {
        let total = Counts { created: 8, seen: 6, completed: 4, matched: 3, ..Counts::default() };
        let stages = stages(&total);
        let shown: Vec<_> = stages.iter().map(|stage| (stage.count.as_str(), stage.percent.as_str())).collect();
        assert_eq!(shown, [("8", "100 %"), ("6", "75 %"), ("4", "50 %"), ("3", "37 %")]);
        assert!(stages[3].bar.to_string().contains("width=\"375\""));
    }

    #[test]
    fn of_nothing_there_is_no_percentage() {
        let nothing = Counts::default();
        assert!(stages(&nothing).iter().all(|stage| stage.percent == "–"));
        assert_eq!(of_checks(&nothing)[2].value, "–");
    }

    #[test]
    fn waiting_callbacks_that_were_not_all_counted_are_more() {
        for (is_cut, shown) in [(false, "3"), (true, "at least 3")] {
            let figures = of_callbacks(&Counts::default(), WaitingCallbacks { count: 3, is_cut });
            assert_eq!(figures[3].value, shown);
        }
    }
}
