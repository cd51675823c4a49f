//! The command line for callers: what a backend does by HTTP, typed.
//!
//! A profile holds a server and the credentials for it; commands speak as its project or its workspace. Everything
//! that is kept lies in `$XDG_CONFIG_HOME/ringtrue`, in files that only their owner can read. These commands know
//! nothing that other callers do not: no configuration, no database, no engine. `selftest` starts all that for itself.

mod arguments;
mod callbacks;
mod checks;
mod credentials;
mod drawer;
mod eligibility;
mod fault;
mod follow;
mod instructions;
mod ledger;
mod list;
mod login;
mod memory;
mod problem;
mod profile;
mod progress;
mod projects;
mod secret;
mod selftest;
mod server;
mod session;
mod since;
mod tail;
mod tokens;
mod trigger;
mod upstream;
mod watch;

use super::{desk::Desk, failure::Failure};

pub(super) use self::{
    arguments::{CallerCommand, Identity, ListArguments, Number, Shell},
    credentials::Credentials,
    eligibility::{of_address, of_number},
    ledger::{Claim, Entry, Ledger},
    problem::Problem,
    profile::ProfileName,
    upstream::{Ended, Upstream},
};

pub(super) async fn run(desk: &Desk, command: CallerCommand) -> Result<(), Failure> {
    match command {
        CallerCommand::Login(arguments) => login::login(desk, arguments).await,
        CallerCommand::Logout(identity) => login::logout(desk, &identity),
        CallerCommand::Profiles => login::profiles(desk),
        CallerCommand::Token { identity, scope } => login::token(desk, &identity, scope).await,
        CallerCommand::ReverseSms(group) => checks::reverse_sms(desk, group).await,
        CallerCommand::SecureSna(group) => checks::secure_sna(desk, group).await,
        CallerCommand::Discovery(group) => checks::discovery(desk, group).await,
        CallerCommand::SimSwap(group) => checks::sim_swap(desk, group).await,
        CallerCommand::Projects(group) => projects::run(desk, group).await,
        CallerCommand::Callbacks(group) => callbacks::run(desk, group).await,
        CallerCommand::Tail(arguments) => tail::tail(desk, arguments).await,
        CallerCommand::Trigger(arguments) => trigger::trigger(desk, arguments).await,
        CallerCommand::Selftest(arguments) => selftest::selftest(desk, &arguments).await,
    }
}
