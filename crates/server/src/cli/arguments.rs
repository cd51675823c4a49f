//! Command-line arguments of the binary.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use clap::{
    Args, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use ringtrue_client::{
    ClientCommand, CredentialOwnerArguments, CredentialsAction as ClientCredentialsAction,
    EligibilityAction as ClientEligibilityAction, ListenArguments, NewCredential, PrivateArgument, SelftestArguments,
    printer::Output,
};
use ringtrue_domain::{
    account::{Email, Role},
    tenancy::{Name, ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::keys::KeyPurpose;
use strum::VariantNames as _;

use super::error::EXIT_CODES;

/// Default directory of the configuration file.
pub(super) const DEFAULT_CONFIG_DIR: &str = "/etc/ringtrue";
/// Default data directory of `ringtrue dev`.
pub(super) const DEFAULT_DATA_DIR: &str = "ringtrue-data";

/// Self-hosted phone number verification through mobile operators.
#[derive(Debug, Parser)]
#[command(name = "ringtrue", version, propagate_version = true, after_help = EXIT_CODES)]
pub(super) struct Arguments {
    /// Configuration file [default: `RINGTRUE_CONFIG`, ./ringtrue.toml or /etc/ringtrue/ringtrue.toml]
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Output format
    #[arg(long, global = true, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a development server with its own database and a demo workspace
    Dev(DevArguments),
    /// Receive callbacks during development: print each one, verify its signature and explain failures
    Listen(ListenArguments),
    /// Start a server from the configuration. SIGTERM drains requests in flight and stops; a second SIGTERM stops
    /// immediately. SIGHUP reloads: certificates, networks, receivers, connectors, number sources, address tables.
    Serve,
    /// Apply pending database migrations
    Migrate,
    /// Distribute the tables over a Citus cluster. Servers may keep running. After an interruption, run it again.
    Distribute,
    /// Create, check or print a configuration
    #[command(subcommand)]
    Config(ConfigAction),
    /// Create and list workspaces, and set their rate limits
    #[command(subcommand, name = "workspaces", alias = "workspace")]
    Workspace(WorkspaceAction),
    /// Create, list and delete a workspace's or project's credentials
    #[command(alias = "credential")]
    Credentials(CredentialsArguments),
    /// List and rotate this deployment's keys
    #[command(subcommand, alias = "key")]
    Keys(KeysAction),
    /// Erase a phone number's stored data in all projects, and print a receipt
    Erase(EraseArguments),
    /// Look up or explain which products can verify a user
    #[command(subcommand)]
    Eligibility(EligibilityAction),
    /// Manage console accounts
    #[command(subcommand)]
    Console(ConsoleAction),
    /// Prepare connectors to operators
    #[command(subcommand)]
    Connectors(ConnectorsAction),
    /// Diagnose this deployment and suggest fixes
    Doctor(DataDirArguments),
    /// Make a restored database safe, before servers start. Revokes all access tokens and sessions, abandons overdue
    /// callbacks, and records the restore.
    Restored(RestoredArguments),
    /// Copy the SQLite database to a new file while servers run. For PostgreSQL, use its own tools.
    Backup(BackupArguments),
    /// Write the whole deployment to a file that `import` reads into another database, for example to move from SQLite
    /// to PostgreSQL. Stop all servers first.
    Export(ExportArguments),
    /// Read an `export` file into an empty database: all of it, or nothing
    Import(ImportArguments),
    #[command(flatten)]
    Client(ClientCommand),
    /// Test all products against the sandbox
    Selftest(SelftestArguments),
    /// Print a shell completion script. For bash: `source <(ringtrue completion bash)`
    Completion {
        #[arg(value_parser = shell_parser())]
        shell: Shell,
    },
    /// Write the manual pages and completion scripts of a package
    #[command(hide = true)]
    PackageFiles(PackageFilesArguments),
}

#[derive(Debug, Args)]
pub(super) struct PackageFilesArguments {
    /// Directory with the layout of /usr/share
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Path at which the package installs this binary
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/ringtrue")]
    pub binary: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct DevArguments {
    /// Directory for the database, keys and credentials
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    pub data: PathBuf,
    /// Loopback address and port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = parse_loopback_address)]
    pub listen: SocketAddr,
}

#[derive(Debug, Args)]
pub(super) struct RestoredArguments {
    /// Also reset the latest recorded time, if a clock was set ahead by mistake
    #[arg(long)]
    pub reset_clock: bool,
}

#[derive(Debug, Args)]
pub(super) struct BackupArguments {
    /// Path of the copy. The file must not exist yet.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// New file, or `-` for standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Export while servers are running, for a rehearsal. The export lacks their later changes.
    #[arg(long)]
    pub online: bool,
}

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// File from `ringtrue export`, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct EraseArguments {
    /// Number in E.164 format, such as +447700900123; or `-` to read it from standard input
    #[arg(long, value_name = "NUMBER")]
    pub number: PrivateArgument,
}

#[derive(Debug, Subcommand)]
pub(super) enum EligibilityAction {
    #[command(flatten)]
    Client(ClientEligibilityAction),
    /// Look up a user's network in the configured sources, and show which products the user can use, and why. Does not
    /// connect to operators: assumes that all configured connectors are up.
    Explain(ExplainArguments),
}

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// Number in E.164 format, such as +447700900123, or IP address; or `-` to read it from standard input
    #[arg(value_name = "NUMBER_OR_IP")]
    pub user: PrivateArgument,
    /// Project id. Without it, project permissions are not considered.
    #[arg(long, value_name = "ID")]
    pub project: Option<ProjectId>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigAction {
    /// Write a minimal configuration and a new master key. Never replaces a file.
    Init(InitArguments),
    /// Validate the configuration, and list the settings that differ from the defaults
    Check,
    /// Print every setting with its default and description, as a configuration file
    Default,
}

#[derive(Debug, Args)]
pub(super) struct InitArguments {
    /// Directory for `ringtrue.toml` and `master.key`; its owner will own both files
    #[arg(value_name = "DIR", default_value = DEFAULT_CONFIG_DIR)]
    pub dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConnectorsAction {
    /// Prepare operator tokens, for Secure SNA (silent network authentication) over Wi-Fi with phones' wallets
    #[command(subcommand)]
    OperatorToken(OperatorTokenAction),
}

#[derive(Debug, Subcommand)]
pub(super) enum OperatorTokenAction {
    /// Write the keys and certificates that sign requests to phones, and print what operators register. Never replaces
    /// a file.
    Init(OperatorTokenInitArguments),
}

#[derive(Debug, Args)]
pub(super) struct OperatorTokenInitArguments {
    /// Directory for the files; its owner will own them
    #[arg(long, value_name = "DIR", default_value = DEFAULT_CONFIG_DIR)]
    pub dir: PathBuf,
    /// Your organisation's name in the certificates, 1 to 64 characters
    #[arg(long, value_name = "NAME", default_value = "Ringtrue", value_parser = parse_organisation)]
    pub organisation: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkspaceAction {
    /// Create a workspace and print its first credential; the secret is shown only once
    Create {
        /// The workspace's name, 1 to 100 characters
        name: Name,
    },
    /// List all workspaces, newest first
    List,
    /// Override a workspace's rate limits. Limits that you leave out stay unchanged.
    #[command(group = clap::ArgGroup::new("limits").required(true).multiple(true))]
    Limit {
        /// Workspace id
        workspace: WorkspaceId,
        #[command(flatten)]
        limits: LimitArguments,
    },
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct LimitArguments {
    /// Create a check or submit a code: requests per second, or `default` for the deployment's limit
    #[arg(long, group = "limits", value_name = "N")]
    pub create: Option<Limit>,
    /// Read checks: requests per second, or `default`
    #[arg(long, group = "limits", value_name = "N")]
    pub read: Option<Limit>,
    /// Check eligibility: requests per second, or `default`
    #[arg(long, group = "limits", value_name = "N")]
    pub eligibility: Option<Limit>,
    /// Use the Management API: requests per second, or `default`
    #[arg(long, group = "limits", value_name = "N")]
    pub management: Option<Limit>,
    /// Request or revoke tokens: requests per second and client, or `default`
    #[arg(long, group = "limits", value_name = "N")]
    pub token: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Remove the workspace's own limit, so that the deployment's limit applies.
    Default,
    PerSecond(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 1000000 requests per second, or `default`")]
pub(super) struct InvalidLimit;

impl FromStr for Limit {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        match text {
            "default" => Ok(Limit::Default),
            number => match number.parse() {
                Ok(number @ 1..=1_000_000) => Ok(Limit::PerSecond(number)),
                _ => Err(InvalidLimit),
            },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct CredentialsArguments {
    #[command(flatten)]
    pub owner: CredentialOwnerArguments,
    #[command(subcommand)]
    pub action: CredentialsAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum CredentialsAction {
    /// Create a credential; the secret is shown only once
    Create {
        /// Create a Management API credential for this workspace directly in the configured database, as the operator
        /// [default: call the profile's server]
        #[arg(long, value_name = "ID", conflicts_with_all = ["scopes", "project", "profile"])]
        workspace: Option<WorkspaceId>,
        #[command(flatten)]
        new: NewCredential,
    },
    #[command(flatten)]
    Client(ClientCredentialsAction),
}

#[derive(Debug, Subcommand)]
pub(super) enum ConsoleAction {
    /// Create an access link: a single-use link to set a password, valid for a day (administrator, or account that
    /// needs a new password), or an invitation, valid for a week (member). With `--data` and no email: the sign-in link
    /// of `ringtrue dev`, valid for an hour.
    Link(LinkArguments),
    /// Disable an account, and revoke its sessions and links
    Disable(AccountArguments),
    /// Enable a disabled account
    Enable(AccountArguments),
    /// Remove the administrator role from an account, which stays a member of its workspaces
    Demote(AccountArguments),
    /// Remove an account's second factor, if its user has lost it
    RemoveSecondFactor(AccountArguments),
    /// Unlink an account from its identity at the OpenID provider, and revoke its sessions and links
    Unlink(AccountArguments),
    /// Reset an account that was altered outside Ringtrue (see `ringtrue doctor`): remove its rights, password, second
    /// factor, identity and memberships. Invite it again afterwards.
    Reset(AccountArguments),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("recipient"))]
pub(super) struct LinkArguments {
    /// Administrator's email. An existing account that becomes an administrator loses its password and sessions.
    #[arg(long, value_name = "EMAIL", group = "recipient")]
    pub admin: Option<Email>,
    /// Email address to invite to a workspace
    #[arg(long, value_name = "EMAIL", group = "recipient", requires = "workspace")]
    pub member: Option<Email>,
    /// Email of an existing account that needs a new password
    #[arg(long, value_name = "EMAIL", group = "recipient")]
    pub account: Option<Email>,
    /// The member's workspace id
    #[arg(long, value_name = "ID", requires = "member")]
    pub workspace: Option<WorkspaceId>,
    /// The member's role
    #[arg(long, value_name = "ROLE", default_value = "owner", requires = "member", value_parser = role_parser())]
    pub role: Role,
    #[command(flatten)]
    pub deployment: DataDirArguments,
}

#[derive(Debug, Args)]
pub(super) struct AccountArguments {
    /// The account's email
    #[arg(value_name = "EMAIL")]
    pub email: Email,
    #[command(flatten)]
    pub deployment: DataDirArguments,
}

#[derive(Debug, Args)]
pub(super) struct DataDirArguments {
    /// Data directory of `ringtrue dev`, instead of the configured deployment
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum KeysAction {
    /// List all keys with their state and dates
    List,
    /// Create a key's successor. It is published first and used later.
    Rotate {
        /// The key's purpose
        #[arg(long, value_parser = key_purpose_parser())]
        purpose: KeyPurpose,
        /// The key was disclosed: activate the new key and drop the old ones immediately
        #[arg(long)]
        emergency: bool,
    },
    /// Replace a disclosed hash key. Ends sessions, links and open checks; you can no longer find earlier numbers. Stop
    /// all servers first.
    ResetHashKey {
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Seal all keys with a new master key, in one transaction. Restart all servers with the new key afterwards.
    Rewrap {
        /// File with the new master key, readable by its owner only. The old key comes from the configuration.
        #[arg(long, value_name = "PATH")]
        new_master_key_file: PathBuf,
    },
}

fn key_purpose_parser() -> impl TypedValueParser<Value = KeyPurpose> {
    PossibleValuesParser::new(KeyPurpose::ROTATABLE.iter().map(KeyPurpose::into_str))
        .try_map(|text| text.parse::<KeyPurpose>())
}

fn role_parser() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::VARIANTS).try_map(|text| text.parse::<Role>())
}

fn shell_parser() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// Parses an `organizationName` (X.520).
fn parse_organisation(text: &str) -> Result<String, String> {
    let is_valid = (1..=64).contains(&text.chars().count()) && !text.contains(char::is_control);
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 64 characters without control characters".to_owned())
    }
}

fn parse_loopback_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8080".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("`dev` has no TLS and prints its secrets, so it listens on a loopback address only, such as \
             127.0.0.1:8080; use `serve` for other addresses"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_definition_is_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn limits_parse() {
        for (text, limit) in [
            ("1", Ok(Limit::PerSecond(1))),
            ("1000000", Ok(Limit::PerSecond(1_000_000))),
            ("default", Ok(Limit::Default)),
            ("0", Err(InvalidLimit)),
            ("1000001", Err(InvalidLimit)),
            ("-1", Err(InvalidLimit)),
            ("many", Err(InvalidLimit)),
        ] {
            assert_eq!(text.parse(), limit, "{text}");
        }
    }

    #[test]
    fn invalid_command_lines_are_rejected() {
        for line in [
            "ringtrue",
            "ringtrue dev --listen 0.0.0.0:8080",
            "ringtrue dev --listen localhost",
            "ringtrue workspaces create",
            "ringtrue workspaces limit 0199b0a8-0000-7000-8000-000000000000",
            "ringtrue workspaces limit nonsense --create 1",
            "ringtrue credentials",
            "ringtrue credentials create --workspace 0199b0a8-0000-7000-8000-000000000000 --expires-at tomorrow",
            "ringtrue credentials create --workspace 0199b0a8-0000-7000-8000-000000000000 --scopes reverse_sms",
            "ringtrue credentials delete",
            "ringtrue login --base-url http://example.com --client-id a",
            "ringtrue login --data a --client-id a",
            "ringtrue token",
            "ringtrue token --scope everything",
            "ringtrue open elsewhere",
            "ringtrue usage --by week",
            "ringtrue audit --all --page 2",
            "ringtrue logs --status 3xx",
            "ringtrue api",
            "ringtrue api TRACE /v1/verifications",
            "ringtrue projects create Shop --products sms",
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
            "ringtrue console link --member a@example.com --workspace 0199b0a8-0000-7000-8000-000000000000 --role boss",
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
            "ringtrue backup",
            "ringtrue export",
            "ringtrue import a b",
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
    fn global_flags_are_accepted_before_and_after_the_command() {
        for line in ["ringtrue --output json --config a keys list", "ringtrue keys list --config a --output json"] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(arguments.output, Output::Json);
            assert_eq!(arguments.config.as_deref(), Some("a".as_ref()));
        }
    }
}
