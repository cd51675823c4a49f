//! Projects.

use async_trait::async_trait;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    search::Filter,
    tenancy::{Credential, Project, ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{Completion, Found, ProjectStore, ProjectUpdated, ProjectWritten, StoreError, Version};

use super::{List, SqlStore, audit, credentials, idempotency};
use crate::{
    driver::{Database, Ending, Tx, Value, values},
    filter,
    row::Row,
    rows::{self, AllowedNetworkJson, ConfigurationJson, project_columns},
};

#[async_trait]
impl<D: Database> ProjectStore for SqlStore<D> {
    async fn create_project(
        &self,
        project: &Project,
        credential: &Credential,
        audit: &[AuditEvent],
        completion: Option<&Completion>,
        max_projects: u32,
    ) -> Result<ProjectWritten, StoreError> {
        let (project, credential) = (project.clone(), credential.clone());
        let (events, completion) = (audit.to_vec(), completion.cloned());
        self.change(move |tx, version| {
            Box::pin(async move {
                if name_is_taken(tx, &project).await? {
                    return Ok(Ending::Rollback(ProjectWritten::NameTaken));
                }
                let count = tx
                    .first("select count(*) from projects where workspace_id = $1", values![project.workspace])
                    .await?;
                if count.map_or(Ok(0), Row::number)? >= i64::from(max_projects) {
                    return Ok(Ending::Rollback(ProjectWritten::LimitReached));
                }
                insert(tx, &project, version).await?;
                credentials::insert(tx, &credential, version).await?;
                for event in &events {
                    audit::record(tx, event).await?;
                }
                idempotency::complete(tx, completion.as_ref()).await?;
                Ok(Ending::Commit(ProjectWritten::Done))
            })
        })
        .await
    }

    async fn find_project(&self, workspace: WorkspaceId, id: ProjectId) -> Result<Found<Project>, StoreError> {
        let row = self
            .read_first(concat!("select ", project_columns!(), " from projects where id = $1"), values![id].to_vec())
            .await?;
        let Some(project) = row.map(rows::project).transpose()? else { return Ok(Found::Nothing) };
        Ok(if project.workspace == workspace { Found::Mine(project) } else { Found::SomeoneElses })
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
                let condition = filter::compile(filter, column, &mut values)?;
                format!("projects where workspace_id = $1 and ({condition})").into()
            }
        };
        let list = List { columns: project_columns!(), from, values, order: "created_at desc, id desc", page };
        self.read_page(list, rows::project).await
    }

    async fn update_project(
        &self,
        project: &Project,
        replacement: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<ProjectUpdated, StoreError> {
        let (project, replacement, events) = (project.clone(), replacement.cloned(), audit.to_vec());
        self.change(move |tx, version| {
            Box::pin(async move {
                let current = tx
                    .first(
                        "select revision from projects where workspace_id = $1 and id = $2",
                        values![project.workspace, project.id],
                    )
                    .await?;
                if current.map(Row::number).transpose()? != Some(project.revision.0 - 1) {
                    return Ok(Ending::Rollback(ProjectUpdated::Stale));
                }
                if name_is_taken(tx, &project).await? {
                    return Ok(Ending::Rollback(ProjectUpdated::NameTaken));
                }
                update(tx, &project, version).await?;
                if let Some(replacement) = &replacement {
                    credentials::replace_all(tx, replacement, version).await?;
                }
                for event in &events {
                    audit::record(tx, event).await?;
                }
                Ok(Ending::Commit(ProjectUpdated::Done))
            })
        })
        .await
    }
}

/// The column behind each member of a project that a list can be filtered by.
fn column(field: &str) -> Option<&'static str> {
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

/// Whether another project of the workspace has this project's name.
async fn name_is_taken(tx: &mut dyn Tx, project: &Project) -> Result<bool, StoreError> {
    let other = tx
        .first(
            "select 1 from projects where workspace_id = $1 and name = $2 and id <> $3",
            values![project.workspace, project.name.as_str(), project.id],
        )
        .await?;
    Ok(other.is_some())
}

async fn insert(tx: &mut dyn Tx, project: &Project, version: Version) -> Result<(), StoreError> {
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
            configuration(project)?,
            rows::names_to_json(&project.products)?,
            allowed_networks(project)?,
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

async fn update(tx: &mut dyn Tx, project: &Project, version: Version) -> Result<(), StoreError> {
    tx.run(
        "update projects
            set name = $1, mode = $2, disabled = $3, configuration = $4, products = $5, allowed_networks = $6,
                updated_at = $7, revision = $8, live_since = $9, changed = $10
          where id = $11",
        values![
            project.name.as_str(),
            project.mode.as_str(),
            project.disabled,
            configuration(project)?,
            rows::names_to_json(&project.products)?,
            allowed_networks(project)?,
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

fn configuration(project: &Project) -> Result<String, StoreError> {
    rows::to_json(&ConfigurationJson::from(&project.configuration))
}

fn allowed_networks(project: &Project) -> Result<String, StoreError> {
    rows::to_json(&project.allowed_networks.iter().map(AllowedNetworkJson::from).collect::<Vec<_>>())
}
