//! Tests the real binary when it is killed, stopped or overloaded, and when its disk or database fails. Also tests
//! restoring and moving its data.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod backups;
mod citus;
mod deployment;
mod exclusive_bind;
mod faults;
mod kill;
mod kill_checks;
mod kill_verifications;
mod kill_wallets;
mod load;
mod power_loss;
mod rate_limit;
mod receiver;
mod rolling_upgrade;
mod sandbox_nodes;
mod shared_database;
mod shared_limit;
mod sms_parts;
mod smsc;
mod stop_checks;
mod transfers;
