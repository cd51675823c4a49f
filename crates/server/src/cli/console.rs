//! `ringtrue console`: access links and account management.

use ringtrue_client::printer;
use ringtrue_domain::{account::AccountId, timestamp};
use ringtrue_engine::{
    Engine,
    accounts::{AccessLink, AccountError, Accounts, MemberError},
    actor::Administrator,
};
use serde_json::json;

use super::{
    arguments::{AccountArguments, ConsoleAction, DataDirArguments, LinkArguments},
    context::CommandContext,
    dev,
    error::CliError,
};
use crate::config::Config;

const LINK_SHOWN_ONCE: &str =
    "Anyone with this link can sign in: send it over a trusted channel. It is not shown again.";

pub(super) async fn run(context: &CommandContext, action: ConsoleAction) -> Result<(), CliError> {
    match action {
        ConsoleAction::Link(arguments) => create_link(context, &arguments).await,
        ConsoleAction::Disable(account) => {
            change_account(context, &account, async |accounts, by, id| accounts.disable_account(by, id).await).await
        }
        ConsoleAction::Enable(account) => {
            change_account(context, &account, async |accounts, by, id| accounts.enable_account(by, id).await).await
        }
        ConsoleAction::Demote(account) => {
            change_account(context, &account, async |accounts, by, id| accounts.remove_admin(by, id).await).await
        }
        ConsoleAction::RemoveSecondFactor(account) => {
            change_account(context, &account, async |accounts, by, id| accounts.remove_second_factor(by, id).await)
                .await
        }
        ConsoleAction::Unlink(account) => {
            change_account(context, &account, async |accounts, by, id| accounts.unlink_identity(by, id).await).await
        }
        ConsoleAction::Reset(AccountArguments { email, deployment }) => {
            with_engine(context, &deployment, async |engine, _| {
                Ok(engine.accounts.reset_altered_account(&Administrator::of_command_line(), &email).await?)
            })
            .await
        }
    }
}

async fn change_account(
    context: &CommandContext,
    AccountArguments { email, deployment }: &AccountArguments,
    change: impl AsyncFnOnce(&Accounts, &Administrator, AccountId) -> Result<(), AccountError>,
) -> Result<(), CliError> {
    with_engine(context, deployment, async |engine, _| {
        let operator = Administrator::of_command_line();
        let account = engine.accounts.account_id_by_email(&operator, email).await?;
        Ok(change(&engine.accounts, &operator, account).await?)
    })
    .await
}

async fn create_link(context: &CommandContext, arguments: &LinkArguments) -> Result<(), CliError> {
    let LinkArguments { admin, member, account, deployment, .. } = arguments;
    if admin.as_ref().or(member.as_ref()).or(account.as_ref()).is_none() && deployment.data.is_none() {
        // Checked before the database is opened: without `--data`, users of `ringtrue dev` would get an error about a
        // missing master key or database instead.
        return Err(no_recipient());
    }
    let (link, url) = with_engine(context, &arguments.deployment, async |engine, base_url| {
        let link = issue_link(engine, arguments).await?;
        let url = format!("{base_url}{}", link.path);
        Ok((link, url))
    })
    .await?;
    context.printer.print_record(vec![
        ("email", json!(link.email.as_str())),
        ("url", json!(url)),
        ("expires_at", json!(timestamp::format(link.expires_at))),
    ])?;
    printer::print_note(LINK_SHOWN_ONCE);
    Ok(())
}

/// Runs `work` with an engine over the database of `--data`, or else over the configured one, and with the base URL of
/// that deployment.
async fn with_engine<T>(
    context: &CommandContext,
    deployment: &DataDirArguments,
    work: impl AsyncFnOnce(&Engine, &str) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let Some(data) = &deployment.data else {
        let config = context.config()?;
        let base_url = base_url(&config);
        return context.with_engine_of(&config, async |engine| work(engine, &base_url).await).await;
    };
    let dev::DevDeployment { config, master, base_url } = dev::open_data_dir(context, data)?;
    context.with_engine_and_key(&config, master, async |engine| work(engine, &base_url).await).await
}

fn no_recipient() -> CliError {
    CliError::usage(
        "no email given",
        "Use --admin EMAIL, --member EMAIL or --account EMAIL; for `ringtrue dev`, --data ringtrue-data.",
    )
}

async fn issue_link(engine: &Engine, arguments: &LinkArguments) -> Result<AccessLink, CliError> {
    let operator = Administrator::of_command_line();
    match arguments {
        LinkArguments { admin: Some(email), .. } => Ok(engine.accounts.invite_admin(&operator, email).await?),
        LinkArguments { account: Some(email), .. } => {
            let account = engine.accounts.account_id_by_email(&operator, email).await?;
            Ok(engine.accounts.create_password_reset_link(&operator, account).await?)
        }
        LinkArguments { member: Some(email), workspace: Some(workspace), role, .. } => {
            let invited = engine.accounts.invite_member_as_operator(*workspace, email, *role).await;
            invited.map_err(|error| {
                let hint = match &error {
                    MemberError::AlreadyMember => "Use `--account EMAIL` to create a link that sets a new password.",
                    _ => "Run `ringtrue workspaces list` to see the workspaces.",
                };
                match error {
                    MemberError::Store(error) => error.into(),
                    other => CliError::failed(other.to_string(), hint),
                }
            })
        }
        LinkArguments { deployment: DataDirArguments { data: Some(_) }, .. } => dev::create_sign_in_link(engine).await,
        _ => Err(no_recipient()),
    }
}

/// Returns the base URL. Uses the listen address if none is configured.
fn base_url(config: &Config) -> String {
    match &config.base_url {
        Some(base_url) => base_url.to_string(),
        None => format!("{}://{}", if config.http.tls.is_some() { "https" } else { "http" }, config.http.listen),
    }
}
