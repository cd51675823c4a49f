//! Credentials of workspaces and of projects.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::{ClientId, Credential, CredentialOwner},
};
use ringtrue_engine::ports::{
    Completion, CredentialDeleted, CredentialLimits, CredentialStore, CredentialWritten, Found, StoreError, Version,
};

use super::{List, SqlStore, audit, idempotency};
use crate::{
    driver::{Database, Ending, Tx, Value, values},
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
        limits: CredentialLimits,
    ) -> Result<CredentialWritten, StoreError> {
        let (credential, event, completion) = (credential.clone(), audit.clone(), completion.cloned());
        self.change(move |tx, version| {
            Box::pin(async move {
                if count_live(tx, credential.owner, credential.created_at).await? >= i64::from(limits.live) {
                    return Ok(Ending::Rollback(CredentialWritten::LimitReached));
                }
                insert(tx, &credential, version).await?;
                delete_oldest_dead(tx, credential.owner, credential.created_at, limits.dead).await?;
                audit::record(tx, &event).await?;
                idempotency::complete(tx, completion.as_ref()).await?;
                Ok(Ending::Commit(CredentialWritten::Done))
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
        let (condition, values) = not_deleted_of(owner);
        let list = List {
            columns: credential_columns!(),
            from: format!("credentials where {condition}").into(),
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
        expected: Option<&Credential>,
        at: Timestamp,
        audit: &AuditEvent,
    ) -> Result<Found<CredentialDeleted>, StoreError> {
        let (client_id, expected, event) = (client_id.clone(), expected.cloned(), audit.clone());
        self.change(move |tx, version| {
            Box::pin(async move {
                let row = tx.first(FIND, values![client_id.as_str()]).await?;
                let current = match seen_by(owner, row)? {
                    Found::Mine(current) => current,
                    Found::SomeoneElses => return Ok(Ending::Rollback(Found::SomeoneElses)),
                    Found::Nothing => return Ok(Ending::Rollback(Found::Nothing)),
                };
                // A credential that is used stays the same.
                let without_use = |credential: Credential| Credential { last_used_at: None, ..credential };
                if expected.is_some_and(|expected| without_use(expected) != without_use(current)) {
                    return Ok(Ending::Rollback(Found::Mine(CredentialDeleted::Stale)));
                }
                tx.run(
                    "update credentials set deleted_at = $1, changed = $2 where client_id = $3",
                    values![at, version.0, client_id.as_str()],
                )
                .await?;
                audit::record(tx, &event).await?;
                Ok(Ending::Commit(Found::Mine(CredentialDeleted::Done)))
            })
        })
        .await
    }

    async fn record_credential_uses(&self, uses: &[(ClientId, Timestamp)]) -> Result<(), StoreError> {
        for uses in uses.chunks(USES_PER_TRANSACTION) {
            // All nodes in the same order: two that wrote the same rows crosswise would wait for each other.
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
                        Ok(Ending::Commit(()))
                    })
                })
                .await?;
        }
        Ok(())
    }
}

/// A transaction of this many updates does not keep other writers waiting noticeably.
const USES_PER_TRANSACTION: usize = 200;

/// The condition on an owner's credentials that are not deleted, and its values.
fn not_deleted_of(owner: CredentialOwner) -> (&'static str, Vec<Value>) {
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
    let (condition, mut values) = not_deleted_of(owner);
    values.push(now.into());
    let sql = format!(
        "select count(*) from credentials where {condition} and (expires_at is null or expires_at > ${})",
        values.len()
    );
    tx.query(sql.into(), &values).await?.into_iter().next().map_or(Ok(0), Row::number)
}

/// Deleted credentials stay at least this long, so that a node that was cut off hears of them.
const TOMBSTONE_MILLIS: i64 = 60 * 60 * 1_000;

/// Keeps the newest dead credentials of a workspace. Every create makes room for itself, so few go at a time.
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
        values![owner.workspace(), now.as_millisecond().saturating_sub(TOMBSTONE_MILLIS), i64::from(kept),],
    )
    .await?;
    Ok(())
}

/// Deletes all credentials of the owner of a new one, and stores the new one.
pub(super) async fn replace_all(tx: &mut dyn Tx, new: &Credential, version: Version) -> Result<(), StoreError> {
    tx.run(
        "update credentials set deleted_at = $1, changed = $2
          where workspace_id = $3 and project_id = $4 and deleted_at is null",
        values![new.created_at, version.0, new.owner.workspace(), new.owner.project()],
    )
    .await?;
    insert(tx, new, version).await
}

pub(super) async fn insert(tx: &mut dyn Tx, credential: &Credential, version: Version) -> Result<(), StoreError> {
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
            rows::names_to_json(&credential.scopes)?,
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

/// A credential of a project is its workspace's only by way of that project.
fn seen_by(owner: CredentialOwner, row: Option<Row>) -> Result<Found<Credential>, StoreError> {
    let Some(row) = row else { return Ok(Found::Nothing) };
    let credential = rows::credential(row)?;
    Ok(if credential.owner == owner { Found::Mine(credential) } else { Found::SomeoneElses })
}
