//! `ringtrue credentials`.

use jiff::Timestamp;
use ringtrue_domain::tenancy::WorkspaceId;
use ringtrue_engine::Engine;
use serde_json::json;

use super::{
    arguments::{CredentialsAction, CredentialsArguments},
    caller::Credentials,
    desk::Desk,
    failure::Failure,
    printer,
};
use crate::http::time;

pub(super) const SHOWN_ONCE: &str = "Keep the secret: it is shown this once, and stored nowhere.";

/// The operator makes a workspace's credential on the database; everything else goes through a server.
pub(super) async fn run(desk: &Desk, arguments: CredentialsArguments) -> Result<(), Failure> {
    let CredentialsArguments { identity, project, action } = arguments;
    let credentials = || Credentials::open(desk, &identity, project);
    match action {
        CredentialsAction::Create { workspace: Some(workspace), expires_at, .. } => {
            create(desk, workspace, expires_at).await
        }
        CredentialsAction::Create { workspace: None, scopes, expires_at } => {
            credentials()?.create(desk, &scopes, expires_at).await
        }
        CredentialsAction::List(arguments) => credentials()?.list(desk, &arguments).await,
        CredentialsAction::Get { client_id } => credentials()?.get(desk, &client_id).await,
        CredentialsAction::Delete { client_id } => credentials()?.delete(&client_id).await,
    }
}

async fn create(desk: &Desk, workspace: WorkspaceId, expires_at: Option<Timestamp>) -> Result<(), Failure> {
    let issue = async |engine: &Engine| {
        if expires_at.is_some_and(|at| at <= engine.clock().now()) {
            return Err(Failure::refused("--expires-at is in the past", "Give an instant that is still to come."));
        }
        Ok(engine.create_workspace_credential(workspace, expires_at).await?)
    };
    let issued = desk.with_engine(issue).await?;
    desk.printer.record(vec![
        ("workspace_id", json!(workspace.to_string())),
        ("client_id", json!(issued.credential.client_id.as_str())),
        ("client_secret", json!(issued.secret.reveal())),
        ("created_at", json!(time::format(issued.credential.created_at))),
        ("expires_at", json!(issued.credential.expires_at.map(time::format))),
    ])?;
    printer::remark(SHOWN_ONCE);
    Ok(())
}
