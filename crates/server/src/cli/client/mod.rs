//! API client commands.
//!
//! A profile holds the URL of a server and credentials of a project and a workspace. All files are in
//! `$XDG_CONFIG_HOME/ringtrue`, readable by their owner only. The commands use only the public API: no configuration,
//! database or engine. `selftest` starts a server of its own.

mod api_client;
mod api_problem;
mod api_session;
mod arguments;
mod callbacks;
mod check_follower;
mod checks;
mod client_secret;
mod config_dir;
mod credentials;
mod eligibility;
mod instructions;
mod list;
mod listen_journal;
mod login;
mod pending_actions;
mod profile;
mod progress;
mod projects;
mod selftest;
mod since;
mod sms_fault;
mod tail;
mod token_cache;
mod trigger;
mod upstream;
mod watch;

use super::{context::CommandContext, error::CliError};

pub(super) use self::{
    api_problem::ApiProblem,
    arguments::{ClientCommand, ListArguments, Number, ProfileOption, Shell},
    credentials::CredentialsApi,
    eligibility::{eligibility_of_ip, eligibility_of_number},
    listen_journal::{Claim, JournalEntry, ListenJournal},
    profile::ProfileName,
    upstream::{ConcludedCheck, Upstream},
};

pub(super) async fn run(context: &CommandContext, command: ClientCommand) -> Result<(), CliError> {
    match command {
        ClientCommand::Login(arguments) => login::login(context, arguments).await,
        ClientCommand::Logout(profile_option) => login::logout(context, &profile_option),
        ClientCommand::Profiles => login::profiles(context),
        ClientCommand::Token { profile_option, scope } => login::token(context, &profile_option, scope).await,
        ClientCommand::ReverseSms(command) => checks::reverse_sms(context, command).await,
        ClientCommand::SecureSna(command) => checks::secure_sna(context, command).await,
        ClientCommand::Discovery(command) => checks::discovery(context, command).await,
        ClientCommand::SimSwap(command) => checks::sim_swap(context, command).await,
        ClientCommand::Projects(command) => projects::run(context, command).await,
        ClientCommand::Callbacks(command) => callbacks::run(context, command).await,
        ClientCommand::Tail(arguments) => tail::tail(context, arguments).await,
        ClientCommand::Trigger(arguments) => trigger::trigger(context, arguments).await,
        ClientCommand::Selftest(arguments) => selftest::selftest(context, &arguments).await,
    }
}
