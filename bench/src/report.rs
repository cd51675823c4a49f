//! Printed results.

use std::time::Duration;

/// Operations per second in each round.
pub struct Rates {
    pub name: &'static str,
    pub rounds: Vec<f64>,
}

impl Rates {
    pub fn new(name: &'static str) -> Self {
        Rates { name, rounds: vec![] }
    }
}

/// Durations of single requests.
#[derive(Default)]
pub struct Times(pub Vec<Duration>);

impl Times {
    fn median(&self) -> f64 {
        median(self.0.iter().map(Duration::as_secs_f64))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    fn percentile(&self, fraction: f64) -> f64 {
        let mut times: Vec<f64> = self.0.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        let index = (times.len() as f64 * fraction).ceil() as usize;
        times.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

/// The median ignores disturbed rounds.
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

/// Prints the median ratio of the rounds; returns whether it reaches `min`.
pub fn ratio_at_least(ours: &Rates, theirs: &Rates, min: f64) -> bool {
    let ratio = median(ours.rounds.iter().zip(&theirs.rounds).map(|(ours, theirs)| ours / theirs));
    let reached = ratio >= min;
    let verdict = verdict(reached);
    print(&format!("  {} / {} = {ratio:.2}   (at least {min}: {verdict})", ours.name, theirs.name));
    reached
}

/// Prints the ratio, which has no floor.
pub fn ratio(ours: &Rates, theirs: &Rates) {
    let ratio = median(ours.rounds.iter().zip(&theirs.rounds).map(|(ours, theirs)| ours / theirs));
    print(&format!("  {} / {} = {ratio:.2}", ours.name, theirs.name));
}

pub fn median_time(name: &str, times: &Times) {
    print(&format!("  {name:<44} {:>9.2} ms   (median of {})", times.median() * 1e3, times.0.len()));
}

/// Prints the ratio of the medians; returns whether it is at most `max`.
pub fn median_ratio_at_most(name: &str, ours: &Times, theirs: &Times, max: f64) -> bool {
    at_most(name, ours.median() / theirs.median(), max)
}

pub fn percentile(name: &str, times: &Times, fraction: f64) {
    print(&format!("  {name:<44} {:>9.2} ms   (of {} requests)", times.percentile(fraction) * 1e3, times.0.len()));
}

/// Prints the ratio of percentiles; returns whether it is at most `max`.
pub fn percentile_ratio_at_most(name: &str, (with, without): (&Times, &Times), fraction: f64, max: f64) -> bool {
    at_most(&format!("{name}: with / without"), with.percentile(fraction) / without.percentile(fraction), max)
}

/// Prints a value; returns whether it is at most `max`.
pub fn at_most(name: &str, value: f64, max: f64) -> bool {
    let reached = value <= max;
    print(&format!("  {name} = {value:.2}   (at most {max}: {})", verdict(reached)));
    reached
}

pub fn note(text: &str) {
    print(&format!("  {text}"));
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "NOT REACHED" }
}

#[expect(clippy::print_stdout, reason = "command line output")]
fn print(line: &str) {
    println!("{line}");
}
