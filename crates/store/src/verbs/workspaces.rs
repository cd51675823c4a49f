//! Workspaces.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::{Credential, Name, RateLimits, Workspace, WorkspaceId},
};
use ringtrue_engine::ports::{Found, StoreError, Version, WorkspaceStore};

use super::{List, SqlStore, audit, credentials};
use crate::{
    driver::{Database, Ending, Tx, Value, values},
    rows::{self, RateLimitsJson, workspace_columns},
};

const FIND: &str = concat!("select ", workspace_columns!(), " from workspaces where id = $1");

#[async_trait]
impl<D: Database> WorkspaceStore for SqlStore<D> {
    async fn create_workspace(
        &self,
        workspace: &Workspace,
        credential: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<(), StoreError> {
        let (workspace, credential, events) = (workspace.clone(), credential.cloned(), audit.to_vec());
        self.change(move |tx, version| {
            Box::pin(async move {
                insert(tx, &workspace, version).await?;
                if let Some(credential) = credential {
                    credentials::insert(tx, &credential, version).await?;
                }
                for event in &events {
                    audit::record(tx, event).await?;
                }
                Ok(Ending::Commit(()))
            })
        })
        .await
    }

    async fn rename_workspace(
        &self,
        id: WorkspaceId,
        name: &Name,
        expected: Option<&Workspace>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError> {
        self.set(
            concat!(
                "update workspaces set name = $1, updated_at = $2, changed = $3 where id = $4 returning ",
                workspace_columns!()
            ),
            name.as_str().into(),
            id,
            expected,
            at,
            audit,
        )
        .await
    }

    async fn limit_workspace(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError> {
        self.set(
            concat!(
                "update workspaces set rate_limits = $1, updated_at = $2, changed = $3 where id = $4 returning ",
                workspace_columns!()
            ),
            rows::to_json(&RateLimitsJson::from(limits))?.into(),
            id,
            None,
            at,
            audit,
        )
        .await
    }

    async fn find_workspace(&self, caller: WorkspaceId, id: WorkspaceId) -> Result<Found<Workspace>, StoreError> {
        let row = self.read_first(FIND, values![id].to_vec()).await?;
        match row {
            None => Ok(Found::Nothing),
            Some(_) if caller != id => Ok(Found::SomeoneElses),
            Some(row) => rows::workspace(row).map(Found::Mine),
        }
    }

    async fn all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError> {
        let list = List {
            columns: workspace_columns!(),
            from: "workspaces".into(),
            values: vec![],
            order: "created_at desc, id desc",
            page,
        };
        self.read_page(list, rows::workspace).await
    }
}

impl<D: Database> SqlStore<D> {
    /// Changes one column of a workspace by `update`, whose values are: the new one, the time, the version, the id.
    async fn set(
        &self,
        update: &'static str,
        value: Value,
        id: WorkspaceId,
        expected: Option<&Workspace>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError> {
        let (expected, event) = (expected.cloned(), audit.clone());
        self.change(move |tx, version| {
            Box::pin(async move {
                if let Some(expected) = expected {
                    let current = tx.first(FIND, values![id]).await?.map(rows::workspace).transpose()?;
                    if current != Some(expected) {
                        return Ok(Ending::Rollback(None));
                    }
                }
                let Some(row) = tx.first(update, values![value, at, version.0, id]).await? else {
                    return Ok(Ending::Rollback(None));
                };
                audit::record(tx, &event).await?;
                rows::workspace(row).map(|workspace| Ending::Commit(Some(workspace)))
            })
        })
        .await
    }
}

async fn insert(tx: &mut dyn Tx, workspace: &Workspace, version: Version) -> Result<(), StoreError> {
    tx.run(
        concat!("insert into workspaces (", workspace_columns!(), ", changed) values ($1, $2, $3, $4, $5, $6, $7)"),
        values![
            workspace.id,
            workspace.name.as_str(),
            workspace.data_residency.as_str(),
            rows::to_json(&RateLimitsJson::from(workspace.rate_limits))?,
            workspace.created_at,
            workspace.updated_at,
            version.0,
        ],
    )
    .await?;
    Ok(())
}
