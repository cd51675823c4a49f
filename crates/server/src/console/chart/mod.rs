//! SVG charts.
//!
//! The SVG is stretched to the available width and therefore contains no text; axis labels are HTML. For accessibility,
//! each chart has a summary as its label and a table of its values.

mod svg;
mod unit;

use askama::Template;

pub use svg::{Svg, share_bar};
pub use unit::Unit;

/// Series over the same periods.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    /// Header of the table's first column.
    pub period: &'static str,
    /// One for each period.
    pub labels: Vec<String>,
    pub series: Vec<Series>,
    pub unit: Unit,
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: &'static str,
    /// Determines the colour.
    pub css_class: &'static str,
    /// One for each period. `None`: no value.
    pub values: Vec<Option<i64>>,
}

#[derive(Debug, Template)]
#[template(path = "console/chart.html")]
pub struct Chart {
    title: String,
    summary: String,
    legend: Vec<(&'static str, &'static str)>,
    /// Top and middle of the value axis.
    axis_values: [String; 2],
    /// First, middle and last period.
    axis_labels: [String; 3],
    width: usize,
    svg: Svg,
    table_header: Vec<&'static str>,
    table_rows: Vec<TableRow>,
}

#[derive(Debug)]
struct TableRow {
    label: String,
    values: Vec<String>,
}

impl Plot {
    /// Stacked bars, one for each period.
    pub fn bars(self) -> Chart {
        let highest = (0..self.labels.len()).map(|period| self.period_total(period)).max().unwrap_or(0);
        let axis_max = self.unit.axis_max(highest);
        let svg = svg::bars(&self, axis_max);
        let total: i64 = (0..self.labels.len()).map(|period| self.period_total(period)).sum();
        let peak = (0..self.labels.len()).find(|period| self.period_total(*period) == highest);
        let summary = match peak.and_then(|period| self.labels.get(period)) {
            Some(label) if highest > 0 => {
                let (total, most) = (self.unit.format(total), self.unit.format(highest));
                format!("{}: {total} in total. Peak: {most} at {label}.", self.title)
            }
            _ => format!("{}: none.", self.title),
        };
        self.into_chart(axis_max, svg, summary)
    }

    /// One line for each series, interrupted where values are missing.
    pub fn lines(self) -> Chart {
        let highest = self.series.iter().flat_map(|series| &series.values).flatten().max().copied();
        let axis_max = self.unit.axis_max(highest.unwrap_or(0));
        let svg = svg::lines(&self, axis_max);
        let peak = self.series.iter().find_map(|series| {
            let period = series.values.iter().position(|value| value.is_some() && *value == highest)?;
            Some((series.name, self.labels.get(period)?))
        });
        let summary = match (highest, peak) {
            (Some(highest), Some((name, label))) => {
                format!("{}: maximum {} ({name}) at {label}.", self.title, self.unit.format(highest))
            }
            _ => format!("{}: none.", self.title),
        };
        self.into_chart(axis_max, svg, summary)
    }

    fn period_total(&self, period: usize) -> i64 {
        self.series.iter().filter_map(|series| series.values.get(period).copied().flatten()).sum()
    }

    fn into_chart(self, axis_max: i64, svg: Svg, summary: String) -> Chart {
        let label = |period: usize| self.labels.get(period).cloned().unwrap_or_default();
        let last = self.labels.len().saturating_sub(1);
        let format = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), |value| self.unit.format(value));
        let row = |(period, label): (usize, &String)| {
            let values: Vec<_> =
                self.series.iter().map(|series| series.values.get(period).copied().flatten()).collect();
            // Periods without values are omitted.
            let has_values = values.iter().any(|value| value.is_some_and(|value| value != 0));
            has_values.then(|| TableRow { label: label.clone(), values: values.into_iter().map(format).collect() })
        };
        Chart {
            summary,
            legend: self.series.iter().map(|series| (series.css_class, series.name)).collect(),
            axis_values: [self.unit.format(axis_max), self.unit.format(axis_max / 2)],
            axis_labels: [label(0), label(last.div_ceil(2)), label(last)],
            width: svg::PERIOD_WIDTH * self.labels.len(),
            svg,
            table_header: std::iter::once(self.period).chain(self.series.iter().map(|series| series.name)).collect(),
            table_rows: self.labels.iter().enumerate().filter_map(row).collect(),
            title: self.title,
        }
    }
}

#[cfg(test)]
mod tests;
