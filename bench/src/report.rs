//! What is printed.

use std::time::Duration;

/// Requests or rows per second in each round.
pub struct Rates {
    pub name: &'static str,
    pub rounds: Vec<f64>,
}

impl Rates {
    pub fn new(name: &'static str) -> Self {
        Rates { name, rounds: vec![] }
    }
}

/// How long single requests took.
#[derive(Default)]
pub struct Times(pub Vec<Duration>);

impl Times {
    fn median(&self) -> f64 {
        median(self.0.iter().map(Duration::as_secs_f64))
    }

    /// The time that this part of them did not exceed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    fn percentile(&self, part: f64) -> f64 {
        let mut times: Vec<f64> = self.0.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        let index = (times.len() as f64 * part).ceil() as usize;
        times.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

/// The middle one: a disturbed round does not count.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub fn heading(text: &str) {
    print(&format!("\n{text}"));
}

pub fn rates(rates: &Rates, unit: &str) {
    let rounds: Vec<String> = rates.rounds.iter().map(|rate| format!("{rate:.0}")).collect();
    print(&format!(
        "  {:<44} {:>9.0} {unit}   (rounds: {})",
        rates.name,
        median(rates.rounds.iter().copied()),
        rounds.join(", ")
    ));
}

/// Prints how many times `ours` is `theirs`, in the middle of the rounds. Whether that is enough.
pub fn ratio(ours: &Rates, theirs: &Rates, at_least: f64) -> bool {
    let ratio = median(ours.rounds.iter().zip(&theirs.rounds).map(|(ours, theirs)| ours / theirs));
    let reached = ratio >= at_least;
    let verdict = verdict(reached);
    print(&format!("  {} / {} = {ratio:.2}   (at least {at_least}: {verdict})", ours.name, theirs.name));
    reached
}

pub fn times(name: &str, times: &Times) {
    print(&format!("  {name:<44} {:>9.2} ms   (median of {})", times.median() * 1e3, times.0.len()));
}

/// Prints the ratio of the medians of `ours` and `theirs` under a name. Whether that is little enough.
pub fn at_most(name: &str, ours: &Times, theirs: &Times, most: f64) -> bool {
    let ratio = ours.median() / theirs.median();
    let reached = ratio <= most;
    print(&format!("  {name} = {ratio:.2}   (at most {most}: {})", verdict(reached)));
    reached
}

pub fn percentile(name: &str, times: &Times, part: f64) {
    print(&format!("  {name:<44} {:>9.2} ms   (of {})", times.percentile(part) * 1e3, times.0.len()));
}

/// Prints how many times as long a percentile is with something as without. Whether that is little enough.
pub fn at_most_percentile(name: &str, (with, without): (&Times, &Times), part: f64, most: f64) -> bool {
    let ratio = with.percentile(part) / without.percentile(part);
    let reached = ratio <= most;
    print(&format!("  {name}: with / without = {ratio:.2}   (at most {most}: {})", verdict(reached)));
    reached
}

pub fn note(text: &str) {
    print(&format!("  {text}"));
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "NOT REACHED" }
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn print(line: &str) {
    println!("{line}");
}
