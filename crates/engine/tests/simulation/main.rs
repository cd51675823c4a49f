//! A world played out by chance: checks are made, SMS and devices come or do not, receivers fail and recover, the clock
//! moves and the process dies. After each step everything that must always hold is looked at.
//!
//! The engine is the real one, on a real database file. What a seed decides is the same each time; only how far a
//! process comes in the instant of its death is up to the machine, and read from the database afterwards.
//!
//! `SIMULATION_SEED` plays one seed, or begins with it if `SIMULATION_COUNT` says how many.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod chance;
mod invariants;
mod ledger;
mod operator;
mod play;
mod process;
mod receivers;

use std::sync::atomic::{AtomicU64, Ordering};

use play::Play;
use process::Template;

/// So many seeds are played when nobody says otherwise.
const COUNT: u64 = 8;
const STEPS: usize = 150;

#[test]
fn whatever_happens_each_check_ends_once_and_its_callback_is_sent() {
    let first = setting("SIMULATION_SEED");
    let count = setting("SIMULATION_COUNT").unwrap_or(if first.is_some() { 1 } else { COUNT });
    let seeds = first.unwrap_or(1)..first.unwrap_or(1) + count;
    let template = Template::new();
    let next = AtomicU64::new(seeds.start);
    let players = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..players {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    Play::new(seed, &template).run(STEPS);
                }
            });
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "which seed is played is no setting of the service")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")))
}
