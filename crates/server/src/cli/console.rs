//! `ringtrue console`: access links and account management.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringtrue_domain::{
    account::{Email, Role},
    tenancy::WorkspaceId,
};
use ringtrue_engine::{
    Engine,
    accounts::{AccessLink, AccountError, Administrator, MemberError},
};
use serde_json::json;

use super::{context::CommandContext, dev, error::CliError, printer};
use crate::{config::Config, http::time};

#[derive(Debug, Subcommand)]
pub(super) enum ConsoleAction {
    /// Create an access link: a single-use link to set a password, valid for a day (administrator, or account with a
    /// lost password), or an invitation, valid for a week (member).
    Link(LinkArguments),
    /// Disable an account, and revoke its sessions and links
    Disable(AccountArguments),
    /// Enable a disabled account
    Enable(AccountArguments),
    /// Remove the administrator role from an account, which stays a member of its workspaces
    Demote(AccountArguments),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("recipient").required(true))]
pub(super) struct LinkArguments {
    /// Email of an administrator of this deployment. An existing account that becomes one loses its password and
    /// sessions.
    #[arg(long, value_name = "EMAIL", group = "recipient")]
    pub admin: Option<Email>,
    /// Email of a member to invite to a workspace
    #[arg(long, value_name = "EMAIL", group = "recipient", requires = "workspace")]
    pub member: Option<Email>,
    /// Email of an existing account with a lost password
    #[arg(long, value_name = "EMAIL", group = "recipient")]
    pub account: Option<Email>,
    /// Id of the member's workspace
    #[arg(long, value_name = "ID", requires = "member")]
    pub workspace: Option<WorkspaceId>,
    /// Role of the member: `viewer`, `developer` or `owner`
    #[arg(long, value_name = "ROLE", default_value = "owner", requires = "member")]
    pub role: Role,
    #[command(flatten)]
    pub deployment: DataArguments,
}

#[derive(Debug, Args)]
pub(super) struct AccountArguments {
    /// Email of the account
    #[arg(value_name = "EMAIL")]
    pub email: Email,
    #[command(flatten)]
    pub deployment: DataArguments,
}

#[derive(Debug, Args)]
pub(super) struct DataArguments {
    /// Data directory of a `ringtrue dev`, instead of the configured deployment
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

const LINK_SHOWN_ONCE: &str =
    "Anyone with this link can sign in: send it over a trusted channel. It is not shown again.";

pub(super) async fn run(context: &CommandContext, action: ConsoleAction) -> Result<(), CliError> {
    let operator = Administrator::operator();
    match action {
        ConsoleAction::Link(arguments) => create_link(context, &arguments).await,
        ConsoleAction::Disable(AccountArguments { email, deployment }) => {
            with_engine(context, &deployment, async |engine, _| {
                let account = engine.account_id_by_email(&operator, &email).await?;
                Ok(engine.disable_account(&operator, account).await?)
            })
            .await
        }
        ConsoleAction::Enable(AccountArguments { email, deployment }) => {
            with_engine(context, &deployment, async |engine, _| {
                let account = engine.account_id_by_email(&operator, &email).await?;
                Ok(engine.enable_account(&operator, account).await?)
            })
            .await
        }
        ConsoleAction::Demote(AccountArguments { email, deployment }) => {
            with_engine(context, &deployment, async |engine, _| {
                let account = engine.account_id_by_email(&operator, &email).await?;
                Ok(engine.remove_admin(&operator, account).await?)
            })
            .await
        }
    }
}

async fn create_link(context: &CommandContext, arguments: &LinkArguments) -> Result<(), CliError> {
    let (link, url) = with_engine(context, &arguments.deployment, async |engine, base_url| {
        let link = issue_link(engine, arguments).await?;
        let url = format!("{base_url}{}", link.path);
        Ok((link, url))
    })
    .await?;
    context.printer.print_record(vec![
        ("email", json!(link.email.as_str())),
        ("url", json!(url)),
        ("expires_at", json!(time::format(link.expires_at))),
    ])?;
    printer::print_note(LINK_SHOWN_ONCE);
    Ok(())
}

/// Runs `work` with an engine over the selected database and with the base URL of the deployment.
async fn with_engine<T>(
    context: &CommandContext,
    deployment: &DataArguments,
    work: impl AsyncFnOnce(&Engine, &str) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let Some(data) = &deployment.data else {
        let config = context.config()?;
        let base_url = base_url(&config);
        return context.with_engine_for(&config, async |engine| work(engine, &base_url).await).await;
    };
    if context.config_file.is_some() {
        return Err(CliError::with_hint(
            "`--data` and `--config` cannot be combined",
            "Use `--data DIR` for `ringtrue dev`, and `--config PATH` for `ringtrue serve`.",
        ));
    }
    let dev::DevDeployment { config, master, base_url } = dev::open_data_dir(data, &context.environment)?;
    context.with_engine_and_key(&config, master, async |engine| work(engine, &base_url).await).await
}

async fn issue_link(engine: &Engine, arguments: &LinkArguments) -> Result<AccessLink, CliError> {
    let operator = Administrator::operator();
    match arguments {
        LinkArguments { admin: Some(email), .. } => Ok(engine.invite_admin(&operator, email).await?),
        LinkArguments { account: Some(email), .. } => {
            let account = engine.account_id_by_email(&operator, email).await?;
            Ok(engine.create_password_reset_link(&operator, account).await?)
        }
        LinkArguments { member: Some(email), workspace: Some(workspace), role, .. } => {
            let invited = engine.invite_member_as_operator(*workspace, email, *role).await;
            invited.map_err(|error| {
                let hint = match &error {
                    MemberError::AlreadyMember => "Use `--account EMAIL` to create a link that sets a new password.",
                    _ => "Run `ringtrue workspace list` to see the workspaces.",
                };
                match error {
                    MemberError::Store(error) => error.into(),
                    other => CliError::with_hint(other.to_string(), hint),
                }
            })
        }
        _ => Err(CliError::with_hint("no email given", "Use --admin, --member or --account.")),
    }
}

impl From<AccountError> for CliError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Store(error) => error.into(),
            other => CliError::with_hint(other.to_string(), "The console's accounts page lists all accounts."),
        }
    }
}

/// Falls back to the listen address when no base URL is configured.
fn base_url(config: &Config) -> String {
    match &config.base_url {
        Some(base_url) => base_url.to_string(),
        None => format!("{}://{}", if config.http.tls.is_some() { "https" } else { "http" }, config.http.listen),
    }
}
