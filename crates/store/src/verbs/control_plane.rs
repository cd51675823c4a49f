//! The version of the control plane, and what changed since one.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_engine::ports::{Changes, ControlPlaneStore, StoreError, Version};
use tokio::sync::Notify;

use super::SqlStore;
use crate::{
    driver::{Database, Tx, Value, values},
    row::Row,
    rows::{self, credential_columns, key_columns, project_columns, workspace_columns},
};

/// Raises the version, and keeps its row locked until the transaction ends.
pub(crate) async fn next_version<D: Database>(tx: &mut dyn Tx) -> Result<Version, StoreError> {
    version(tx.first(D::RAISE_VERSION, &[]).await?)
}

fn version(row: Option<Row>) -> Result<Version, StoreError> {
    let missing = || StoreError::Inconsistent {
        table: "control_version",
        row: "1".to_owned(),
        problem: "the row is missing".to_owned(),
    };
    row.ok_or_else(missing)?.number().map(Version)
}

#[async_trait]
impl<D: Database> ControlPlaneStore for SqlStore<D> {
    async fn changes_since(&self, known: Version, now: Timestamp) -> Result<Changes, StoreError> {
        self.database.read_apart(move |tx| Box::pin(changes_since(tx, known, now))).await
    }

    fn change_hint(&self) -> Arc<Notify> {
        Arc::clone(self.database.change_hint())
    }
}

async fn changes_since(tx: &mut (dyn Tx + '_), known: Version, now: Timestamp) -> Result<Changes, StoreError> {
    let version = version(tx.first("select version from control_version where id = 1", &[]).await?)?;
    let is_everything = known == Version(0) || version < known;
    if version == known && !is_everything {
        // What every poll of an idle deployment finds.
        return Ok(Changes { version, ..Changes::default() });
    }
    let known = if is_everything { Version(0) } else { known };
    let keys = tx.first("select count(*) from sealed_keys where changed > $1", values![known.0]).await?;
    let keys_have_changed = keys.map_or(Ok(0), Row::number)? > 0;
    Ok(Changes {
        version,
        is_everything,
        workspaces: all(
            tx,
            concat!("select ", workspace_columns!(), " from workspaces where changed > $1 order by changed, id"),
            values![known.0],
            rows::workspace,
        )
        .await?,
        projects: all(
            tx,
            concat!("select ", project_columns!(), " from projects where changed > $1 order by changed, id"),
            values![known.0],
            rows::project,
        )
        .await?,
        credentials: all(
            tx,
            concat!(
                "select ",
                credential_columns!(),
                " from credentials where changed > $1 order by changed, client_id"
            ),
            values![known.0],
            rows::credential,
        )
        .await?,
        keys: if is_everything || keys_have_changed { Some(all_keys(tx).await?) } else { None },
        revocations: all(
            tx,
            "select token_id, expires_at from revocations where changed > $1 and expires_at > $2 order by changed, token_id",
            values![known.0, now],
            rows::revocation,
        )
        .await?,
    })
}

async fn all<T>(
    tx: &mut dyn Tx,
    sql: &'static str,
    values: &[Value],
    of: fn(Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    tx.run(sql, values).await?.into_iter().map(of).collect()
}

/// In the order in which they were added.
pub(super) async fn all_keys(tx: &mut dyn Tx) -> Result<Vec<ringtrue_engine::ports::SealedKey>, StoreError> {
    let rows = tx.run(concat!("select ", key_columns!(), " from sealed_keys order by added, id"), &[]).await?;
    rows.into_iter().map(rows::key).collect()
}
