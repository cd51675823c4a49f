//! Credentials of workspaces and of projects.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::{ClientId, Credential, CredentialOwner},
};
use ringtrue_engine::ports::{
    ControlPlaneVersion, CreateCredentialOutcome, CredentialLimits, CredentialStore, DeleteCredentialOutcome,
    IdempotentResponse, StoreError, TenantLookup,
};

use super::{PagedQuery, SqlStore, audit, idempotency};
use crate::{
    driver::{Database, TransactionEnd, Tx, Value, values},
    row::Row,
    row_mapping::{self, credential_columns},
};

const FIND_SQL: &str =
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
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                if count_live(tx, credential.owner, credential.created_at).await? >= i64::from(limits.max_live) {
                    return Ok(TransactionEnd::Rollback(CreateCredentialOutcome::LimitReached));
                }
                insert(tx, &credential, version).await?;
                delete_oldest_dead(tx, credential.owner, credential.created_at, limits.max_dead).await?;
                audit::insert_event(tx, &event).await?;
                idempotency::store_response(tx, response.as_ref()).await?;
                Ok(TransactionEnd::Commit(CreateCredentialOutcome::Created))
            })
        })
        .await
    }

    async fn find_credential(
        &self,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<TenantLookup<Credential>, StoreError> {
        let row = self.read_first(FIND_SQL, values![client_id.as_str()].to_vec()).await?;
        visible_to(owner, row)
    }

    async fn list_credentials(
        &self,
        owner: CredentialOwner,
        page: PageRequest,
    ) -> Result<Page<Credential>, StoreError> {
        let (condition, values) = not_deleted_condition(owner);
        let list = PagedQuery {
            columns: credential_columns!(),
            from: format!("credentials where {condition}").into(),
            values,
            order: "created_at desc, client_id desc",
            page,
        };
        self.read_page(list, row_mapping::credential_from_row).await
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
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                let row = tx.first(FIND_SQL, values![client_id.as_str()]).await?;
                let current = match visible_to(owner, row)? {
                    TenantLookup::Found(current) => current,
                    TenantLookup::OtherTenant => return Ok(TransactionEnd::Rollback(TenantLookup::OtherTenant)),
                    TenantLookup::NotFound => return Ok(TransactionEnd::Rollback(TenantLookup::NotFound)),
                };
                // `last_used_at` does not make the expected state stale.
                let without_use = |credential: Credential| Credential { last_used_at: None, ..credential };
                if expected.is_some_and(|expected| without_use(expected) != without_use(current)) {
                    return Ok(TransactionEnd::Rollback(TenantLookup::Found(DeleteCredentialOutcome::Stale)));
                }
                tx.run(
                    "update credentials set deleted_at = $1, changed = $2 where client_id = $3",
                    values![at, version.0, client_id.as_str()],
                )
                .await?;
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(TenantLookup::Found(DeleteCredentialOutcome::Deleted)))
            })
        })
        .await
    }

    async fn record_credential_uses(&self, uses: &[(ClientId, Timestamp)]) -> Result<(), StoreError> {
        for uses in uses.chunks(USES_PER_TRANSACTION) {
            // Sorted, so that nodes cannot deadlock.
            let mut uses = uses.to_vec();
            uses.sort_unstable();
            self.database
                .transact(move |tx| {
                    Box::pin(async move {
                        for (client_id, at) in &uses {
                            tx.run(
                                "update credentials set last_used_at = $1
                                  where client_id = $2 and (last_used_at is null or last_used_at < $1)",
                                values![*at, client_id.as_str()],
                            )
                            .await?;
                        }
                        Ok(TransactionEnd::Commit(()))
                    })
                })
                .await?;
        }
        Ok(())
    }
}

/// Keeps transactions short.
const USES_PER_TRANSACTION: usize = 200;

/// The condition for the credentials of an owner that are not deleted, and its parameters.
fn not_deleted_condition(owner: CredentialOwner) -> (&'static str, Vec<Value>) {
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
    let (condition, mut values) = not_deleted_condition(owner);
    values.push(now.into());
    let sql = format!(
        "select count(*) from credentials where {condition} and (expires_at is null or expires_at > ${})",
        values.len()
    );
    tx.query(sql.into(), &values).await?.into_iter().next().map_or(Ok(0), Row::into_int)
}

/// Minimum retention of deleted credentials, so that a disconnected node still learns of the deletion.
const TOMBSTONE_RETENTION_MILLIS: i64 = 60 * 60 * 1_000;

/// Deletes all but the newest deleted or expired credentials of a workspace. Runs on every create, so few rows go at a
/// time.
async fn delete_oldest_dead(
    tx: &mut dyn Tx,
    owner: CredentialOwner,
    now: Timestamp,
    kept: u32,
) -> Result<(), StoreError> {
    tx.run(
        "delete from credentials where client_id in
           (select client_id from credentials
             where workspace_id = $1 and coalesce(deleted_at, expires_at) <= $2
             order by coalesce(deleted_at, expires_at) desc, client_id desc limit 1000 offset $3)",
        values![owner.workspace(), now.as_millisecond().saturating_sub(TOMBSTONE_RETENTION_MILLIS), i64::from(kept),],
    )
    .await?;
    Ok(())
}

/// Replaces all credentials of a project by a new one.
pub(super) async fn replace_all(
    tx: &mut dyn Tx,
    new: &Credential,
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    tx.run(
        "update credentials set deleted_at = $1, changed = $2
          where workspace_id = $3 and project_id = $4 and deleted_at is null",
        values![new.created_at, version.0, new.owner.workspace(), new.owner.project()],
    )
    .await?;
    insert(tx, new, version).await
}

pub(super) async fn insert(
    tx: &mut dyn Tx,
    credential: &Credential,
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into credentials (",
            credential_columns!(),
            ", changed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
        ),
        values![
            credential.client_id.as_str(),
            credential.owner.workspace(),
            credential.owner.project(),
            credential.secret_digest.0,
            row_mapping::names_to_json(&credential.scopes)?,
            credential.created_at,
            credential.expires_at,
            credential.deleted_at,
            credential.last_used_at,
            version.0,
        ],
    )
    .await?;
    Ok(())
}

/// Workspace owners do not see the credentials of projects.
fn visible_to(owner: CredentialOwner, row: Option<Row>) -> Result<TenantLookup<Credential>, StoreError> {
    let Some(row) = row else { return Ok(TenantLookup::NotFound) };
    let credential = row_mapping::credential_from_row(row)?;
    Ok(if credential.owner == owner { TenantLookup::Found(credential) } else { TenantLookup::OtherTenant })
}
