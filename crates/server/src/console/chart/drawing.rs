//! Shapes, in whole units: a period is [`SLOT`] wide, and a chart is [`HEIGHT`] high.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use super::Plot;

/// How wide a period is.
pub const SLOT: usize = 10;
pub const HEIGHT: i64 = 1_000;
/// What is there can be seen, however little it is.
const LOWEST: i64 = 12;

/// Elements of SVG.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Svg(String);

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Numbers, periods, and names of ours: nothing in it comes from outside.
impl HtmlSafe for Svg {}

impl Svg {
    fn add(&mut self, element: fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = self.0.write_fmt(element);
    }
}

/// A bar for each period, the first series at its bottom.
pub fn bars(plot: &Plot, top: i64) -> Svg {
    let mut svg = Svg::default();
    for (period, label) in plot.labels.iter().enumerate() {
        if plot.sum(period) == 0 {
            continue;
        }
        open_slot(&mut svg, plot, period, label);
        let mut y = HEIGHT;
        for series in &plot.series {
            let value = series.values.get(period).copied().flatten().unwrap_or(0);
            if value > 0 {
                let height = scaled(value, top).max(LOWEST);
                y -= height;
                let (x, width) = (period * SLOT + 1, SLOT - 2);
                let tone = series.tone;
                svg.add(format_args!(
                    "<rect class=\"{tone}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
                ));
            }
        }
        svg.add(format_args!("</g>"));
    }
    svg
}

/// A line for each series. Neighbours are joined; what has none is a dot.
pub fn lines(plot: &Plot, top: i64) -> Svg {
    let mut svg = Svg::default();
    for series in &plot.series {
        let (mut line, mut dots) = (Svg::default(), Svg::default());
        let value_at = |period: usize| series.values.get(period).copied().flatten();
        for period in 0..series.values.len() {
            let Some(value) = value_at(period) else { continue };
            let (x, y) = (period * SLOT + SLOT / 2, HEIGHT - scaled(value, top));
            let before = period.checked_sub(1).and_then(value_at);
            match (before, value_at(period + 1)) {
                (Some(_), _) => line.add(format_args!("L{x} {y}")),
                (None, Some(_)) => line.add(format_args!("M{x} {y}")),
                // With round ends, a line of no length is a dot, however the picture is stretched.
                (None, None) => dots.add(format_args!("M{x} {y}h0")),
            }
        }
        for (class, path) in [("line", line), ("dots", dots)] {
            if path != Svg::default() {
                svg.add(format_args!("<path class=\"{class} {}\" d=\"{path}\"/>", series.tone));
            }
        }
    }
    for (period, label) in plot.labels.iter().enumerate() {
        if plot.series.iter().any(|series| series.values.get(period).copied().flatten().is_some()) {
            open_slot(&mut svg, plot, period, label);
            svg.add(format_args!("</g>"));
        }
    }
    svg
}

/// How much of a whole there is, in thousandths.
pub fn share(thousandths: i64) -> Svg {
    let width = thousandths.clamp(0, 1_000);
    let mut svg = Svg::default();
    svg.add(format_args!(
        "<svg class=\"share\" viewBox=\"0 0 1000 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{width}\" height=\"1\"/></svg>"
    ));
    svg
}

/// Begins the group of a period: an area that says, pointed at, what there was.
fn open_slot(svg: &mut Svg, plot: &Plot, period: usize, label: &str) {
    svg.add(format_args!("<g><title>{label}"));
    for series in &plot.series {
        if let Some(value) = series.values.get(period).copied().flatten().filter(|value| *value != 0) {
            svg.add(format_args!(" · {}: {}", series.name, plot.unit.show(value)));
        }
    }
    let x = period * SLOT;
    svg.add(format_args!("</title><rect class=\"slot\" x=\"{x}\" y=\"0\" width=\"{SLOT}\" height=\"{HEIGHT}\"/>"));
}

fn scaled(value: i64, top: i64) -> i64 {
    value.clamp(0, top) * HEIGHT / top.max(1)
}
