//! Stores workspaces, projects and credentials.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    search::Filter,
    tenancy::{ClientId, Credential, CredentialOwner, Name, Project, ProjectId, RateLimits, Workspace, WorkspaceId},
    verification::{LogoImage, LogoUrl, UploadedLogo},
};
use ringtrue_engine::ports::{
    idempotency::IdempotentResponse,
    row_mac::{RowSigner, credential_fields},
    store::{ControlPlaneVersion, StoreError, TenantLookup},
    tenants::{
        CreateCredentialOutcome, CreateProjectOutcome, CredentialLimits, CredentialStore, DeleteCredentialOutcome,
        ProjectStore, RotateCredentialOutcome, UpdateProjectOutcome, WorkspaceStore,
    },
};

use super::{
    PagedQuery, SqlStore,
    audit::{insert_audit_event, insert_audit_events},
    idempotency,
    row_macs::{sign_credential, verify_credential},
};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    filter,
    list_turns::ListOwner,
    row::{Row, Value, values},
    row_mapping::{
        self, AllowedNetworkJson, ConfigurationJson, WorkspaceRateLimitsJson, credential_columns, project_columns,
        workspace_columns,
    },
};

const FIND_WORKSPACE_SQL: &str = concat!("select ", workspace_columns!(), " from workspaces where id = $1");

#[async_trait]
impl<D: Database> WorkspaceStore for SqlStore<D> {
    async fn create_workspace(
        &self,
        workspace: &Workspace,
        credential: Option<&Credential>,
        audit: &[AuditEvent],
    ) -> Result<(), StoreError> {
        let (workspace, credential, events) = (workspace.clone(), credential.cloned(), audit.to_vec());
        let signer = self.signer()?;
        self.change_control_plane(work!(|tx, version| {
            insert_workspace(tx, &workspace, version).await?;
            if let Some(credential) = credential {
                insert_credential(tx, &*signer, &credential, version).await?;
            }
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(()))
        }))
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

    async fn set_workspace_rate_limits(
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
            row_mapping::to_json(&WorkspaceRateLimitsJson::from(limits))?.into(),
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
        let row = self.query_first(FIND_WORKSPACE_SQL, values![id]).await?;
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
        self.read_page(ListOwner::Deployment, list, row_mapping::workspace_from_row).await
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
        self.change_control_plane(work!(|tx, version| {
            if let Some(expected) = expected {
                let current = tx
                    .first(FIND_WORKSPACE_SQL, values![id])
                    .await?
                    .map(row_mapping::workspace_from_row)
                    .transpose()?;
                if current != Some(expected) {
                    return Ok(TransactionEnd::Rollback(None));
                }
            }
            let Some(row) = tx.first(update, values![value, at, version.0, id]).await? else {
                return Ok(TransactionEnd::Rollback(None));
            };
            insert_audit_event(tx, &event).await?;
            row_mapping::workspace_from_row(row).map(|workspace| TransactionEnd::Commit(Some(workspace)))
        }))
        .await
    }
}

async fn insert_workspace(
    tx: &mut dyn Tx,
    workspace: &Workspace,
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    tx.run(
        concat!("insert into workspaces (", workspace_columns!(), ", changed) values ($1, $2, $3, $4, $5, $6, $7)"),
        values![
            workspace.id,
            workspace.name.as_str(),
            workspace.data_residency.into_str(),
            row_mapping::to_json(&WorkspaceRateLimitsJson::from(workspace.rate_limits))?,
            workspace.created_at,
            workspace.updated_at,
            version.0,
        ],
    )
    .await?;
    Ok(())
}

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
        let (events, response, signer) = (audit.to_vec(), response.cloned(), self.signer()?);
        self.change_control_plane(work!(|tx, version| {
            if is_name_taken(tx, &project).await? {
                return Ok(TransactionEnd::Rollback(CreateProjectOutcome::NameTaken));
            }
            let count =
                tx.number("select count(*) from projects where workspace_id = $1", values![project.workspace]).await?;
            if count >= i64::from(max_projects) {
                return Ok(TransactionEnd::Rollback(CreateProjectOutcome::LimitReached));
            }
            insert_project(tx, &project, version).await?;
            insert_credential(tx, &*signer, &credential, version).await?;
            insert_audit_events(tx, &events).await?;
            idempotency::store_response::<D>(tx, response.as_ref()).await?;
            Ok(TransactionEnd::Commit(CreateProjectOutcome::Created))
        }))
        .await
    }

    async fn find_project(&self, workspace: WorkspaceId, id: ProjectId) -> Result<TenantLookup<Project>, StoreError> {
        let select = concat!("select ", project_columns!(), " from projects where id = $1");
        let row = self.query_first(select, values![id]).await?;
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
        self.read_page(workspace, list, row_mapping::project_from_row).await
    }

    async fn update_project(
        &self,
        project: &Project,
        replacement: Option<&Credential>,
        logo: Option<&LogoImage>,
        audit: &[AuditEvent],
    ) -> Result<UpdateProjectOutcome, StoreError> {
        let (project, replacement, events) = (project.clone(), replacement.cloned(), audit.to_vec());
        let logo = logo.cloned();
        let signer = self.signer()?;
        self.change_control_plane(work!(|tx, version| {
            let select = "select revision from projects where workspace_id = $1 and id = $2";
            let current = tx.first(select, values![project.workspace, project.id]).await?;
            if current.map(Row::into_int).transpose()? != Some(project.revision.0 - 1) {
                return Ok(TransactionEnd::Rollback(UpdateProjectOutcome::Stale));
            }
            if is_name_taken(tx, &project).await? {
                return Ok(TransactionEnd::Rollback(UpdateProjectOutcome::NameTaken));
            }
            update_project_row(tx, &project, version).await?;
            replace_logo(tx, &project, logo.as_ref()).await?;
            if let Some(replacement) = &replacement {
                replace_credentials(tx, &*signer, replacement, version).await?;
            }
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(UpdateProjectOutcome::Updated))
        }))
        .await
    }

    async fn find_logo(&self, logo: &UploadedLogo) -> Result<Option<Vec<u8>>, StoreError> {
        let select = "select content from logos where project_id = $1 and file_name = $2";
        let row = self.query_first(select, values![logo.project(), logo.file_name()]).await?;
        row.map(|row| row.reader("logos").bytes("content")).transpose()
    }
}

/// Stores the new logo of a project, and deletes those to which its configuration does not refer.
async fn replace_logo(tx: &mut dyn Tx, project: &Project, new: Option<&LogoImage>) -> Result<(), StoreError> {
    let current = project.configuration.verification.brand.logo_url.as_ref().and_then(LogoUrl::uploaded);
    let current = current.map(UploadedLogo::file_name).unwrap_or_default();
    tx.run("delete from logos where project_id = $1 and file_name <> $2", values![project.id, current]).await?;
    if let Some(image) = new {
        let insert = "insert into logos (project_id, file_name, content) values ($1, $2, $3) on conflict do nothing";
        tx.run(insert, values![project.id, current, image.content()]).await?;
    }
    Ok(())
}

/// Returns the column of `projects` for a filter field.
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
    let select = "select 1 from projects where workspace_id = $1 and name = $2 and id <> $3";
    tx.exists(select, values![project.workspace, project.name.as_str(), project.id]).await
}

async fn insert_project(tx: &mut dyn Tx, project: &Project, version: ControlPlaneVersion) -> Result<(), StoreError> {
    let products = row_mapping::names_to_json(&project.products)?;
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
            project.mode.into_str(),
            project.disabled,
            configuration_json(project)?,
            products,
            allowed_networks_json(project)?,
            project.created_at,
            project.updated_at,
            project.revision.0,
            project.live_since,
            version.0,
        ],
    )
    .await?;
    Ok(())
}

async fn update_project_row(
    tx: &mut dyn Tx,
    project: &Project,
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    let products = row_mapping::names_to_json(&project.products)?;
    tx.run(
        "update projects
            set name = $1, mode = $2, disabled = $3, configuration = $4, products = $5, allowed_networks = $6,
                updated_at = $7, revision = $8, live_since = $9, changed = $10
          where id = $11",
        values![
            project.name.as_str(),
            project.mode.into_str(),
            project.disabled,
            configuration_json(project)?,
            products,
            allowed_networks_json(project)?,
            project.updated_at,
            project.revision.0,
            project.live_since,
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

const FIND_CREDENTIAL_SQL: &str =
    concat!("select ", credential_columns!(), " from credentials where client_id = $1 and deleted_at is null");

#[async_trait]
impl<D: Database> CredentialStore for SqlStore<D> {
    async fn create_credential(
        &self,
        credential: &Credential,
        audit: &AuditEvent,
        response: Option<&IdempotentResponse>,
        limits: CredentialLimits,
    ) -> Result<CreateCredentialOutcome, StoreError> {
        let (credential, event, response) = (credential.clone(), audit.clone(), response.cloned());
        let signer = self.signer()?;
        self.change_control_plane(work!(|tx, version| {
            if count_live(tx, credential.owner, credential.created_at).await? >= i64::from(limits.max_live) {
                return Ok(TransactionEnd::Rollback(CreateCredentialOutcome::LimitReached));
            }
            insert_credential(tx, &*signer, &credential, version).await?;
            delete_oldest_dead(tx, credential.owner, credential.created_at, limits.max_dead).await?;
            insert_audit_event(tx, &event).await?;
            idempotency::store_response::<D>(tx, response.as_ref()).await?;
            Ok(TransactionEnd::Commit(CreateCredentialOutcome::Created))
        }))
        .await
    }

    async fn find_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<TenantLookup<Credential>, StoreError> {
        let row = self.query_first(FIND_CREDENTIAL_SQL, values![client_id.as_str()]).await?;
        look_up_for_owner(owner, row)
    }

    async fn list_credentials(
        &self,
        owner: CredentialOwner,
        page: PageRequest,
    ) -> Result<Page<Credential>, StoreError> {
        let (condition, values) = owned_credentials_condition(owner);
        let list = PagedQuery {
            columns: credential_columns!(),
            from: format!("credentials where {condition}").into(),
            values,
            order: "created_at desc, client_id desc",
            page,
        };
        self.read_page(owner.workspace(), list, row_mapping::credential_from_row).await
    }

    async fn delete_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
        expected: Option<&Credential>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<TenantLookup<DeleteCredentialOutcome>, StoreError> {
        let (client_id, expected, event) = (client_id.clone(), expected.cloned(), audit.clone());
        let signer = self.signer()?;
        self.change_control_plane(work!(|tx, version| {
            let row = tx.first(FIND_CREDENTIAL_SQL, values![client_id.as_str()]).await?;
            let current = match look_up_for_owner(owner, row)? {
                TenantLookup::Found(current) => current,
                TenantLookup::OtherTenant => return Ok(TransactionEnd::Rollback(TenantLookup::OtherTenant)),
                TenantLookup::NotFound => return Ok(TransactionEnd::Rollback(TenantLookup::NotFound)),
            };
            if expected.is_some_and(|expected| without_use(expected) != without_use(current)) {
                return Ok(TransactionEnd::Rollback(TenantLookup::Found(DeleteCredentialOutcome::Stale)));
            }
            if is_last_of_workspace(tx, owner, &client_id, at).await? {
                return Ok(TransactionEnd::Rollback(TenantLookup::Found(DeleteCredentialOutcome::LastOfWorkspace)));
            }
            let update = "update credentials set deleted_at = $1, changed = $2 where client_id = $3";
            tx.run(update, values![at, version.0, client_id.as_str()]).await?;
            // Deleting an altered credential is safe: the new MAC covers the deletion, so the credential grants
            // nothing.
            sign_credential(tx, &*signer, &client_id).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(TenantLookup::Found(DeleteCredentialOutcome::Deleted)))
        }))
        .await
    }

    async fn rotate_credential(
        &self,
        old: &Credential,
        new: &Credential,
        retires_at: Timestamp,
        audit: &AuditEvent,
        limits: CredentialLimits,
    ) -> Result<RotateCredentialOutcome, StoreError> {
        let (old, new, event, signer) = (old.clone(), new.clone(), audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, version| {
            let row = tx.first(FIND_CREDENTIAL_SQL, values![old.client_id.as_str()]).await?;
            let current = row.map(row_mapping::credential_from_row).transpose()?;
            if current.is_none_or(|current| without_use(current) != without_use(old.clone())) {
                return Ok(TransactionEnd::Rollback(RotateCredentialOutcome::Stale));
            }
            verify_credential(tx, &*signer, &old.client_id).await?;
            if count_live(tx, new.owner, new.created_at).await? >= i64::from(limits.max_live) {
                return Ok(TransactionEnd::Rollback(RotateCredentialOutcome::LimitReached));
            }
            insert_credential(tx, &*signer, &new, version).await?;
            let update = "update credentials set retires_at = $1, changed = $2 where client_id = $3";
            tx.run(update, values![retires_at, version.0, old.client_id.as_str()]).await?;
            sign_credential(tx, &*signer, &old.client_id).await?;
            delete_oldest_dead(tx, new.owner, new.created_at, limits.max_dead).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(RotateCredentialOutcome::Rotated))
        }))
        .await
    }

    async fn record_credential_uses(&self, uses: &[(ClientId, Timestamp)]) -> Result<(), StoreError> {
        for uses in uses.chunks(USES_PER_TRANSACTION) {
            // Sorted, so that the transactions of several nodes cannot deadlock.
            let mut uses = uses.to_vec();
            uses.sort_unstable();
            self.transact(work!(|tx| {
                for (client_id, at) in &uses {
                    let update = "update credentials set last_used_at = $1
                                   where client_id = $2 and (last_used_at is null or last_used_at < $1)";
                    tx.run(update, values![*at, client_id.as_str()]).await?;
                }
                Ok(TransactionEnd::Commit(()))
            }))
            .await?;
        }
        Ok(())
    }
}

/// Clears `last_used_at`, so that a use does not count as a change since the credential was read.
fn without_use(credential: Credential) -> Credential {
    Credential { last_used_at: None, ..credential }
}

/// Maximum number of uses that one transaction records, to keep transactions short.
const USES_PER_TRANSACTION: usize = 200;

/// Returns the condition for an owner's credentials that are not deleted, and its parameters.
fn owned_credentials_condition(owner: CredentialOwner) -> (&'static str, Vec<Value>) {
    match owner {
        CredentialOwner::Workspace(workspace) => {
            ("workspace_id = $1 and project_id is null and deleted_at is null", values![workspace].to_vec())
        }
        CredentialOwner::Project(workspace, project) => {
            ("workspace_id = $1 and project_id = $2 and deleted_at is null", values![workspace, project].to_vec())
        }
    }
}

async fn count_live(tx: &mut dyn Tx, owner: CredentialOwner, now: Timestamp) -> Result<i64, StoreError> {
    let (condition, mut values) = owned_credentials_condition(owner);
    values.push(now.into());
    let sql = format!(
        "select count(*) from credentials
          where {condition} and (expires_at is null or expires_at > ${now}) and (retires_at is null or retires_at > ${now})",
        now = values.len()
    );
    tx.number(sql, &values).await
}

/// Whether a credential is the last usable one of its workspace. Other credentials that are about to retire do not
/// count. The caller holds the lock on the control-plane version, so no other deletion runs at the same time.
async fn is_last_of_workspace(
    tx: &mut dyn Tx,
    owner: CredentialOwner,
    client_id: &ClientId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let CredentialOwner::Workspace(_) = owner else { return Ok(false) };
    let (condition, mut values) = owned_credentials_condition(owner);
    values.extend(values![now, client_id.as_str()].iter().cloned());
    let (now, client_id) = (values.len() - 1, values.len());
    let is_valid = format!("{condition} and (expires_at is null or expires_at > ${now})");
    let usable = format!(
        "select count(*) from credentials
          where {is_valid} and (retires_at is null or retires_at > ${now}) and client_id = ${client_id}"
    );
    let others = format!(
        "select count(*) from credentials where {is_valid} and retires_at is null and client_id <> ${client_id}"
    );
    Ok(tx.number(usable, &values).await? > 0 && tx.number(others, &values).await? == 0)
}

/// Minimum retention of deleted credentials, so that a node that was disconnected still learns of the deletion.
const TOMBSTONE_RETENTION_MILLIS: i64 = 60 * 60 * 1_000;

/// Removes the rows of credentials that were deleted, have retired or have expired, except the newest `kept` of the
/// workspace. Runs whenever a credential is created, so few rows are removed at a time.
async fn delete_oldest_dead(
    tx: &mut dyn Tx,
    owner: CredentialOwner,
    now: Timestamp,
    kept: u32,
) -> Result<(), StoreError> {
    tx.run(
        "delete from credentials where client_id in
           (select client_id from credentials
             where workspace_id = $1 and coalesce(deleted_at, retires_at, expires_at) <= $2
             order by coalesce(deleted_at, retires_at, expires_at) desc, client_id desc limit 1000 offset $3)",
        values![owner.workspace(), now.as_millisecond().saturating_sub(TOMBSTONE_RETENTION_MILLIS), i64::from(kept),],
    )
    .await?;
    Ok(())
}

/// Replaces all credentials of a project with a new one.
async fn replace_credentials(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    new: &Credential,
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    let update = "update credentials set deleted_at = $1, changed = $2
                   where workspace_id = $3 and project_id = $4 and deleted_at is null returning client_id";
    let replaced =
        tx.run(update, values![new.created_at, version.0, new.owner.workspace(), new.owner.project()]).await?;
    for row in replaced {
        sign_credential(tx, signer, &row.reader("credentials").parsed("client_id")?).await?;
    }
    insert_credential(tx, signer, new, version).await
}

async fn insert_credential(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    credential: &Credential,
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    let scopes = row_mapping::names_to_json(&credential.scopes)?;
    tx.run(
        concat!(
            "insert into credentials (",
            credential_columns!(),
            ", row_mac, changed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
        ),
        values![
            credential.client_id.as_str(),
            credential.owner.workspace(),
            credential.owner.project(),
            credential.secret_digest.0,
            scopes,
            credential.label.as_ref().map(Name::as_str),
            credential.created_at,
            row_mapping::creator_column(&credential.created_by),
            credential.expires_at,
            credential.retires_at,
            credential.deleted_at,
            credential.last_used_at,
            signer.sign(&credential_fields(credential))?.0,
            version.0,
        ],
    )
    .await?;
    Ok(())
}

/// Looks up the credential of a row for `owner`. A workspace does not see the credentials of its projects.
fn look_up_for_owner(owner: CredentialOwner, row: Option<Row>) -> Result<TenantLookup<Credential>, StoreError> {
    let Some(row) = row else { return Ok(TenantLookup::NotFound) };
    let credential = row_mapping::credential_from_row(row)?;
    Ok(if credential.owner == owner { TenantLookup::Found(credential) } else { TenantLookup::OtherTenant })
}
