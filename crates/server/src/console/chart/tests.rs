//! SVG, tables and summaries of small plots.

use askama::Template;

use super::*;

fn plot(unit: Unit, series: &[&[Option<i64>]]) -> Plot {
    let names = [("First", "good"), ("Second", "bad")];
    let series = names.into_iter().zip(series);
    Plot {
        title: "Checks per minute".to_owned(),
        period: "Minute",
        labels: ["10:00", "10:01", "10:02"].map(str::to_owned).to_vec(),
        series: series.map(|((name, css_class), values)| Series { name, css_class, values: values.to_vec() }).collect(),
        unit,
    }
}

#[test]
fn bars_are_stacked() {
    let chart = plot(Unit::Count, &[&[Some(2), Some(0), Some(1)], &[Some(2), Some(0), None]]).bars();
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
    let html = plot(Unit::Count, &[&[Some(100_000), Some(1), None]]).bars().render().unwrap();
    assert!(html.contains("x=\"11\" y=\"988\" width=\"8\" height=\"12\""), "{html}");
}

#[test]
fn lines_connect_adjacent_periods_only() {
    let values = [Some(1_000), Some(2_000), None];
    let html = plot(Unit::Millis, &[&values, &[Some(500), None, Some(500)]]).lines().render().unwrap();
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
        let bars = plot(Unit::Count, &[&values]).bars().render().unwrap();
        assert!(bars.contains("Checks per minute: none.") && !bars.contains("<rect"), "{bars}");
    }
    let mut nothing = plot(Unit::Millis, &[&[None; 3]]);
    assert!(nothing.clone().lines().render().unwrap().contains("Checks per minute: none."));
    nothing.labels.clear();
    assert!(nothing.lines().render().unwrap().contains("viewBox=\"0 0 0 1000\""));
}

#[test]
fn share_bars_are_clamped() {
    for (thousandths, width) in [(-5, "width=\"0\""), (733, "width=\"733\""), (1_001, "width=\"1000\"")] {
        assert!(share_bar(thousandths).to_string().contains(width), "{thousandths}");
    }
}
