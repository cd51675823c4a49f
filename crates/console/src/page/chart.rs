//! Draws SVG charts.
//!
//! The SVG is stretched to the available width and therefore contains no text; axis labels are HTML. For accessibility,
//! each chart has a summary as its label and a table of its values.
//!
//! Coordinates are integers: a period is [`PERIOD_WIDTH`] wide, a chart [`CHART_HEIGHT`] high.

use std::fmt::{self, Write};

use askama::{Template, filters::HtmlSafe};

const PERIOD_WIDTH: usize = 10;
const CHART_HEIGHT: i64 = 1_000;
/// Minimum height of a bar, which keeps small values visible.
const MIN_BAR_HEIGHT: i64 = 12;

const TIME_AXIS_MAXIMA_MILLIS: [i64; 13] =
    [200, 500, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 60_000, 120_000, 240_000, 600_000, 1_200_000];

/// Data of a chart: several series over the same periods.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    /// Header of the table's first column.
    pub period: &'static str,
    /// Label of each period.
    pub labels: Vec<String>,
    pub series: Vec<Series>,
    pub unit: Unit,
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: &'static str,
    /// CSS class that determines the colour.
    pub css_class: &'static str,
    /// Value of each period. `None`: the period has no value.
    pub values: Vec<Option<i64>>,
}

#[derive(Debug, Template)]
#[template(path = "page/chart.html")]
pub struct Chart {
    title: String,
    summary: String,
    legend: Vec<(&'static str, &'static str)>,
    /// Labels at the top and the middle of the value axis.
    axis_values: [String; 2],
    /// Labels of the first, middle and last period.
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

/// SVG elements as markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Svg(String);

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Safe because the markup contains only numbers, period labels and constant names, no user input.
impl HtmlSafe for Svg {}

impl Svg {
    fn push(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(element);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Millis,
}

impl Unit {
    /// Returns the maximum of the value axis: a round number, at least `highest`, whose half is also round.
    pub fn axis_max(self, highest: i64) -> i64 {
        match self {
            Unit::Count => {
                let mut magnitude = 1_i64;
                loop {
                    if let Some(top) =
                        [2, 4, 6, 8, 10].map(|step| step * magnitude).into_iter().find(|top| *top >= highest)
                    {
                        return top;
                    }
                    let Some(next) = magnitude.checked_mul(10).filter(|next| *next < i64::MAX / 100) else {
                        return highest;
                    };
                    magnitude = next;
                }
            }
            Unit::Millis => TIME_AXIS_MAXIMA_MILLIS.into_iter().find(|top| *top >= highest).unwrap_or(highest),
        }
    }

    pub fn format(self, value: i64) -> String {
        match self {
            Unit::Count => group_thousands(value),
            Unit::Millis => match value {
                ..1_000 => format!("{value} ms"),
                1_000..10_000 if value % 1_000 >= 100 => format!("{}.{} s", value / 1_000, value % 1_000 / 100),
                1_000..60_000 => format!("{} s", value / 1_000),
                _ if value % 60_000 < 1_000 => format!("{} min", value / 60_000),
                _ => format!("{} min {} s", value / 60_000, value % 60_000 / 1_000),
            },
        }
    }
}

impl Series {
    fn at(&self, period: usize) -> Option<i64> {
        self.values.get(period).copied().flatten()
    }
}

impl Plot {
    /// Draws stacked bars, one for each period.
    pub fn into_bar_chart(self) -> Chart {
        let highest = (0..self.labels.len()).map(|period| self.period_total(period)).max().unwrap_or(0);
        let axis_max = self.unit.axis_max(highest);
        let svg = draw_bars(&self, axis_max);
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

    /// Draws one line for each series. A line is interrupted where values are missing.
    pub fn into_line_chart(self) -> Chart {
        let highest = self.series.iter().flat_map(|series| &series.values).flatten().max().copied();
        let axis_max = self.unit.axis_max(highest.unwrap_or(0));
        let svg = draw_lines(&self, axis_max);
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
        self.series.iter().filter_map(|series| series.at(period)).sum()
    }

    fn into_chart(self, axis_max: i64, svg: Svg, summary: String) -> Chart {
        let label = |period: usize| self.labels.get(period).cloned().unwrap_or_default();
        let last = self.labels.len().saturating_sub(1);
        let format = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), |value| self.unit.format(value));
        let row = |(period, label): (usize, &String)| {
            let values: Vec<_> = self.series.iter().map(|series| series.at(period)).collect();
            // The table omits periods without values.
            let has_values = values.iter().any(|value| value.is_some_and(|value| value != 0));
            has_values.then(|| TableRow { label: label.clone(), values: values.into_iter().map(format).collect() })
        };
        Chart {
            summary,
            legend: self.series.iter().map(|series| (series.css_class, series.name)).collect(),
            axis_values: [self.unit.format(axis_max), self.unit.format(axis_max / 2)],
            axis_labels: [label(0), label(last.div_ceil(2)), label(last)],
            width: PERIOD_WIDTH * self.labels.len(),
            svg,
            table_header: std::iter::once(self.period).chain(self.series.iter().map(|series| series.name)).collect(),
            table_rows: self.labels.iter().enumerate().filter_map(row).collect(),
            title: self.title,
        }
    }
}

/// Draws stacked bars, with the first series at the bottom.
fn draw_bars(plot: &Plot, axis_max: i64) -> Svg {
    let mut svg = Svg::default();
    for (period, label) in plot.labels.iter().enumerate() {
        if plot.period_total(period) == 0 {
            continue;
        }
        open_period_group(&mut svg, plot, period, label);
        let mut y = CHART_HEIGHT;
        for series in &plot.series {
            let value = series.at(period).unwrap_or(0);
            if value > 0 {
                let height = scale(value, axis_max).max(MIN_BAR_HEIGHT);
                y -= height;
                let (x, width) = (period * PERIOD_WIDTH + 1, PERIOD_WIDTH - 2);
                let css_class = series.css_class;
                svg.push(format_args!(
                    "<rect class=\"{css_class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
                ));
            }
        }
        svg.push(format_args!("</g>"));
    }
    svg
}

/// Draws a line for each series through adjacent periods. A value without neighbours is a dot.
fn draw_lines(plot: &Plot, axis_max: i64) -> Svg {
    let mut svg = Svg::default();
    for series in &plot.series {
        let (mut line, mut dots) = (Svg::default(), Svg::default());
        for period in 0..series.values.len() {
            let Some(value) = series.at(period) else { continue };
            let (x, y) = (period * PERIOD_WIDTH + PERIOD_WIDTH / 2, CHART_HEIGHT - scale(value, axis_max));
            let before = period.checked_sub(1).and_then(|before| series.at(before));
            match (before, series.at(period + 1)) {
                (Some(_), _) => line.push(format_args!("L{x} {y}")),
                (None, Some(_)) => line.push(format_args!("M{x} {y}")),
                // A zero-length line with round caps is a dot that stretching does not distort.
                (None, None) => dots.push(format_args!("M{x} {y}h0")),
            }
        }
        for (class, path) in [("line", line), ("dots", dots)] {
            if path != Svg::default() {
                svg.push(format_args!("<path class=\"{class} {}\" d=\"{path}\"/>", series.css_class));
            }
        }
    }
    for (period, label) in plot.labels.iter().enumerate() {
        if plot.series.iter().any(|series| series.at(period).is_some()) {
            open_period_group(&mut svg, plot, period, label);
            svg.push(format_args!("</g>"));
        }
    }
    svg
}

/// Draws a horizontal bar whose length is `thousandths` of the available width.
pub fn share_bar(thousandths: i64) -> Svg {
    let width = thousandths.clamp(0, 1_000);
    let mut svg = Svg::default();
    svg.push(format_args!(
        "<svg class=\"share\" viewBox=\"0 0 1000 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{width}\" height=\"1\"/></svg>"
    ));
    svg
}

/// Draws one horizontal bar from parts, given by CSS class and count.
pub fn stacked_bar(parts: &[(&'static str, i64)]) -> Svg {
    let total: i64 = parts.iter().map(|(_, count)| *count).sum();
    let mut svg = Svg::default();
    svg.push(format_args!(
        "<svg class=\"share stacked\" viewBox=\"0 0 1000 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
    ));
    let mut before = 0;
    for (css_class, count) in parts.iter().filter(|(_, count)| *count > 0) {
        let x = before * 1_000 / total;
        before += count;
        let width = before * 1_000 / total - x;
        svg.push(format_args!("<rect class=\"{css_class}\" x=\"{x}\" width=\"{width}\" height=\"1\"/>"));
    }
    svg.push(format_args!("</svg>"));
    svg
}

/// Opens the SVG group of a period. Browsers show the period's values when the user hovers over it.
fn open_period_group(svg: &mut Svg, plot: &Plot, period: usize, label: &str) {
    svg.push(format_args!("<g><title>{label}"));
    for series in &plot.series {
        if let Some(value) = series.at(period).filter(|value| *value != 0) {
            svg.push(format_args!(" · {}: {}", series.name, plot.unit.format(value)));
        }
    }
    let x = period * PERIOD_WIDTH;
    svg.push(format_args!(
        "</title><rect class=\"slot\" x=\"{x}\" y=\"0\" width=\"{PERIOD_WIDTH}\" height=\"{CHART_HEIGHT}\"/>"
    ));
}

fn scale(value: i64, axis_max: i64) -> i64 {
    value.clamp(0, axis_max) * CHART_HEIGHT / axis_max.max(1)
}

fn group_thousands(value: i64) -> String {
    let digits = value.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("−", digits));
    let mut text = sign.to_owned();
    for (access, digit) in digits.char_indices() {
        if access > 0 && (digits.len() - access).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_max_is_round() {
        for (unit, highest, top) in [
            (Unit::Count, 0, 2),
            (Unit::Count, 2, 2),
            (Unit::Count, 3, 4),
            (Unit::Count, 5, 6),
            (Unit::Count, 9, 10),
            (Unit::Count, 11, 20),
            (Unit::Count, 401, 600),
            (Unit::Count, i64::MAX, i64::MAX),
            (Unit::Millis, 0, 200),
            (Unit::Millis, 1_900, 2_000),
            (Unit::Millis, 41_000, 60_000),
            (Unit::Millis, 2_000_000, 2_000_000),
        ] {
            assert_eq!(unit.axis_max(highest), top, "{unit:?} {highest}");
        }
    }

    #[test]
    fn values_are_formatted_with_units() {
        for (unit, value, text) in [
            (Unit::Count, 0, "0"),
            (Unit::Count, 999, "999"),
            (Unit::Count, 1_000, "1,000"),
            (Unit::Count, -1_234_567, "−1,234,567"),
            (Unit::Millis, 250, "250 ms"),
            (Unit::Millis, 1_000, "1 s"),
            (Unit::Millis, 1_580, "1.5 s"),
            (Unit::Millis, 15_900, "15 s"),
            (Unit::Millis, 60_000, "1 min"),
            (Unit::Millis, 90_000, "1 min 30 s"),
        ] {
            assert_eq!(unit.format(value), text);
        }
    }

    fn plot(unit: Unit, series: &[&[Option<i64>]]) -> Plot {
        let names = [("First", "good"), ("Second", "bad")];
        let series = names.into_iter().zip(series);
        Plot {
            title: "Checks per minute".to_owned(),
            period: "Minute",
            labels: ["10:00", "10:01", "10:02"].map(str::to_owned).to_vec(),
            series: series
                .map(|((name, css_class), values)| Series { name, css_class, values: values.to_vec() })
                .collect(),
            unit,
        }
    }

    #[test]
    fn bars_are_stacked() {
        let chart = plot(Unit::Count, &[&[Some(2), Some(0), Some(1)], &[Some(2), Some(0), None]]).into_bar_chart();
        let html = chart.render().unwrap();
        for part in [
            "viewBox=\"0 0 30 1000\"",
            "<rect class=\"good\" x=\"1\" y=\"500\" width=\"8\" height=\"500\"/>",
            "<rect class=\"bad\" x=\"1\" y=\"0\" width=\"8\" height=\"500\"/>",
            "<rect class=\"good\" x=\"21\" y=\"750\" width=\"8\" height=\"250\"/>",
            "<title>10:00 · First: 2 · Second: 2</title>",
            "<title>10:02 · First: 1</title>",
            "aria-label=\"Checks per minute: 5 in total. Peak: 4 at 10:00.\"",
            "<th scope=\"row\">10:02</th><td>1</td><td>–</td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<th scope=\"row\">10:01</th>") && !html.contains("<title>10:01"), "{html}");
    }

    #[test]
    fn small_bars_have_a_minimum_height() {
        let html = plot(Unit::Count, &[&[Some(100_000), Some(1), None]]).into_bar_chart().render().unwrap();
        assert!(html.contains("x=\"11\" y=\"988\" width=\"8\" height=\"12\""), "{html}");
    }

    #[test]
    fn lines_connect_adjacent_periods_only() {
        let values = [Some(1_000), Some(2_000), None];
        let html = plot(Unit::Millis, &[&values, &[Some(500), None, Some(500)]]).into_line_chart().render().unwrap();
        for part in [
            "<path class=\"line good\" d=\"M5 500L15 0\"/>",
            "<path class=\"dots bad\" d=\"M5 750h0M25 750h0\"/>",
            "<title>10:00 · First: 1 s · Second: 500 ms</title>",
            "aria-label=\"Checks per minute: maximum 2 s (First) at 10:01.\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn empty_plot_renders_an_empty_chart() {
        for values in [vec![None; 3], vec![Some(0); 3]] {
            let bars = plot(Unit::Count, &[&values]).into_bar_chart().render().unwrap();
            assert!(bars.contains("Checks per minute: none.") && !bars.contains("<rect"), "{bars}");
        }
        let mut nothing = plot(Unit::Millis, &[&[None; 3]]);
        assert!(nothing.clone().into_line_chart().render().unwrap().contains("Checks per minute: none."));
        nothing.labels.clear();
        assert!(nothing.into_line_chart().render().unwrap().contains("viewBox=\"0 0 0 1000\""));
    }

    #[test]
    fn stacked_bars_fill_the_width() {
        let bar = stacked_bar(&[("match", 1), ("no-match", 0), ("open", 2)]).to_string();
        for part in ["class=\"match\" x=\"0\" width=\"333\"", "class=\"open\" x=\"333\" width=\"667\""] {
            assert!(bar.contains(part), "{bar}");
        }
        assert!(!bar.contains("no-match"), "{bar}");
        assert!(!stacked_bar(&[("match", 0)]).to_string().contains("<rect"));
    }

    #[test]
    fn share_bars_are_clamped() {
        for (thousandths, width) in [(-5, "width=\"0\""), (733, "width=\"733\""), (1_001, "width=\"1000\"")] {
            assert!(share_bar(thousandths).to_string().contains(width), "{thousandths}");
        }
    }
}
