//! `ringtrue workspace` and `ringtrue credentials`: manage workspaces and credentials.

use jiff::Timestamp;
use ringtrue_client::{
    CredentialsApi, SECRET_SHOWN_ONCE,
    printer::{self, Record},
};
use ringtrue_domain::{
    tenancy::{Name, RateLimits, Workspace, WorkspaceId},
    timestamp,
};
use ringtrue_engine::{
    Engine,
    ports::{combined::Store, store::StoreError},
    tenants::{CreatedWorkspace, ManagementError},
};
use serde_json::{Value, json};

use super::{
    arguments::{CredentialsAction, CredentialsArguments, Limit, LimitArguments, WorkspaceAction},
    context::{CommandContext, open_store, read_all_pages},
    error::CliError,
};

const COLUMNS: [&str; 5] = ["workspace_id", "name", "data_residency", "created_at", "rate_limits"];

pub(super) async fn run(context: &CommandContext, action: WorkspaceAction) -> Result<(), CliError> {
    match action {
        WorkspaceAction::Create { name } => create(context, name).await,
        WorkspaceAction::List => list(context).await,
        WorkspaceAction::Limit { workspace, limits } => limit(context, workspace, limits).await,
    }
}

async fn create(context: &CommandContext, name: Name) -> Result<(), CliError> {
    let CreatedWorkspace { workspace, credential } =
        context.with_engine(async |engine| Ok(engine.management.create_workspace(name).await?)).await?;
    context.printer.print_record(vec![
        ("workspace_id", json!(workspace.id.to_string())),
        ("name", json!(workspace.name.as_str())),
        ("data_residency", json!(workspace.data_residency.into_str())),
        ("created_at", json!(timestamp::format(workspace.created_at))),
        ("client_id", json!(credential.credential.client_id.as_str())),
        ("client_secret", json!(credential.secret.reveal())),
    ])?;
    printer::print_note(SECRET_SHOWN_ONCE);
    Ok(())
}

async fn list(context: &CommandContext) -> Result<(), CliError> {
    let store = open_store(&context.config()?).await?;
    let workspaces = all_workspaces(&*store).await?;
    Ok(context.printer.print_list(&COLUMNS, workspaces.iter().map(workspace_record).collect())?)
}

/// Reads all workspaces, newest first.
pub(super) async fn all_workspaces(store: &dyn Store) -> Result<Vec<Workspace>, StoreError> {
    read_all_pages(async |page| store.list_all_workspaces(page).await).await
}

async fn limit(context: &CommandContext, id: WorkspaceId, arguments: LimitArguments) -> Result<(), CliError> {
    let limited = context
        .with_engine(async |engine| {
            let current = engine.control_plane().workspace(id).ok_or(ManagementError::WorkspaceNotFound)?;
            let limits = apply_limits(current.rate_limits, arguments);
            engine
                .management
                .set_workspace_rate_limits(id, limits)
                .await?
                .ok_or_else(|| ManagementError::WorkspaceNotFound.into())
        })
        .await?;
    Ok(context.printer.print_record(workspace_record(&limited))?)
}

fn apply_limits(current: RateLimits, arguments: LimitArguments) -> RateLimits {
    let choose = |current: Option<u32>, arguments: Option<Limit>| match arguments {
        None => current,
        Some(Limit::Default) => None,
        Some(Limit::PerSecond(number)) => Some(number),
    };
    RateLimits {
        create: choose(current.create, arguments.create),
        read: choose(current.read, arguments.read),
        eligibility: choose(current.eligibility, arguments.eligibility),
        management: choose(current.management, arguments.management),
        token: choose(current.token, arguments.token),
    }
}

fn workspace_record(workspace: &Workspace) -> Record {
    let values = [
        json!(workspace.id.to_string()),
        json!(workspace.name.as_str()),
        json!(workspace.data_residency.into_str()),
        json!(timestamp::format(workspace.created_at)),
        limits_json(&workspace.rate_limits),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

/// Renders the rate limits of a workspace. `null`: the deployment's limit applies.
fn limits_json(limits: &RateLimits) -> Value {
    json!({
        "create": limits.create,
        "read": limits.read,
        "eligibility": limits.eligibility,
        "management": limits.management,
        "token": limits.token,
    })
}

/// Runs `ringtrue credentials`. `create --workspace` writes to the configured database; all other actions call the
/// server of the profile.
pub(super) async fn run_credentials(
    context: &CommandContext,
    CredentialsArguments { owner, action }: CredentialsArguments,
) -> Result<(), CliError> {
    let credentials = || Ok::<_, CliError>(CredentialsApi::open(&context.client_context()?, &owner)?);
    match action {
        CredentialsAction::Create { workspace: Some(workspace), new } => {
            create_credential(context, workspace, new.expires_at).await
        }
        CredentialsAction::Create { workspace: None, new } => Ok(credentials()?.create(&new).await?),
        CredentialsAction::Client(action) => Ok(credentials()?.run(action).await?),
    }
}

async fn create_credential(
    context: &CommandContext,
    workspace: WorkspaceId,
    expires_at: Option<Timestamp>,
) -> Result<(), CliError> {
    let issue = async |engine: &Engine| {
        if expires_at.is_some_and(|at| at <= engine.clock().now()) {
            return Err(CliError::usage("--expires-at is in the past", "Use a time in the future."));
        }
        Ok(engine.management.create_workspace_credential_as_operator(workspace, expires_at).await?)
    };
    let issued = context.with_engine(issue).await?;
    context.printer.print_record(vec![
        ("workspace_id", json!(workspace.to_string())),
        ("client_id", json!(issued.credential.client_id.as_str())),
        ("client_secret", json!(issued.secret.reveal())),
        ("created_at", json!(timestamp::format(issued.credential.created_at))),
        ("expires_at", json!(issued.credential.expires_at.map(timestamp::format))),
    ])?;
    printer::print_note(SECRET_SHOWN_ONCE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_not_given_stay_unchanged() {
        let current = RateLimits { create: Some(1), read: Some(2), ..RateLimits::default() };
        let arguments = LimitArguments {
            create: Some(Limit::Default),
            read: None,
            eligibility: Some(Limit::PerSecond(3)),
            management: None,
            token: None,
        };
        let expected = RateLimits { read: Some(2), eligibility: Some(3), ..RateLimits::default() };
        assert_eq!(apply_limits(current, arguments), expected);
    }
}
