//! The real binary, killed, stopped, and loaded beyond its limits, while its disk and its database fail.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod deployment;
mod faults;
mod kill;
mod kill_checks;
mod power_loss;
mod rate_limit;
mod receiver;
mod shared_database;
mod stop_checks;
