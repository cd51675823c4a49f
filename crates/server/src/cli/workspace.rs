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
    credentials::SHOWN_ONCE,
    desk::{Desk, open_store},
    failure::Failure,
    printer::{self, Record},
};
use crate::http::time;

const COLUMNS: [&str; 5] = ["workspace_id", "name", "data_residency", "created_at", "rate_limits"];

pub(super) async fn run(desk: &Desk, action: WorkspaceAction) -> Result<(), Failure> {
    match action {
        WorkspaceAction::Create { name } => create(desk, name).await,
        WorkspaceAction::List => list(desk).await,
        WorkspaceAction::Limit { workspace, limits } => limit(desk, workspace, limits).await,
    }
}

async fn create(desk: &Desk, name: Name) -> Result<(), Failure> {
    let CreatedWorkspace { workspace, credential } =
        desk.with_engine(async |engine| Ok(engine.create_workspace(name).await?)).await?;
    desk.printer.record(vec![
        ("workspace_id", json!(workspace.id.to_string())),
        ("name", json!(workspace.name.as_str())),
        ("data_residency", json!(workspace.data_residency.as_str())),
        ("created_at", json!(time::format(workspace.created_at))),
        ("client_id", json!(credential.credential.client_id.as_str())),
        ("client_secret", json!(credential.secret.reveal())),
    ])?;
    printer::remark(SHOWN_ONCE);
    Ok(())
}

async fn list(desk: &Desk) -> Result<(), Failure> {
    let store = open_store(&desk.config()?).await?;
    let workspaces = all_workspaces(&*store).await?;
    Ok(desk.printer.list(&COLUMNS, workspaces.iter().map(record).collect())?)
}

/// Every page of them, newest first.
pub(super) async fn all_workspaces(store: &dyn Store) -> Result<Vec<Workspace>, Failure> {
    let mut workspaces = vec![];
    let mut number = 1;
    while let Some(request) = PageRequest::new(PageRequest::MAX_SIZE, number) {
        let page = store.all_workspaces(request).await?;
        let is_last = u64::from(number) >= page.total_pages();
        workspaces.extend(page.items);
        if is_last {
            break;
        }
        number += 1;
    }
    Ok(workspaces)
}

async fn limit(desk: &Desk, id: WorkspaceId, typed: LimitArguments) -> Result<(), Failure> {
    let limited = desk
        .with_engine(async |engine| {
            let current = engine.control_plane().workspace(id).ok_or(ManagementError::WorkspaceNotFound)?;
            let limits = changed(current.rate_limits, typed);
            engine.limit_workspace(id, limits).await?.ok_or_else(|| ManagementError::WorkspaceNotFound.into())
        })
        .await?;
    Ok(desk.printer.record(record(&limited))?)
}

fn changed(current: RateLimits, typed: LimitArguments) -> RateLimits {
    let choose = |current: Option<u32>, typed: Option<Limit>| match typed {
        None => current,
        Some(Limit::Default) => None,
        Some(Limit::PerSecond(number)) => Some(number),
    };
    RateLimits {
        create: choose(current.create, typed.create),
        read: choose(current.read, typed.read),
        eligibility: choose(current.eligibility, typed.eligibility),
        management: choose(current.management, typed.management),
        token: choose(current.token, typed.token),
    }
}

fn record(workspace: &Workspace) -> Record {
    let values = [
        json!(workspace.id.to_string()),
        json!(workspace.name.as_str()),
        json!(workspace.data_residency.as_str()),
        json!(time::format(workspace.created_at)),
        limits(&workspace.rate_limits),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

/// `null` where the deployment's limit holds.
fn limits(limits: &RateLimits) -> Value {
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
    fn what_is_not_named_stays_as_it_is() {
        let current = RateLimits { create: Some(1), read: Some(2), ..RateLimits::default() };
        let typed = LimitArguments {
            create: Some(Limit::Default),
            read: None,
            eligibility: Some(Limit::PerSecond(3)),
            management: None,
            token: None,
        };
        let expected = RateLimits { read: Some(2), eligibility: Some(3), ..RateLimits::default() };
        assert_eq!(changed(current, typed), expected);
    }
}
