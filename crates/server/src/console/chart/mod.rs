//! Charts, drawn here as SVG.
//!
//! A picture is stretched to the width that there is, so it has no text in it: scales and labels are HTML around it.
//! Whoever cannot see it has a sentence in its place, and the same numbers as a table below it.

mod drawing;
mod scale;

use askama::Template;

pub use drawing::{Svg, share};
pub use scale::Unit;

/// What is to be drawn: some series over the same periods.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    /// What a period is called: the head of the table's first column.
    pub period: &'static str,
    /// The periods, from left to right.
    pub labels: Vec<String>,
    pub series: Vec<Series>,
    pub unit: Unit,
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: &'static str,
    /// The class that gives it its colour.
    pub tone: &'static str,
    /// One for each period. `None`: there is nothing to say.
    pub values: Vec<Option<i64>>,
}

/// A chart as part of a page.
#[derive(Debug, Template)]
#[template(path = "console/chart.html")]
pub struct Chart {
    title: String,
    summary: String,
    legend: Vec<(&'static str, &'static str)>,
    /// The scale's top and middle.
    scale: [String; 2],
    /// The first, the middle and the last period.
    axis: [String; 3],
    width: usize,
    drawing: Svg,
    head: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    label: String,
    values: Vec<String>,
}

impl Plot {
    /// One bar for each period, in which the series stand on each other.
    pub fn bars(self) -> Chart {
        let highest = (0..self.labels.len()).map(|period| self.sum(period)).max().unwrap_or(0);
        let top = self.unit.top(highest);
        let drawing = drawing::bars(&self, top);
        let total: i64 = (0..self.labels.len()).map(|period| self.sum(period)).sum();
        let busiest = (0..self.labels.len()).find(|period| self.sum(*period) == highest);
        let summary = match busiest.and_then(|period| self.labels.get(period)) {
            Some(label) if highest > 0 => {
                let (total, most) = (self.unit.show(total), self.unit.show(highest));
                format!("{}: {total} in all. The most were {most}, at {label}.", self.title)
            }
            _ => format!("{}: none.", self.title),
        };
        self.chart(top, drawing, summary)
    }

    /// One line for each series, interrupted where there is nothing to say.
    pub fn lines(self) -> Chart {
        let highest = self.series.iter().flat_map(|series| &series.values).flatten().max().copied();
        let top = self.unit.top(highest.unwrap_or(0));
        let drawing = drawing::lines(&self, top);
        let place = self.series.iter().find_map(|series| {
            let period = series.values.iter().position(|value| value.is_some() && *value == highest)?;
            Some((series.name, self.labels.get(period)?))
        });
        let summary = match (highest, place) {
            (Some(highest), Some((name, label))) => {
                format!("{}: the highest is {}, {name}, at {label}.", self.title, self.unit.show(highest))
            }
            _ => format!("{}: none.", self.title),
        };
        self.chart(top, drawing, summary)
    }

    fn sum(&self, period: usize) -> i64 {
        self.series.iter().filter_map(|series| series.values.get(period).copied().flatten()).sum()
    }

    fn chart(self, top: i64, drawing: Svg, summary: String) -> Chart {
        let label = |period: usize| self.labels.get(period).cloned().unwrap_or_default();
        let last = self.labels.len().saturating_sub(1);
        let shown = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), |value| self.unit.show(value));
        let row = |(period, label): (usize, &String)| {
            let values: Vec<_> =
                self.series.iter().map(|series| series.values.get(period).copied().flatten()).collect();
            // Most periods of a quiet project have nothing to tell.
            let has_something = values.iter().any(|value| value.is_some_and(|value| value != 0));
            has_something.then(|| Row { label: label.clone(), values: values.into_iter().map(shown).collect() })
        };
        Chart {
            summary,
            legend: self.series.iter().map(|series| (series.tone, series.name)).collect(),
            scale: [self.unit.show(top), self.unit.show(top / 2)],
            axis: [label(0), label(last.div_ceil(2)), label(last)],
            width: drawing::SLOT * self.labels.len(),
            drawing,
            head: std::iter::once(self.period).chain(self.series.iter().map(|series| series.name)).collect(),
            rows: self.labels.iter().enumerate().filter_map(row).collect(),
            title: self.title,
        }
    }
}

#[cfg(test)]
mod tests;
