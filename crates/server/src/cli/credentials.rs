//! `ringtrue credentials`.

use jiff::Timestamp;
use ringtrue_domain::tenancy::WorkspaceId;
use ringtrue_engine::Engine;
use serde_json::json;

use super::{
    arguments::{CredentialsAction, CredentialsArguments},
    client::CredentialsApi,
    context::CommandContext,
    error::CliError,
    printer,
};
use crate::http::time;

pub(super) const SECRET_SHOWN_ONCE: &str = "Save the secret now: it is not stored and not shown again.";

/// `create --workspace` writes to the configured database; all other actions call the server of the profile.
pub(super) async fn run(context: &CommandContext, arguments: CredentialsArguments) -> Result<(), CliError> {
    let CredentialsArguments { profile_option, project, action } = arguments;
    let credentials = || CredentialsApi::open(context, &profile_option, project);
    match action {
        CredentialsAction::Create { workspace: Some(workspace), expires_at, .. } => {
            create(context, workspace, expires_at).await
        }
        CredentialsAction::Create { workspace: None, scopes, expires_at } => {
            credentials()?.create(context, &scopes, expires_at).await
        }
        CredentialsAction::List(arguments) => credentials()?.list(context, &arguments).await,
        CredentialsAction::Get { client_id } => credentials()?.get(context, &client_id).await,
        CredentialsAction::Delete { client_id } => credentials()?.delete(&client_id).await,
    }
}

async fn create(
    context: &CommandContext,
    workspace: WorkspaceId,
    expires_at: Option<Timestamp>,
) -> Result<(), CliError> {
    let issue = async |engine: &Engine| {
        if expires_at.is_some_and(|at| at <= engine.clock().now()) {
            return Err(CliError::with_hint("--expires-at is in the past", "Use a time in the future."));
        }
        Ok(engine.create_workspace_credential_as_operator(workspace, expires_at).await?)
    };
    let issued = context.with_engine(issue).await?;
    context.printer.print_record(vec![
        ("workspace_id", json!(workspace.to_string())),
        ("client_id", json!(issued.credential.client_id.as_str())),
        ("client_secret", json!(issued.secret.reveal())),
        ("created_at", json!(time::format(issued.credential.created_at))),
        ("expires_at", json!(issued.credential.expires_at.map(time::format))),
    ])?;
    printer::print_note(SECRET_SHOWN_ONCE);
    Ok(())
}
