//! What can be typed.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, str::FromStr};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use http::StatusCode;
use jiff::Timestamp;
use ringtrue_domain::{
    product::Scope,
    tenancy::{ClientId, Name, ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::KeyPurpose;

use super::{
    caller::{CallerCommand, Identity, ListArguments, Number, ProfileName, Shell},
    failure::EXIT_CODES,
    listen::Endpoint,
};
use crate::http::time;

/// Verifies phone numbers through mobile operators, on your own machines.
#[derive(Debug, Parser)]
#[command(name = "ringtrue", version, propagate_version = true, after_help = EXIT_CODES)]
pub(super) struct Arguments {
    /// The configuration file. Otherwise `RINGTRUE_CONFIG`, ./ringtrue.toml or /etc/ringtrue/ringtrue.toml.
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// How data is printed.
    #[arg(long, global = true, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For spreadsheets: a line with the names, and a line for each thing.
    Csv,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Starts a server to try things out with: its own database, a demo workspace, plain HTTP on this machine only.
    Dev(DevArguments),
    /// Receives callbacks while you develop: says what is in each, whether its signature is good, and if not, why.
    Listen(ListenArguments),
    /// Starts a server as the configuration says. SIGTERM stops it when requests in flight are done, a second one at
    /// once. SIGHUP reads again: certificates, networks, receivers, connectors, number sources, address tables.
    Serve,
    /// Brings the database's schema up to date.
    Migrate,
    /// Checks the configuration, or prints the defaults.
    #[command(subcommand)]
    Config(ConfigAction),
    /// Makes, lists and limits workspaces.
    #[command(subcommand)]
    Workspace(WorkspaceAction),
    /// Makes, lists and deletes credentials of a workspace or a project.
    Credentials(CredentialsArguments),
    /// Lists and rotates the keys of this deployment.
    #[command(subcommand)]
    Keys(KeysAction),
    /// Erases what is kept of a phone number, in all projects, and prints a receipt.
    Erase(EraseArguments),
    /// Says or explains which products a user can use.
    #[command(subcommand)]
    Eligibility(EligibilityAction),
    /// Lets people into the console.
    #[command(subcommand)]
    Console(super::console::ConsoleAction),
    /// Looks for what is wrong with this deployment, and says what to do about it.
    Doctor,
    /// To be run after the database was restored from a backup, before servers are started: ends all access tokens and
    /// sessions, gives up callbacks whose time is over, and records the restore.
    Restored(RestoredArguments),
    #[command(flatten)]
    Caller(CallerCommand),
    /// Prints a script that completes commands in a shell. For bash: `source <(ringtrue completion bash)`
    Completion { shell: Shell },
}

#[derive(Debug, Args)]
pub(super) struct DevArguments {
    /// Where database, keys and credentials are kept.
    #[arg(long, value_name = "DIR", default_value = "ringtrue-data")]
    pub data: PathBuf,
    /// Where to listen: a loopback address, and a port or 0 for any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = loopback_address)]
    pub listen: SocketAddr,
}

#[derive(Debug, Args)]
pub(super) struct ListenArguments {
    /// Where to listen, by plain HTTP: an address, and a port or 0 for any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9099")]
    pub listen: SocketAddr,
    /// Where the public keys are: https, or http on this machine. Otherwise those of `ringtrue dev`.
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub jwks: Option<Endpoint>,
    /// The folder of the `ringtrue dev` whose callbacks are expected.
    #[arg(long, value_name = "DIR", default_value = "ringtrue-data")]
    pub data: PathBuf,
    /// Loses nothing: callbacks of this profile's project that come while nobody listens are sent again at the next
    /// start, and each is handled once. The keys are those of its server.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["jwks", "data"])]
    pub profile: Option<ProfileName>,
    /// Accepts callbacks of sandbox checks, which prove nothing about a number. Always on for `ringtrue dev`.
    #[arg(long)]
    pub accept_sandbox: bool,
    /// Forwards callbacks with a valid signature to an application on this machine, headers and body unchanged, and
    /// answers as it does. Answers 401 to the others. Without a path in the URL, the callback's own is kept.
    #[arg(long, value_name = "URL", value_parser = Endpoint::local)]
    pub forward: Option<Endpoint>,
    /// Forwards callbacks without a valid signature too.
    #[arg(long, requires = "forward")]
    pub forward_unverified: bool,
    /// Answers every callback with this status, to watch what comes of it. Otherwise 200.
    #[arg(long, value_name = "STATUS", value_parser = final_status)]
    pub answer: Option<StatusCode>,
    /// Ends after this many callbacks.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    pub once: Option<NonZeroU32>,
}

#[derive(Debug, Args)]
pub(super) struct RestoredArguments {
    /// Forgets the latest recorded time as well: for a deployment whose time was set ahead by mistake.
    #[arg(long)]
    pub reset_clock: bool,
}

#[derive(Debug, Args)]
pub(super) struct EraseArguments {
    /// The number in E.164 form, such as +447700900123; or `-` to read it from standard input.
    #[arg(long, value_name = "NUMBER")]
    pub number: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum EligibilityAction {
    /// Asks a server which products can verify the user of a number.
    Number {
        number: Number,
        #[command(flatten)]
        identity: Identity,
    },
    /// Asks a server which products can verify the user of a device's address.
    Ip {
        ip: String,
        #[command(flatten)]
        identity: Identity,
    },
    /// Asks the configured sources for a user's network, and says which product falls at which gate. No link to an
    /// operator is opened: connectors count with what they are configured for.
    Explain(ExplainArguments),
}

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// A number in E.164 form, such as +447700900123, or an IP address; or `-` to read it from standard input.
    #[arg(value_name = "NUMBER_OR_IP")]
    pub user: String,
    /// The id of the project that asks. Without one, what projects may use is left aside.
    #[arg(long, value_name = "ID")]
    pub project: Option<ProjectId>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigAction {
    /// Reads the configuration and says whether it is good, and what differs from the defaults.
    Check,
    /// Prints every setting with its default and what it means, in the form of a configuration file.
    Default,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkspaceAction {
    /// Makes a workspace, and prints its first credential: the secret is shown this once.
    Create {
        /// 1 to 100 characters.
        name: Name,
    },
    /// Lists all workspaces, newest first.
    List,
    /// Gives a workspace rate limits of its own. What is not named stays as it is.
    #[command(group = clap::ArgGroup::new("limits").required(true).multiple(true))]
    Limit {
        /// Its id.
        workspace: WorkspaceId,
        #[command(flatten)]
        limits: LimitArguments,
    },
}

/// Requests per second, or `default` for the deployment's own limit.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct LimitArguments {
    /// Creating a check or submitting a code: requests per second, or `default`.
    #[arg(long, group = "limits", value_name = "N")]
    pub create: Option<Limit>,
    /// Reading checks.
    #[arg(long, group = "limits", value_name = "N")]
    pub read: Option<Limit>,
    /// Asking what a number or an address is eligible for.
    #[arg(long, group = "limits", value_name = "N")]
    pub eligibility: Option<Limit>,
    /// The Management API.
    #[arg(long, group = "limits", value_name = "N")]
    pub management: Option<Limit>,
    /// Token and revoke requests, per client.
    #[arg(long, group = "limits", value_name = "N")]
    pub token: Option<Limit>,
}

/// A limit as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// As the deployment has it.
    Default,
    PerSecond(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit is 1 to 1000000 requests per second, or `default`")]
pub(super) struct NotALimit;

impl FromStr for Limit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        match text {
            "default" => Ok(Limit::Default),
            number => match number.parse() {
                Ok(number @ 1..=1_000_000) => Ok(Limit::PerSecond(number)),
                _ => Err(NotALimit),
            },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct CredentialsArguments {
    #[command(flatten)]
    pub identity: Identity,
    /// The project whose credentials are meant. Otherwise those of the workspace.
    #[arg(long, global = true, value_name = "ID")]
    pub project: Option<ProjectId>,
    #[command(subcommand)]
    pub action: CredentialsAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum CredentialsAction {
    /// Makes a credential: the secret is shown this once.
    Create {
        /// As the operator, on the configured database: a credential that opens the Management API for this workspace.
        /// Otherwise a server is asked.
        #[arg(long, value_name = "ID", conflicts_with_all = ["scopes", "project", "profile"])]
        workspace: Option<WorkspaceId>,
        /// What it may be used for. Otherwise everything that its owner may do.
        #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// When it stops working, such as 2027-01-31T00:00:00Z. Otherwise never.
        #[arg(long, value_name = "T", value_parser = instant)]
        expires_at: Option<Timestamp>,
    },
    /// Lists credentials, never with their secrets.
    List(ListArguments),
    /// Shows a credential, without its secret.
    Get { client_id: ClientId },
    /// Deletes a credential. Its tokens die with it.
    Delete { client_id: ClientId },
}

#[derive(Debug, Subcommand)]
pub(super) enum KeysAction {
    /// Lists all keys with their states and dates.
    List,
    /// Makes the successor of a key. It is announced first and used later, so that nobody is surprised.
    Rotate {
        /// Which key.
        #[arg(long, value_parser = purpose())]
        purpose: KeyPurpose,
        /// The key was disclosed: use the new one, and drop the old ones, at once.
        #[arg(long)]
        emergency: bool,
    },
    /// Seals all keys with a new master key, in one transaction. Servers must then be started with the new one.
    Rewrap {
        /// The file with the new master key, which only its owner can read. The old one is that of the configuration.
        #[arg(long, value_name = "PATH")]
        new_master_key_file: PathBuf,
    },
}

fn purpose() -> impl TypedValueParser<Value = KeyPurpose> {
    PossibleValuesParser::new(KeyPurpose::ROTATING.map(KeyPurpose::as_str)).try_map(|text| text.parse::<KeyPurpose>())
}

fn loopback_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8080".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("`dev` has no TLS and prints its secrets, so it listens on a loopback address only, such as \
             127.0.0.1:8080; use `serve` for others"
            .to_owned())
    }
}

/// An answer below 200 is only ever a prelude to another one.
fn final_status(text: &str) -> Result<StatusCode, &'static str> {
    let status = text.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    status.and_then(|status| StatusCode::from_u16(status).ok()).ok_or("expected a status from 200 to 599")
}

fn instant(text: &str) -> Result<Timestamp, &'static str> {
    time::parse(text).ok_or(time::EXPECTED)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn limits() {
        for (text, limit) in [
            ("1", Ok(Limit::PerSecond(1))),
            ("1000000", Ok(Limit::PerSecond(1_000_000))),
            ("default", Ok(Limit::Default)),
            ("0", Err(NotALimit)),
            ("1000001", Err(NotALimit)),
            ("-1", Err(NotALimit)),
            ("many", Err(NotALimit)),
        ] {
            assert_eq!(text.parse(), limit, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "ringtrue",
            "ringtrue dev --listen 0.0.0.0:8080",
            "ringtrue dev --listen localhost",
            "ringtrue workspace create",
            "ringtrue workspace limit 0199b0a8-0000-7000-8000-000000000000",
            "ringtrue workspace limit nonsense --create 1",
            "ringtrue credentials",
            "ringtrue credentials create --workspace 0199b0a8-0000-7000-8000-000000000000 --expires-at tomorrow",
            "ringtrue credentials create --workspace 0199b0a8-0000-7000-8000-000000000000 --scopes reverse_sms",
            "ringtrue credentials delete",
            "ringtrue login",
            "ringtrue login --base-url http://example.com --client-id a",
            "ringtrue login --data a --client-id a",
            "ringtrue token",
            "ringtrue token --scope everything",
            "ringtrue token --scope management --profile ../x",
            "ringtrue reverse-sms create",
            "ringtrue reverse-sms redeem a b",
            "ringtrue secure-sna get nonsense",
            "ringtrue discovery list --size 0",
            "ringtrue discovery list --size 101",
            "ringtrue sim-swap list --all --page 2",
            "ringtrue callbacks resend",
            "ringtrue callbacks resend nonsense",
            "ringtrue callbacks resend --since yesterday",
            "ringtrue callbacks resend --since 10m --status PENDING",
            "ringtrue callbacks resend --since 10m --product sim-swap",
            "ringtrue callbacks resend 0199b0a8-0000-7000-8000-000000000000 --since 10m",
            "ringtrue tail --product eligibility",
            "ringtrue listen --profile a --data b",
            "ringtrue trigger --fault lost",
            "ringtrue selftest --slow",
            "ringtrue completion tcsh",
            "ringtrue keys rotate",
            "ringtrue keys rotate --purpose other",
            "ringtrue keys rewrap",
            "ringtrue listen --listen localhost",
            "ringtrue listen --jwks http://example.com/jwks.json",
            "ringtrue listen --jwks http://127.0.0.1/jwks.json --data elsewhere",
            "ringtrue listen --forward https://127.0.0.1/",
            "ringtrue listen --forward http://example.com/",
            "ringtrue listen --forward-unverified",
            "ringtrue listen --answer 100",
            "ringtrue listen --answer 600",
            "ringtrue listen --once 0",
            "ringtrue erase",
            "ringtrue eligibility",
            "ringtrue eligibility explain",
            "ringtrue eligibility explain +447700900123 --project mine",
            "ringtrue keys list --output xml",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn global_flags_may_stand_anywhere() {
        for line in ["ringtrue --output json --config a keys list", "ringtrue keys list --config a --output json"] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(arguments.output, Output::Json);
            assert_eq!(arguments.config.as_deref(), Some("a".as_ref()));
        }
    }
}
