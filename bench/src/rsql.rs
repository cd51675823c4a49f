//! Parsing of search expressions: ours, which also validates fields and operands, against npm `@rsql/parser`. One
//! thread each.

use std::{hint::black_box, path::Path, process::Command, time::Duration};

use anyhow::{Context, bail};
use ringtrue_domain::{reverse_sms::SEARCH_FIELDS, search::parse};
use tokio::time::Instant;

use crate::{
    load::per_second,
    report::{self, Rates},
};

const ROUNDS: usize = 5;
const ROUND_DURATION: Duration = Duration::from_secs(1);
/// Typical search expressions, one per line, used by both parsers.
const EXPRESSIONS: &str = include_str!("../rsql.txt");

pub fn compare() -> anyhow::Result<bool> {
    report::heading("Search expression parsing: 20 expressions, one thread");
    let mut ours = Rates::new("ringtrue");
    let mut theirs = Rates::new("@rsql/parser");
    measure_parser()?;
    for _ in 0..ROUNDS {
        ours.rounds.push(measure_parser()?);
        theirs.rounds.push(measure_npm_parser()?);
    }
    report::rates(&ours, "expressions/s");
    report::rates(&theirs, "expressions/s");
    Ok(report::ratio_at_least(&ours, &theirs, 10.0))
}

fn measure_parser() -> anyhow::Result<f64> {
    let expressions: Vec<&str> = EXPRESSIONS.lines().collect();
    let started = Instant::now();
    let mut parsed = 0;
    while started.elapsed() < ROUND_DURATION {
        for expression in &expressions {
            black_box(parse(black_box(expression), &SEARCH_FIELDS).with_context(|| (*expression).to_owned())?);
            parsed += 1;
        }
    }
    Ok(per_second(parsed, started.elapsed()))
}

/// Starts a process for each round, which warms up and prints its rate.
fn measure_npm_parser() -> anyhow::Result<f64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("node").arg(folder.join("rsql.mjs")).arg(folder.join("rsql.txt")).output()?;
    if !output.status.success() {
        bail!("@rsql/parser failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
