//! Projects.

use async_trait::async_trait;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    search::Filter,
    tenancy::{Credential, Project, ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    ControlPlaneVersion, CreateProjectOutcome, IdempotentResponse, ProjectStore, StoreError, TenantLookup,
    UpdateProjectOutcome,
};

use super::{PagedQuery, SqlStore, audit, credentials, idempotency};
use crate::{
    driver::{Database, TransactionEnd, Tx, Value, values},
    filter,
    row::Row,
    row_mapping::{self, AllowedNetworkJson, ConfigurationJson, project_columns},
};

#[async_trait]
impl<D: Database> ProjectStore for SqlStore<D> {
    async fn create_project(
        &self,
        project: &Project,
        credential: &Credential,
        audit: &[AuditEvent],
        response: Option<&IdempotentResponse>,
        max_projects: u32,
    ) -> Result<CreateProjectOutcome, StoreError> {
        let (project, credential) = (project.clone(), credential.clone());
        let (events, response) = (audit.to_vec(), response.cloned());
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                if is_name_taken(tx, &project).await? {
                    return Ok(TransactionEnd::Rollback(CreateProjectOutcome::NameTaken));
                }
                let count = tx
                    .first("select count(*) from projects where workspace_id = $1", values![project.workspace])
                    .await?;
                if count.map_or(Ok(0), Row::into_int)? >= i64::from(max_projects) {
                    return Ok(TransactionEnd::Rollback(CreateProjectOutcome::LimitReached));
                }
                insert(tx, &project, version).await?;
                credentials::insert(tx, &credential, version).await?;
                for event in &events {
                    audit::insert_event(tx, event).await?;
                }
                idempotency::store_response(tx, response.as_ref()).await?;
                Ok(TransactionEnd::Commit(CreateProjectOutcome::Created))
            })
        })
        .await
    }

    async fn find_project(&self, workspace: WorkspaceId, id: ProjectId) -> Result<TenantLookup<Project>, StoreError> {
        let row = self
            .read_first(concat!("select ", project_columns!(), " from projects where id = $1"), values![id].to_vec())
            .await?;
        let Some(project) = row.map(row_mapping::project_from_row).transpose()? else {
            return Ok(TenantLookup::NotFound);
        };
        Ok(if project.workspace == workspace { TenantLookup::Found(project) } else { TenantLookup::OtherTenant })
    }

    async fn list_projects(
        &self,
        workspace: WorkspaceId,
        page: PageRequest,
        filter: Option<&Filter>,
    ) -> Result<Page<Project>, StoreError> {
        let mut values = values![workspace].to_vec();
        let from = match filter {
            None => "projects where workspace_id = $1".into(),
            Some(filter) => {
                let condition = filter::compile(filter, project_column, &mut values)?;
                format!("projects where workspace_id = $1 and ({condition})").into()
            }
        };
        let list = PagedQuery { columns: project_columns!(), from, values, order: "created_at desc, id desc", page };
        self.read_page(list, row_mapping::project_from_row).await
    }

    async fn update_project(
        &self,
        project: &Project,
        replacement: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<UpdateProjectOutcome, StoreError> {
        let (project, replacement, events) = (project.clone(), replacement.cloned(), audit.to_vec());
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                let current = tx
                    .first(
                        "select revision from projects where workspace_id = $1 and id = $2",
                        values![project.workspace, project.id],
                    )
                    .await?;
                if current.map(Row::into_int).transpose()? != Some(project.revision.0 - 1) {
                    return Ok(TransactionEnd::Rollback(UpdateProjectOutcome::Stale));
                }
                if is_name_taken(tx, &project).await? {
                    return Ok(TransactionEnd::Rollback(UpdateProjectOutcome::NameTaken));
                }
                update(tx, &project, version).await?;
                if let Some(replacement) = &replacement {
                    credentials::replace_all(tx, replacement, version).await?;
                }
                for event in &events {
                    audit::insert_event(tx, event).await?;
                }
                Ok(TransactionEnd::Commit(UpdateProjectOutcome::Updated))
            })
        })
        .await
    }
}

/// The column of a filter field.
fn project_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "project_id" => "id",
        "name" => "name",
        "mode" => "mode",
        "disabled" => "disabled",
        "created_at" => "created_at",
        "updated_at" => "updated_at",
        _ => return None,
    })
}

async fn is_name_taken(tx: &mut dyn Tx, project: &Project) -> Result<bool, StoreError> {
    let other = tx
        .first(
            "select 1 from projects where workspace_id = $1 and name = $2 and id <> $3",
            values![project.workspace, project.name.as_str(), project.id],
        )
        .await?;
    Ok(other.is_some())
}

async fn insert(tx: &mut dyn Tx, project: &Project, version: ControlPlaneVersion) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into projects (",
            project_columns!(),
            ", changed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
        ),
        values![
            project.id,
            project.workspace,
            project.name.as_str(),
            project.mode.as_str(),
            project.disabled,
            configuration_json(project)?,
            row_mapping::names_to_json(&project.products)?,
            allowed_networks_json(project)?,
            project.created_at,
            project.updated_at,
            project.revision.0,
            project.live_since.map_or(Value::Null, Value::from),
            version.0,
        ],
    )
    .await?;
    Ok(())
}

async fn update(tx: &mut dyn Tx, project: &Project, version: ControlPlaneVersion) -> Result<(), StoreError> {
    tx.run(
        "update projects
            set name = $1, mode = $2, disabled = $3, configuration = $4, products = $5, allowed_networks = $6,
                updated_at = $7, revision = $8, live_since = $9, changed = $10
          where id = $11",
        values![
            project.name.as_str(),
            project.mode.as_str(),
            project.disabled,
            configuration_json(project)?,
            row_mapping::names_to_json(&project.products)?,
            allowed_networks_json(project)?,
            project.updated_at,
            project.revision.0,
            project.live_since.map_or(Value::Null, Value::from),
            version.0,
            project.id,
        ],
    )
    .await?;
    Ok(())
}

fn configuration_json(project: &Project) -> Result<String, StoreError> {
    row_mapping::to_json(&ConfigurationJson::from(&project.configuration))
}

fn allowed_networks_json(project: &Project) -> Result<String, StoreError> {
    row_mapping::to_json(&project.allowed_networks.iter().map(AllowedNetworkJson::from).collect::<Vec<_>>())
}
