//! Stores the control plane: its version, the changes since a version, sealed (encrypted) keys and token revocations.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::audit::AuditEvent;
use ringtrue_engine::ports::{
    control_plane::{ControlPlaneChanges, ControlPlaneStore},
    keys::{HashKeyReset, KeyId, KeyPurpose, KeyStore, SealedKey},
    row_mac::RowSigner,
    store::{AlteredRow, ControlPlaneVersion, StoreError},
    tokens::{Revocation, RevocationStore},
};
use tokio::sync::Notify;

use super::{SqlStore, audit::insert_audit_event, signed_tables};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, Value, values},
    row_mapping::{self, credential_columns, key_columns, project_columns, workspace_columns},
};

/// Increments the control-plane version and returns it. The row of the version stays locked until the transaction ends.
pub(super) async fn increment_version<D: Database>(tx: &mut dyn Tx) -> Result<ControlPlaneVersion, StoreError> {
    version_from_row(tx.first(D::INCREMENT_VERSION_SQL, &[]).await?)
}

fn version_from_row(row: Option<Row>) -> Result<ControlPlaneVersion, StoreError> {
    let missing = || StoreError::CorruptRow {
        table: "control_version",
        row: "1".to_owned(),
        problem: "the row is missing".to_owned(),
    };
    row.ok_or_else(missing)?.into_int().map(ControlPlaneVersion)
}

#[async_trait]
impl<D: Database> ControlPlaneStore for SqlStore<D> {
    async fn changes_since(
        &self,
        known: ControlPlaneVersion,
        now: Timestamp,
    ) -> Result<ControlPlaneChanges, StoreError> {
        self.database.read_reserved(move |tx| Box::pin(changes_since(tx, known, now))).await
    }

    fn change_notification(&self) -> Arc<Notify> {
        Arc::clone(self.database.change_notification())
    }
}

async fn changes_since(
    tx: &mut (dyn Tx + '_),
    known: ControlPlaneVersion,
    now: Timestamp,
) -> Result<ControlPlaneChanges, StoreError> {
    let version = version_from_row(tx.first("select version from control_version where id = 1", &[]).await?)?;
    let is_full_snapshot = known == ControlPlaneVersion(0) || version < known;
    if version == known && !is_full_snapshot {
        // Nothing has changed, as in most polls.
        return Ok(ControlPlaneChanges { version, ..ControlPlaneChanges::default() });
    }
    let known = if is_full_snapshot { ControlPlaneVersion(0) } else { known };
    let changed_keys = tx.number("select count(*) from sealed_keys where changed > $1", values![known.0]).await?;
    let credentials = select_all(
        tx,
        concat!(
            "select row_mac, ",
            credential_columns!(),
            " from credentials where changed > $1 order by changed, client_id"
        ),
        values![known.0],
        row_mapping::credential_with_mac_from_row,
    )
    .await?;
    let credential_macs =
        credentials.iter().filter_map(|(mac, credential)| Some((credential.client_id.clone(), (*mac)?))).collect();
    let credentials = credentials.into_iter().map(|(_, credential)| credential).collect();
    Ok(ControlPlaneChanges {
        version,
        is_full_snapshot,
        workspaces: select_all(
            tx,
            concat!("select ", workspace_columns!(), " from workspaces where changed > $1 order by changed, id"),
            values![known.0],
            row_mapping::workspace_from_row,
        )
        .await?,
        projects: select_all(
            tx,
            concat!("select ", project_columns!(), " from projects where changed > $1 order by changed, id"),
            values![known.0],
            row_mapping::project_from_row,
        )
        .await?,
        credentials,
        credential_macs,
        keys: if is_full_snapshot || changed_keys > 0 { Some(list_keys(tx).await?) } else { None },
        revocations: select_all(
            tx,
            "select token_id, expires_at from revocations where changed > $1 and expires_at > $2 order by changed, token_id",
            values![known.0, now],
            row_mapping::revocation_from_row,
        )
        .await?,
    })
}

async fn select_all<T>(
    tx: &mut dyn Tx,
    sql: &'static str,
    values: &[Value],
    from_row: fn(Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    tx.run(sql, values).await?.into_iter().map(from_row).collect()
}

/// Lists all keys, oldest first.
async fn list_keys(tx: &mut dyn Tx) -> Result<Vec<SealedKey>, StoreError> {
    let rows = tx.run(concat!("select ", key_columns!(), " from sealed_keys order by added, id"), &[]).await?;
    rows.into_iter().map(row_mapping::key_from_row).collect()
}

#[async_trait]
impl<D: Database> KeyStore for SqlStore<D> {
    fn set_row_signer(&self, signer: Arc<dyn RowSigner>) {
        *self.signer.write() = Some(signer);
    }

    async fn find_altered_rows(&self, limit: usize) -> Result<Vec<AlteredRow>, StoreError> {
        let signer = self.signer()?;
        self.database.read(work!(|tx| signed_tables::find_altered_rows(tx, &*signer, limit).await)).await
    }

    async fn reset_hash_key(
        &self,
        key: &SealedKey,
        signer: Arc<dyn RowSigner>,
        audit: &AuditEvent,
    ) -> Result<HashKeyReset, StoreError> {
        let (key, old, event) = (key.clone(), self.signer()?, audit.clone());
        self.change_control_plane(work!(|tx, version| {
            let reset = signed_tables::rekey_hashed_data(tx, version, (&*old, &*signer)).await?;
            tx.run("delete from sealed_keys where purpose = 'hash'", &[]).await?;
            insert_key(tx, &key, version).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(reset))
        }))
        .await
    }

    async fn list_keys(&self) -> Result<Vec<SealedKey>, StoreError> {
        self.database.read(work!(|tx| list_keys(tx).await)).await
    }

    async fn add_first_key(&self, key: &SealedKey, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (key, event) = (key.clone(), audit.clone());
        self.change_control_plane(work!(|tx, version| {
            if newest_key(tx, key.purpose).await?.is_some() {
                return Ok(TransactionEnd::Rollback(false));
            }
            insert_key(tx, &key, version).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn rotate_key(
        &self,
        newest_known: KeyId,
        successor: &SealedKey,
        relieved: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (successor, relieved, event) = (successor.clone(), relieved.to_vec(), audit.clone());
        self.change_control_plane(work!(|tx, version| {
            if newest_key(tx, successor.purpose).await? != Some(newest_known) {
                return Ok(TransactionEnd::Rollback(false));
            }
            // Deletes expired keys before the new schedules are written, so that the keys retired by this rotation are
            // kept.
            tx.run("delete from sealed_keys where gone_at <= $1", values![successor.schedule.published_at]).await?;
            for key in &relieved {
                reschedule(tx, key, version).await?;
            }
            insert_key(tx, &successor, version).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn reseal_keys(
        &self,
        read_at: ControlPlaneVersion,
        keys: &[SealedKey],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (keys, event) = (keys.to_vec(), audit.clone());
        self.change_control_plane(work!(|tx, version| {
            if version.0 != read_at.0 + 1 {
                return Ok(TransactionEnd::Rollback(false));
            }
            for key in &keys {
                reschedule(tx, key, version).await?;
            }
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }
}

async fn newest_key(tx: &mut dyn Tx, purpose: KeyPurpose) -> Result<Option<KeyId>, StoreError> {
    let select = concat!("select ", key_columns!(), " from sealed_keys where purpose = $1 order by added desc limit 1");
    let row = tx.first(select, values![purpose.into_str()]).await?;
    Ok(row.map(row_mapping::key_from_row).transpose()?.map(|key| key.id))
}

async fn insert_key(tx: &mut dyn Tx, key: &SealedKey, version: ControlPlaneVersion) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into sealed_keys (",
            key_columns!(),
            ", added, changed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ),
        values![
            key.id,
            key.purpose.into_str(),
            key.schedule.published_at,
            key.schedule.active_from,
            key.schedule.retires_at,
            key.schedule.gone_at,
            key.sealed.as_slice(),
            version.0,
            version.0,
        ],
    )
    .await?;
    Ok(())
}

async fn reschedule(tx: &mut dyn Tx, key: &SealedKey, version: ControlPlaneVersion) -> Result<(), StoreError> {
    let SealedKey { id, schedule, sealed, .. } = key;
    tx.run(
        "update sealed_keys
            set published_at = $1, active_from = $2, retires_at = $3, gone_at = $4, sealed = $5, changed = $6
          where id = $7",
        values![
            schedule.published_at,
            schedule.active_from,
            schedule.retires_at,
            schedule.gone_at,
            sealed.as_slice(),
            version.0,
            *id,
        ],
    )
    .await?;
    Ok(())
}

#[async_trait]
impl<D: Database> RevocationStore for SqlStore<D> {
    async fn revoke_token(&self, revocation: Revocation) -> Result<(), StoreError> {
        let Revocation { token, expires_at } = revocation;
        self.change_control_plane(work!(|tx, version| {
            let insert = "insert into revocations (token_id, expires_at, changed) values ($1, $2, $3)
                          on conflict (token_id) do nothing";
            tx.run(insert, values![token.0, expires_at, version.0]).await?;
            Ok(TransactionEnd::Commit(()))
        }))
        .await
    }
}
