//! Arguments of the API client commands.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};
use http::StatusCode;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckId,
    product::{Product, Scope},
    tenancy::{ClientId, ProjectId},
    verification::Method,
};
use strum::VariantArray as _;

use crate::argument_values::{
    FinalStatus, PrivateArgument, ProfileName, SecureUrl, Since, SmsFault, http_method_parser, method_parser,
    parse_final_http_status, parse_timestamp, product_parser, scope_parser, token_scope_parser,
};

/// Commands that call the HTTP API of a server with a credential.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Save a project's or workspace's credential for the API client commands. Prompts for what is missing; the
    /// secret is read without echo, from standard input or from `RINGTRUE_CLIENT_SECRET`.
    Login(LoginArguments),
    /// Delete a saved profile
    Logout(ProfileOption),
    /// List the saved profiles
    Profiles,
    /// Show the profile: its server, workspace and project, and its credentials' scopes
    Whoami(ProfileOption),
    /// Print a server page's URL, and open it in a browser
    Open(OpenArguments),
    /// Print an access token
    Token {
        #[command(flatten)]
        profile_option: ProfileOption,
        /// The token's scope
        #[arg(long, value_name = "SCOPE", value_parser = token_scope_parser())]
        scope: Scope,
    },
    /// Verify a number from start to end, with a simulated phone in the sandbox
    Verify(VerifyArguments),
    /// Verification: try the best method first, then the next one
    #[command(alias = "verifications")]
    Verification(WithProfile<VerificationAction>),
    /// Reverse SMS: the user texts a code from the claimed number
    ReverseSms(WithProfile<ReverseSmsAction>),
    /// Secure SNA (silent network authentication): the phone opens a URL, and its operator confirms the claimed number
    SecureSna(WithProfile<SecureSnaAction>),
    /// Discovery: the phone opens a URL, and its operator returns the number
    Discovery(WithProfile<DiscoveryAction>),
    /// SIM Swap: check whether a number's SIM was changed recently
    SimSwap(WithProfile<SimSwapAction>),
    /// Create and show projects
    #[command(alias = "project")]
    Projects(WithProfile<ProjectsAction>),
    /// Show a workspace's usage: counts by product and period
    Usage(UsageArguments),
    /// Show a workspace's audit log, newest first
    Audit(AuditArguments),
    /// Show a project's request log: recent API requests without their values, oldest first
    Logs(LogsArguments),
    /// Send any request to the API, with a token for the right scope. Prints the status on standard error, the body on
    /// standard output.
    Api(ApiArguments),
    /// Resend callbacks
    #[command(alias = "callback")]
    Callbacks(WithProfile<CallbacksAction>),
    /// Print new and changed checks until Ctrl+C
    Tail(TailArguments),
    /// Act as the user in the sandbox: text the code or open the URL
    Trigger(TriggerArguments),
}

#[derive(Clone, Debug, Args)]
pub struct ProfileOption {
    /// Profile from `ringtrue login` [default: `RINGTRUE_PROFILE`, or `default`]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<ProfileName>,
}

#[derive(Debug, Args)]
pub struct WithProfile<A: Subcommand> {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    #[command(subcommand)]
    pub action: A,
}

#[derive(Debug, Args)]
pub struct LoginArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// The server's URL: https, or http on this machine
    #[arg(long, value_name = "URL")]
    pub base_url: Option<SecureUrl>,
    /// A project's or workspace's client id. A profile holds up to one of each.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub client_id: Option<String>,
    /// Extra CA certificates to trust (PEM)
    #[arg(long, value_name = "PATH")]
    pub ca_file: Option<PathBuf>,
    /// Read URL and credentials from `ringtrue dev`'s data directory, such as ringtrue-data
    #[arg(long, value_name = "DIR", conflicts_with_all = ["base_url", "client_id", "ca_file"])]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum ReverseSmsAction {
    /// Create a check, and print the SMS that the user must send
    Create {
        number: PrivateArgument,
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
    },
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Debug, Subcommand)]
pub enum SecureSnaAction {
    /// Create a check, and print the URL that the phone must open
    Create {
        number: PrivateArgument,
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
pub enum DiscoveryAction {
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
pub enum SimSwapAction {
    /// Create a check
    Create {
        number: PrivateArgument,
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
pub enum VerificationAction {
    /// Create a verification, and print its first step and the hosted page's URL
    Create {
        number: PrivateArgument,
        #[command(flatten)]
        new: NewCheck,
        #[command(flatten)]
        callback: CallbackArguments,
        #[command(flatten)]
        device: DeviceArguments,
        #[command(flatten)]
        verification: VerificationOptions,
    },
    /// Skip the current step, and print the next one
    Next {
        verification: CheckId,
        /// Skip the step only if it has this method
        #[arg(long, value_parser = method_parser())]
        method: Option<Method>,
    },
    /// End a verification at once
    Cancel { verification: CheckId },
    /// Redeem the code that the phone received or that the hosted page returned
    Redeem(RedeemArguments),
    #[command(flatten)]
    Read(ReadAction),
}

#[derive(Clone, Debug, Default, Args)]
pub struct VerificationOptions {
    /// Methods in order [default: the project's methods]
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = method_parser())]
    pub methods: Vec<Method>,
    /// After a match, check for a SIM change in this period
    #[arg(long, value_name = "MINUTES")]
    pub sim_swap_period: Option<u32>,
    /// Country for a number in national form, such as GB
    #[arg(long, value_name = "CODE")]
    pub country: Option<String>,
    /// The hosted page's language, such as pt-BR [default: the browser's]
    #[arg(long, value_name = "TAG")]
    pub locale: Option<String>,
}

#[derive(Debug, Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    pub number: PrivateArgument,
    /// Your reference for the verification
    #[arg(long, value_name = "TEXT")]
    pub reference_id: Option<String>,
    #[command(flatten)]
    pub callback: CallbackArguments,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub options: VerificationOptions,
    /// The simulated SIM's number, such as +990123456700 [default: the number, if it begins with +990]
    #[arg(long, value_name = "NUMBER")]
    pub sim: Option<PrivateArgument>,
    /// Simulate a phone without mobile data, which skips Secure SNA (silent network authentication)
    #[arg(long)]
    pub no_mobile_data: bool,
}

#[derive(Debug, Subcommand)]
pub enum ReadAction {
    /// Show a check
    Get { check: CheckId },
    /// List checks, newest first
    List(ListArguments),
    /// Watch a check until it ends; exit code 0 if it completes. Without a check id, watch all checks.
    Watch {
        check: Option<CheckId>,
        #[command(flatten)]
        interval: PollInterval,
    },
}

#[derive(Clone, Debug, Default, Args)]
pub struct NewCheck {
    /// Your reference for the check
    #[arg(long, value_name = "TEXT")]
    pub reference_id: Option<String>,
    /// Idempotency key. Repeating it within a day returns the first response.
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
    /// Watch the check until it ends, as `watch` does
    #[arg(long)]
    pub watch: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub struct CallbackArguments {
    /// URL that receives the result [default: the project's callback URL]
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct DeviceArguments {
    /// The phone's expected IP address
    #[arg(long, value_name = "IP")]
    pub device_ip: Option<String>,
    /// URL of the phone's final redirect [default: the project's redirect URL]
    #[arg(long, value_name = "URL")]
    pub redirect_url: Option<String>,
}

#[derive(Debug, Args)]
pub struct RedeemArguments {
    pub check: CheckId,
    /// Single-use code; or `-` to read it from standard input
    pub code: PrivateArgument,
}

#[derive(Clone, Debug, Args)]
pub struct ListArguments {
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
pub struct PollInterval {
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
pub enum CallbacksAction {
    /// Resend the callbacks for checks that have ended
    Resend(ResendArguments),
}

#[derive(Debug, Args)]
pub struct ResendArguments {
    /// Check ids
    #[arg(value_name = "CHECK", required_unless_present = "since", conflicts_with = "since")]
    pub checks: Vec<CheckId>,
    /// All checks that ended since then: 90s, 10m, 2h, 1d, or a time such as 2026-11-14T09:30:00Z
    #[arg(long, value_name = "AGE")]
    pub since: Option<Since>,
    /// Only checks with this final status. May be repeated.
    #[arg(long, value_name = "STATUS", requires = "since", value_delimiter = ',', ignore_case = true)]
    pub status: Vec<FinalStatus>,
    /// Only this product's checks. May be repeated.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_parser(Product::WITH_CALLBACKS))]
    pub product: Vec<Product>,
}

#[derive(Debug, Args)]
pub struct TailArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Only this product's checks. May be repeated.
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_parser(Product::WITH_CHECKS))]
    pub product: Vec<Product>,
    /// RSQL filter, such as `reference_id=='login-*'`
    #[arg(long, value_name = "RSQL")]
    pub search: Option<String>,
    #[command(flatten)]
    pub interval: PollInterval,
}

#[derive(Debug, Subcommand)]
pub enum ProjectsAction {
    /// List projects, newest first
    List(ListArguments),
    /// Show a project
    Get { project: ProjectId },
    /// Create a project and print its first credential; the secret is shown only once
    Create(NewProject),
}

#[derive(Debug, Args)]
pub struct NewProject {
    /// Unique name, 1 to 100 characters
    pub name: String,
    #[arg(long, value_enum, default_value_t = ProjectMode::Sandbox)]
    pub mode: ProjectMode,
    /// Enabled products [default: all]
    #[arg(long, value_name = "PRODUCT", value_delimiter = ',', value_parser = product_parser(Product::VARIANTS))]
    pub products: Option<Vec<Product>>,
    /// URL that receives check results
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
    /// URL of the phone's final redirect, for Secure SNA (silent network authentication) and Discovery
    #[arg(long, value_name = "URL")]
    pub redirect_url: Option<String>,
    /// Save the new credential in the profile, and do not print its secret
    #[arg(long)]
    pub r#use: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProjectMode {
    /// Simulated operator
    Sandbox,
    Live,
}

#[derive(Debug, Args)]
pub struct TriggerArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Check created with this profile [default: the most recent one]
    pub check: Option<CheckId>,
    /// The simulated SIM's number, such as +990123456700 [default: the check's number]
    #[arg(long, value_name = "NUMBER")]
    pub sim: Option<PrivateArgument>,
    /// Fault to inject into the SMS: late[=SECONDS], duplicate[=COPIES], spoofed[=SENDER], garbled, split[=PARTS]. May be
    /// repeated.
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<SmsFault>,
    /// Redeem a silent check's code
    #[arg(long)]
    pub redeem: bool,
}

#[derive(Debug, Args)]
pub struct SelftestArguments {
    /// Test this profile's server, in a sandbox project [default: a temporary server]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<ProfileName>,
    /// Also wait for a check to expire. Not needed for the temporary server.
    #[arg(long, requires = "profile")]
    pub slow: bool,
}

#[derive(Debug, Args)]
pub struct ListenArguments {
    /// Address and port to listen on, by plain HTTP; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9099")]
    pub listen: SocketAddr,
    /// The public keys' URL: https, or http on this machine [default: `ringtrue dev`'s keys]
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub jwks: Option<SecureUrl>,
    /// Data directory of the `ringtrue dev` that sends the callbacks
    #[arg(long, value_name = "DIR", default_value = "ringtrue-data")]
    pub data: PathBuf,
    /// Resume with this profile: the server resends the callbacks that you missed, and the command handles each once.
    /// Uses the public keys from the profile's server.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["jwks", "data"])]
    pub profile: Option<ProfileName>,
    /// Receive a project's callbacks from a server that cannot reach this machine, over a connection to the server.
    /// Includes checks without a callback URL. [default project: the profile's, or the workspace's only one]
    #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with_all = ["listen", "jwks", "data", "answer"])]
    pub project: Option<Option<ProjectId>>,
    /// Accept sandbox callbacks, which prove nothing about a number. Always on for `ringtrue dev` and `--project`.
    #[arg(long)]
    pub accept_sandbox: bool,
    /// Forward callbacks with a valid signature to an application on this machine, headers and body unchanged, and
    /// return its response. Other callbacks get a 401. If the URL has no path, the callback's path is kept.
    #[arg(long, value_name = "URL", value_parser = SecureUrl::parse_local)]
    pub forward: Option<SecureUrl>,
    /// Also forward callbacks without a valid signature
    #[arg(long, requires = "forward")]
    pub forward_unverified: bool,
    /// Respond to every callback with this status, for example to test retries [default: 200]
    #[arg(long, value_name = "STATUS", value_parser = parse_final_http_status)]
    pub answer: Option<StatusCode>,
    /// Exit after this many callbacks
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    pub once: Option<NonZeroU32>,
}

#[derive(Debug, Subcommand)]
pub enum EligibilityAction {
    /// Ask a server which products can verify a number
    Number {
        number: PrivateArgument,
        #[command(flatten)]
        profile_option: ProfileOption,
    },
    /// Ask a server which products can verify a device's IP address
    Ip {
        ip: String,
        #[command(flatten)]
        profile_option: ProfileOption,
    },
}

#[derive(Debug, Args)]
pub struct CredentialOwnerArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Project that owns the credentials [default: the workspace]
    #[arg(long, global = true, value_name = "ID")]
    pub project: Option<ProjectId>,
}

#[derive(Debug, Args)]
pub struct NewCredential {
    /// The credential's scopes [default: all its owner's scopes]
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', value_parser = scope_parser())]
    pub scopes: Vec<Scope>,
    /// Expiry time, such as 2027-01-31T00:00:00Z [default: never]
    #[arg(long, value_name = "T", value_parser = parse_timestamp)]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Subcommand)]
pub enum CredentialsAction {
    /// List credentials, without secrets
    List(ListArguments),
    /// Show a credential, without its secret
    Get { client_id: ClientId },
    /// Delete a credential and revoke its tokens
    Delete { client_id: ClientId },
}

#[derive(Debug, Args)]
pub struct OpenArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    #[arg(value_enum, default_value_t = ServerPage::Console)]
    pub page: ServerPage,
    /// Only print the URL
    #[arg(long)]
    pub print: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServerPage {
    /// Console
    Console,
    /// API reference
    #[value(alias = "reference")]
    Docs,
    /// Error codes
    Errors,
    /// OpenAPI document
    Openapi,
}

#[derive(Debug, Args)]
pub struct UsageArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Start of the range: an age such as 2h or 30d, or a time such as 2026-11-01T00:00:00Z [default: 24 hours by hour,
    /// 30 days by day, 12 months by month]
    #[arg(long, value_name = "AGE")]
    pub since: Option<Since>,
    /// End of the range, exclusive [default: now]
    #[arg(long, value_name = "T", value_parser = parse_timestamp)]
    pub until: Option<Timestamp>,
    /// Length of a period
    #[arg(long, value_enum, default_value_t = UsagePeriod::Day)]
    pub by: UsagePeriod,
    /// Count only this project's checks [default: all the workspace's projects]
    #[arg(long, value_name = "ID")]
    pub project: Option<ProjectId>,
    /// Print a line for each project, status, match and network
    #[arg(long)]
    pub detailed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsagePeriod {
    Hour,
    Day,
    Month,
}

#[derive(Debug, Args)]
pub struct AuditArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    #[arg(long, value_name = "N", default_value = "1")]
    pub page: NonZeroU32,
    /// Page size, at most 100
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub size: u32,
    /// Fetch all pages
    #[arg(long, conflicts_with_all = ["page", "size"])]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    /// Project whose requests to show [default: the profile's, or the workspace's only one]
    #[arg(long, value_name = "ID")]
    pub project: Option<ProjectId>,
    /// Only responses in this class
    #[arg(long, value_name = "CLASS", value_enum)]
    pub status: Option<ResponseClass>,
    /// Only responses with this error code, such as `bad_request`
    #[arg(long, value_name = "CODE")]
    pub error_code: Option<String>,
    /// Only requests with this id, as in `X-Request-Id`
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Number of requests, at most 100
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub size: u32,
    /// Also print new requests until Ctrl+C
    #[arg(long, short)]
    pub follow: bool,
    #[command(flatten)]
    pub interval: PollInterval,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResponseClass {
    /// Success and redirects
    #[value(name = "2xx")]
    Success,
    /// Client errors
    #[value(name = "4xx")]
    ClientError,
    /// Server errors
    #[value(name = "5xx")]
    ServerError,
}

#[derive(Debug, Args)]
pub struct ApiArguments {
    #[command(flatten)]
    pub profile_option: ProfileOption,
    #[arg(value_parser = http_method_parser(), ignore_case = true)]
    pub method: http::Method,
    /// Path and query, such as `/v1/verifications?size=5`. `{workspace_id}` and `{project_id}` stand for the
    /// profile's.
    pub path: PrivateArgument,
    /// JSON body: the text itself, `@FILE`, or `-` for standard input
    #[arg(long, short, value_name = "JSON")]
    pub data: Option<PrivateArgument>,
    /// Scope of the access token [default: the scope that the path requires]
    #[arg(long, value_name = "SCOPE", value_parser = token_scope_parser())]
    pub scope: Option<Scope>,
    /// Idempotency key. Repeating it within a day returns the first response.
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
}
