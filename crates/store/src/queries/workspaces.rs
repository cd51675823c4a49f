//! Workspaces.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::{Credential, Name, RateLimits, Workspace, WorkspaceId},
};
use ringtrue_engine::ports::{ControlPlaneVersion, StoreError, TenantLookup, WorkspaceStore};

use super::{PagedQuery, SqlStore, audit, credentials};
use crate::{
    driver::{Database, TransactionEnd, Tx, Value, values},
    row_mapping::{self, RateLimitsJson, workspace_columns},
};

const FIND_SQL: &str = concat!("select ", workspace_columns!(), " from workspaces where id = $1");

#[async_trait]
impl<D: Database> WorkspaceStore for SqlStore<D> {
    async fn create_workspace(
        &self,
        workspace: &Workspace,
        credential: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<(), StoreError> {
        let (workspace, credential, events) = (workspace.clone(), credential.cloned(), audit.to_vec());
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                insert(tx, &workspace, version).await?;
                if let Some(credential) = credential {
                    credentials::insert(tx, &credential, version).await?;
                }
                for event in &events {
                    audit::insert_event(tx, event).await?;
                }
                Ok(TransactionEnd::Commit(()))
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
        self.update_workspace(
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

    async fn set_workspace_limits(
        &self,
        id: WorkspaceId,
        limits: RateLimits,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError> {
        self.update_workspace(
            concat!(
                "update workspaces set rate_limits = $1, updated_at = $2, changed = $3 where id = $4 returning ",
                workspace_columns!()
            ),
            row_mapping::to_json(&RateLimitsJson::from(limits))?.into(),
            id,
            None,
            at,
            audit,
        )
        .await
    }

    async fn find_workspace(
        &self,
        caller: WorkspaceId,
        id: WorkspaceId,
    ) -> Result<TenantLookup<Workspace>, StoreError> {
        let row = self.read_first(FIND_SQL, values![id].to_vec()).await?;
        match row {
            None => Ok(TenantLookup::NotFound),
            Some(_) if caller != id => Ok(TenantLookup::OtherTenant),
            Some(row) => row_mapping::workspace_from_row(row).map(TenantLookup::Found),
        }
    }

    async fn list_all_workspaces(&self, page: PageRequest) -> Result<Page<Workspace>, StoreError> {
        let list = PagedQuery {
            columns: workspace_columns!(),
            from: "workspaces".into(),
            values: vec![],
            order: "created_at desc, id desc",
            page,
        };
        self.read_page(list, row_mapping::workspace_from_row).await
    }
}

impl<D: Database> SqlStore<D> {
    /// Updates one column of a workspace. The parameters of `update` are the value, the time, the version and the id.
    async fn update_workspace(
        &self,
        update: &'static str,
        value: Value,
        id: WorkspaceId,
        expected: Option<&Workspace>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Option<Workspace>, StoreError> {
        let (expected, event) = (expected.cloned(), audit.clone());
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                if let Some(expected) = expected {
                    let current =
                        tx.first(FIND_SQL, values![id]).await?.map(row_mapping::workspace_from_row).transpose()?;
                    if current != Some(expected) {
                        return Ok(TransactionEnd::Rollback(None));
                    }
                }
                let Some(row) = tx.first(update, values![value, at, version.0, id]).await? else {
                    return Ok(TransactionEnd::Rollback(None));
                };
                audit::insert_event(tx, &event).await?;
                row_mapping::workspace_from_row(row).map(|workspace| TransactionEnd::Commit(Some(workspace)))
            })
        })
        .await
    }
}

async fn insert(tx: &mut dyn Tx, workspace: &Workspace, version: ControlPlaneVersion) -> Result<(), StoreError> {
    tx.run(
        concat!("insert into workspaces (", workspace_columns!(), ", changed) values ($1, $2, $3, $4, $5, $6, $7)"),
        values![
            workspace.id,
            workspace.name.as_str(),
            workspace.data_residency.as_str(),
            row_mapping::to_json(&RateLimitsJson::from(workspace.rate_limits))?,
            workspace.created_at,
            workspace.updated_at,
            version.0,
        ],
    )
    .await?;
    Ok(())
}
