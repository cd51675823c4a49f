//! What is printed.

/// Requests or rows per second in each round.
pub struct Rates {
    pub name: &'static str,
    pub rounds: Vec<f64>,
}

impl Rates {
    pub fn new(name: &'static str) -> Self {
        Rates { name, rounds: vec![] }
    }

    /// The middle round: one disturbed round does not count.
    pub fn median(&self) -> f64 {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        rounds.get(rounds.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

pub fn heading(text: &str) {
    print(&format!("\n{text}"));
}

pub fn rates(rates: &Rates, unit: &str) {
    let rounds: Vec<String> = rates.rounds.iter().map(|rate| format!("{rate:.0}")).collect();
    print(&format!("  {:<44} {:>9.0} {unit}   (rounds: {})", rates.name, rates.median(), rounds.join(", ")));
}

/// Prints how many times `ours` is `theirs`. Whether that is enough.
pub fn ratio(ours: &Rates, theirs: &Rates, at_least: f64) -> bool {
    let ratio = ours.median() / theirs.median();
    let reached = ratio >= at_least;
    let verdict = if reached { "reached" } else { "NOT REACHED" };
    print(&format!("  {} / {} = {ratio:.2}   (at least {at_least}: {verdict})", ours.name, theirs.name));
    reached
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn print(line: &str) {
    println!("{line}");
}
