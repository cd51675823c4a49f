//! Sealed keys.

use async_trait::async_trait;
use ringtrue_domain::{
    audit::AuditEvent,
    tenancy::{ClientId, SecretDigest},
};
use ringtrue_engine::ports::{ControlPlaneVersion, KeyId, KeyPurpose, KeyStore, SealedKey, StoreError};

use super::{SqlStore, audit, control_plane};
use crate::{
    driver::{Database, TransactionEnd, Tx, values},
    row_mapping::{self, key_columns},
};

#[async_trait]
impl<D: Database> KeyStore for SqlStore<D> {
    async fn list_keys(&self) -> Result<Vec<SealedKey>, StoreError> {
        self.database.read(|tx| Box::pin(async move { control_plane::list_keys(tx).await })).await
    }

    async fn add_first_key(&self, key: &SealedKey, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (key, event) = (key.clone(), audit.clone());
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                if newest_key(tx, key.purpose).await?.is_some() {
                    return Ok(TransactionEnd::Rollback(false));
                }
                insert(tx, &key, version).await?;
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(true))
            })
        })
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
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                if newest_key(tx, successor.purpose).await? != Some(newest_known) {
                    return Ok(TransactionEnd::Rollback(false));
                }
                // Before the new schedules are written, so that keys retired by this rotation are kept.
                tx.run("delete from sealed_keys where gone_at <= $1", values![successor.schedule.published_at]).await?;
                for key in &relieved {
                    reschedule(tx, key, version).await?;
                }
                insert(tx, &successor, version).await?;
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(true))
            })
        })
        .await
    }

    async fn reseal_keys(
        &self,
        read_at: ControlPlaneVersion,
        keys: &[SealedKey],
        digests: &[(ClientId, SecretDigest)],
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (keys, digests, event) = (keys.to_vec(), digests.to_vec(), audit.clone());
        self.change_control_plane(move |tx, version| {
            Box::pin(async move {
                if version.0 != read_at.0 + 1 {
                    return Ok(TransactionEnd::Rollback(false));
                }
                for key in &keys {
                    reschedule(tx, key, version).await?;
                }
                replace_digests(tx, &digests, version).await?;
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(true))
            })
        })
        .await
    }
}

const DIGESTS_PER_STATEMENT: usize = 500;

/// Updates many rows per statement: there may be thousands of credentials, and a transaction has only seconds.
async fn replace_digests(
    tx: &mut dyn Tx,
    digests: &[(ClientId, SecretDigest)],
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    for rows in digests.chunks(DIGESTS_PER_STATEMENT) {
        let mut values = values![version.0].to_vec();
        let (mut cases, mut clients) = (Vec::new(), Vec::new());
        for (client_id, digest) in rows {
            let index = values.len() + 1;
            values.extend_from_slice(values![client_id.as_str(), digest.0]);
            cases.push(format!("when ${index} then ${}", index + 1));
            clients.push(format!("${index}"));
        }
        // The `else` column gives PostgreSQL the type of the parameters.
        let sql = format!(
            "update credentials set changed = $1, secret_digest = case client_id {} else secret_digest end
              where client_id in ({})",
            cases.join(" "),
            clients.join(", ")
        );
        tx.query(sql.into(), &values).await?;
    }
    Ok(())
}

async fn newest_key(tx: &mut dyn Tx, purpose: KeyPurpose) -> Result<Option<KeyId>, StoreError> {
    let row = tx
        .first(
            concat!("select ", key_columns!(), " from sealed_keys where purpose = $1 order by added desc limit 1"),
            values![purpose.as_str()],
        )
        .await?;
    Ok(row.map(row_mapping::key_from_row).transpose()?.map(|key| key.id))
}

async fn insert(tx: &mut dyn Tx, key: &SealedKey, version: ControlPlaneVersion) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into sealed_keys (",
            key_columns!(),
            ", added, changed) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ),
        values![
            key.id,
            key.purpose.as_str(),
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
