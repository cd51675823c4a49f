//! SVG shapes in integer units: a period is [`PERIOD_WIDTH`] wide, a chart [`CHART_HEIGHT`] high.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use super::Plot;

pub const PERIOD_WIDTH: usize = 10;
pub const CHART_HEIGHT: i64 = 1_000;
/// Keeps small values visible.
const MIN_BAR_HEIGHT: i64 = 12;

/// SVG elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Svg(String);

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Contains only numbers, periods and constant names, no user input.
impl HtmlSafe for Svg {}

impl Svg {
    fn push(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(element);
    }
}

/// Stacked bars, with the first series at the bottom.
pub fn bars(plot: &Plot, axis_max: i64) -> Svg {
    let mut svg = Svg::default();
    for (period, label) in plot.labels.iter().enumerate() {
        if plot.period_total(period) == 0 {
            continue;
        }
        open_period_group(&mut svg, plot, period, label);
        let mut y = CHART_HEIGHT;
        for series in &plot.series {
            let value = series.values.get(period).copied().flatten().unwrap_or(0);
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

/// A line for each series through adjacent periods. Isolated values are dots.
pub fn lines(plot: &Plot, axis_max: i64) -> Svg {
    let mut svg = Svg::default();
    for series in &plot.series {
        let (mut line, mut dots) = (Svg::default(), Svg::default());
        let value_at = |period: usize| series.values.get(period).copied().flatten();
        for period in 0..series.values.len() {
            let Some(value) = value_at(period) else { continue };
            let (x, y) = (period * PERIOD_WIDTH + PERIOD_WIDTH / 2, CHART_HEIGHT - scale(value, axis_max));
            let before = period.checked_sub(1).and_then(value_at);
            match (before, value_at(period + 1)) {
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
        if plot.series.iter().any(|series| series.values.get(period).copied().flatten().is_some()) {
            open_period_group(&mut svg, plot, period, label);
            svg.push(format_args!("</g>"));
        }
    }
    svg
}

/// Horizontal bar of a share in thousandths.
pub fn share_bar(thousandths: i64) -> Svg {
    let width = thousandths.clamp(0, 1_000);
    let mut svg = Svg::default();
    svg.push(format_args!(
        "<svg class=\"share\" viewBox=\"0 0 1000 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{width}\" height=\"1\"/></svg>"
    ));
    svg
}

/// Opens the group of a period, with a hover area whose title shows the values.
fn open_period_group(svg: &mut Svg, plot: &Plot, period: usize, label: &str) {
    svg.push(format_args!("<g><title>{label}"));
    for series in &plot.series {
        if let Some(value) = series.values.get(period).copied().flatten().filter(|value| *value != 0) {
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
