//! Randomised simulation: checks are created, SMS and devices arrive or not, receivers fail and recover, the clock
//! advances and the process crashes. After each step all invariants are asserted.
//!
//! The real engine runs on a real database file. A seed determines all steps. Only how far a process gets before a
//! crash depends on timing, and the test reads that from the database.
//!
//! If the environment variable `SIMULATION_SEED` is set, only this seed runs. `SIMULATION_COUNT` sets the number of
//! consecutive seeds to run, beginning with `SIMULATION_SEED` or 1.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

mod invariants;
mod model;
mod operator;
mod process;
mod receivers;
mod rng;
mod scenario;
mod verifications;

use std::sync::atomic::{AtomicU64, Ordering};

use process::Template;
use scenario::Scenario;
use verifications::VerificationScenario;

const DEFAULT_SEED_COUNT: u64 = 8;
const STEPS_PER_SEED: usize = 150;

#[test]
fn every_check_concludes_once_and_its_callback_is_sent() {
    run_seeds(|seed, template| Scenario::new(seed, template).run(STEPS_PER_SEED));
}

#[test]
fn every_verification_ends_once_and_no_step_begins_twice() {
    run_seeds(|seed, template| VerificationScenario::new(seed, template).run(STEPS_PER_SEED));
}

fn run_seeds(run: impl Fn(u64, &Template) + Sync) {
    let first = env_number("SIMULATION_SEED");
    let count = env_number("SIMULATION_COUNT").unwrap_or(if first.is_some() { 1 } else { DEFAULT_SEED_COUNT });
    let seeds = first.unwrap_or(1)..first.unwrap_or(1) + count;
    let template = Template::new();
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    run(seed, &template);
                }
            });
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "the seed is not a setting of the service")]
fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")))
}
