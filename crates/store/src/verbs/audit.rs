//! The audit log.

use async_trait::async_trait;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{AuditStore, StoreError};

use super::{List, SqlStore};
use crate::{
    driver::{Database, Tx, values},
    rows::{self, audit_columns},
};

/// Writes an event into the transaction of the change that it tells of.
pub(super) async fn record(tx: &mut dyn Tx, event: &AuditEvent) -> Result<(), StoreError> {
    let (actor, client, account) = rows::actor_columns(&event.actor);
    tx.run(
        concat!("insert into audit_events (", audit_columns!(), ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
        values![
            event.id,
            event.workspace,
            event.at,
            actor,
            client,
            account,
            event.action.as_str(),
            event.target.as_str(),
            rows::to_json(&event.changes)?,
            event.request_id.as_deref(),
        ],
    )
    .await?;
    Ok(())
}

#[async_trait]
impl<D: Database> AuditStore for SqlStore<D> {
    async fn audit_events(&self, workspace: WorkspaceId, page: PageRequest) -> Result<Page<AuditEvent>, StoreError> {
        let list = List {
            columns: audit_columns!(),
            from: "audit_events where workspace_id = $1".into(),
            values: values![workspace].to_vec(),
            order: "at desc, id desc",
            page,
        };
        self.read_page(list, rows::audit_event).await
    }
}
