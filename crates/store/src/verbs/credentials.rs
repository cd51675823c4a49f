//! Credentials of workspaces and of projects.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::{ClientId, Credential, CredentialOwner},
};
use ringtrue_engine::ports::{Completion, CredentialStore, Found, StoreError, Version};

use super::{List, SqlStore, audit, idempotency};
use crate::{
    driver::{Database, Ending, Tx, values},
    row::Row,
    rows::{self, credential_columns},
};

const FIND: &str =
    concat!("select ", credential_columns!(), " from credentials where client_id = $1 and deleted_at is null");

#[async_trait]
impl<D: Database> CredentialStore for SqlStore<D> {
    async fn create_credential(
        &self,
        credential: &Credential,
        audit: &AuditEvent,
        completion: Option<&Completion>,
    ) -> Result<(), StoreError> {
        let (credential, event, completion) = (credential.clone(), audit.clone(), completion.cloned());
        self.change(move |tx, version| {
            Box::pin(async move {
                insert(tx, &credential, version).await?;
                audit::record(tx, &event).await?;
                idempotency::complete(tx, completion.as_ref()).await?;
                Ok(Ending::Commit(()))
            })
        })
        .await
    }

    async fn find_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<Found<Credential>, StoreError> {
        let row = self.read_first(FIND, values![client_id.as_str()].to_vec()).await?;
        seen_by(owner, row)
    }

    async fn list_credentials(
        &self,
        owner: CredentialOwner,
        page: PageRequest,
    ) -> Result<Page<Credential>, StoreError> {
        let (from, values) = match owner {
            CredentialOwner::Workspace(workspace) => (
                "credentials where workspace_id = $1 and project_id is null and deleted_at is null",
                values![workspace].to_vec(),
            ),
            CredentialOwner::Project(workspace, project) => (
                "credentials where workspace_id = $1 and project_id = $2 and deleted_at is null",
                values![workspace, project].to_vec(),
            ),
        };
        let list = List {
            columns: credential_columns!(),
            from: from.into(),
            values,
            order: "created_at desc, client_id desc",
            page,
        };
        self.read_page(list, rows::credential).await
    }

    async fn delete_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Found<()>, StoreError> {
        let (client_id, event) = (client_id.clone(), audit.clone());
        self.change(move |tx, version| {
            Box::pin(async move {
                let row = tx.first(FIND, values![client_id.as_str()]).await?;
                let found = seen_by(owner, row)?.map(drop);
                if found != Found::Mine(()) {
                    return Ok(Ending::Rollback(found));
                }
                tx.run(
                    "update credentials set deleted_at = $1, changed = $2 where client_id = $3",
                    values![at, version.0, client_id.as_str()],
                )
                .await?;
                audit::record(tx, &event).await?;
                Ok(Ending::Commit(found))
            })
        })
        .await
    }
}

pub(super) async fn insert(tx: &mut dyn Tx, credential: &Credential, version: Version) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into credentials (",
            credential_columns!(),
            ", changed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ),
        values![
            credential.client_id.as_str(),
            credential.owner.workspace(),
            credential.owner.project(),
            credential.secret_digest.0,
            rows::names_to_json(&credential.scopes)?,
            credential.created_at,
            credential.expires_at,
            credential.deleted_at,
            version.0,
        ],
    )
    .await?;
    Ok(())
}

/// A credential of a project is its workspace's only by way of that project.
fn seen_by(owner: CredentialOwner, row: Option<Row>) -> Result<Found<Credential>, StoreError> {
    let Some(row) = row else { return Ok(Found::Nothing) };
    let credential = rows::credential(row)?;
    Ok(if credential.owner == owner { Found::Mine(credential) } else { Found::SomeoneElses })
}
