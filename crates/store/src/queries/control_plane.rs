//! The control-plane version, and changes since a version.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_engine::ports::{ControlPlaneChanges, ControlPlaneStore, ControlPlaneVersion, StoreError};
use tokio::sync::Notify;

use super::SqlStore;
use crate::{
    driver::{Database, Tx, Value, values},
    row::Row,
    row_mapping::{self, credential_columns, key_columns, project_columns, workspace_columns},
};

/// Increments the version. Its row stays locked until the transaction ends.
pub(crate) async fn next_version<D: Database>(tx: &mut dyn Tx) -> Result<ControlPlaneVersion, StoreError> {
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
        // The common case of a poll.
        return Ok(ControlPlaneChanges { version, ..ControlPlaneChanges::default() });
    }
    let known = if is_full_snapshot { ControlPlaneVersion(0) } else { known };
    let keys = tx.first("select count(*) from sealed_keys where changed > $1", values![known.0]).await?;
    let keys_have_changed = keys.map_or(Ok(0), Row::into_int)? > 0;
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
        credentials: select_all(
            tx,
            concat!(
                "select ",
                credential_columns!(),
                " from credentials where changed > $1 order by changed, client_id"
            ),
            values![known.0],
            row_mapping::credential_from_row,
        )
        .await?,
        keys: if is_full_snapshot || keys_have_changed { Some(list_keys(tx).await?) } else { None },
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

/// Oldest first.
pub(super) async fn list_keys(tx: &mut dyn Tx) -> Result<Vec<ringtrue_engine::ports::SealedKey>, StoreError> {
    let rows = tx.run(concat!("select ", key_columns!(), " from sealed_keys order by added, id"), &[]).await?;
    rows.into_iter().map(row_mapping::key_from_row).collect()
}
