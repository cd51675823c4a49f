//! The commands that use the HTTP API of a server, and `ringtrue listen`.
//!
//! A profile holds the URL of a server and credentials of a project and a workspace. All files are in
//! `$XDG_CONFIG_HOME/ringtrue`, readable by their owner only. This crate uses only the public API: it has no
//! configuration, database or engine. It also has what every command needs: the [`printer`], [`CommandError`] with its
//! exit codes, and [`Signals`].

mod api;
mod argument_values;
mod arguments;
mod callbacks;
mod context;
mod error;
mod http;
mod listen;
mod login;
mod management;
mod open;
pub mod printer;
mod products;
mod profile;
mod progress;
mod prompt;
mod raw_request;
mod reports;
mod request_log;
mod selftest;
mod system;
mod trigger;
mod verify;
mod watch;
mod whoami;

use ringtrue_domain::product::Product;

pub use self::{
    argument_values::{PrivateArgument, ProfileName},
    arguments::{
        ClientCommand, CredentialOwnerArguments, CredentialsAction, EligibilityAction, ListenArguments, NewCredential,
        SelftestArguments,
    },
    context::{CLIENT_SECRET_VARIABLE, ClientContext, ClientEnvironment, PROFILE_VARIABLE},
    error::{ApiProblem, CommandError},
    http::is_ringtrue,
    listen::listen,
    login::list_profile_names,
    management::{CredentialsApi, SECRET_SHOWN_ONCE, list_projects},
    products::eligibility,
    progress::Progress,
    selftest::{selftest_profile, selftest_server},
    system::{SignalAction, Signals},
};

pub async fn run(context: &ClientContext, command: ClientCommand) -> Result<(), CommandError> {
    match command {
        ClientCommand::Login(arguments) => login::login(context, arguments).await,
        ClientCommand::Logout(profile_option) => login::logout(context, &profile_option),
        ClientCommand::Profiles => login::profiles(context),
        ClientCommand::Token { profile_option, scope } => login::token(context, &profile_option, scope).await,
        ClientCommand::Whoami(profile_option) => whoami::whoami(context, &profile_option).await,
        ClientCommand::Open(arguments) => open::open(context, &arguments),
        ClientCommand::Verify(arguments) => verify::verify(context, arguments).await,
        ClientCommand::Verification(command) => products::run(context, Product::Verification, command).await,
        ClientCommand::ReverseSms(command) => products::run(context, Product::ReverseSms, command).await,
        ClientCommand::SecureSna(command) => products::run(context, Product::SecureSna, command).await,
        ClientCommand::Discovery(command) => products::run(context, Product::Discovery, command).await,
        ClientCommand::SimSwap(command) => products::run(context, Product::SimSwap, command).await,
        ClientCommand::Projects(command) => management::projects(context, command).await,
        ClientCommand::Usage(arguments) => reports::usage(context, &arguments).await,
        ClientCommand::Audit(arguments) => reports::audit(context, &arguments).await,
        ClientCommand::Logs(arguments) => request_log::logs(context, &arguments).await,
        ClientCommand::Api(arguments) => raw_request::send(context, arguments).await,
        ClientCommand::Callbacks(command) => callbacks::run(context, command).await,
        ClientCommand::Tail(arguments) => watch::tail(context, arguments).await,
        ClientCommand::Trigger(arguments) => trigger::trigger(context, arguments).await,
    }
}
