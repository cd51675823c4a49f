//! What callers can type.

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
    checks::command,
    fault::Fault,
    profile::ProfileName,
    since::Since,
    upstream::{EndedAs, WITH_CALLBACKS},
};
use crate::cli::listen::Endpoint;

/// Commands that speak to a server as its callers do, by HTTP and with a credential.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CallerCommand {
    /// Keeps the credential of a project or a workspace for the commands below. The secret is asked for, or read from
    /// standard input or from `RINGTRUE_CLIENT_SECRET`.
    Login(LoginArguments),
    /// Forgets what `login` kept.
    Logout(Identity),
    /// Lists what `login` kept.
    Profiles,
    /// Prints an access token.
    Token {
        #[command(flatten)]
        identity: Identity,
        /// What the token is for.
        #[arg(long, value_name = "SCOPE")]
        scope: Scope,
    },
    /// Reverse SMS: the user texts a code from the number in question.
    ReverseSms(Group<ReverseSmsAction>),
    /// Secure SNA: the user's phone opens a URL, and its operator says whether the number is its own.
    SecureSna(Group<SecureSnaAction>),
    /// Discovery: the user's phone opens a URL, and its operator tells the number.
    Discovery(Group<DiscoveryAction>),
    /// SIM Swap: whether a number's SIM was changed of late.
    SimSwap(Group<SimSwapAction>),
    /// Makes and shows projects.
    Projects(Group<ProjectsAction>),
    /// Sends callbacks again.
    Callbacks(Group<CallbacksAction>),
    /// Prints new checks and what becomes of them, as it happens, until Ctrl+C.
    Tail(TailArguments),
    /// Sandbox: does what the user of a check would do. Texts the code, or opens the URL.
    Trigger(TriggerArguments),
    /// Tries the whole product against its own sandbox, and says what works.
    Selftest(SelftestArguments),
}

/// As whom a command speaks.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Identity {
    /// The profile of `ringtrue login`. Otherwise `RINGTRUE_PROFILE`, or `default`.
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<ProfileName>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Group<A: Subcommand> {
    #[command(flatten)]
    pub identity: Identity,
    #[command(subcommand)]
    pub action: A,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LoginArguments {
    #[command(flatten)]
    pub identity: Identity,
    /// Where the server is: https, or http on this machine.
    #[arg(long, value_name = "URL", required_unless_present = "data")]
    pub base_url: Option<Endpoint>,
    /// The client id of a project or of a workspace. A profile may hold one of each.
    #[arg(long, value_name = "ID", required_unless_present = "data", value_parser = NonEmptyStringValueParser::new())]
    pub client_id: Option<String>,
    /// Certificates (PEM) to trust besides those of this machine.
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,
    /// Takes everything from the folder of a `ringtrue dev`, such as ringtrue-data.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["base_url", "client_id", "ca_file"])]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ReverseSmsAction {
    /// Creates a check, and says what the user must text.
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
    /// Creates a check, and gives the URL that the phone must open.
    Create {
        number: Number,
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
        #[command(flatten)]
        device: DeviceArguments,
    },
    /// Ends a check with the code that the phone got.
    Redeem(RedeemArguments),
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DiscoveryAction {
    /// Creates a check, and gives the URL that the phone must open.
    Create {
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
        #[command(flatten)]
        device: DeviceArguments,
    },
    /// Ends a check with the code that the phone got.
    Redeem(RedeemArguments),
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SimSwapAction {
    /// Asks the number's operator.
    Create {
        number: Number,
        #[command(flatten)]
        new: NewCheck,
        /// How far back a change counts, in minutes. Otherwise a week.
        #[arg(long, value_name = "MINUTES")]
        period: Option<u32>,
    },
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ReadAction {
    /// Shows a check.
    Get { check: CheckId },
    /// Lists checks, newest first.
    List(ListArguments),
    /// Follows a check until it has ended; exit code 0 when it has completed. Without one, follows them all.
    Watch {
        check: Option<CheckId>,
        #[command(flatten)]
        pace: Pace,
    },
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct NewCheck {
    /// What you call it.
    #[arg(long, value_name = "TEXT")]
    pub reference_id: Option<String>,
    /// The same key within a day gives the first answer again.
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
    /// Goes on until the check has ended, as `watch` does.
    #[arg(long)]
    pub watch: bool,
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct CallbackArguments {
    /// Where the result goes. Otherwise where the project says.
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct DeviceArguments {
    /// The address that the phone is expected to come from.
    #[arg(long, value_name = "IP")]
    pub device_ip: Option<String>,
    /// Where the phone is sent at the end. Otherwise where the project says.
    #[arg(long, value_name = "URL")]
    pub redirect_url: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RedeemArguments {
    pub check: CheckId,
    /// The code, which can be used once; or `-` to read it from standard input.
    pub code: Code,
}

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ListArguments {
    /// Which of them, in RSQL, such as `status==COMPLETED;created_at=gt=2026-11-01T00:00:00Z`.
    #[arg(long, value_name = "RSQL")]
    pub search: Option<String>,
    #[arg(long, value_name = "N", default_value = "1")]
    pub page: NonZeroU32,
    /// How many on a page, at most 100.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub size: u32,
    /// Every page.
    #[arg(long, conflicts_with_all = ["page", "size"])]
    pub all: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(in crate::cli) struct Pace {
    /// Between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CallbacksAction {
    /// Sends the callbacks of checks that have ended once more: the same body, in a new series of attempts.
    Resend(ResendArguments),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResendArguments {
    /// The checks whose callbacks are meant.
    #[arg(value_name = "CHECK", required_unless_present = "since", conflicts_with = "since")]
    pub checks: Vec<CheckId>,
    /// All checks that have ended since then: 90s, 10m, 2h, 1d, or a time such as 2026-11-14T09:30:00Z.
    #[arg(long, value_name = "AGE")]
    pub since: Option<Since>,
    /// Only those that have ended so. May be given several times.
    #[arg(long, value_name = "STATUS", requires = "since", value_delimiter = ',', ignore_case = true)]
    pub status: Vec<EndedAs>,
    /// Only checks of this product. May be given several times.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_among(&WITH_CALLBACKS))]
    pub product: Vec<Product>,
}

/// The products that have checks.
pub(super) const WITH_CHECKS: [Product; 4] =
    [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

#[derive(Debug, Args)]
pub(in crate::cli) struct TailArguments {
    #[command(flatten)]
    pub identity: Identity,
    /// Only checks of this product. May be given several times.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_among(&WITH_CHECKS))]
    pub product: Vec<Product>,
    /// Which of them, in RSQL, such as `reference_id=='login-*'`.
    #[arg(long, value_name = "RSQL")]
    pub search: Option<String>,
    #[command(flatten)]
    pub pace: Pace,
}

/// Products by the names of their commands.
fn product_among(products: &[Product]) -> impl TypedValueParser<Value = Product> + use<> {
    PossibleValuesParser::new(products.iter().copied().map(command))
        .try_map(|text| text.replace('-', "_").parse::<Product>())
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ProjectsAction {
    /// Lists projects, newest first.
    List(ListArguments),
    /// Shows a project.
    Get { project: ProjectId },
    /// Makes a project, and prints its first credential: the secret is shown this once.
    Create(NewProject),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct NewProject {
    /// 1 to 100 characters, and no other project's.
    pub name: String,
    #[arg(long, value_enum, default_value_t = ProjectMode::Sandbox)]
    pub mode: ProjectMode,
    /// The products that it may use. Otherwise all.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',')]
    pub products: Option<Vec<String>>,
    /// Where the results of its checks go.
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
    /// Where phones are sent at the end of Secure SNA and Discovery.
    #[arg(long, value_name = "URL")]
    pub redirect_url: Option<String>,
    /// Keeps the new credential in the profile, and does not print its secret.
    #[arg(long)]
    pub r#use: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ProjectMode {
    /// No real operator is reached.
    Sandbox,
    Live,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TriggerArguments {
    #[command(flatten)]
    pub identity: Identity,
    /// A check that was created from here. Otherwise the last one.
    pub check: Option<CheckId>,
    /// The SIM in the phone, such as +990123456700. Otherwise the one of the check's number.
    #[arg(long, value_name = "NUMBER")]
    pub sim: Option<Number>,
    /// What befalls the SMS: late[=SECONDS], duplicate[=COPIES], spoofed[=NUMBER], garbled, split[=PARTS]. May be
    /// given several times.
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<Fault>,
    /// Redeems the code that a silent check ends with.
    #[arg(long)]
    pub redeem: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SelftestArguments {
    /// Tries the server of this profile, whose project must be a sandbox one. Otherwise one of its own, in a folder
    /// that is gone afterwards.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<ProfileName>,
    /// Waits for a check to expire, too. A server of its own need not wait.
    #[arg(long, requires = "profile")]
    pub slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A number as it is typed, or `-` to read it from standard input. The server says what is wrong with it.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::cli) struct Number(pub String);

impl FromStr for Number {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Number(text.to_owned()))
    }
}

/// A code as it is typed, or `-` to read it from standard input.
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
