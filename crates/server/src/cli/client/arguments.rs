//! Arguments of the API client commands.

use std::{fmt, num::NonZeroU32, path::PathBuf, str::FromStr};

use clap::{
    Args, Subcommand, ValueEnum,
    builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser},
};
use ringtrue_domain::{
    lifecycle::CheckId,
    product::{Product, Scope},
    tenancy::ProjectId,
};

use super::{
    checks::command_name,
    profile::ProfileName,
    since::Since,
    sms_fault::SmsFault,
    upstream::{FinalStatus, PRODUCTS_WITH_CALLBACKS},
};
use crate::cli::listen::SecureUrl;

/// Commands that call the HTTP API of a server with a credential.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClientCommand {
    /// Save the credential of a project or workspace for the commands below. Prompts for the secret, or reads it from
    /// standard input or `RINGTRUE_CLIENT_SECRET`.
    Login(LoginArguments),
    /// Delete a saved profile
    Logout(ProfileOption),
    /// List the saved profiles
    Profiles,
    /// Print an access token
    Token {
        #[command(flatten)]
        profile_option: ProfileOption,
        /// Scope of the token
        #[arg(long, value_name = "SCOPE")]
        scope: Scope,
    },
    /// Reverse SMS: the user texts a code from the claimed number
    ReverseSms(WithProfile<ReverseSmsAction>),
    /// Secure SNA: the phone opens a URL, and its operator confirms the claimed number
    SecureSna(WithProfile<SecureSnaAction>),
    /// Discovery: the phone opens a URL, and its operator returns the number
    Discovery(WithProfile<DiscoveryAction>),
    /// SIM Swap: check whether a number's SIM was changed recently
    SimSwap(WithProfile<SimSwapAction>),
    /// Create and show projects
    Projects(WithProfile<ProjectsAction>),
    /// Resend callbacks
    Callbacks(WithProfile<CallbacksAction>),
    /// Print new and changed checks until Ctrl+C
    Tail(TailArguments),
    /// Sandbox: act as the user of a check: text the code or open the URL
    Trigger(TriggerArguments),
    /// Test all products against the sandbox
    Selftest(SelftestArguments),
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ProfileOption {
    /// Profile of `ringtrue login` [default: `RINGTRUE_PROFILE`, or `default`]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<ProfileName>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WithProfile<A: Subcommand> {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    #[command(subcommand)]
    pub action: A,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LoginArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// URL of the server: https, or http on this machine
    #[arg(long, value_name = "URL", required_unless_present = "data")]
    pub base_url: Option<SecureUrl>,
    /// Client id of a project or workspace. A profile holds up to one of each.
    #[arg(long, value_name = "ID", required_unless_present = "data", value_parser = NonEmptyStringValueParser::new())]
    pub client_id: Option<String>,
    /// Extra CA certificates to trust (PEM)
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,
    /// Read URL and credentials from the data directory of a `ringtrue dev`, such as ringtrue-data
    #[arg(long, value_name = "DIR", conflicts_with_all = ["base_url", "client_id", "ca_file"])]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ReverseSmsAction {
    /// Create a check, and print the SMS that the user must send
    Create {
        number: Number,
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
    },
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SecureSnaAction {
    /// Create a check, and print the URL that the phone must open
    Create {
        number: Number,
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
        #[command(flatten)]
        device: DeviceArguments,
    },
    /// Redeem the code that the phone received
    Redeem(RedeemArguments),
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DiscoveryAction {
    /// Create a check, and print the URL that the phone must open
    Create {
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
        #[command(flatten)]
        device: DeviceArguments,
    },
    /// Redeem the code that the phone received
    Redeem(RedeemArguments),
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SimSwapAction {
    /// Create a check
    Create {
        number: Number,
        #[command(flatten)]
        new: NewCheck,
        /// Period to check for a SIM change, in minutes [default: a week]
        #[arg(long, value_name = "MINUTES")]
        period: Option<u32>,
    },
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ReadAction {
    /// Show a check
    Get { check: CheckId },
    /// List checks, newest first
    List(ListArguments),
    /// Watch a check until it concludes; exit code 0 if it completes. Without a check id, watch all checks.
    Watch {
        check: Option<CheckId>,
        #[command(flatten)]
        interval: PollInterval,
    },
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct NewCheck {
    /// Your reference for the check
    #[arg(long, value_name = "TEXT")]
    pub reference_id: Option<String>,
    /// Repeating a key within a day returns the first response
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
    /// Watch the check until it concludes, as `watch` does
    #[arg(long)]
    pub watch: bool,
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct CallbackArguments {
    /// URL that receives the result [default: the project's callback URL]
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct DeviceArguments {
    /// Expected IP address of the phone
    #[arg(long, value_name = "IP")]
    pub device_ip: Option<String>,
    /// Final redirect of the phone [default: the project's redirect URL]
    #[arg(long, value_name = "URL")]
    pub redirect_url: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RedeemArguments {
    pub check: CheckId,
    /// Single-use code; or `-` to read it from standard input
    pub code: Code,
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ListArguments {
    /// RSQL filter, such as `status==COMPLETED;created_at=gt=2026-11-01T00:00:00Z`
    #[arg(long, value_name = "RSQL")]
    pub search: Option<String>,
    #[arg(long, value_name = "N", default_value = "1")]
    pub page: NonZeroU32,
    /// Page size, at most 100
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub size: u32,
    /// Fetch all pages
    #[arg(long, conflicts_with_all = ["page", "size"])]
    pub all: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(in crate::cli) struct PollInterval {
    /// Polling interval
    #[arg(
        long = "interval",
        value_name = "SECONDS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub seconds: u64,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CallbacksAction {
    /// Resend callbacks of concluded checks: the same body, in a new series of attempts
    Resend(ResendArguments),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResendArguments {
    /// Ids of the checks
    #[arg(value_name = "CHECK", required_unless_present = "since", conflicts_with = "since")]
    pub checks: Vec<CheckId>,
    /// All checks that concluded since then: 90s, 10m, 2h, 1d, or a time such as 2026-11-14T09:30:00Z
    #[arg(long, value_name = "AGE")]
    pub since: Option<Since>,
    /// Only checks with this final status. May be repeated.
    #[arg(long, value_name = "STATUS", requires = "since", value_delimiter = ',', ignore_case = true)]
    pub status: Vec<FinalStatus>,
    /// Only checks of this product. May be repeated.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_parser(&PRODUCTS_WITH_CALLBACKS))]
    pub product: Vec<Product>,
}

pub(super) const PRODUCTS_WITH_CHECKS: [Product; 4] =
    [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

#[derive(Debug, Args)]
pub(in crate::cli) struct TailArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Only checks of this product. May be repeated.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_parser(&PRODUCTS_WITH_CHECKS))]
    pub product: Vec<Product>,
    /// RSQL filter, such as `reference_id=='login-*'`
    #[arg(long, value_name = "RSQL")]
    pub search: Option<String>,
    #[command(flatten)]
    pub interval: PollInterval,
}

/// Parses products by their command names.
fn product_parser(products: &[Product]) -> impl TypedValueParser<Value = Product> + use<> {
    PossibleValuesParser::new(products.iter().copied().map(command_name))
        .try_map(|text| text.replace('-', "_").parse::<Product>())
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ProjectsAction {
    /// List projects, newest first
    List(ListArguments),
    /// Show a project
    Get { project: ProjectId },
    /// Create a project and print its first credential; the secret is shown only once
    Create(NewProject),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct NewProject {
    /// Unique name of 1 to 100 characters
    pub name: String,
    #[arg(long, value_enum, default_value_t = ProjectMode::Sandbox)]
    pub mode: ProjectMode,
    /// Enabled products [default: all]
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',')]
    pub products: Option<Vec<String>>,
    /// URL that receives the results of checks
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
    /// Final redirect of phones in Secure SNA and Discovery
    #[arg(long, value_name = "URL")]
    pub redirect_url: Option<String>,
    /// Save the new credential in the profile, and do not print its secret
    #[arg(long)]
    pub r#use: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ProjectMode {
    /// Simulated operator
    Sandbox,
    Live,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TriggerArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Check created with this profile [default: the most recent one]
    pub check: Option<CheckId>,
    /// Number of the simulated SIM, such as +990123456700 [default: the number of the check]
    #[arg(long, value_name = "NUMBER")]
    pub sim: Option<Number>,
    /// Fault to inject into the SMS: late[=SECONDS], duplicate[=COPIES], spoofed[=NUMBER], garbled, split[=PARTS]. May be
    /// repeated.
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<SmsFault>,
    /// Redeem the code of a silent check
    #[arg(long)]
    pub redeem: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SelftestArguments {
    /// Test the server of this profile, whose project must be a sandbox project [default: a temporary server]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<ProfileName>,
    /// Also wait for a check to expire. Not needed for the temporary server.
    #[arg(long, requires = "profile")]
    pub slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Number, or `-` to read it from standard input. The server validates it.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::cli) struct Number(pub String);

impl FromStr for Number {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Number(text.to_owned()))
    }
}

/// Code, or `-` to read it from standard input.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::cli) struct Code(pub String);

impl FromStr for Code {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Code(text.to_owned()))
    }
}

/// Masked.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(…)")
    }
}

/// Masked.
impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Number(…)")
    }
}
