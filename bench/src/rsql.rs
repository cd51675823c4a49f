//! Parsing searches: ours, which also judges fields and operands, against npm `@rsql/parser`. One thread each.

use std::{hint::black_box, path::Path, process::Command, time::Duration};

use anyhow::{Context, bail};
use ringtrue_domain::{reverse_sms::SEARCH_FIELDS, search::parse};
use tokio::time::Instant;

use crate::{
    load::per_second,
    report::{self, Rates},
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
/// What people search for, one in a line. Both sides read this file.
const EXPRESSIONS: &str = include_str!("../rsql.txt");

pub fn compare() -> anyhow::Result<bool> {
    report::heading("Parsing of searches: 20 expressions in turn, one thread");
    let mut ours = Rates::new("ringtrue");
    let mut theirs = Rates::new("@rsql/parser");
    parse_for_a_while()?;
    for _ in 0..ROUNDS {
        ours.rounds.push(parse_for_a_while()?);
        theirs.rounds.push(others_parse_for_a_while()?);
    }
    report::rates(&ours, "expressions/s");
    report::rates(&theirs, "expressions/s");
    Ok(report::ratio(&ours, &theirs, 10.0))
}

fn parse_for_a_while() -> anyhow::Result<f64> {
    let expressions: Vec<&str> = EXPRESSIONS.lines().collect();
    let begun = Instant::now();
    let mut parsed = 0;
    while begun.elapsed() < ROUND {
        for expression in &expressions {
            black_box(parse(black_box(expression), &SEARCH_FIELDS).with_context(|| (*expression).to_owned())?);
            parsed += 1;
        }
    }
    Ok(per_second(parsed, begun.elapsed()))
}

/// A process for each round: it warms up first, and says its rate.
fn others_parse_for_a_while() -> anyhow::Result<f64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("node").arg(folder.join("rsql.mjs")).arg(folder.join("rsql.txt")).output()?;
    if !output.status.success() {
        bail!("@rsql/parser failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
