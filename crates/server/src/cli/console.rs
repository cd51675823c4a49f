//! `ringtrue console`: how people come into the console, and who does no longer.

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

use super::{desk::Desk, dev, failure::Failure, printer};
use crate::{config::Config, http::time};

#[derive(Debug, Subcommand)]
pub(super) enum ConsoleAction {
    /// Makes a link to hand over: for an administrator or an account whose password is lost, to choose a password, once
    /// and within a day; for a member, to accept an invitation within a week.
    Link(LinkArguments),
    /// Disables an account: its sessions and links end, and nobody signs in with it.
    Disable(AccountArguments),
    /// Enables an account that was disabled.
    Enable(AccountArguments),
    /// Takes the administrator's role from an account, which stays a member of its workspaces.
    Demote(AccountArguments),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true))]
pub(super) struct LinkArguments {
    /// Somebody who runs this deployment, and may do everything. An account that was none before loses its password and
    /// its sessions.
    #[arg(long, value_name = "EMAIL", group = "whom")]
    pub admin: Option<Email>,
    /// Somebody to invite to a workspace.
    #[arg(long, value_name = "EMAIL", group = "whom", requires = "workspace")]
    pub member: Option<Email>,
    /// An existing account whose password is lost.
    #[arg(long, value_name = "EMAIL", group = "whom")]
    pub account: Option<Email>,
    /// The id of the member's workspace.
    #[arg(long, value_name = "ID", requires = "member")]
    pub workspace: Option<WorkspaceId>,
    /// What the member may do: `viewer`, `developer` or `owner`.
    #[arg(long, value_name = "ROLE", default_value = "owner", requires = "member")]
    pub role: Role,
    #[command(flatten)]
    pub place: DataArguments,
}

#[derive(Debug, Args)]
pub(super) struct AccountArguments {
    /// The address of the account.
    #[arg(value_name = "EMAIL")]
    pub email: Email,
    #[command(flatten)]
    pub place: DataArguments,
}

#[derive(Debug, Args)]
pub(super) struct DataArguments {
    /// The data folder of a `ringtrue dev`, in place of a configured deployment.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

const SHOWN_ONCE: &str = "Whoever has the link comes in: hand it over by a way that you trust. It is shown this once.";

pub(super) async fn run(desk: &Desk, action: ConsoleAction) -> Result<(), Failure> {
    let operator = Administrator::operator();
    match action {
        ConsoleAction::Link(arguments) => make_link(desk, &arguments).await,
        ConsoleAction::Disable(AccountArguments { email, place }) => {
            with_engine(desk, &place, async |engine, _| {
                let account = engine.account_of(&operator, &email).await?;
                Ok(engine.disable_account(&operator, account).await?)
            })
            .await
        }
        ConsoleAction::Enable(AccountArguments { email, place }) => {
            with_engine(desk, &place, async |engine, _| {
                let account = engine.account_of(&operator, &email).await?;
                Ok(engine.enable_account(&operator, account).await?)
            })
            .await
        }
        ConsoleAction::Demote(AccountArguments { email, place }) => {
            with_engine(desk, &place, async |engine, _| {
                let account = engine.account_of(&operator, &email).await?;
                Ok(engine.remove_admin(&operator, account).await?)
            })
            .await
        }
    }
}

async fn make_link(desk: &Desk, arguments: &LinkArguments) -> Result<(), Failure> {
    let (link, url) = with_engine(desk, &arguments.place, async |engine, base_url| {
        let link = new_link(engine, arguments).await?;
        let url = format!("{base_url}{}", link.path);
        Ok((link, url))
    })
    .await?;
    desk.printer.record(vec![
        ("email", json!(link.email.as_str())),
        ("url", json!(url)),
        ("expires_at", json!(time::format(link.expires_at))),
    ])?;
    printer::remark(SHOWN_ONCE);
    Ok(())
}

/// Runs `work` with an engine over the database in question, and with the address at which people reach it.
async fn with_engine<T>(
    desk: &Desk,
    place: &DataArguments,
    work: impl AsyncFnOnce(&Engine, &str) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(data) = &place.data else {
        let config = desk.config()?;
        let base_url = base_url(&config);
        return desk.with_engine_of(&config, async |engine| work(engine, &base_url).await).await;
    };
    if desk.config_file.is_some() {
        return Err(Failure::refused(
            "`--data` and `--config` name two deployments",
            "Use `--data DIR` for `ringtrue dev`, and `--config PATH` for `ringtrue serve`.",
        ));
    }
    let dev::DevData { config, master, base_url } = dev::open_data(data, &desk.environment)?;
    desk.with_engine_by(&config, master, async |engine| work(engine, &base_url).await).await
}

async fn new_link(engine: &Engine, arguments: &LinkArguments) -> Result<AccessLink, Failure> {
    let operator = Administrator::operator();
    match arguments {
        LinkArguments { admin: Some(email), .. } => Ok(engine.invite_admin(&operator, email).await?),
        LinkArguments { account: Some(email), .. } => {
            let account = engine.account_of(&operator, email).await?;
            Ok(engine.reset_password(&operator, account).await?)
        }
        LinkArguments { member: Some(email), workspace: Some(workspace), role, .. } => {
            let invited = engine.invite_member_as_operator(*workspace, email, *role).await;
            invited.map_err(|error| {
                let hint = match &error {
                    MemberError::AlreadyMember => "`--account EMAIL` makes a link to choose a new password.",
                    _ => "`ringtrue workspace list` shows the workspaces.",
                };
                match error {
                    MemberError::Store(error) => error.into(),
                    other => Failure::refused(other.to_string(), hint),
                }
            })
        }
        _ => Err(Failure::refused("nobody is named", "Name somebody by --admin, --member or --account.")),
    }
}

impl From<AccountError> for Failure {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Store(error) => error.into(),
            other => Failure::refused(other.to_string(), "The console's page of accounts shows them all."),
        }
    }
}

/// Where people reach this deployment, as far as the configuration tells.
fn base_url(config: &Config) -> String {
    match &config.base_url {
        Some(base_url) => base_url.to_string(),
        None => format!("{}://{}", if config.http.tls.is_some() { "https" } else { "http" }, config.http.listen),
    }
}
