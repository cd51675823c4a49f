//! `ringtrue workspace`.

use ringtrue_domain::{
    page::PageRequest,
    tenancy::{Name, RateLimits, Workspace, WorkspaceId},
};
use ringtrue_engine::{
    management::{CreatedWorkspace, ManagementError},
    ports::Store,
};
use serde_json::{Value, json};

use super::{
    arguments::{Limit, LimitArguments, WorkspaceAction},
    context::{CommandContext, open_store},
    credentials::SECRET_SHOWN_ONCE,
    error::CliError,
    printer::{self, Record},
};
use crate::http::time;

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
        context.with_engine(async |engine| Ok(engine.create_workspace(name).await?)).await?;
    context.printer.print_record(vec![
        ("workspace_id", json!(workspace.id.to_string())),
        ("name", json!(workspace.name.as_str())),
        ("data_residency", json!(workspace.data_residency.as_str())),
        ("created_at", json!(time::format(workspace.created_at))),
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

/// Reads all pages, newest workspace first.
pub(super) async fn all_workspaces(store: &dyn Store) -> Result<Vec<Workspace>, CliError> {
    let mut workspaces = vec![];
    let mut number = 1;
    while let Some(request) = PageRequest::new(PageRequest::MAX_SIZE, number) {
        let page = store.list_all_workspaces(request).await?;
        let is_last = u64::from(number) >= page.total_pages();
        workspaces.extend(page.items);
        if is_last {
            break;
        }
        number += 1;
    }
    Ok(workspaces)
}

async fn limit(context: &CommandContext, id: WorkspaceId, arguments: LimitArguments) -> Result<(), CliError> {
    let limited = context
        .with_engine(async |engine| {
            let current = engine.control_plane().workspace(id).ok_or(ManagementError::WorkspaceNotFound)?;
            let limits = apply_limits(current.rate_limits, arguments);
            engine.set_workspace_limits(id, limits).await?.ok_or_else(|| ManagementError::WorkspaceNotFound.into())
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
        json!(workspace.data_residency.as_str()),
        json!(time::format(workspace.created_at)),
        limits_json(&workspace.rate_limits),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

/// `null`: the limit of the deployment applies.
fn limits_json(limits: &RateLimits) -> Value {
    json!({
        "create": limits.create,
        "read": limits.read,
        "eligibility": limits.eligibility,
        "management": limits.management,
        "token": limits.token,
    })
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
