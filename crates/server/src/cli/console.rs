//! `ringtrue console`: how people come into the console.

use clap::{Args, Subcommand};
use ringtrue_domain::{
    account::{Email, Role},
    tenancy::WorkspaceId,
};
use ringtrue_engine::{Engine, accounts::MemberError};
use serde_json::json;

use super::{desk::Desk, failure::Failure, printer};
use crate::{config::Config, http::time};

#[derive(Debug, Subcommand)]
pub(super) enum ConsoleAction {
    /// Makes a link, good once and for a day, by which somebody chooses a password and comes in. For a new account, and
    /// for one whose password is lost.
    Link(LinkArguments),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true))]
pub(super) struct LinkArguments {
    /// Somebody who runs this deployment, and may do everything.
    #[arg(long, value_name = "EMAIL", group = "whom")]
    pub admin: Option<Email>,
    /// Somebody who belongs to one workspace.
    #[arg(long, value_name = "EMAIL", group = "whom", requires = "workspace")]
    pub member: Option<Email>,
    /// The id of the member's workspace.
    #[arg(long, value_name = "ID", requires = "member")]
    pub workspace: Option<WorkspaceId>,
    /// What the member may do: `viewer`, `developer` or `owner`.
    #[arg(long, value_name = "ROLE", default_value = "owner", requires = "member")]
    pub role: Role,
}

const SHOWN_ONCE: &str = "Whoever has the link comes in: hand it over by a way that you trust. It is shown this once.";

pub(super) async fn run(desk: &Desk, action: ConsoleAction) -> Result<(), Failure> {
    let ConsoleAction::Link(arguments) = action;
    let base_url = base_url(&desk.config()?);
    let invitation = desk.with_engine(async |engine| invite(engine, &arguments).await).await?;
    desk.printer.record(vec![
        ("email", json!(invitation.email.as_str())),
        ("url", json!(format!("{base_url}{}", invitation.path))),
        ("expires_at", json!(time::format(invitation.expires_at))),
    ])?;
    printer::remark(SHOWN_ONCE);
    Ok(())
}

async fn invite(engine: &Engine, arguments: &LinkArguments) -> Result<ringtrue_engine::accounts::Invitation, Failure> {
    match (&arguments.admin, &arguments.member, arguments.workspace) {
        (Some(email), ..) => Ok(engine.invite_admin(email).await?),
        (None, Some(email), Some(workspace)) => {
            let invited = engine.invite_member_as_operator(workspace, email, arguments.role).await;
            invited.map_err(|error| match error {
                MemberError::Store(error) => error.into(),
                other => Failure::refused(other.to_string(), "`ringtrue workspace list` shows the workspaces."),
            })
        }
        _ => Err(Failure::refused("nobody is named", "Name somebody by --admin EMAIL, or by --member EMAIL.")),
    }
}

/// Where people reach this deployment, as far as the configuration tells.
fn base_url(config: &Config) -> String {
    match &config.base_url {
        Some(base_url) => base_url.to_string(),
        None => format!("{}://{}", if config.http.tls.is_some() { "https" } else { "http" }, config.http.listen),
    }
}
